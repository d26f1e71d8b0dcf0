//! A transaction of the ledger: balanced by construction, or it does not exist. Never changed: corrections are reversals.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::account::Account;
use crate::{
    money::Fen,
    order::entry::{EntryKind, Side},
};

/// Which entry of the table of money movements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TxnKind {
    /// By a step of an order.
    Order(EntryKind),
    /// E8: a refund succeeded.
    E8,
    /// E8'': a closed refund went another way.
    E8Rerouted,
    /// E13: a payout is asked for.
    E13,
    /// E13: it is paid.
    E13Paid,
    /// E13: it came back.
    E13Returned,
    /// E14: the provider's fee.
    E14,
    /// E16: a correction.
    E16,
    /// E18: the provider pays out to the bank.
    E18,
    /// E20: credit is asked for, to be paid out.
    E20,
    /// E21: goodwill, or a claim written off.
    E21,
}

impl TxnKind {
    /// The name in columns.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Order(kind) => match kind {
                EntryKind::E1 => "E1",
                EntryKind::E1b => "E1b",
                EntryKind::E2 => "E2",
                EntryKind::E3 => "E3",
                EntryKind::E4 => "E4",
                EntryKind::E5 => "E5",
                EntryKind::E6 => "E6",
                EntryKind::E7 => "E7",
                EntryKind::E9 => "E9",
                EntryKind::E10 => "E10",
                EntryKind::E11 => "E11",
                EntryKind::E12 => "E12",
                EntryKind::E15a => "E15a",
                EntryKind::E15aReversed => "E15a_reversed",
                EntryKind::E15b => "E15b",
                EntryKind::E19 => "E19",
            },
            Self::E8 => "E8",
            Self::E8Rerouted => "E8_rerouted",
            Self::E13 => "E13",
            Self::E13Paid => "E13_paid",
            Self::E13Returned => "E13_returned",
            Self::E14 => "E14",
            Self::E16 => "E16",
            Self::E18 => "E18",
            Self::E20 => "E20",
            Self::E21 => "E21",
        }
    }
}

/// One line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Line {
    /// On which account.
    pub account: Account,
    /// Which side.
    pub side: Side,
    /// How much: 1 to 10^12 fen.
    pub amount_fen: Fen,
}

impl Line {
    /// A debit.
    #[must_use]
    pub const fn debit(account: Account, amount_fen: Fen) -> Self {
        Self {
            account,
            side: Side::Debit,
            amount_fen,
        }
    }

    /// A credit.
    #[must_use]
    pub const fn credit(account: Account, amount_fen: Fen) -> Self {
        Self {
            account,
            side: Side::Credit,
            amount_fen,
        }
    }
}

/// What cannot be posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Unposted {
    /// Debits and credits differ.
    #[error("debits and credits differ by {0} fen")]
    Unbalanced(i128),
    /// A line outside 1 to 10^12 fen.
    #[error("a line of {} fen", .0.0)]
    Amount(Fen),
    /// A line on a provider's account or in suspense, and no payment is named.
    #[error("no payment is named for a line on the provider's account")]
    NoPayment,
}

/// A balanced transaction of two lines at least.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Txn {
    kind: TxnKind,
    lines: Vec<Line>,
}

impl Txn {
    /// The lines that are not zero; none where all are.
    ///
    /// # Errors
    ///
    /// [`Unposted`].
    pub fn new(kind: TxnKind, lines: &[Line]) -> Result<Option<Self>, Unposted> {
        let lines: Vec<Line> = lines
            .iter()
            .filter(|line| !line.amount_fen.is_zero())
            .copied()
            .collect();
        if let Some(line) = lines
            .iter()
            .find(|line| !(Fen(1)..=Fen::MAX).contains(&line.amount_fen))
        {
            return Err(Unposted::Amount(line.amount_fen));
        }
        let imbalance: i128 = lines
            .iter()
            .map(|line| match line.side {
                Side::Debit => i128::from(line.amount_fen.0),
                Side::Credit => -i128::from(line.amount_fen.0),
            })
            .sum();
        if imbalance != 0 {
            return Err(Unposted::Unbalanced(imbalance));
        }
        Ok((!lines.is_empty()).then_some(Self { kind, lines }))
    }

    /// From one account to another: a debit of the first, a credit of the second.
    ///
    /// # Errors
    ///
    /// [`Unposted::Amount`].
    pub fn between(
        kind: TxnKind,
        debit: Account,
        credit: Account,
        amount: Fen,
    ) -> Result<Option<Self>, Unposted> {
        let lines = [Line::debit(debit, amount), Line::credit(credit, amount)];
        Self::new(kind, &lines)
    }

    /// The exact opposite, as a correction.
    #[must_use]
    pub fn reversed(&self) -> Self {
        let turned = |line: &Line| Line {
            side: match line.side {
                Side::Debit => Side::Credit,
                Side::Credit => Side::Debit,
            },
            ..*line
        };
        Self {
            kind: TxnKind::E16,
            lines: self.lines.iter().map(turned).collect(),
        }
    }

    /// Which.
    #[must_use]
    pub const fn kind(&self) -> TxnKind {
        self.kind
    }

    /// Its lines.
    #[must_use]
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }
}
