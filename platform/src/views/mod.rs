//! JSON forms that more than one door shows. Never holds a rule.

pub mod facts;
