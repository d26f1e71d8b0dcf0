//! A decision: the order as it will be, and what the shell must do with it in one transaction.

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::{
    Order,
    effect::{Effect, NoticeKind, Recipient, SlotChange, TimerKind},
    entry::Entry,
    status::Status,
};
use crate::money::Overflow;

/// What came of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It applies: one or more transitions in a row, in one transaction.
    Applied(Vec<Decision>),
    /// It was applied before: nothing to do, and no error.
    AlreadyApplied,
    /// A timer that has nothing to do any more.
    Skipped,
    /// A timer that must look again.
    Postponed(DateTime<Utc>),
}

impl From<Decision> for Outcome {
    fn from(decision: Decision) -> Self {
        Self::Applied(vec![decision])
    }
}

/// A decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// The order after it; its version is one higher.
    pub order: Order,
    /// Which transition, by its id.
    pub transition: &'static str,
    /// Where the order stood.
    pub from: Status,
    /// In words of who acted.
    pub reason: Option<String>,
    /// What is to be done.
    pub effects: Vec<Effect>,
}

impl Decision {
    /// A step of an order that changes nothing yet.
    #[must_use]
    pub fn of(order: &Order, transition: &'static str) -> Self {
        let mut after = order.clone();
        after.version += 1;
        Self {
            from: order.status,
            order: after,
            transition,
            reason: None,
            effects: vec![],
        }
    }

    /// Something that is told and changes nothing.
    #[must_use]
    pub fn quiet(order: &Order, transition: &'static str) -> Self {
        let mut decision = Self::of(order, transition);
        decision.order.version = order.version;
        decision
    }

    /// To a state.
    #[must_use]
    pub fn to(mut self, status: Status) -> Self {
        self.order.status = status;
        self
    }

    /// The order changes.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Order)) -> Self {
        change(&mut self.order);
        self
    }

    /// In words.
    #[must_use]
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// On the slot.
    #[must_use]
    pub fn slot(mut self, change: SlotChange) -> Self {
        self.effects.push(Effect::Slot(change));
        self
    }

    /// On the ledger, if there is anything to book.
    ///
    /// # Errors
    ///
    /// [`Overflow`]: an account of the order would fall below zero.
    pub fn money(mut self, entry: Option<Entry>) -> Result<Self, Overflow> {
        if let Some(entry) = entry {
            self.order.funds.book(&entry)?;
            self.effects.push(Effect::Money(entry));
        }
        Ok(self)
    }

    /// Plans a timer.
    #[must_use]
    pub fn plan(mut self, kind: TimerKind, due: DateTime<Utc>) -> Self {
        self.effects.push(Effect::Plan(kind, due));
        self
    }

    /// Clears timers.
    #[must_use]
    pub fn clear(mut self, kinds: &[TimerKind]) -> Self {
        self.effects.push(Effect::Clear(kinds.to_vec()));
        self
    }

    /// Tells somebody.
    #[must_use]
    pub fn tell(mut self, to: Recipient, what: NoticeKind) -> Self {
        self.effects.push(Effect::Notice(to, what));
        self
    }

    /// Tells both parties.
    #[must_use]
    pub fn tell_both(self, what: NoticeKind) -> Self {
        self.tell(Recipient::Renter, what)
            .tell(Recipient::Owner, what)
    }

    /// Another effect.
    #[must_use]
    pub fn also(mut self, effect: Effect) -> Self {
        self.effects.push(effect);
        self
    }
}
