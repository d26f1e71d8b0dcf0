//! Use cases: one function is one transaction. Never knows HTTP or MQTT.

pub mod accounts;
pub mod authority;
pub mod calendars;
pub mod devices;
pub mod fault;
pub mod machines;
pub mod notices;
pub mod orders;
pub mod organisations;
pub mod passwords;
pub mod policies;
pub mod quotes;
pub mod search;
pub mod sms;
pub mod tokens;
pub mod who;
pub mod witness;
