//! The table of transitions: who may ask what in which state. What is not here is refused, and writes nothing.

use super::{
    actor::Role::{self, Admin, Operator, Owner, Provider, Renter, System},
    command::Command,
    status::Status::{
        self, Accepted, Cancelled, Completed, Disputed, InWork, PendingAcceptance, PendingPayment,
        PendingSettlement, TimedOut,
    },
};

/// A kind of command, without what it carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// See [`Command`].
    Pay,
    /// See [`Command`].
    ExpireHold,
    /// See [`Command`].
    Cancel,
    /// See [`Command`].
    Accept,
    /// See [`Command`].
    Reject,
    /// See [`Command`].
    AcceptTimeout,
    /// See [`Command`].
    AskReconfirm,
    /// See [`Command`].
    Reconfirm,
    /// See [`Command`].
    Lapse,
    /// See [`Command`].
    OwnerCancel,
    /// See [`Command`].
    Propose,
    /// See [`Command`].
    Answer,
    /// See [`Command`].
    Depart,
    /// See [`Command`].
    DepartedDue,
    /// See [`Command`].
    Start,
    /// See [`Command`].
    StartAskedDue,
    /// See [`Command`].
    StartProven,
    /// See [`Command`].
    ClaimNoShow,
    /// See [`Command`].
    ContestClaim,
    /// See [`Command`].
    ClaimDue,
    /// See [`Command`].
    NoStart,
    /// See [`Command`].
    Finish,
    /// See [`Command`].
    FinishAskedDue,
    /// See [`Command`].
    AutoFinish,
    /// See [`Command`].
    UndoFinish,
    /// See [`Command`].
    Pause,
    /// See [`Command`].
    Resume,
    /// See [`Command`].
    RequestReturn,
    /// See [`Command`].
    ProposeBill,
    /// See [`Command`].
    ReturnBill,
    /// See [`Command`].
    ObjectBill,
    /// See [`Command`].
    ConfirmBill,
    /// See [`Command`].
    ConfirmBySilence,
    /// See [`Command`].
    Settle,
    /// See [`Command`].
    BalancePaid,
    /// See [`Command`].
    BalanceFromDeposit,
    /// See [`Command`].
    TakeArrears,
    /// See [`Command`].
    Dispute,
    /// See [`Command`].
    Withdraw,
    /// See [`Command`].
    Offer,
    /// See [`Command`].
    AcceptOffer,
    /// See [`Command`].
    Rule,
    /// See [`Command`].
    AcceptRuling,
    /// See [`Command`].
    Appeal,
    /// See [`Command`].
    RulingDue,
    /// See [`Command`].
    Void,
    /// See [`Command`].
    ForceCancel,
    /// See [`Command`].
    WaiveFee,
    /// See [`Command`].
    LatePayment,
    /// See [`Command`].
    Seal,
    /// See [`Command`].
    Remind,
}

impl Command {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Pay { .. } => Kind::Pay,
            Self::ExpireHold => Kind::ExpireHold,
            Self::Cancel { .. } => Kind::Cancel,
            Self::Accept { .. } => Kind::Accept,
            Self::Reject { .. } => Kind::Reject,
            Self::AcceptTimeout => Kind::AcceptTimeout,
            Self::AskReconfirm => Kind::AskReconfirm,
            Self::Reconfirm => Kind::Reconfirm,
            Self::Lapse => Kind::Lapse,
            Self::OwnerCancel { .. } => Kind::OwnerCancel,
            Self::Propose { .. } => Kind::Propose,
            Self::Answer { .. } => Kind::Answer,
            Self::Depart => Kind::Depart,
            Self::DepartedDue => Kind::DepartedDue,
            Self::Start { .. } => Kind::Start,
            Self::StartAskedDue => Kind::StartAskedDue,
            Self::StartProven => Kind::StartProven,
            Self::ClaimNoShow => Kind::ClaimNoShow,
            Self::ContestClaim => Kind::ContestClaim,
            Self::ClaimDue => Kind::ClaimDue,
            Self::NoStart => Kind::NoStart,
            Self::Finish { .. } => Kind::Finish,
            Self::FinishAskedDue => Kind::FinishAskedDue,
            Self::AutoFinish => Kind::AutoFinish,
            Self::UndoFinish => Kind::UndoFinish,
            Self::Pause { .. } => Kind::Pause,
            Self::Resume { .. } => Kind::Resume,
            Self::RequestReturn => Kind::RequestReturn,
            Self::ProposeBill { .. } => Kind::ProposeBill,
            Self::ReturnBill { .. } => Kind::ReturnBill,
            Self::ObjectBill { .. } => Kind::ObjectBill,
            Self::ConfirmBill { .. } => Kind::ConfirmBill,
            Self::ConfirmBySilence => Kind::ConfirmBySilence,
            Self::Settle => Kind::Settle,
            Self::BalancePaid { .. } => Kind::BalancePaid,
            Self::BalanceFromDeposit => Kind::BalanceFromDeposit,
            Self::TakeArrears => Kind::TakeArrears,
            Self::Dispute { .. } => Kind::Dispute,
            Self::Withdraw => Kind::Withdraw,
            Self::Offer { .. } => Kind::Offer,
            Self::AcceptOffer { .. } => Kind::AcceptOffer,
            Self::Rule { .. } => Kind::Rule,
            Self::AcceptRuling => Kind::AcceptRuling,
            Self::Appeal => Kind::Appeal,
            Self::RulingDue => Kind::RulingDue,
            Self::Void { .. } => Kind::Void,
            Self::ForceCancel { .. } => Kind::ForceCancel,
            Self::WaiveFee { .. } => Kind::WaiveFee,
            Self::LatePayment { .. } => Kind::LatePayment,
            Self::Seal => Kind::Seal,
            Self::Remind(_) => Kind::Remind,
        }
    }
}

