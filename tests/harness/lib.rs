//! What stories and rigs drive: the built programs as processes, a database, a wire that can be cut, forged devices. Never links the platform or the agent.

pub mod agent;
pub mod binaries;
pub mod database;
pub mod devices;
pub mod frames;
pub mod journal;
pub mod mqtt;
pub mod platform;
pub mod ports;
pub mod postgres;
pub mod proc;
pub mod program;
pub mod proxy;
pub mod receiver;
pub mod wait;
