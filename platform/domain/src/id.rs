//! The ids of the trade, one type a noun, so that no id can stand in another's place. Never makes one: the shell does.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self)
            }
        }

        impl From<Uuid> for $name {
            fn from(id: Uuid) -> Self {
                Self(id)
            }
        }
    )*};
}

ids! {
    /// A person's account.
    AccountId
    /// An owner's organisation; whoever owns machines alone is an organisation of one.
    OrganisationId
    /// A machine.
    MachineId
    /// What is hung on a machine.
    ImplementId
    /// One version of a machine's rent rule.
    RuleId
    /// A renter's plot.
    PlotId
    /// An order.
    OrderId
    /// A machine's slot in the calendar.
    SlotId
    /// A photo or a document.
    FileId
    /// A proposal of one party that the other answers.
    ProposalId
    /// A payment attempt.
    PaymentId
    /// A refund of a payment.
    RefundId
    /// A payout to somebody's bank account.
    PayoutId
    /// A transaction of the ledger.
    TxnId
    /// A notice.
    NoticeId
}
