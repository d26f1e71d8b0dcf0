//! A deposit's state: what its parts say, and nothing else. Silence never takes from it.

use serde::{Deserialize, Serialize};

use crate::{
    money::{Fen, Overflow},
    order::entry::{Account, Entry, EntryKind, Side},
};

/// Where a deposit stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Nothing has come.
    Unpaid,
    /// Paid, the order is not accepted.
    Held,
    /// The order is accepted.
    Frozen,
    /// Some was taken for arrears or damage.
    PartlyDeducted,
    /// All was.
    FullyDeducted,
    /// The rest is on its way back.
    Releasing,
    /// The rest is back.
    Released,
}

impl State {
    /// The name in columns.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unpaid => "unpaid",
            Self::Held => "held",
            Self::Frozen => "frozen",
            Self::PartlyDeducted => "partly_deducted",
            Self::FullyDeducted => "fully_deducted",
            Self::Releasing => "releasing",
            Self::Released => "released",
        }
    }
}

/// The parts of a deposit; all that was paid is in one of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deposit {
    /// Before acceptance.
    pub held_fen: Fen,
    /// After acceptance.
    pub frozen_fen: Fen,
    /// Taken.
    pub deducted_fen: Fen,
    /// On its way back.
    pub releasing_fen: Fen,
    /// Back.
    pub released_fen: Fen,
}

/// What a movement of a deposit is, in its journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Movement {
    /// It came.
    Paid,
    /// The order was accepted.
    Frozen,
    /// Taken for rent that was not paid.
    DeductArrears,
    /// Taken for damage.
    DeductDamage,
    /// The rest goes back.
    ReleaseRequested,
}

impl Movement {
    /// The name in columns.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Paid => "paid",
            Self::Frozen => "frozen",
            Self::DeductArrears => "deduct_arrears",
            Self::DeductDamage => "deduct_damage",
            Self::ReleaseRequested => "release_requested",
        }
    }
}

impl Deposit {
    /// Where it stands.
    #[must_use]
    pub const fn state(&self) -> State {
        if self.held_fen.0 > 0 {
            State::Held
        } else if self.frozen_fen.0 > 0 && self.deducted_fen.0 > 0 {
            State::PartlyDeducted
        } else if self.frozen_fen.0 > 0 {
            State::Frozen
        } else if self.releasing_fen.0 > 0 {
            State::Releasing
        } else if self.released_fen.0 > 0 {
            State::Released
        } else if self.deducted_fen.0 > 0 {
            State::FullyDeducted
        } else {
            State::Unpaid
        }
    }

    /// What we hold of it.
    #[must_use]
    pub const fn balance_fen(&self) -> Fen {
        Fen(self.held_fen.0.saturating_add(self.frozen_fen.0))
    }

    /// What an entry moves of a deposit, and how the deposit stands after it; none where it moves nothing of
    /// it.
    ///
    /// # Errors
    ///
    /// [`Overflow`]: more than there is.
    pub fn moved(self, entry: &Entry) -> Result<Option<(Movement, Fen, Self)>, Overflow> {
        let on = |account, side| {
            Fen::sum(
                entry
                    .legs
                    .iter()
                    .filter(|leg| leg.account == account && leg.side == side)
                    .map(|leg| leg.amount_fen),
            )
        };
        let came = on(Account::DepositHeld, Side::Credit)?;
        let frozen = on(Account::DepositFrozen, Side::Credit)?;
        let from_held = on(Account::DepositHeld, Side::Debit)?;
        let from_frozen = on(Account::DepositFrozen, Side::Debit)?;
        let went = from_held.plus(from_frozen)?;
        if came.is_zero() && frozen.is_zero() && went.is_zero() {
            return Ok(None);
        }
        let mut after = Self {
            held_fen: self.held_fen.plus(came)?.minus(from_held)?,
            frozen_fen: self.frozen_fen.plus(frozen)?.minus(from_frozen)?,
            ..self
        };
        let (movement, amount) = match entry.kind {
            EntryKind::E1 => (Movement::Paid, came),
            EntryKind::E3 => (Movement::Frozen, frozen),
            EntryKind::E7 | EntryKind::E10 => {
                after.deducted_fen = after.deducted_fen.plus(went)?;
                let arrears = entry.kind == EntryKind::E7;
                let movement = if arrears {
                    Movement::DeductArrears
                } else {
                    Movement::DeductDamage
                };
                (movement, went)
            }
            EntryKind::E1b
            | EntryKind::E2
            | EntryKind::E4
            | EntryKind::E5
            | EntryKind::E6
            | EntryKind::E9
            | EntryKind::E11
            | EntryKind::E12
            | EntryKind::E15a
            | EntryKind::E15aReversed
            | EntryKind::E15b
            | EntryKind::E19 => {
                after.releasing_fen = after.releasing_fen.plus(went)?;
                (Movement::ReleaseRequested, went)
            }
        };
        if after.held_fen < Fen::ZERO || after.frozen_fen < Fen::ZERO {
            return Err(Overflow);
        }
        Ok(Some((movement, amount, after)))
    }

    /// A part of it is back.
    ///
    /// # Errors
    ///
    /// [`Overflow`]: more than was on its way.
    pub fn released(self, amount: Fen) -> Result<Self, Overflow> {
        let releasing_fen = self.releasing_fen.minus(amount)?;
        if releasing_fen < Fen::ZERO || amount < Fen::ZERO {
            return Err(Overflow);
        }
        Ok(Self {
            releasing_fen,
            released_fen: self.released_fen.plus(amount)?,
            ..self
        })
    }
}
