//! What a step asks the shell to do, as data, applied in the same transaction as the order itself.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::entry::Entry;
use crate::{id::MachineId, period::Period};

/// A timer, by its number. Its handler locks and looks again: a stale one ends as skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimerKind {
    /// The hold expires.
    J1,
    /// The acceptance deadline.
    J2,
    /// The cutoff.
    J3,
    /// Remind the owner to answer.
    J4,
    /// Remind both, a day before.
    J5Day,
    /// Remind both, two hours before.
    J5Hours,
    /// Reconfirmation was asked and is open at the cutoff.
    J5b,
    /// Is the device online?
    J6,
    /// No-show may be claimed.
    J7Flag,
    /// It never started.
    J7Close,
    /// Half an hour before the end.
    J8,
    /// Overtime runs.
    J8b,
    /// Finish by itself, if it stands still.
    J9,
    /// Propose the bill by itself.
    J10,
    /// Remind of the bill.
    J11Remind,
    /// Confirm by silence.
    J11,
    /// Remind of the balance.
    J12Remind,
    /// Take the balance from the deposit.
    J12,
    /// Money matures.
    J13,
    /// A dispute waits.
    J16,
    /// It is said to have set off: has it moved?
    Departed,
    /// The other side of a start was asked.
    StartAsked,
    /// A no-show claim was answered by nobody.
    ClaimDue,
    /// A renter's finish while the machine still worked.
    FinishAsked,
    /// A ruling takes effect.
    RulingDue,
}

/// What becomes of the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlotChange {
    /// The hold becomes a booking.
    Book,
    /// It is free again.
    Release,
    /// Its upper bound becomes this, but never beyond the next live slot.
    TrimTo(DateTime<Utc>),
    /// Its lower bound becomes this.
    WidenFrom(DateTime<Utc>),
    /// It becomes this.
    MoveTo {
        /// When.
        period: Period,
        /// Another machine of the same owner.
        machine: Option<MachineId>,
    },
}

/// For whom a notice is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recipient {
    /// The renter.
    Renter,
    /// Owner and managers.
    Owner,
    /// The admins' queue.
    Admins,
}

/// What a notice says; its text is made from the order's data by whoever shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeKind {
    /// Pay until then.
    PayCountdown,
    /// Payment received.
    PaymentReceived,
    /// A payment came too late, or twice, and goes back.
    PaymentReturned,
    /// A new order is paid and taken by itself: prepare machine and parts.
    OrderBooked,
    /// A new order waits for the answer.
    OrderRequested,
    /// Accepted.
    Accepted,
    /// Rejected.
    Rejected,
    /// Ended.
    Cancelled,
    /// Ended by the clock.
    TimedOut,
    /// Answer soon.
    AcceptReminder,
    /// It begins soon.
    StartReminder,
    /// Please say again that it stands.
    ReconfirmAsked,
    /// The device does not answer.
    DeviceSilent,
    /// On its way.
    MachineDeparted,
    /// No-show may be claimed.
    NoShowPossible,
    /// No-show was claimed.
    NoShowClaimed,
    /// The other side has tapped: please tap too.
    StartAsked,
    /// Work started, metering is on.
    Started,
    /// Half an hour to the end.
    EndReminder,
    /// Overtime runs.
    OvertimeRunning,
    /// Paused or resumed.
    PauseChanged,
    /// The renter gives the machine back.
    ReturnRequested,
    /// Please confirm the finish.
    FinishAsked,
    /// Finished.
    Finished,
    /// A proposal waits.
    Proposed,
    /// A proposal was answered.
    ProposalAnswered,
    /// Time or machine changed.
    Changed,
    /// The bill is ready.
    BillReady,
    /// The bill was objected to.
    BillObjected,
    /// The balance is due.
    BalanceDue,
    /// Settled.
    Completed,
    /// A dispute was opened.
    DisputeOpened,
    /// A dispute was withdrawn.
    DisputeWithdrawn,
    /// A dispute was decided.
    DisputeDecided,
    /// A fee was waived.
    FeeWaived,
}

/// An effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// On the slot.
    Slot(SlotChange),
    /// On the ledger.
    Money(Entry),
    /// A timer is planned; one of the same kind and epoch is replaced.
    Plan(TimerKind, DateTime<Utc>),
    /// These timers are cleared.
    Clear(Vec<TimerKind>),
    /// Somebody is told.
    Notice(Recipient, NoticeKind),
    /// The provider is told to close what is open.
    CloseAtProvider,
    /// The start code is made and told to the renter.
    IssueStartCode,
    /// A strike for the owner.
    Strike,
}
