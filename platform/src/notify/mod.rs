//! Ways out to people: SMS and webhooks. Never knows an order.

pub mod sms;
pub mod webhook;
