//! Rulings: what cannot be carried out is refused at once, large ones take two people, and the last word is the last.

use chrono::TimeDelta;
use furrow_domain::{
    id::AccountId,
    money::Fen,
    order::{
        actor::{Actor, Role},
        command::{Command, RulingAmounts},
        effect::TimerKind,
        refusal::Refusal,
        status::{CancelReason, Status},
    },
};
use uuid::Uuid;

use crate::stage::{OTHER_ADMIN, Stage, actor, at, dispute};

const MS: TimeDelta = TimeDelta::milliseconds(1);
const TELLS: TimeDelta = TimeDelta::days(3);

fn admin(account: AccountId) -> Actor {
    Actor {
        account: Some(account),
        ..actor(Role::Admin)
    }
}

fn rule(rent: i64, damage: i64, refund: i64) -> Command {
    Command::Rule {
        amounts: RulingAmounts {
            rent_fen: Fen(rent),
            commission_fen: Fen(rent * 7 / 100),
            damage_fen: Fen(damage),
            refund_fen: Fen(refund),
        },
        reason: "the track shows it".into(),
        approver: None,
    }
}

/// Disputed before work, at nine.
fn contested() -> Stage {
    Stage::new()
        .accepted()
        .at(at("05T09:00:00"))
        .by(Role::Renter, &dispute())
}

#[test]
fn amounts_that_could_not_be_moved_are_refused_when_they_are_ruled() {
    for (rent, damage, refund) in [
        (100, 300_000, 299_900),
        (0, 100_001, 499_999),
        (500_001, 100_000, -1),
        (550_000, 50_001, -1),
        (400_000, 0, 200_001),
        (400_000, -1, 200_001),
    ] {
        let found = Stage::new()
            .disputed()
            .try_by(Role::Admin, &rule(rent, damage, refund));
        let invalid = matches!(found, Err(Refusal::Invalid { .. } | Refusal::Overflow(_)));
        assert!(invalid, "{rent} {damage} {refund}: {found:?}");
    }
}

#[test]
fn rent_beyond_the_escrow_and_damage_share_the_deposit() {
    let mut stage = Stage::new().disputed().by(Role::Admin, &{
        let Command::Rule {
            amounts, reason, ..
        } = rule(560_000, 40_000, 0)
        else {
            unreachable!("a ruling")
        };
        Command::Rule {
            amounts,
            reason,
            approver: Some(OTHER_ADMIN),
        }
    });
    stage.now += TELLS;
    let stage = stage.by(Role::System, &Command::RulingDue);
    let funds = stage.order.funds;
    // 560,000 at 7 %: 39,200; the owner has the rest and the damage.
    assert_eq!(funds.commission, Fen(39_200));
    assert_eq!(funds.owner_pending, Fen(520_800 + 40_000));
    assert_eq!(funds.refunds, Fen::ZERO);
}

#[test]
fn a_ruling_takes_effect_after_three_days_or_when_both_accept() {
    let ruled = Stage::new()
        .disputed()
        .by(Role::Admin, &rule(400_000, 0, 200_000));
    let due = ruled.now + TELLS;
    let found = [due - MS, due, due + MS].map(|now| {
        let mut stage = ruled.clone().at(now);
        stage.try_by(Role::System, &Command::RulingDue).unwrap();
        stage.order.status == Status::Completed
    });
    assert_eq!(found, [false, true, true]);
    let one = ruled.clone().by(Role::Renter, &Command::AcceptRuling);
    assert_eq!(one.order.status, Status::Disputed);
    let both = one.by(Role::Owner, &Command::AcceptRuling);
    assert_eq!(both.order.status, Status::Completed);
    let appealed =
        [due - MS, due].map(|now| ruled.clone().at(now).try_by(Role::Owner, &Command::Appeal));
    assert!(appealed[0].is_ok());
    assert_eq!(appealed[1], Err(Refusal::TooLate(due)));
}

#[test]
fn above_5000_yuan_a_second_admin_gives_the_same_ruling_before_anybody_is_told() {
    let large = rule(0, 0, 600_000);
    let mut stage = Stage::new().disputed().by(Role::Admin, &large);
    let planned = |stage: &Stage| stage.timers.iter().any(|(k, _)| *k == TimerKind::RulingDue);
    assert!(stage.order.ruling.is_some_and(|r| r.waits) && !planned(&stage));
    // Nobody can accept or appeal what was not told, nor agree to himself.
    let early = stage.try_by(Role::Renter, &Command::AcceptRuling);
    assert_eq!(early, Err(Refusal::Missing("ruling")));
    let again = stage.clone().by(Role::Admin, &large);
    assert!(again.order.ruling.is_some_and(|r| r.waits));
    let own = Command::Rule {
        amounts: again.order.ruling.unwrap().amounts,
        reason: "by myself".into(),
        approver: actor(Role::Admin).account,
    };
    assert!(again.by(Role::Admin, &own).order.ruling.unwrap().waits);
    stage.try_as(&admin(OTHER_ADMIN), &large).unwrap();
    let ruling = stage.order.ruling.unwrap();
    assert!(!ruling.waits && planned(&stage));
    assert_eq!(
        (Some(ruling.by), ruling.second),
        (actor(Role::Admin).account, Some(OTHER_ADMIN))
    );
    let small = Stage::new()
        .disputed()
        .by(Role::Admin, &rule(100_000, 0, 500_000));
    assert!(
        !small.order.ruling.unwrap().waits,
        "500,000 fen is not above"
    );
}

