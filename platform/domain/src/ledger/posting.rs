//! What an order's step moves, on the ledger's own accounts. Never decides whether: the order did.

use super::{
    account::{Account, Channel, OfOrder, OfOwner, OfPlatform, OfRenter},
    txn::{Line, Txn, TxnKind, Unposted},
};
use crate::{
    id::{AccountId, OrderId, OrganisationId, PaymentId},
    money::Fen,
    order::entry::{Account as Role, Entry, Side},
};

/// Whose money it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parties {
    /// The order.
    pub order: OrderId,
    /// The owner.
    pub organisation: OrganisationId,
    /// The renter.
    pub renter: AccountId,
    /// The payment that a step rests on.
    pub payment: Option<(PaymentId, Channel)>,
}

/// What the owner has, under lock: dues come from what is free, and what is owed is repaid first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standing {
    /// Free.
    pub available: Fen,
    /// Owed to us.
    pub receivable: Fen,
}

/// The transaction of an entry; none where nothing moves.
///
/// # Errors
///
/// [`Unposted`].
pub fn posted(
    entry: &Entry,
    parties: &Parties,
    standing: Standing,
) -> Result<Option<Txn>, Unposted> {
    let mut lines = Vec::with_capacity(entry.legs.len() + 1);
    for leg in &entry.legs {
        for (account, amount_fen) in
            accounts(leg.account, leg.side, leg.amount_fen, parties, standing)?
        {
            lines.push(Line {
                account,
                side: leg.side,
                amount_fen,
            });
        }
    }
    Txn::new(TxnKind::Order(entry.kind), &lines)
}

/// The accounts that stand for a role of the order, and how much falls on each.
fn accounts(
    role: Role,
    side: Side,
    amount: Fen,
    parties: &Parties,
    standing: Standing,
) -> Result<Vec<(Account, Fen)>, Unposted> {
    let of_order = |of| Account::Order(parties.order, of);
    let of_owner = |of| Account::Owner(parties.organisation, of);
    let (payment, channel) = match (role, parties.payment) {
        (Role::Psp | Role::Suspense, None) => return Err(Unposted::NoPayment),
        (_, Some((payment, channel))) => (Some(payment), Some(channel)),
        (_, None) => (None, None),
    };
    let one = match role {
        Role::Psp => channel.map(Account::Psp),
        Role::Suspense => payment.map(Account::Suspense),
        Role::RentEscrow => Some(of_order(OfOrder::RentEscrow)),
        Role::DepositHeld => Some(of_order(OfOrder::DepositHeld)),
        Role::DepositFrozen => Some(of_order(OfOrder::DepositFrozen)),
        Role::RefundPayable => Some(of_order(OfOrder::RefundPayable)),
        Role::DisputeHold => Some(of_order(OfOrder::DisputeHold)),
        Role::OwnerPending => Some(of_owner(OfOwner::Pending)),
        Role::RenterCredit => Some(Account::Renter(parties.renter, OfRenter::Credit)),
        Role::Commission => Some(Account::Platform(OfPlatform::Commission)),
        Role::OwnerAvailable | Role::OwnerDues => None,
    };
    if let Some(account) = one {
        return Ok(vec![(account, amount)]);
    }
    // What is owed is repaid before anything is free; what is due comes from what is free first.
    let (first, bound, rest) = match side {
        Side::Credit => (OfOwner::Receivable, standing.receivable, OfOwner::Available),
        Side::Debit => (OfOwner::Available, standing.available, OfOwner::Receivable),
    };
    let taken = amount.min(bound.or_zero());
    Ok(vec![
        (of_owner(first), taken),
        (of_owner(rest), Fen(amount.0 - taken.0)),
    ])
}
