//! The machine door from the outside: sessions, limits, attacks, certificates, operators, outside brokers. Only `fleet` needs a database.

mod attacks;
pub mod bench;
mod fleet;
mod operators;
mod outside;
mod session;
mod storms;
mod tls;