/// A row: this kind, from these states, by these roles, leads to one of these states (none: it stays).
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Transition ids.
    pub ids: &'static str,
    /// Kind of command.
    pub kind: Kind,
    /// From.
    pub from: &'static [Status],
    /// To, where it does not stay.
    pub to: &'static [Status],
    /// By whom.
    pub who: &'static [Role],
}

const fn row(
    ids: &'static str,
    kind: Kind,
    from: &'static [Status],
    to: &'static [Status],
    who: &'static [Role],
) -> Row {
    Row {
        ids,
        kind,
        from,
        to,
        who,
    }
}

/// The table. Where staff stands beside the renter it acts for him by a recorded call.
pub const TABLE: &[Row] = &[
    row(
        "T02",
        Kind::Pay,
        &[PendingPayment],
        &[PendingAcceptance],
        &[Provider, System],
    ),
    row(
        "T03",
        Kind::ExpireHold,
        &[PendingPayment],
        &[TimedOut],
        &[System],
    ),
    row(
        "T04",
        Kind::Cancel,
        &[PendingPayment],
        &[Cancelled],
        &[Renter, Admin],
    ),
    row(
        "T08",
        Kind::Cancel,
        &[PendingAcceptance],
        &[Cancelled],
        &[Renter, Admin],
    ),
    row(
        "T09",
        Kind::Cancel,
        &[Accepted],
        &[Cancelled],
        &[Renter, Admin],
    ),
    row(
        "T05",
        Kind::Accept,
        &[PendingAcceptance],
        &[Accepted],
        &[Owner, System],
    ),
    row(
        "T06",
        Kind::Reject,
        &[PendingAcceptance],
        &[Cancelled],
        &[Owner],
    ),
    row(
        "T07",
        Kind::AcceptTimeout,
        &[PendingAcceptance],
        &[TimedOut],
        &[System],
    ),
    row(
        "T09a",
        Kind::AskReconfirm,
        &[Accepted],
        &[],
        &[Owner, Admin, System],
    ),
    row(
        "T09a",
        Kind::Reconfirm,
        &[Accepted],
        &[],
        &[Renter, Owner, Admin],
    ),
    row("T09b", Kind::Lapse, &[Accepted], &[TimedOut], &[System]),
    row(
        "T10",
        Kind::OwnerCancel,
        &[Accepted],
        &[Cancelled],
        &[Owner],
    ),
    row(
        "T11 T17 T18",
        Kind::Propose,
        &[PendingAcceptance, Accepted, InWork],
        &[],
        &[Renter, Owner, Admin],
    ),
    row(
        "T11 T17 T18",
        Kind::Answer,
        &[PendingAcceptance, Accepted, InWork],
        &[Cancelled],
        &[Renter, Owner, Admin],
    ),
    row("go", Kind::Depart, &[Accepted], &[], &[Owner, Operator]),
    row("go", Kind::DepartedDue, &[Accepted], &[], &[System]),
    row(
        "T12",
        Kind::Start,
        &[Accepted],
        &[InWork],
        &[Owner, Operator, Renter, Admin],
    ),
    row("T12", Kind::StartProven, &[Accepted], &[InWork], &[System]),
    row(
        "T12",
        Kind::StartAskedDue,
        &[Accepted],
        &[InWork],
        &[System],
    ),
    row(
        "T13 T14",
        Kind::ClaimNoShow,
        &[Accepted],
        &[Disputed],
        &[Renter, Owner, Admin],
    ),
    row(
        "T13 T14",
        Kind::ContestClaim,
        &[Accepted],
        &[Disputed],
        &[Renter, Owner, Admin],
    ),
    row(
        "T13 T14",
        Kind::ClaimDue,
        &[Accepted],
        &[Cancelled, Disputed],
        &[System],
    ),
    row(
        "T15",
        Kind::NoStart,
        &[Accepted],
        &[TimedOut, Disputed],
        &[System],
    ),
    row(
        "T16",
        Kind::Finish,
        &[InWork],
        &[PendingSettlement],
        &[Owner, Operator, Renter, Admin],
    ),
    row(
        "T16",
        Kind::FinishAskedDue,
        &[InWork],
        &[PendingSettlement],
        &[System],
    ),
    row(
        "T16",
        Kind::AutoFinish,
        &[InWork],
        &[PendingSettlement, Disputed],
        &[System],
    ),
    row(
        "T16",
        Kind::UndoFinish,
        &[PendingSettlement],
        &[InWork],
        &[Owner, Renter, Admin],
    ),
    row(
        "pause",
        Kind::Pause,
        &[InWork],
        &[],
        &[Owner, Operator, Renter, Admin],
    ),
    row(
        "resume",
        Kind::Resume,
        &[InWork],
        &[],
        &[Owner, Operator, Renter, Admin],
    ),
    row(
        "return",
        Kind::RequestReturn,
        &[InWork],
        &[],
        &[Renter, Admin],
    ),
    row(
        "T19",
        Kind::ProposeBill,
        &[PendingSettlement],
        &[],
        &[Owner, System],
    ),
    row("T19", Kind::ReturnBill, &[PendingSettlement], &[], &[Admin]),
    row(
        "T19b",
        Kind::ObjectBill,
        &[PendingSettlement],
        &[Disputed],
        &[Renter, Admin],
    ),
    row(
        "T20",
        Kind::ConfirmBill,
        &[PendingSettlement],
        &[],
        &[Renter, Admin],
    ),
    row(
        "T20",
        Kind::ConfirmBySilence,
        &[PendingSettlement],
        &[Disputed],
        &[System],
    ),
    row(
        "T22",
        Kind::Settle,
        &[PendingSettlement],
        &[Completed],
        &[System],
    ),
    row(
        "T21",
        Kind::BalancePaid,
        &[PendingSettlement, Disputed],
        &[PendingSettlement],
        &[Provider],
    ),
    row(
        "T21",
        Kind::BalanceFromDeposit,
        &[PendingSettlement],
        &[],
        &[Renter, Admin],
    ),
    row(
        "J12",
        Kind::TakeArrears,
        &[PendingSettlement],
        &[Disputed],
        &[System],
    ),
    row(
        "T23",
        Kind::Dispute,
        &[Accepted, InWork, PendingSettlement, Completed],
        &[Disputed],
        &[Renter, Owner, Admin],
    ),
    row(
        "T24",
        Kind::Withdraw,
        &[Disputed],
        &[Accepted, PendingSettlement, Completed],
        &[Renter, Owner, Admin],
    ),
    row(
        "offer",
        Kind::Offer,
        &[Disputed],
        &[],
        &[Renter, Owner, Admin],
    ),
    row(
        "T25 T26",
        Kind::AcceptOffer,
        &[Disputed],
        &[Completed, Cancelled],
        &[Renter, Owner, Admin],
    ),
    row("T25", Kind::Rule, &[Disputed], &[Completed], &[Admin]),
    row(
        "T25",
        Kind::AcceptRuling,
        &[Disputed],
        &[Completed],
        &[Renter, Owner, Admin],
    ),
    row(
        "T25",
        Kind::Appeal,
        &[Disputed],
        &[],
        &[Renter, Owner, Admin],
    ),
    row("T25", Kind::RulingDue, &[Disputed], &[Completed], &[System]),
    row("T26", Kind::Void, &[Disputed], &[Cancelled], &[Admin]),
    row(
        "T27",
        Kind::ForceCancel,
        &[PendingPayment, PendingAcceptance, Accepted],
        &[Cancelled],
        &[Admin],
    ),
    row("T28", Kind::LatePayment, &Status::ALL, &[], &[Provider]),
    row("T31", Kind::WaiveFee, &[Cancelled, TimedOut], &[], &[Admin]),
    row(
        "J13",
        Kind::Seal,
        &[Completed, Cancelled, TimedOut],
        &[],
        &[System],
    ),
    row(
        "J",
        Kind::Remind,
        &[
            PendingAcceptance,
            Accepted,
            InWork,
            PendingSettlement,
            Disputed,
        ],
        &[],
        &[System],
    ),
];

/// Whether the table knows this step.
#[must_use]
pub fn allows(kind: Kind, from: Status, role: Role) -> bool {
    TABLE
        .iter()
        .any(|row| row.kind == kind && row.from.contains(&from) && row.who.contains(&role))
}
