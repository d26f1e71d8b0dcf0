//! The machine door: where devices come in. Never stores a frame and never acknowledges one that is not stored.

pub mod cached;
pub mod gate;
pub mod health;
mod limits;
mod packet;
pub mod register;
mod session;
pub mod tls;
