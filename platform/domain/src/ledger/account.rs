//! The accounts of the ledger, by their names. Never what is on them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    id::{AccountId, OrderId, OrganisationId, PaymentId},
    money::Fen,
    order::entry::Side,
};

/// By whom payments come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// WeChat Pay.
    Wechat,
    /// Alipay.
    Alipay,
    /// Our own provider, for demonstrations and tests.
    Sandbox,
}

impl Channel {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Wechat, Self::Alipay, Self::Sandbox];

    /// The name in columns, addresses and accounts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wechat => "wechat",
            Self::Alipay => "alipay",
            Self::Sandbox => "sandbox",
        }
    }

    /// The channel of a name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|channel| channel.name() == name)
    }
}

/// What an order's money is, as long as it is the order's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OfOrder {
    /// Prepaid rent.
    RentEscrow,
    /// Deposit before acceptance.
    DepositHeld,
    /// Deposit after acceptance.
    DepositFrozen,
    /// On its way back to the renter.
    RefundPayable,
    /// Held by a dispute after completion.
    DisputeHold,
}

/// What an owner has with us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OfOwner {
    /// Not mature.
    Pending,
    /// Free.
    Available,
    /// Asked for, on its way to the bank.
    PayoutInTransit,
    /// Owed to us.
    Receivable,
}

/// What a renter has with us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OfRenter {
    /// Credit, never spent on orders.
    Credit,
    /// Asked for, on its way to the bank.
    PayoutInTransit,
}

/// What is ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OfPlatform {
    /// Our share of rents.
    Commission,
    /// Penalties that are not the renter's.
    PenaltyIncome,
    /// What providers take.
    PspFeeExpense,
    /// Goodwill and what is written off.
    CompensationExpense,
}

/// An account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Account {
    /// What a provider holds for us.
    Psp(Channel),
    /// Our bank account.
    Bank,
    /// Of an order.
    Order(OrderId, OfOrder),
    /// Of an owner's organisation.
    Owner(OrganisationId, OfOwner),
    /// Of a renter.
    Renter(AccountId, OfRenter),
    /// A payment that nobody awaited.
    Suspense(PaymentId),
    /// Ours.
    Platform(OfPlatform),
}

/// On which side an account grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Grows by debits.
    Asset,
    /// Grows by credits.
    Liability,
    /// Grows by credits.
    Income,
    /// Grows by debits.
    Expense,
}

impl Kind {
    /// The name in columns.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Asset => "asset",
            Self::Liability => "liability",
            Self::Income => "income",
            Self::Expense => "expense",
        }
    }

    /// What a leg adds to the balance: below zero where it takes.
    #[must_use]
    pub const fn change(self, side: Side, amount: Fen) -> Fen {
        match (self, side) {
            (Self::Asset | Self::Expense, Side::Debit)
            | (Self::Liability | Self::Income, Side::Credit) => amount,
            (Self::Asset | Self::Expense, Side::Credit)
            | (Self::Liability | Self::Income, Side::Debit) => Fen(-amount.0),
        }
    }
}

impl Account {
    /// On which side it grows.
    #[must_use]
    pub const fn kind(self) -> Kind {
        match self {
            Self::Psp(_) | Self::Bank | Self::Owner(_, OfOwner::Receivable) => Kind::Asset,
            Self::Order(..)
            | Self::Owner(_, OfOwner::Pending | OfOwner::Available | OfOwner::PayoutInTransit)
            | Self::Renter(..)
            | Self::Suspense(_) => Kind::Liability,
            Self::Platform(OfPlatform::Commission | OfPlatform::PenaltyIncome) => Kind::Income,
            Self::Platform(OfPlatform::PspFeeExpense | OfPlatform::CompensationExpense) => {
                Kind::Expense
            }
        }
    }

    /// Whether its balance may never fall below zero. Provider and bank record what others did.
    #[must_use]
    pub const fn never_negative(self) -> bool {
        !matches!(self, Self::Psp(_) | Self::Bank)
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Psp(channel) => write!(f, "psp:{}:clearing", channel.name()),
            Self::Bank => write!(f, "bank"),
            Self::Order(order, of) => {
                let of = match of {
                    OfOrder::RentEscrow => "rent_escrow",
                    OfOrder::DepositHeld => "deposit_held",
                    OfOrder::DepositFrozen => "deposit_frozen",
                    OfOrder::RefundPayable => "refund_payable",
                    OfOrder::DisputeHold => "dispute_hold",
                };
                write!(f, "order:{order}:{of}")
            }
            Self::Owner(owner, of) => {
                let of = match of {
                    OfOwner::Pending => "pending",
                    OfOwner::Available => "available",
                    OfOwner::PayoutInTransit => "payout_in_transit",
                    OfOwner::Receivable => "receivable",
                };
                write!(f, "owner:{owner}:{of}")
            }
            Self::Renter(renter, of) => {
                let of = match of {
                    OfRenter::Credit => "credit",
                    OfRenter::PayoutInTransit => "payout_in_transit",
                };
                write!(f, "renter:{renter}:{of}")
            }
            Self::Suspense(payment) => write!(f, "suspense:{payment}"),
            Self::Platform(of) => f.write_str(match of {
                OfPlatform::Commission => "platform:commission",
                OfPlatform::PenaltyIncome => "platform:penalty_income",
                OfPlatform::PspFeeExpense => "platform:psp_fee_expense",
                OfPlatform::CompensationExpense => "platform:compensation_expense",
            }),
        }
    }
}
