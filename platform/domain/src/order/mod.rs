//! The order: its states, what may be asked of it by whom, and what each step does, as one pure decision. Never applies anything.

pub mod actor;
pub mod command;
pub mod create;
mod decide;
pub mod decision;
pub mod effect;
pub mod entry;
pub mod facts;
pub mod payable;
pub mod refusal;
pub mod status;
pub mod table;
pub mod terms;
pub mod timer;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use self::{
    actor::Role,
    command::{BillSum, DisputeCategory, Proposed, RulingAmounts, Shares},
    entry::Funds,
    status::{CancelReason, Phase, Status, TimeoutKind},
    terms::Terms,
};
use crate::{
    id::{AccountId, MachineId, OrderId, OrganisationId, ProposalId},
    money::Fen,
    period::Period,
};

pub use decide::{decide, fire, owner_penalty, renter_fee};

/// Asked whether it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reconfirm {
    /// When.
    pub asked_at: DateTime<Utc>,
    /// It was answered.
    pub answered: bool,
}

/// A proposal that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// Its id.
    pub id: ProposalId,
    /// Of which side.
    pub by: Role,
    /// When.
    pub at: DateTime<Utc>,
    /// What.
    pub proposed: Proposed,
}

/// A claim that the other side did not come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Whose.
    pub by: Role,
    /// When.
    pub at: DateTime<Utc>,
}

/// A tap that work begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tap {
    /// When.
    pub at: DateTime<Utc>,
    /// With a photo.
    pub photo: bool,
}

/// The two sides' taps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taps {
    /// Owner's or operator's.
    pub owner: Option<Tap>,
    /// Renter's, or the start code typed in the field.
    pub renter: Option<Tap>,
    /// Since when the silent sides are asked.
    pub asked_at: Option<DateTime<Utc>>,
    /// The first proven working step, if the track shows one.
    pub proven_at: Option<DateTime<Utc>>,
}

/// On what a start rests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartEvidence {
    /// Both taps, and the track does not deny it.
    Taps,
    /// Both taps and a photo; there is no track. The measured area needs consent.
    Photo,
    /// The track, one side silent.
    Telemetry,
    /// The track alone: the bill needs consent.
    TelemetryAlone,
    /// An admin.
    Override,
}

/// A pause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// From.
    pub from: DateTime<Utc>,
    /// To; none while it lasts.
    pub to: Option<DateTime<Utc>>,
    /// Why.
    pub reason: String,
}

/// The bill that is proposed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProposedBill {
    /// From 1.
    pub version: u32,
    /// What it comes to.
    pub sum: BillSum,
    /// When.
    pub at: DateTime<Utc>,
    /// The renter confirmed it, silence did not.
    pub consented: bool,
}

/// A dispute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dispute {
    /// Of which side; the system's are for the admins.
    pub by: Role,
    /// What about.
    pub category: DisputeCategory,
    /// When.
    pub at: DateTime<Utc>,
    /// It is over: withdrawn or decided.
    pub closed_at: Option<DateTime<Utc>>,
}

/// How one side would share what is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Whose.
    pub by: Role,
    /// What.
    pub shares: Shares,
    /// When.
    pub at: DateTime<Utc>,
}

/// A ruling that waits for its day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ruling {
    /// What it gives.
    pub amounts: RulingAmounts,
    /// Nothing was done: the rent in it is a fee, and the order ends as cancelled.
    #[serde(default)]
    pub void: bool,
    /// By whom.
    pub by: AccountId,
    /// Who agreed to it, where one admin is not enough.
    #[serde(default)]
    pub second: Option<AccountId>,
    /// It needs a second admin, who has not agreed yet: nobody was told.
    #[serde(default)]
    pub waits: bool,
    /// Whose ruling was appealed, if this one is about an appeal.
    #[serde(default)]
    pub first: Option<AccountId>,
    /// When.
    pub at: DateTime<Utc>,
    /// The renter accepts it.
    pub renter_accepts: bool,
    /// The owner accepts it.
    pub owner_accepts: bool,
    /// A party appealed: another admin's word is final.
    pub appealed: bool,
}

