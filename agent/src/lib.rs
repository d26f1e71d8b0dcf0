//! Furrow's device agent: records the GNSS track, signs it, keeps it and delivers it until it is committed.

pub mod batcher;
pub mod clock;
pub mod commands;
pub mod config;
pub mod endpoint;
pub mod enroll;
pub mod health;
mod hex;
mod http;
pub mod identity;
pub mod keeper;
pub mod link;
mod log;
pub mod position;
pub mod recorder;
pub mod run;
pub mod simulator;
pub mod sources;
pub mod spool;
mod tls;
