//! Bills: amounts that can be, versions and caps to the fen, and our share by the order's terms.

use furrow_domain::{
    money::Fen,
    order::{
        actor::Role,
        command::{BillSum, Command, Silent},
        refusal::Refusal,
        status::{Phase, Status},
    },
};

use crate::stage::{Stage, actor, propose};

fn bill(total: i64, commission: i64, damage: i64) -> Command {
    Command::ProposeBill {
        bill: BillSum {
            total_fen: Fen(total),
            commission_fen: Fen(commission),
            damage_fen: Fen(damage),
            needs_consent: false,
            silent: None,
        },
    }
}

#[test]
fn amounts_that_cannot_be_are_refused() {
    let most = Fen::MAX.0;
    for (total, commission, damage) in [
        (-1, 0, 0),
        (100, -1, 0),
        (100, 0, -1),
        (100, 8, 0),
        (0, 1, 0),
        (most + 1, 0, 0),
        (i64::MAX, i64::MAX, i64::MAX),
        (i64::MIN, i64::MIN, i64::MIN),
        (100, 0, 100_001),
    ] {
        let found = Stage::new()
            .finished()
            .try_by(Role::System, &bill(total, commission, damage));
        let refused = matches!(found, Err(Refusal::Invalid { .. } | Refusal::Overflow(_)));
        assert!(refused, "{total} {commission} {damage}: {found:?}");
    }
    let mut most_damage = Stage::new().finished();
    most_damage
        .try_by(Role::Owner, &bill(100, 0, 100_000))
        .unwrap();
}

#[test]
fn i8_our_share_is_as_the_engine_says_and_never_more_than_the_terms() {
    let found = |by, commission| {
        let mut stage = Stage::new().finished();
        stage.try_by(by, &bill(432_100, commission, 0))?;
        Ok(stage.order.bill.unwrap().sum.commission_fen)
    };
    for by in [Role::Owner, Role::System] {
        assert_eq!(found(by, 28_000), Ok(Fen(28_000)), "travel bears none");
        assert_eq!(found(by, 30_247), Ok(Fen(30_247)));
        let more: Result<Fen, Refusal> = found(by, 30_248);
        assert!(matches!(more, Err(Refusal::Invalid { .. })));
    }
}

#[test]
fn silence_agrees_to_what_needs_no_word_and_the_renter_to_all_of_it() {
    let sum = BillSum {
        total_fen: Fen(640_000),
        commission_fen: Fen(44_800),
        damage_fen: Fen::ZERO,
        needs_consent: true,
        silent: Some(Silent {
            total_fen: Fen(480_000),
            commission_fen: Fen(33_600),
        }),
    };
    let billed = Stage::new()
        .finished()
        .by(Role::Owner, &Command::ProposeBill { bill: sum });
    let confirmed = billed
        .clone()
        .by(Role::Renter, &Command::ConfirmBill { version: 1 });
    assert_eq!(confirmed.order.balance_fen, Fen(140_000));
    let mut silent = billed;
    while silent.order.status == Status::PendingSettlement && silent.tick() {}
    assert_eq!(silent.order.status, Status::Completed);
    let kept = silent.order.bill.unwrap();
    assert_eq!(
        (kept.sum.total_fen, kept.sum.commission_fen, kept.consented),
        (Fen(480_000), Fen(33_600), false)
    );
    assert_eq!(silent.order.funds.refunds, Fen(120_000));
}

#[test]
fn staff_sends_back_what_waits_for_it_and_nothing_else() {
    let back = Command::ReturnBill {
        reason: "too much".into(),
    };
    let mut stage = Stage::new().billed(700_000, 0);
    let found = stage.try_by(Role::Admin, &back);
    assert_eq!(found, Err(Refusal::Missing("review")));
    stage.facts.bill_in_review = true;
    let confirm = Command::ConfirmBill { version: 1 };
    let found = stage.try_by(Role::Renter, &confirm);
    assert_eq!(found, Err(Refusal::StillOpen("review")));
    let mut nobody = actor(Role::Admin);
    nobody.permissions = vec!["order.act".into()];
    let found = stage.try_as(&nobody, &back);
    assert_eq!(found, Err(Refusal::Forbidden("bill.review")));
    let stage = stage.by(Role::Admin, &back);
    assert_eq!(stage.order.phase, Some(Phase::AwaitingBill));
    assert_eq!(stage.order.objections, 0, "it was not the renter");
    let again = stage.by(Role::Owner, &propose(500_000, 0));
    assert_eq!(again.order.bill.unwrap().version, 2);
}

#[test]
fn five_versions_of_an_owner_and_what_is_shown_is_what_is_confirmed() {
    let mut stage = Stage::new().finished();
    for version in 1..=5 {
        stage = stage.by(Role::Owner, &propose(400_000 + version, 0));
    }
    assert_eq!(
        stage.try_by(Role::Owner, &propose(1, 0)),
        Err(Refusal::TooOften(5))
    );
    for version in [0, 4, 6] {
        let found = stage.try_by(Role::Renter, &Command::ConfirmBill { version });
        assert_eq!(found, Err(Refusal::VersionConflict(5)));
    }
    let confirm = Command::ConfirmBill { version: 5 };
    let mut done = stage.by(Role::Renter, &confirm);
    assert_eq!(done.order.bill.unwrap().sum.total_fen, Fen(400_005));
    let again = done.try_by(Role::Renter, &confirm);
    assert_eq!(
        again,
        Ok(furrow_domain::order::decision::Outcome::AlreadyApplied)
    );
}

#[test]
fn silence_takes_half_more_than_the_estimate_and_not_a_fen_above() {
    for (total, end) in [(750_000, Phase::BalanceDue), (750_001, Phase::BillProposed)] {
        let mut stage = Stage::new().billed(total, 0);
        while stage.order.phase == Some(Phase::BillProposed)
            && stage.order.status == Status::PendingSettlement
        {
            assert!(stage.tick());
        }
        let phase = stage.order.phase;
        let disputed = stage.order.status == Status::Disputed;
        assert_eq!((phase, disputed), (Some(end), total > 750_000));
    }
}
