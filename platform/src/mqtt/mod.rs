//! The machine door: where devices come in. Never stores a frame and never acknowledges one that is not stored.

pub mod acl;
pub mod bus;
pub mod cached;
mod door;
#[cfg(test)]
#[expect(clippy::panic, reason = "tests")]
mod fuzz;
pub mod gate;
pub mod health;
mod limits;
pub mod live;
pub mod operator;
pub mod outside;
mod packet;
pub mod presence;
pub mod register;
mod session;
mod talk;
pub mod tls;
