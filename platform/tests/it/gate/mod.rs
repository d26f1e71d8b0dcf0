//! The machine door from the outside: sessions, limits, attacks, certificates, operators, outside brokers. Never needs a database.

mod attacks;
mod bench;
mod operators;
mod outside;
mod session;
mod storms;
mod tls;
