//! Furrow's platform: the machine door, ingest, facts and the API.

pub mod commands;
pub mod views;
