//! Orders: booked, and moved from state to state. One function is one transaction: lock the machine, lock the order, ask the core, write down what it says.

mod apply;
mod bills;
mod book;
mod command;
mod due;

pub use apply::{Cause, of_row, purge};
pub use bills::{confirm, decide_review, draft_of, object, preview, propose, reviews, versions};
pub use book::{BookRequest, Booked, book};
pub use command::{Done, command, messages, preview_fee, say, scope, start_by_code, test_pay};
pub use due::{MOST_TRIES, due};
