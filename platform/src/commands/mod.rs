//! The commands of `furrow`, one a file; each says what it did on standard output. Never decides a rule.

pub mod admin;
pub mod device;
pub mod facts;
pub mod quarantine;
pub mod serve;
