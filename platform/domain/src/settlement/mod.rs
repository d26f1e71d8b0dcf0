//! Settlement: from what was measured, tapped or booked to a bill of lines that either side can check. Never moves money and never measures.

mod check;
mod draft;
mod items;
mod metered;
mod record;
mod review;
mod spans;

pub use check::{AreaCheck, Mark};
pub use draft::{BilledLine, Draft, DraftError, Evidence, draft};
pub use items::{Claim, DamageLine, ItemFault, Items, Other};
pub use metered::{Basis, Metered, metered};
pub use record::{Measured, PauseCause, Record, Spell};
pub use review::{ReviewReason, review};
