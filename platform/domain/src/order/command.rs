//! What can be asked of an order. Everything that it needs is in it or in the facts; nothing is looked up.

use chrono::{DateTime, NaiveDate, Utc};
use serde::{Deserialize, Serialize};

use crate::{
    id::{AccountId, MachineId, ProposalId},
    money::Fen,
    period::Period,
};

/// Nobody's fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "category")]
pub enum NoFault {
    /// Both simply agree.
    Mutual,
    /// Rain and the like, where and when.
    Weather {
        /// Where.
        place: String,
        /// When.
        date: NaiveDate,
    },
    /// The machine broke.
    Breakdown {
        /// A photo or a fault code of the device is there: no strike.
        proven: bool,
    },
}

/// What one side proposes and the other answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Proposed {
    /// End it without fault.
    NoFault(NoFault),
    /// A later end.
    Extend {
        /// New end of slot and work.
        end: DateTime<Utc>,
    },
    /// Another time, or another machine of the owner.
    Reschedule {
        /// New slot.
        period: Period,
        /// When one meets.
        start: DateTime<Utc>,
        /// When work ends.
        end: DateTime<Utc>,
        /// Another machine.
        machine: Option<MachineId>,
    },
}

/// What a bill comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BillSum {
    /// B: all lines but damage.
    pub total_fen: Fen,
    /// C: the operator's share of it.
    pub commission_fen: Fen,
    /// X: damage, from the deposit.
    pub damage_fen: Fen,
    /// A quantity that only the renter's word makes good.
    pub needs_consent: bool,
    /// What silence agrees to where it does: without what only the renter's word makes good.
    #[serde(default)]
    pub silent: Option<Silent>,
}

/// What a renter agrees to who says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Silent {
    /// B.
    pub total_fen: Fen,
    /// C.
    pub commission_fen: Fen,
}

/// What a dispute is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DisputeCategory {
    /// The machine, or the renter, did not come.
    DidNotArrive,
    /// Late.
    Late,
    /// The area.
    Area,
    /// The hours.
    Hours,
    /// The quality.
    Quality,
    /// Damage.
    Damage,
    /// Not given back.
    NotReturned,
    /// The balance is not paid.
    Arrears,
    /// Payment otherwise.
    Payment,
    /// Far above the estimate.
    OverCap,
    /// Whether work began.
    Start,
    /// Something else.
    Other,
}

/// What a ruling gives to whom; the three sum to all that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RulingAmounts {
    /// Rent to the owner, before our share.
    pub rent_fen: Fen,
    /// Our share of it, by its lines.
    pub commission_fen: Fen,
    /// Damage to the owner, from the deposit.
    pub damage_fen: Fen,
    /// Back to the renter.
    pub refund_fen: Fen,
}

/// How one side would share what is held; our share of the rent follows from the order's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shares {
    /// Rent to the owner, before our share; after completion the owner's part without it.
    pub rent_fen: Fen,
    /// Damage to the owner, from the deposit.
    pub damage_fen: Fen,
    /// Back to the renter.
    pub refund_fen: Fen,
}

