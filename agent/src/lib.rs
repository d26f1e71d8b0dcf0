//! Furrow's device agent: records the GNSS track, signs it, keeps it and delivers it until it is committed.

pub mod commands;
pub mod position;
pub mod sources;
pub mod spool;
