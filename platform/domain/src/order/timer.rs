//! What a timer asks of its order when it is due. The asking is pure; whether it still matters, the decision says.

use super::{command::Command, effect::TimerKind, status::Status};

impl TimerKind {
    /// All of them.
    pub const ALL: [Self; 25] = [
        Self::J1,
        Self::J2,
        Self::J3,
        Self::J4,
        Self::J5Day,
        Self::J5Hours,
        Self::J5b,
        Self::J6,
        Self::J7Flag,
        Self::J7Close,
        Self::J8,
        Self::J8b,
        Self::J9,
        Self::J10,
        Self::J11Remind,
        Self::J11,
        Self::J12Remind,
        Self::J12,
        Self::J13,
        Self::J16,
        Self::Departed,
        Self::StartAsked,
        Self::ClaimDue,
        Self::FinishAsked,
        Self::RulingDue,
    ];

    /// The name in columns.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::J1 => "j1",
            Self::J2 => "j2",
            Self::J3 => "j3",
            Self::J4 => "j4",
            Self::J5Day => "j5_day",
            Self::J5Hours => "j5_hours",
            Self::J5b => "j5b",
            Self::J6 => "j6",
            Self::J7Flag => "j7_flag",
            Self::J7Close => "j7_close",
            Self::J8 => "j8",
            Self::J8b => "j8b",
            Self::J9 => "j9",
            Self::J10 => "j10",
            Self::J11Remind => "j11_remind",
            Self::J11 => "j11",
            Self::J12Remind => "j12_remind",
            Self::J12 => "j12",
            Self::J13 => "j13",
            Self::J16 => "j16",
            Self::Departed => "departed",
            Self::StartAsked => "start_asked",
            Self::ClaimDue => "claim_due",
            Self::FinishAsked => "finish_asked",
            Self::RulingDue => "ruling_due",
        }
    }

    /// The timer of a name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// What it asks of an order that stands so.
    #[must_use]
    pub const fn command(self, status: Status) -> Command {
        match self {
            Self::J1 => Command::ExpireHold,
            Self::J2 => Command::AcceptTimeout,
            // The cutoff closes what is unpaid, and what is not accepted.
            Self::J3 if matches!(status, Status::PendingPayment) => Command::ExpireHold,
            Self::J3 => Command::AcceptTimeout,
            Self::J5b => Command::Lapse,
            Self::J7Close => Command::NoStart,
            Self::J9 => Command::AutoFinish,
            Self::J11 => Command::ConfirmBySilence,
            Self::J12 => Command::TakeArrears,
            Self::J13 => Command::Seal,
            Self::Departed => Command::DepartedDue,
            Self::StartAsked => Command::StartAskedDue,
            Self::ClaimDue => Command::ClaimDue,
            Self::FinishAsked => Command::FinishAskedDue,
            Self::RulingDue => Command::RulingDue,
            // The draft bill comes from the engine: the shell proposes it in the order's name.
            Self::J10
            | Self::J4
            | Self::J5Day
            | Self::J5Hours
            | Self::J6
            | Self::J7Flag
            | Self::J8
            | Self::J8b
            | Self::J11Remind
            | Self::J12Remind
            | Self::J16 => Command::Remind(self),
        }
    }
}