#[test]
fn an_appeal_is_judged_by_another_admin_and_his_word_is_final() {
    let mut stage = Stage::new()
        .disputed()
        .by(Role::Admin, &rule(400_000, 0, 200_000))
        .by(Role::Owner, &Command::Appeal);
    let again = rule(450_000, 0, 150_000);
    assert_eq!(
        stage.try_by(Role::Admin, &again),
        Err(Refusal::ConflictOfInterest)
    );
    let mut done = stage.clone();
    done.try_as(&admin(OTHER_ADMIN), &again).unwrap();
    assert_eq!(done.order.status, Status::Completed);
    // A large one waits for a third: the first is still no judge of his own.
    let large = rule(0, 0, 600_000);
    stage.try_as(&admin(OTHER_ADMIN), &large).unwrap();
    assert_eq!(stage.order.status, Status::Disputed);
    assert_eq!(
        stage.try_by(Role::Admin, &large),
        Err(Refusal::ConflictOfInterest)
    );
    let third = admin(AccountId(Uuid::from_u128(77)));
    stage.try_as(&third, &large).unwrap();
    assert_eq!(stage.order.funds.refunds, Fen(600_000));
}

#[test]
fn who_does_not_like_a_ruling_appeals_and_does_not_withdraw() {
    let mut stage = Stage::new()
        .disputed()
        .by(Role::Admin, &rule(400_000, 0, 200_000));
    let found = stage.try_by(Role::Renter, &Command::Withdraw);
    assert_eq!(found, Err(Refusal::StillOpen("ruling")));
    stage.try_by(Role::Renter, &Command::Appeal).unwrap();
    let found = stage.try_by(Role::Renter, &Command::Withdraw);
    assert_eq!(found, Err(Refusal::StillOpen("ruling")));
    // What only waits for a second admin was told to nobody.
    let mut waits = Stage::new()
        .disputed()
        .by(Role::Admin, &rule(0, 0, 600_000));
    waits.try_by(Role::Renter, &Command::Withdraw).unwrap();
    assert_eq!(waits.order.ruling, None);
}

#[test]
fn what_was_ruled_is_not_disputed_again() {
    let mut stage = Stage::new()
        .disputed()
        .by(Role::Admin, &rule(400_000, 0, 200_000));
    stage.now += TELLS;
    let mut stage = stage.by(Role::System, &Command::RulingDue);
    let found = stage.try_by(Role::Owner, &dispute());
    assert_eq!(found, Err(Refusal::IllegalTransition(Status::Completed)));
}

#[test]
fn a_void_order_ends_as_any_ruling_does_and_only_before_work() {
    let void = |fee| Command::Void {
        fee_fen: Fen(fee),
        reason: "nothing was done".into(),
        approver: None,
    };
    let mut working = Stage::new().disputed();
    assert!(working.try_by(Role::Admin, &void(0)).is_err());
    assert!(matches!(
        contested().try_by(Role::Admin, &void(500_001)),
        Err(Refusal::Invalid { .. })
    ));
    let stage = contested().by(Role::Admin, &void(100_000));
    assert_eq!(stage.order.status, Status::Disputed, "told, not done");
    let appealed = stage.clone().by(Role::Renter, &Command::Appeal);
    assert!(appealed.order.ruling.unwrap().appealed);
    let done = stage
        .by(Role::Owner, &Command::AcceptRuling)
        .by(Role::Renter, &Command::AcceptRuling);
    assert_eq!(done.order.status, Status::Cancelled);
    assert_eq!(done.order.cancel_reason, Some(CancelReason::AdminRuling));
    let funds = done.order.funds;
    assert_eq!(
        (funds.commission, funds.owner_pending, funds.refunds),
        (Fen(7_000), Fen(93_000), Fen(500_000))
    );
}

#[test]
fn two_rulings_or_a_ruling_and_a_withdrawal_at_once_are_one() {
    let first = rule(400_000, 0, 200_000);
    let other = rule(300_000, 0, 300_000);
    let mut ruled = Stage::new().disputed().by(Role::Admin, &first);
    let second = ruled.try_as(&admin(OTHER_ADMIN), &other);
    assert_eq!(second, Err(Refusal::StillOpen("ruling")));
    let mut withdrawn = Stage::new().disputed().by(Role::Renter, &Command::Withdraw);
    assert_eq!(
        withdrawn.try_by(Role::Admin, &first),
        Err(Refusal::IllegalTransition(Status::PendingSettlement))
    );
}

#[test]
fn a_ruling_after_completion_shares_what_the_dispute_holds() {
    // 432,100 at 7 %: the owner's 401,853 are held.
    let mut stage = Stage::new()
        .completed()
        .by(Role::Renter, &dispute())
        .by(Role::Admin, &rule(300_000, 0, 101_853));
    stage.now += TELLS;
    let stage = stage.by(Role::System, &Command::RulingDue);
    let funds = stage.order.funds;
    assert_eq!(funds.dispute_hold, Fen::ZERO);
    assert_eq!(
        (funds.owner_pending, funds.commission),
        (Fen(300_000), Fen(21_000))
    );
    // 167,900 went back at the settlement; of our 30,247 the part beyond 21,000 follows.
    assert_eq!(funds.refunds, Fen(167_900 + 101_853 + 9_247));
}
