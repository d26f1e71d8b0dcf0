//! Staff: nothing without a permission, the renter's own steps by a recorded call, and nobody's consent but the renter's to damage.

use furrow_domain::{
    id::{AccountId, ProposalId},
    money::Fen,
    order::{
        actor::{Actor, Role},
        command::{Command, NoFault, Proposed, RulingAmounts},
        decide,
        decision::Outcome,
        refusal::Refusal,
        status::{CancelReason, Status},
        table::allows,
    },
};
use uuid::Uuid;

use crate::stage::{Stage, actor, at, cancel, every_command, finish};

fn staff(permissions: &[&str]) -> Actor {
    Actor {
        permissions: permissions.iter().map(|p| (*p).to_owned()).collect(),
        ..actor(Role::Admin)
    }
}

const CALLS: &[&str] = &["order.act_for"];

#[test]
fn staff_without_a_permission_of_orders_does_nothing_in_any_state() {
    for status in Status::ALL {
        let stage = Stage::in_state(status);
        for command in every_command() {
            for permissions in [&[][..], &["machine.audit", "policy.write"]] {
                let by = staff(permissions);
                let found = decide(&stage.order, &command, &by, &stage.facts, stage.now);
                let nothing = !matches!(found, Ok(Outcome::Applied(_)));
                assert!(nothing, "{status:?} {command:?}: {found:?}");
            }
        }
    }
}

#[test]
fn who_acts_for_the_renter_may_do_what_the_renter_may_and_gets_the_same() {
    let mut same = 0;
    for status in Status::ALL {
        let stage = Stage::in_state(status);
        for mut command in every_command() {
            if let Command::Start {
                override_reason, ..
            } = &mut command
            {
                *override_reason = None;
            }
            let own = actor(Role::Renter);
            let of_renter = decide(&stage.order, &command, &own, &stage.facts, stage.now);
            let by = staff(CALLS);
            let found = decide(&stage.order, &command, &by, &stage.facts, stage.now);
            if allows(command.kind(), status, Role::Renter) {
                same += usize::from(matches!(found, Ok(Outcome::Applied(_))));
                assert_eq!(found, of_renter, "{status:?} {command:?}");
            } else if command != Command::AskReconfirm {
                let nothing = !matches!(found, Ok(Outcome::Applied(_)));
                assert!(nothing, "{status:?} {command:?}: {found:?}");
            }
        }
    }
    assert!(same >= 12, "{same}");
}

#[test]
fn a_call_cancels_as_the_renter_does() {
    let mut stage = Stage::new().accepted().at(at("05T07:00:00"));
    stage.try_as(&staff(CALLS), &cancel(150_000)).unwrap();
    assert_eq!(stage.order.cancel_reason, Some(CancelReason::Renter));
    assert_eq!(
        stage.try_as(&staff(CALLS), &cancel(150_000)),
        Ok(Outcome::AlreadyApplied)
    );
}

#[test]
fn damage_and_what_is_far_above_the_estimate_need_the_renters_own_hand() {
    let confirm = Command::ConfirmBill { version: 1 };
    for (total, damage, allowed) in [
        (432_100, 0, true),
        (750_000, 0, true),
        (750_001, 0, false),
        (432_100, 1, false),
    ] {
        let mut stage = Stage::new().billed(total, damage);
        let found = stage.try_as(&staff(CALLS), &confirm);
        assert_eq!(found.is_ok(), allowed, "{total} {damage}");
        if !allowed {
            assert_eq!(found, Err(Refusal::NotYours));
            stage.try_by(Role::Renter, &confirm).unwrap();
        }
    }
}

#[test]
fn asking_whether_it_stands_is_no_answer_of_the_renters() {
    let mut stage = Stage::new().accepted().at(at("04T12:00:00"));
    let before = stage.order.renter_acted_at;
    stage.try_as(&staff(CALLS), &Command::AskReconfirm).unwrap();
    assert_eq!(stage.order.renter_acted_at, before);
    stage.try_as(&staff(CALLS), &Command::Reconfirm).unwrap();
    assert_eq!(stage.order.renter_acted_at, Some(stage.now));
}

#[test]
fn staff_that_may_end_orders_ends_work_with_a_reason_and_answers_only_what_is_nobodys_fault() {
    let force = staff(&["order.force_cancel"]);
    let mut working = Stage::new().in_work().at(at("05T11:30:00"));
    let silent = Command::Finish {
        reason: None,
        acted_at: None,
    };
    let found = working.try_as(&force, &silent);
    assert_eq!(found, Err(Refusal::Missing("reason")));
    // The machine worked a minute ago: a renter would have to ask the owner.
    working.facts.last_work_at = Some(at("05T11:29:00"));
    working.try_as(&force, &finish()).unwrap();
    assert_eq!(working.order.status, Status::PendingSettlement);

    let id = ProposalId(Uuid::from_u128(5));
    let yes = Command::Answer { id, agree: true };
    let mutual = Command::Propose {
        id,
        proposed: Proposed::NoFault(NoFault::Mutual),
    };
    let later = Command::Propose {
        id,
        proposed: Proposed::Extend {
            end: at("05T13:00:00"),
        },
    };
    let accepted = Stage::new().accepted();
    for by in [Role::Renter, Role::Owner] {
        let mut ended = accepted.clone().by(by, &mutual);
        ended.try_as(&force, &yes).unwrap();
        assert_eq!(ended.order.status, Status::Cancelled);
        let mut longer = accepted.clone().by(by, &later);
        assert_eq!(longer.try_as(&force, &yes), Err(Refusal::NotYours));
    }
    // By a call, staff answers the owner for the renter, and never the renter for himself.
    let mut longer = accepted.clone().by(Role::Owner, &later);
    longer.try_as(&staff(CALLS), &yes).unwrap();
    let mut own = accepted.by(Role::Renter, &later);
    assert_eq!(own.try_as(&staff(CALLS), &yes), Err(Refusal::NotYours));
}

#[test]
fn nobody_accepts_or_appeals_his_own_ruling_in_anothers_name() {
    let judge = staff(&["order.act_for", "dispute.rule"]);
    let rule = Command::Rule {
        amounts: RulingAmounts {
            rent_fen: Fen(400_000),
            commission_fen: Fen(28_000),
            damage_fen: Fen::ZERO,
            refund_fen: Fen(200_000),
        },
        reason: "the track".into(),
        approver: None,
    };
    let mut stage = Stage::new().disputed();
    stage.try_as(&judge, &rule).unwrap();
    for command in [Command::AcceptRuling, Command::Appeal] {
        let found = stage.try_as(&judge, &command);
        assert_eq!(found, Err(Refusal::ConflictOfInterest));
        let mut other = judge.clone();
        other.account = Some(AccountId(Uuid::from_u128(77)));
        stage.clone().try_as(&other, &command).unwrap();
    }
}
