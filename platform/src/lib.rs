//! Furrow's platform: the machine door, ingest, facts and the API.

pub mod app;
pub mod clock;
pub mod commands;
pub mod config;
pub mod db;
pub mod demo;
pub mod http;
pub mod ids;
pub mod ingest;
pub mod jobs;
pub mod mqtt;
pub mod notify;
pub mod platform;
pub mod postgres;
pub mod telemetry;
pub mod views;
