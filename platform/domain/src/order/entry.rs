//! The money that a step moves, as balanced legs. Data only: the ledger posts it.

use serde::{Deserialize, Serialize};

use crate::money::{Bps, Fen, Overflow};

/// An account as seen from one order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Account {
    /// What the provider owes us.
    Psp,
    /// Prepaid rent of the order.
    RentEscrow,
    /// Its deposit before acceptance.
    DepositHeld,
    /// Its deposit after acceptance.
    DepositFrozen,
    /// What goes back to the renter.
    RefundPayable,
    /// What a dispute holds.
    DisputeHold,
    /// Came without being awaited; on its way back.
    Suspense,
    /// The owner's, until it matures.
    OwnerPending,
    /// The owner's, free.
    OwnerAvailable,
    /// Owed by the owner: taken from what is available first, the rest is a claim. The ledger splits it.
    OwnerDues,
    /// The renter's credit with us.
    RenterCredit,
    /// Our share.
    Commission,
}

/// Which side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Debit.
    Debit,
    /// Credit.
    Credit,
}

/// Which entry, by its number in the ledger's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum EntryKind {
    /// Payment applied.
    E1,
    /// Balance paid.
    E1b,
    /// Came late, or twice: goes back.
    E2,
    /// Deposit frozen.
    E3,
    /// Full refund.
    E4,
    /// Cancelled with a fee.
    E5,
    /// Owner's penalty.
    E6,
    /// Arrears from the deposit.
    E7,
    /// Settled.
    E9,
    /// Damage.
    E10,
    /// Rest of the deposit.
    E11,
    /// Matured.
    E12,
    /// Frozen by a dispute after completion.
    E15a,
    /// That reversed.
    E15aReversed,
    /// Ruled after completion.
    E15b,
    /// Fee waived.
    E19,
}

/// A leg.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Leg {
    /// Where.
    pub account: Account,
    /// Which side.
    pub side: Side,
    /// How much, above zero.
    pub amount_fen: Fen,
}

/// An entry: debits and credits of the same sum.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Which.
    pub kind: EntryKind,
    /// At least two.
    pub legs: Vec<Leg>,
}

impl Entry {
    /// An entry of the legs that are not zero; none where all are.
    #[must_use]
    pub fn of(
        kind: EntryKind,
        debits: &[(Account, Fen)],
        credits: &[(Account, Fen)],
    ) -> Option<Self> {
        let legs = |side, of: &[(Account, Fen)]| -> Vec<Leg> {
            of.iter()
                .filter(|(_, fen)| !fen.is_zero())
                .map(|(account, amount_fen)| Leg {
                    account: *account,
                    side,
                    amount_fen: *amount_fen,
                })
                .collect()
        };
        let mut all = legs(Side::Debit, debits);
        all.extend(legs(Side::Credit, credits));
        (!all.is_empty()).then_some(Self { kind, legs: all })
    }

    /// Debits less credits: nothing, always.
    #[must_use]
    pub fn imbalance(&self) -> i128 {
        self.legs
            .iter()
            .map(|leg| match leg.side {
                Side::Debit => i128::from(leg.amount_fen.0),
                Side::Credit => -i128::from(leg.amount_fen.0),
            })
            .sum()
    }
}

/// What an order's own accounts hold: credits less debits of its entries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Funds {
    /// Prepaid rent.
    pub rent_escrow: Fen,
    /// Deposit before acceptance.
    pub deposit_held: Fen,
    /// Deposit after acceptance.
    pub deposit_frozen: Fen,
    /// Held by a dispute.
    pub dispute_hold: Fen,
    /// Went, or goes, back to the renter.
    pub refunds: Fen,
    /// The owner's part that is not mature.
    pub owner_pending: Fen,
    /// Our share.
    pub commission: Fen,
    /// The fee that was charged.
    pub fee: Fen,
}

impl Funds {
    /// Books an entry.
    ///
    /// # Errors
    ///
    /// [`Overflow`], also where an account would fall below zero or a leg is not above it.
    pub fn book(&mut self, entry: &Entry) -> Result<(), Overflow> {
        if entry.imbalance() != 0 || entry.legs.iter().any(|leg| leg.amount_fen <= Fen::ZERO) {
            return Err(Overflow);
        }
        for leg in &entry.legs {
            let account = match leg.account {
                Account::RentEscrow => &mut self.rent_escrow,
                Account::DepositHeld => &mut self.deposit_held,
                Account::DepositFrozen => &mut self.deposit_frozen,
                Account::RefundPayable => &mut self.refunds,
                Account::DisputeHold => &mut self.dispute_hold,
                Account::OwnerPending => &mut self.owner_pending,
                Account::Commission => &mut self.commission,
                Account::Psp
                | Account::Suspense
                | Account::OwnerAvailable
                | Account::OwnerDues
                | Account::RenterCredit => {
                    continue;
                }
            };
            *account = match leg.side {
                Side::Credit => account.plus(leg.amount_fen)?,
                Side::Debit => account.minus(leg.amount_fen)?,
            };
            if *account < Fen::ZERO {
                return Err(Overflow);
            }
        }
        Ok(())
    }

    /// What is still held for the order.
    ///
    /// # Errors
    ///
    /// [`Overflow`].
    pub fn held(&self) -> Result<Fen, Overflow> {
        Fen::sum([
            self.rent_escrow,
            self.deposit_held,
            self.deposit_frozen,
            self.dispute_hold,
        ])
    }

    /// E4: all goes back.
    #[must_use]
    pub fn refund_all(&self) -> Option<Entry> {
        let debits = [
            (Account::RentEscrow, self.rent_escrow),
            (Account::DepositHeld, self.deposit_held),
            (Account::DepositFrozen, self.deposit_frozen),
        ];
        let all = Fen(debits.iter().map(|(_, fen)| fen.0).sum());
        Entry::of(EntryKind::E4, &debits, &[(Account::RefundPayable, all)])
    }

    /// E5: a fee stays with the owner, less our share; the rest goes back.
    ///
    /// # Errors
    ///
    /// [`Overflow`], also for a fee above the rent.
    pub fn refund_less(&self, fee: Fen, commission_bps: Bps) -> Result<Option<Entry>, Overflow> {
        if fee.is_zero() {
            return Ok(self.refund_all());
        }
        let share = commission_bps.of_rounded_down(fee)?;
        let deposit = self.deposit_held.plus(self.deposit_frozen)?;
        let back = self.rent_escrow.minus(fee)?.plus(deposit)?;
        if fee > self.rent_escrow {
            return Err(Overflow);
        }
        Ok(Entry::of(
            EntryKind::E5,
            &[
                (Account::RentEscrow, self.rent_escrow),
                (Account::DepositHeld, self.deposit_held),
                (Account::DepositFrozen, self.deposit_frozen),
            ],
            &[
                (Account::OwnerPending, fee.minus(share)?),
                (Account::Commission, share),
                (Account::RefundPayable, back),
            ],
        ))
    }
}