/// An order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Its id.
    pub id: OrderId,
    /// Who rents.
    pub renter: AccountId,
    /// Whose the machine is.
    pub organisation: OrganisationId,
    /// The machine.
    pub machine: MachineId,
    /// Where it stands.
    pub status: Status,
    /// Grows with each step; what a writer saw.
    pub version: u32,
    /// Grows with each change of time: part of reminders' keys.
    pub epoch: u32,
    /// The machine's slot.
    pub period: Period,
    /// When one meets: the begin that guards, timers and fees mean.
    pub start: DateTime<Utc>,
    /// When work ends: the end that they mean.
    pub end: DateTime<Utc>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// Until when it may be paid.
    pub pay_deadline: DateTime<Utc>,
    /// Staff booked it for the renter.
    pub on_behalf: bool,
    /// What it froze.
    pub terms: Terms,
    /// When it was paid.
    pub paid_at: Option<DateTime<Utc>>,
    /// When it was accepted.
    pub accepted_at: Option<DateTime<Utc>>,
    /// When work began.
    pub started_at: Option<DateTime<Utc>>,
    /// When work ended.
    pub finished_at: Option<DateTime<Utc>>,
    /// When its finish was told, for taking it back.
    pub finish_told_at: Option<DateTime<Utc>>,
    /// When it was over.
    pub closed_at: Option<DateTime<Utc>>,
    /// When its money matured.
    pub sealed_at: Option<DateTime<Utc>>,
    /// Inside settlement.
    pub phase: Option<Phase>,
    /// Why it was cancelled.
    pub cancel_reason: Option<CancelReason>,
    /// Which clock ended it.
    pub timeout_kind: Option<TimeoutKind>,
    /// Where it stood before the dispute.
    pub dispute_from: Option<(Status, Option<Phase>)>,
    /// What its accounts hold.
    pub funds: Funds,
    /// Whether it stands.
    pub reconfirm: Option<Reconfirm>,
    /// The renter's last act.
    pub renter_acted_at: Option<DateTime<Utc>>,
    /// The owner's side said that the machine sets off.
    #[serde(default)]
    pub go_at: Option<DateTime<Utc>>,
    /// Its track shows that it did.
    pub departed_at: Option<DateTime<Utc>>,
    /// What waits for an answer.
    pub proposal: Option<Proposal>,
    /// Who did not come.
    pub claim: Option<Claim>,
    /// Who tapped.
    pub taps: Taps,
    /// On what its start rests.
    pub start_evidence: Option<StartEvidence>,
    /// When the clock stood.
    pub pauses: Vec<Pause>,
    /// The renter gives it back.
    pub return_requested_at: Option<DateTime<Utc>>,
    /// The renter's finish waits for the owner.
    pub finish_asked_at: Option<DateTime<Utc>>,
    /// Changes of time so far.
    pub reschedules: u8,
    /// What is proposed.
    pub bill: Option<ProposedBill>,
    /// Bills that were proposed.
    pub bill_versions: u32,
    /// Objections to bills so far.
    pub objections: u32,
    /// S: what is owed beyond the prepaid rent.
    pub balance_fen: Fen,
    /// When it is taken from the deposit.
    #[serde(default)]
    pub balance_due_at: Option<DateTime<Utc>>,
    /// All that were ever open.
    pub disputes: Vec<Dispute>,
    /// What one side offers in place of a ruling.
    #[serde(default)]
    pub offer: Option<Offer>,
    /// What waits for its day.
    pub ruling: Option<Ruling>,
    /// A ruling took effect: its word was the last.
    #[serde(default)]
    pub ruled_at: Option<DateTime<Utc>>,
}

impl Order {
    /// The dispute that is open.
    #[must_use]
    pub fn open_dispute(&self) -> Option<&Dispute> {
        self.disputes.iter().find(|d| d.closed_at.is_none())
    }

    /// Whether the clock stands.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.pauses.last().is_some_and(|p| p.to.is_none())
    }

    /// How long the clock has stood until now.
    #[must_use]
    pub fn paused(&self, now: DateTime<Utc>) -> TimeDelta {
        let stood = |pause: &Pause| (pause.to.unwrap_or(now) - pause.from).max(TimeDelta::zero());
        self.pauses.iter().map(stood).sum()
    }

    /// When money matures and disputes end.
    #[must_use]
    pub fn maturity(&self) -> Option<DateTime<Utc>> {
        Some(self.closed_at? + terms::minutes(self.terms.policy.maturity_min))
    }
}
