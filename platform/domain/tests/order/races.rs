//! Two at once: whichever comes first, only the allowed ends.

use furrow_domain::{
    money::Fen,
    order::{
        actor::Role,
        command::Command,
        decision::Outcome,
        refusal::Refusal,
        status::{CancelReason, Phase, Status, TimeoutKind},
    },
};

use crate::stage::{Stage, at, cancel, dispute, finish, hours};

const ACCEPT: Command = Command::Accept { seen_version: None };

#[test]
fn payment_against_its_timeout_and_against_a_cancel() {
    let pay = Command::Pay {
        amount_fen: Fen(600_000),
    };
    let mut first = Stage::new().by(Role::Provider, &pay);
    assert_eq!(
        first.try_by(Role::System, &Command::ExpireHold),
        Err(Refusal::IllegalTransition(Status::PendingAcceptance))
    );
    let mut late = Stage::in_state(Status::TimedOut);
    assert_eq!(late.order.timeout_kind, Some(TimeoutKind::Pay));
    assert!(late.try_by(Role::Provider, &pay).is_err(), "never revived");
    let mut gone = Stage::in_state(Status::Cancelled);
    assert!(gone.try_by(Role::Provider, &pay).is_err());
    let wrong = Command::Pay {
        amount_fen: Fen(599_999),
    };
    assert_eq!(
        Stage::new().try_by(Role::Provider, &wrong),
        Err(Refusal::AmountMismatch)
    );
}

#[test]
fn s02_accept_twice_is_once_and_against_a_cancel_one_of_both_ends() {
    let mut twice = Stage::new().accepted();
    let version = twice.order.version;
    assert_eq!(
        twice.try_by(Role::Owner, &ACCEPT),
        Ok(Outcome::AlreadyApplied)
    );
    assert_eq!(twice.order.version, version);
    // The renter was first.
    let mut cancelled = Stage::new().paid().by(Role::Renter, &cancel(0));
    assert!(cancelled.try_by(Role::Owner, &ACCEPT).is_err());
    assert_eq!(cancelled.order.funds.refunds, Fen(600_000));
    // The owner was first: now the renter cancels an accepted order.
    let mut accepted = Stage::new().accepted();
    assert!(accepted.try_by(Role::Renter, &cancel(0)).is_ok());
    assert_eq!(accepted.order.cancel_reason, Some(CancelReason::Renter));
}

#[test]
fn accept_against_its_deadline() {
    let mut late = Stage::new().paid();
    late.now = late.order.terms.accept_deadline(late.now, late.order.start);
    assert!(matches!(
        late.try_by(Role::Owner, &ACCEPT),
        Err(Refusal::TooLate(_))
    ));
    late.try_by(Role::System, &Command::AcceptTimeout).unwrap();
    assert_eq!(late.order.timeout_kind, Some(TimeoutKind::Accept));
    assert_eq!(late.order.funds.refunds, Fen(600_000));
}

#[test]
fn an_owner_accepts_only_what_he_saw() {
    let mut stage = Stage::new().paid();
    let seen = Command::Accept {
        seen_version: Some(stage.order.version - 1),
    };
    assert!(matches!(
        stage.try_by(Role::Owner, &seen),
        Err(Refusal::VersionConflict(_))
    ));
}

#[test]
fn start_against_cancel() {
    let mut working = Stage::new().in_work();
    assert!(working.try_by(Role::Renter, &cancel(150_000)).is_err());
    let mut gone = Stage::new()
        .accepted()
        .by(Role::Renter, &cancel(0))
        .at(at("05T08:00:00"));
    let tap = Command::Start {
        photo: true,
        override_reason: None,
        acted_at: None,
    };
    assert!(gone.try_by(Role::Owner, &tap).is_err());
}

#[test]
fn finish_twice_is_one_finish() {
    let mut stage = Stage::new().finished();
    let before = stage.order.clone();
    assert_eq!(
        stage.try_by(Role::Renter, &finish()),
        Ok(Outcome::AlreadyApplied)
    );
    assert_eq!(stage.order, before);
}

#[test]
fn confirm_against_dispute() {
    let mut disputed = Stage::new().disputed();
    let confirm = Command::ConfirmBill { version: 1 };
    assert!(disputed.try_by(Role::Renter, &confirm).is_err());
    let mut completed = Stage::new().completed();
    assert!(completed.try_by(Role::Renter, &dispute()).is_ok());
    assert_eq!(completed.order.funds.dispute_hold, Fen(401_853));
    assert_eq!(completed.order.funds.owner_pending, Fen::ZERO);
}

#[test]
fn dispute_against_maturity() {
    let mut sealed = Stage::new().completed();
    sealed.now = sealed.order.maturity().unwrap();
    assert!(matches!(
        sealed.try_by(Role::Renter, &dispute()),
        Err(Refusal::TooLate(_))
    ));
    sealed.try_by(Role::System, &Command::Seal).unwrap();
    assert!(sealed.order.sealed_at.is_some());
    assert!(sealed.try_by(Role::Owner, &dispute()).is_err());
    let mut frozen = Stage::new().completed();
    frozen.try_by(Role::Owner, &dispute()).unwrap();
    frozen.now += hours(24 * 8);
    assert!(frozen.try_by(Role::System, &Command::Seal).is_err());
}

#[test]
fn s31_a_second_cancel_is_the_first() {
    let mut stage = Stage::new().paid().by(Role::Renter, &cancel(0));
    assert_eq!(
        stage.try_by(Role::Renter, &cancel(0)),
        Ok(Outcome::AlreadyApplied)
    );
    let mut working = Stage::new().in_work();
    assert_eq!(
        working.try_by(Role::Renter, &cancel(0)),
        Err(Refusal::IllegalTransition(Status::InWork))
    );
}

#[test]
fn a_confirmed_bill_that_is_not_covered_waits_for_the_balance() {
    let confirm = Command::ConfirmBill { version: 1 };
    let stage = Stage::new().billed(540_000, 0).by(Role::Renter, &confirm);
    assert_eq!(stage.order.phase, Some(Phase::BalanceDue));
    assert_eq!(stage.order.balance_fen, Fen(40_000));
    // Unpaid: from the deposit. 540,000 at 7 %: 37,800 and 502,200; 60,000 go back.
    let mut unpaid = stage.clone();
    while unpaid.order.status != Status::Completed {
        assert!(unpaid.tick());
    }
    let funds = unpaid.order.funds;
    assert_eq!(
        (funds.commission, funds.owner_pending, funds.refunds),
        (Fen(37_800), Fen(502_200), Fen(60_000))
    );
    let pay = Command::BalancePaid {
        amount_fen: Fen(40_000),
    };
    let paid = stage.by(Role::Provider, &pay);
    assert_eq!(paid.order.status, Status::Completed);
    assert_eq!(paid.order.funds.refunds, Fen(100_000));
}

#[test]
fn damage_is_the_renters_word_and_silence_is_none() {
    let confirm = Command::ConfirmBill { version: 1 };
    let agreed = Stage::new()
        .billed(432_100, 30_000)
        .by(Role::Renter, &confirm);
    let funds = agreed.order.funds;
    assert_eq!(
        (funds.commission, funds.owner_pending, funds.refunds),
        (Fen(30_247), Fen(431_853), Fen(137_900))
    );
    let mut silent = Stage::new().billed(432_100, 30_000);
    while silent.order.status == Status::PendingSettlement {
        assert!(silent.tick());
    }
    assert_eq!(silent.order.status, Status::Disputed);
    assert_eq!(silent.order.funds.held(), Ok(Fen(600_000)));
}
