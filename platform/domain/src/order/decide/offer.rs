//! A settlement that the parties find themselves: an accepted offer is a ruling by agreement. Never needs an admin.

use super::{Case, verdict};
use crate::{
    money::Fen,
    order::{
        Offer,
        actor::Role,
        command::{RulingAmounts, Shares},
        decision::{Decision, Outcome},
        effect::{NoticeKind, Recipient},
        refusal::Refusal,
        status::Status,
    },
};

/// The ruling that an offer amounts to: before work without damage it voids the order.
fn ruling(case: &Case<'_>, shares: Shares) -> Result<(RulingAmounts, bool), Refusal> {
    if !shares.damage_fen.is_zero() && case.actor.role == Role::Admin {
        // Damage needs the renter's own hand.
        return Err(Refusal::NotYours);
    }
    let before_work = matches!(case.order.dispute_from, Some((Status::Accepted, _)));
    let void = before_work && shares.damage_fen.is_zero();
    let bounds = Fen::ZERO..=Fen::MAX;
    let commission_fen = if bounds.contains(&shares.rent_fen) {
        verdict::share(case.order, shares.rent_fen)?
    } else {
        Fen::ZERO
    };
    let amounts = RulingAmounts {
        rent_fen: shares.rent_fen,
        commission_fen,
        damage_fen: shares.damage_fen,
        refund_fen: shares.refund_fen,
    };
    verdict::lawful(case, amounts, void)?;
    Ok((amounts, void))
}

pub(super) fn offer(case: &Case<'_>, shares: Shares) -> Result<Outcome, Refusal> {
    let (amounts, void) = ruling(case, shares)?;
    verdict::effective(case, amounts, void)?;
    let by = case.side();
    let other = if by == Role::Renter {
        Recipient::Owner
    } else {
        Recipient::Renter
    };
    Ok(Decision::of(case.order, "offer")
        .with(|o| {
            o.offer = Some(Offer {
                by,
                shares,
                at: case.now,
            });
        })
        .tell(other, NoticeKind::Proposed)
        .into())
}

pub(super) fn accept(case: &Case<'_>, shares: Shares) -> Result<Outcome, Refusal> {
    // Only what was seen: an offer that was changed meanwhile is another one.
    let Some(open) = case.order.offer.filter(|offer| offer.shares == shares) else {
        return Err(Refusal::ProposalGone);
    };
    if open.by == case.side() {
        return Err(Refusal::NotYours);
    }
    let (amounts, void) = ruling(case, shares)?;
    Ok(verdict::effective(case, amounts, void)?
        .because("by agreement")
        .into())
}
