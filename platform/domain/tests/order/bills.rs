//! Bills: amounts that can be, versions and caps to the fen, and our share by the order's terms.

use furrow_domain::{
    money::Fen,
    order::{
        actor::Role,
        command::{BillSum, Command},
        refusal::Refusal,
        status::{Phase, Status},
    },
};

use crate::stage::{Stage, propose};

fn bill(total: i64, commission: i64, damage: i64) -> Command {
    Command::ProposeBill {
        bill: BillSum {
            total_fen: Fen(total),
            commission_fen: Fen(commission),
            damage_fen: Fen(damage),
            needs_consent: false,
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
fn i8_an_owner_never_says_our_share_and_the_engine_not_more_than_the_terms() {
    let share = |by, commission| {
        let stage = Stage::new()
            .finished()
            .by(by, &bill(432_100, commission, 0));
        stage.order.bill.unwrap().sum.commission_fen
    };
    for said in [0, 1, 432_100] {
        assert_eq!(share(Role::Owner, said), Fen(30_247));
    }
    assert_eq!(
        share(Role::System, 28_000),
        Fen(28_000),
        "travel bears none"
    );
    assert_eq!(share(Role::System, 30_247), Fen(30_247));
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
