//! Use cases: one function is one transaction. Never knows HTTP or MQTT.

pub mod authority;
pub mod devices;
