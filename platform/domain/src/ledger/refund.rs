//! How what goes back to a renter is split over the payments that brought it. Never more than a payment has left.

use crate::{id::PaymentId, money::Fen};

/// A payment and what of it can still go back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refundable {
    /// Which.
    pub payment: PaymentId,
    /// What was received, less what went back or is on its way.
    pub left_fen: Fen,
}

/// One refund of a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Against which payment.
    pub payment: PaymentId,
    /// Rent and deposit together.
    pub amount_fen: Fen,
    /// The deposit's part of it.
    pub deposit_fen: Fen,
}

/// Splits rent and deposit that go back over payments in the order given: the first payment first. What no
/// payment has left for is the second part of the answer: zero, as long as no more goes back than came.
#[must_use]
pub fn split(rent: Fen, deposit: Fen, payments: &[Refundable]) -> (Vec<Part>, Fen) {
    let (mut rent, mut deposit) = (rent.or_zero(), deposit.or_zero());
    let mut parts = vec![];
    for from in payments {
        let left = from.left_fen.or_zero();
        let of_deposit = deposit.min(left);
        let of_rent = rent.min(Fen(left.0 - of_deposit.0));
        deposit = Fen(deposit.0 - of_deposit.0);
        rent = Fen(rent.0 - of_rent.0);
        let amount_fen = Fen(of_rent.0 + of_deposit.0);
        if !amount_fen.is_zero() {
            parts.push(Part {
                payment: from.payment,
                amount_fen,
                deposit_fen: of_deposit,
            });
        }
    }
    (parts, Fen(rent.0.saturating_add(deposit.0)))
}
