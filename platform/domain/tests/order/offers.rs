//! What the parties find themselves, what may be paid and until when, and money that nobody waits for.

use chrono::TimeDelta;
use furrow_domain::{
    money::Fen,
    order::{
        actor::Role,
        command::{Command, Shares},
        effect::Effect,
        entry::{Account, EntryKind, Side},
        payable::{Payable, Purpose},
        refusal::Refusal,
        status::Status,
    },
};

use crate::stage::{HALVES, Stage, at, booking, dispute, hours};

const MS: TimeDelta = TimeDelta::milliseconds(1);

fn shares(rent: i64, damage: i64, refund: i64) -> Shares {
    Shares {
        rent_fen: Fen(rent),
        damage_fen: Fen(damage),
        refund_fen: Fen(refund),
    }
}

fn offer(shares: Shares) -> Command {
    Command::Offer { shares }
}

fn accept(shares: Shares) -> Command {
    Command::AcceptOffer { shares }
}

#[test]
fn an_offer_that_the_other_side_takes_ends_the_dispute_at_once() {
    let offered = Stage::new()
        .disputed()
        .by(Role::Owner, &offer(shares(400_000, 20_000, 180_000)));
    let done = offered.by(Role::Renter, &accept(shares(400_000, 20_000, 180_000)));
    assert_eq!(done.order.status, Status::Completed);
    let funds = done.order.funds;
    assert_eq!(funds.commission, Fen(28_000), "in proportion to the bill");
    assert_eq!(funds.owner_pending, Fen(400_000 - 28_000 + 20_000));
    assert_eq!(funds.refunds, Fen(180_000));
    let mut done = done;
    assert!(
        done.try_by(Role::Owner, &dispute()).is_err(),
        "the last word"
    );
}

#[test]
fn only_the_other_side_takes_an_offer_and_only_the_one_that_it_saw() {
    let mut stage = Stage::new().disputed().by(Role::Owner, &offer(HALVES));
    assert_eq!(
        stage.try_by(Role::Owner, &accept(HALVES)),
        Err(Refusal::NotYours)
    );
    let other = shares(300_001, 0, 299_999);
    assert_eq!(
        stage.try_by(Role::Renter, &accept(other)),
        Err(Refusal::ProposalGone)
    );
    // Offered anew: the old one is gone.
    let mut stage = stage.by(Role::Owner, &offer(other));
    assert_eq!(
        stage.try_by(Role::Renter, &accept(HALVES)),
        Err(Refusal::ProposalGone)
    );
    let mut none = Stage::new().disputed();
    assert_eq!(
        none.try_by(Role::Renter, &accept(HALVES)),
        Err(Refusal::ProposalGone)
    );
    // A withdrawn dispute takes its offers along.
    let again = stage
        .by(Role::Renter, &Command::Withdraw)
        .by(Role::Owner, &dispute());
    assert_eq!(again.order.offer, None);
}

#[test]
fn an_offer_shares_all_that_is_held_and_no_damage_beyond_the_deposit() {
    for (rent, damage, refund) in [
        (300_000, 0, 299_999),
        (300_000, 0, 300_001),
        (-1, 0, 600_001),
        (0, 100_001, 499_999),
        (i64::MAX, 0, 0),
        (i64::MIN, 0, 600_000),
    ] {
        let found = Stage::new()
            .disputed()
            .try_by(Role::Renter, &offer(shares(rent, damage, refund)));
        let refused = matches!(found, Err(Refusal::Invalid { .. } | Refusal::Overflow(_)));
        assert!(refused, "{rent} {damage} {refund}: {found:?}");
    }
}

#[test]
fn before_work_an_agreement_voids_the_order_with_a_fee() {
    let stage = Stage::new()
        .accepted()
        .at(at("05T09:00:00"))
        .by(Role::Renter, &dispute())
        .by(Role::Owner, &offer(shares(100_000, 0, 500_000)))
        .by(Role::Renter, &accept(shares(100_000, 0, 500_000)));
    assert_eq!(stage.order.status, Status::Cancelled);
    let funds = stage.order.funds;
    assert_eq!((funds.fee, funds.commission), (Fen(100_000), Fen(7_000)));
}

