//! Every way that a frame can end: the real ingest over a real database, and what it answers.

mod away;
mod door;
mod order;
mod outcomes;
mod readmission;
mod rig;
mod rivals;
mod trouble;
