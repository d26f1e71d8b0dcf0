//! Every way that a frame can end: the real ingest over a real database, and what it answers.

mod order;
mod outcomes;
mod rig;
mod trouble;
