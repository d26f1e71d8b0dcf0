//! The pure core: leasing, geometry, tracks, fieldwork, evidence. No I/O, no async, no clock; the same facts from the same input everywhere.

pub mod availability;
pub mod cancellation;
pub mod evidence;
pub mod fieldwork;
pub mod geo;
pub mod id;
pub mod ledger;
pub mod money;
pub mod order;
pub mod period;
pub mod rent;
pub mod settlement;
pub mod track;