#[test]
fn after_completion_an_agreement_moves_what_the_dispute_holds_and_our_share_with_it() {
    // The owner's 401,853 are held, our share was 30,247.
    let half = shares(200_926, 0, 200_927);
    let stage = Stage::new()
        .completed()
        .by(Role::Renter, &dispute())
        .by(Role::Renter, &offer(half))
        .by(Role::Owner, &accept(half));
    let funds = stage.order.funds;
    assert_eq!(
        (funds.owner_pending, funds.commission),
        (Fen(200_926), Fen(15_123))
    );
    assert_eq!(funds.refunds, Fen(167_900 + 200_927 + 30_247 - 15_123));
}

#[test]
fn a_cashier_opens_with_a_minute_left_and_not_with_less() {
    let stage = Stage::new();
    let end = stage.order.pay_deadline - TimeDelta::seconds(60);
    let paid = Payable {
        purpose: Purpose::Booking,
        amount_fen: Fen(600_000),
        until: stage.order.pay_deadline,
    };
    let found = [end - MS, end, end + MS].map(|now| stage.order.payable(now));
    let closed = Err(Refusal::PayWindowClosed);
    assert_eq!(found, [Ok(paid), Ok(paid), closed]);
    let owes = Stage::new()
        .billed(540_000, 0)
        .by(Role::Renter, &Command::ConfirmBill { version: 1 });
    let due = owes.now + hours(72);
    let balance = Payable {
        purpose: Purpose::Balance,
        amount_fen: Fen(40_000),
        until: due,
    };
    assert_eq!(owes.order.payable(owes.now), Ok(balance));
    let late = owes.order.payable(due - TimeDelta::seconds(59));
    assert_eq!(late, Err(Refusal::PayWindowClosed));
}

#[test]
fn arrears_may_be_paid_while_they_are_disputed_and_nothing_else_may() {
    let mut stage = Stage::new()
        .billed(740_000, 0)
        .by(Role::Renter, &Command::ConfirmBill { version: 1 });
    while stage.order.status == Status::PendingSettlement {
        assert!(stage.tick());
    }
    let left = stage.order.payable(stage.now).unwrap();
    assert_eq!(left.amount_fen, Fen(140_000), "the deposit paid the rest");
    let pay = Command::BalancePaid {
        amount_fen: left.amount_fen,
    };
    assert_eq!(
        stage.by(Role::Provider, &pay).order.status,
        Status::Completed
    );
    for status in Status::ALL {
        let stage = Stage::in_state(status);
        let payable = stage.order.payable(stage.now).is_ok();
        assert_eq!(payable, status == Status::PendingPayment, "{status:?}");
    }
    let mut free = booking();
    (free.terms.prepaid_fen, free.terms.deposit_fen) = (Fen::ZERO, Fen::ZERO);
    let free = Stage::of(free);
    assert!(free.order.payable(free.now).is_err());
}

#[test]
fn s18_s19_s20_what_nobody_waits_for_goes_back_and_revives_nothing() {
    let late = Command::LatePayment {
        amount_fen: Fen(600_000),
    };
    for status in Status::ALL {
        let stage = Stage::in_state(status);
        let before = stage.order.funds;
        let after = stage.by(Role::Provider, &late);
        assert_eq!(after.order.status, status);
        assert_eq!(after.order.funds.refunds.0, before.refunds.0 + 600_000);
        assert_eq!(after.order.funds.held(), before.held());
        let step = after.done.last().unwrap();
        let through: i64 = step
            .effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::Money(entry) => Some(entry),
                _ => None,
            })
            .inspect(|entry| assert_eq!(entry.kind, EntryKind::E2))
            .flat_map(|entry| &entry.legs)
            .filter(|leg| leg.account == Account::Suspense)
            .map(|leg| match leg.side {
                Side::Debit => -leg.amount_fen.0,
                Side::Credit => leg.amount_fen.0,
            })
            .sum();
        assert_eq!(through, 0);
    }
    // Also when its money has matured long ago; and nothing but a payment does it.
    let mut sealed = Stage::new().completed();
    while sealed.order.sealed_at.is_none() {
        assert!(sealed.tick());
    }
    sealed.try_by(Role::Provider, &late).unwrap();
    assert!(sealed.try_by(Role::System, &late).is_err());
    for wrong in [0, -1, Fen::MAX.0 + 1] {
        let amount_fen = Fen(wrong);
        let found = sealed.try_by(Role::Provider, &Command::LatePayment { amount_fen });
        assert_eq!(found, Err(Refusal::AmountMismatch));
    }
}