/// A command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// T02: a verified payment.
    Pay {
        /// What was paid.
        amount_fen: Fen,
    },
    /// T03.
    ExpireHold,
    /// T04, T08, T09: the renter ends it; the fee that was shown.
    Cancel {
        /// The fee that the renter saw, for T09.
        shown_fee_fen: Option<Fen>,
    },
    /// T05; the version that the owner saw.
    Accept {
        /// None: whatever it is.
        seen_version: Option<u32>,
    },
    /// T06.
    Reject {
        /// Why.
        reason: String,
    },
    /// T07.
    AcceptTimeout,
    /// Ask the renter whether it stands.
    AskReconfirm,
    /// T09a.
    Reconfirm,
    /// T09b.
    Lapse,
    /// T10; the penalty that was shown.
    OwnerCancel {
        /// Why.
        reason: String,
        /// The penalty that the owner saw.
        shown_penalty_fen: Fen,
    },
    /// T11, T17, T18: propose.
    Propose {
        /// Its id, made by the shell.
        id: ProposalId,
        /// What.
        proposed: Proposed,
    },
    /// T11, T17, T18: answer the other side's proposal.
    Answer {
        /// Which.
        id: ProposalId,
        /// Yes or no.
        agree: bool,
    },
    /// The machine sets off.
    Depart,
    /// Has it moved?
    DepartedDue,
    /// T12: a tap of a party, or an admin's start.
    Start {
        /// With a photo.
        photo: bool,
        /// An admin starts against the track, and why.
        override_reason: Option<String>,
        /// When it was tapped, for taps that come late: the facts are those of then.
        acted_at: Option<DateTime<Utc>>,
    },
    /// T12 by the track, after the silent sides were asked.
    StartAskedDue,
    /// The track proves a start: ask who has not tapped.
    StartProven,
    /// Claim that the other side did not come.
    ClaimNoShow,
    /// Contest such a claim.
    ContestClaim,
    /// T13, T14.
    ClaimDue,
    /// T15.
    NoStart,
    /// T16.
    Finish {
        /// Needed within 15 min of the start.
        reason: Option<String>,
        /// When it was tapped, for taps that come late.
        acted_at: Option<DateTime<Utc>>,
    },
    /// T16: the renter's finish stands.
    FinishAskedDue,
    /// T16 by the clock.
    AutoFinish,
    /// Take a finish back.
    UndoFinish,
    /// Stop the clock for rain, breakdown, fuel, night.
    Pause {
        /// Why.
        reason: String,
        /// When it was tapped, for taps that come late.
        acted_at: Option<DateTime<Utc>>,
    },
    /// Go on.
    Resume {
        /// When it was tapped, for taps that come late.
        acted_at: Option<DateTime<Utc>>,
    },
    /// The renter gives the machine back.
    RequestReturn,
    /// T19.
    ProposeBill {
        /// What it comes to.
        bill: BillSum,
    },
    /// T19b.
    ObjectBill {
        /// What is wrong.
        text: String,
    },
    /// T19: staff that looked at a bill over the operator's bounds sends it back.
    ReturnBill {
        /// Why.
        reason: String,
    },
    /// T20; the version that the renter saw.
    ConfirmBill {
        /// Version of the bill.
        version: u32,
    },
    /// J11.
    ConfirmBySilence,
    /// T22: in the same commit as the step that makes it possible.
    Settle,
    /// T21: a verified payment of the balance.
    BalancePaid {
        /// What was paid.
        amount_fen: Fen,
    },
    /// T21: from the deposit, the renter's wish.
    BalanceFromDeposit,
    /// J12.
    TakeArrears,
    /// T23.
    Dispute {
        /// What about.
        category: DisputeCategory,
        /// In words.
        text: String,
    },
    /// T24.
    Withdraw,
    /// Offer the other side to end the dispute so.
    Offer {
        /// How.
        shares: Shares,
    },
    /// T25, T26: take the other side's offer.
    AcceptOffer {
        /// The offer that was seen.
        shares: Shares,
    },
    /// T25.
    Rule {
        /// What it gives.
        amounts: RulingAmounts,
        /// Why.
        reason: String,
        /// A second admin who has agreed by an act of his own, which the shell has seen: a name that the
        /// first one gives is none. Without one, the second admin gives the same ruling.
        approver: Option<AccountId>,
    },
    /// A party accepts the ruling.
    AcceptRuling,
    /// A party appeals.
    Appeal,
    /// The ruling takes effect.
    RulingDue,
    /// T26: nothing was done; a fee may be ordered.
    Void {
        /// The fee, within the rent.
        fee_fen: Fen,
        /// Why.
        reason: String,
        /// As in [`Command::Rule`].
        approver: Option<AccountId>,
    },
    /// T27.
    ForceCancel {
        /// The fee, within the rent.
        fee_fen: Fen,
        /// Why.
        reason: String,
    },
    /// T31.
    WaiveFee {
        /// How much of it.
        amount_fen: Fen,
        /// Why.
        reason: String,
    },
    /// T28: a verified payment that nobody waits for.
    LatePayment {
        /// What was paid.
        amount_fen: Fen,
    },
    /// J13.
    Seal,
    /// A reminder of a timer: tells, changes nothing.
    Remind(super::effect::TimerKind),
}
