//! Clocks: what each timer asks, when it is really due, and what a dispute does to those that wait.

use chrono::{DateTime, TimeDelta, Utc};
use furrow_domain::order::{
    actor::Role,
    command::{Command, DisputeCategory},
    decision::Outcome,
    effect::TimerKind,
    fire,
    refusal::Refusal,
    status::{Phase, Status},
    table::TABLE,
};

use crate::stage::{Stage, at, dispute, hours, propose};

const MS: TimeDelta = TimeDelta::milliseconds(1);
const CONFIRM: Command = Command::ConfirmBill { version: 1 };

fn due(stage: &Stage, kind: TimerKind) -> Option<DateTime<Utc>> {
    let found = stage.timers.iter().find(|(k, _)| *k == kind);
    found.map(|(_, due)| *due)
}

/// What one life planned, as lines of kind, what it asks, where, and when.
#[test]
fn the_clocks_print() {
    let mut planned = Vec::new();
    for (life, stage) in [
        ("unpaid", Stage::new()),
        ("paid", Stage::new().paid()),
        ("accepted", Stage::new().accepted()),
        ("in work", Stage::new().in_work()),
        ("finished", Stage::new().finished()),
        ("billed", Stage::new().billed(540_000, 0)),
        (
            "owes",
            Stage::new().billed(540_000, 0).by(Role::Renter, &CONFIRM),
        ),
        ("completed", Stage::new().completed()),
        ("disputed", Stage::new().disputed()),
    ] {
        let mut timers = stage.timers.clone();
        timers.sort_by_key(|(kind, due)| (*due, *kind));
        for (kind, due) in timers {
            let asks = format!("{:?}", kind.command(stage.order.status).kind());
            let due = due.format("%d %H:%M");
            planned.push(format!("{life:<10} {:<12} {asks:<17} {due}", kind.name()));
        }
    }
    insta::assert_snapshot!(planned.join("\n"));
}

#[test]
fn every_clock_asks_for_something_that_the_table_knows() {
    for kind in TimerKind::ALL {
        let asks = Status::ALL.map(|status| (kind.command(status).kind(), status));
        let known = asks.iter().any(|(asked, status)| {
            TABLE.iter().any(|row| {
                row.kind == *asked && row.from.contains(status) && row.who.contains(&Role::System)
            })
        });
        assert!(known, "{kind:?}");
        assert_eq!(TimerKind::of_name(kind.name()), Some(kind));
    }
}

/// A clock that comes early, twice, or for an order that has moved on does nothing and is no error.
#[test]
fn a_stale_clock_is_skipped_in_every_state() {
    for status in Status::ALL {
        let stage = Stage::in_state(status);
        for kind in TimerKind::ALL {
            let planned = due(&stage, kind);
            let found = fire(&stage.order, kind, &stage.facts, stage.now);
            let moves = matches!(
                &found,
                Ok(Outcome::Applied(steps))
                    if steps.iter().any(|step| step.order.status != stage.order.status)
            );
            assert!(found.is_ok(), "{status:?} {kind:?}: {found:?}");
            let early = planned.is_none_or(|at| stage.now < at);
            assert!(
                !(moves && early),
                "{status:?} {kind:?} moved before its time"
            );
        }
    }
}

#[test]
fn the_balance_is_taken_at_its_time_and_not_before() {
    let stage = Stage::new().billed(540_000, 0).by(Role::Renter, &CONFIRM);
    let end = stage.now + hours(72);
    let found = [end - MS, end, end + MS].map(|now| {
        let mut stage = stage.clone().at(now);
        stage.try_by(Role::System, &Command::TakeArrears).unwrap();
        stage.order.status == Status::Completed
    });
    assert_eq!(found, [false, true, true]);
}

#[test]
fn silence_confirms_a_bill_at_its_time_and_not_before() {
    let stage = Stage::new().billed(432_100, 0);
    let end = stage.now + hours(72);
    let found = [end - MS, end, end + MS].map(|now| {
        let mut stage = stage.clone().at(now);
        stage
            .try_by(Role::System, &Command::ConfirmBySilence)
            .unwrap();
        stage.order.status == Status::Completed
    });
    assert_eq!(found, [false, true, true]);
}

#[test]
fn silence_waits_for_announced_frames_a_week_and_for_a_review_not_at_all() {
    let mut stage = Stage::new().billed(432_100, 0);
    stage.facts.frames_missing = true;
    let week = stage.now + hours(24 * 7);
    let found = [week - MS, week].map(|now| {
        let mut stage = stage.clone().at(now);
        stage
            .try_by(Role::System, &Command::ConfirmBySilence)
            .unwrap();
        stage.order.status == Status::Completed
    });
    assert_eq!(found, [false, true]);
    let mut review = Stage::new().billed(432_100, 0);
    review.facts.bill_in_review = true;
    let shown = review.try_by(Role::Renter, &CONFIRM);
    assert_eq!(shown, Err(Refusal::StillOpen("review")));
    review.now += hours(72);
    let review = review.by(Role::System, &Command::ConfirmBySilence);
    assert_eq!(review.order.status, Status::Disputed);
}

#[test]
fn money_matures_at_its_time_and_disputes_end_at_the_same() {
    let stage = Stage::new().completed();
    let end = stage.order.maturity().unwrap();
    let found = [end - MS, end, end + MS].map(|now| {
        let mut sealed = stage.clone().at(now);
        sealed.try_by(Role::System, &Command::Seal).unwrap();
        let disputed = stage.clone().at(now).try_by(Role::Renter, &dispute());
        (sealed.order.sealed_at.is_some(), disputed.is_ok())
    });
    assert_eq!(found, [(false, true), (true, false), (true, false)]);
}

#[test]
fn after_a_withdrawal_what_waited_has_its_old_time_and_a_day_at_least() {
    let withdrawn = |stage: Stage, later: TimeDelta| {
        let mut stage = stage.by(Role::Owner, &dispute());
        stage.now += later;
        stage.by(Role::Owner, &Command::Withdraw)
    };
    let owes = || Stage::new().billed(540_000, 0).by(Role::Renter, &CONFIRM);
    for (stage, kind, old) in [
        (owes(), TimerKind::J12, hours(72)),
        (Stage::new().billed(432_100, 0), TimerKind::J11, hours(72)),
        (Stage::new().finished(), TimerKind::J10, hours(24)),
        (Stage::new().completed(), TimerKind::J13, hours(24 * 7)),
    ] {
        let begin = stage.now;
        let soon = withdrawn(stage.clone(), hours(1));
        let expected = (begin + old).max(begin + hours(25));
        assert_eq!(due(&soon, kind), Some(expected), "{kind:?}");
        let late = withdrawn(stage, hours(24 * 6 + 23));
        let expected = late.now + hours(24);
        assert_eq!(due(&late, kind), Some(expected), "{kind:?}");
    }
    // And the clock that comes at the old time looks at the new one.
    let mut late = withdrawn(owes(), hours(71));
    late.now += hours(2);
    let found = late.try_by(Role::System, &Command::TakeArrears);
    assert!(matches!(found, Ok(Outcome::Postponed(_))));
}

#[test]
fn a_withdrawal_before_work_leaves_a_day_to_begin_and_none_after_the_end() {
    let mut stage = Stage::new()
        .accepted()
        .at(at("05T08:30:00"))
        .by(Role::Renter, &dispute());
    stage.now = at("05T11:59:59");
    let back = stage.clone().by(Role::Renter, &Command::Withdraw);
    assert_eq!(due(&back, TimerKind::J7Close), Some(back.now + hours(24)));
    stage.now = at("05T12:00:00");
    let late = stage.try_by(Role::Renter, &Command::Withdraw);
    assert_eq!(late, Err(Refusal::TooLate(at("05T12:00:00"))));
}

#[test]
fn pauses_move_the_begin_of_overtime() {
    let rain = Command::Pause {
        reason: "rain".into(),
        acted_at: None,
    };
    let overtime = |stage: &Stage, now| {
        fire(&stage.order, TimerKind::J8b, &stage.facts, now).map(|outcome| match outcome {
            Outcome::Applied(_) => None,
            Outcome::Postponed(again) => Some(again),
            other => panic!("{other:?}"),
        })
    };
    let begins = at("05T12:15:00");
    let stage = Stage::new().in_work();
    assert_eq!(overtime(&stage, begins), Ok(None));
    let paused = stage.at(at("05T09:00:00")).by(Role::Operator, &rain);
    let again = begins + TimeDelta::minutes(15);
    assert!(overtime(&paused, begins).unwrap() >= Some(again));
    let resumed = paused
        .at(at("05T09:40:00"))
        .by(Role::Operator, &Command::Resume { acted_at: None });
    let moved = begins + TimeDelta::minutes(40);
    assert_eq!(overtime(&resumed, begins), Ok(Some(moved)));
    assert_eq!(overtime(&resumed, moved - MS), Ok(Some(moved)));
    assert_eq!(overtime(&resumed, moved), Ok(None));
}

#[test]
fn a_claim_waits_for_its_answer() {
    for (by, answers) in [(Role::Renter, hours(4)), (Role::Owner, hours(2))] {
        let mut stage = Stage::new()
            .accepted()
            .at(at("05T09:00:00"))
            .by(by, &Command::ClaimNoShow);
        stage.facts.present_min = 60;
        let end = stage.now + answers;
        let found = [end - MS, end, end + MS].map(|now| {
            let mut stage = stage.clone().at(now);
            stage.try_by(Role::System, &Command::ClaimDue).unwrap();
            stage.order.status == Status::Cancelled
        });
        assert_eq!(found, [false, true, true], "{by:?}");
    }
}

#[test]
fn a_contested_claim_is_nobodys_own_dispute() {
    for answer in [Command::ContestClaim, Command::ClaimNoShow] {
        let stage = Stage::new()
            .accepted()
            .at(at("05T09:00:00"))
            .by(Role::Renter, &Command::ClaimNoShow)
            .by(Role::Owner, &answer);
        let open = stage.order.open_dispute().unwrap();
        assert_eq!(
            (open.by, open.category),
            (Role::System, DisputeCategory::DidNotArrive)
        );
        let own = stage.clone().try_by(Role::Owner, &Command::Withdraw);
        assert_eq!(own, Err(Refusal::NotYours));
        stage.by(Role::Admin, &Command::Withdraw);
    }
}

#[test]
fn three_objections_and_the_fourth_is_a_dispute_also_of_one_who_had_his() {
    let object = Command::ObjectBill {
        text: "it was less".into(),
    };
    let thrice = |mut stage: Stage| {
        for _ in 0..3 {
            stage = stage
                .by(Role::Renter, &object)
                .by(Role::Owner, &propose(432_100, 0));
        }
        assert_eq!(stage.order.phase, Some(Phase::BillProposed));
        stage.by(Role::Renter, &object)
    };
    let first = thrice(Stage::new().billed(432_100, 0));
    assert_eq!(first.order.open_dispute().unwrap().by, Role::Renter);
    let said = first.done.last().unwrap().reason.as_deref();
    assert_eq!(said, Some("it was less"));
    let had = Stage::new().disputed().by(Role::Renter, &Command::Withdraw);
    let second = thrice(had);
    assert_eq!(second.order.open_dispute().unwrap().by, Role::System);
}

#[test]
fn a_party_disputes_once_and_not_in_the_clocks_name() {
    let mut stage = Stage::new().disputed().by(Role::Renter, &Command::Withdraw);
    assert_eq!(
        stage.try_by(Role::Renter, &dispute()),
        Err(Refusal::TooOften(1))
    );
    for category in [DisputeCategory::Arrears, DisputeCategory::OverCap] {
        let command = Command::Dispute {
            category,
            text: "mine".into(),
        };
        let found = stage.try_by(Role::Owner, &command);
        assert!(matches!(found, Err(Refusal::Invalid { .. })));
    }
    stage.try_by(Role::Owner, &dispute()).unwrap();
}

#[test]
fn a_silent_device_is_told_to_its_owner_and_a_reminder_that_is_late_to_nobody() {
    let tells = |stage: &Stage, kind, now| {
        let outcome = fire(&stage.order, kind, &stage.facts, now).unwrap();
        matches!(outcome, Outcome::Applied(steps) if !steps.is_empty())
    };
    let mut stage = Stage::new().accepted();
    let hour = at("05T07:00:00");
    assert!(
        !tells(&stage, TimerKind::J6, hour),
        "no device, by the facts"
    );
    stage.facts.presence = furrow_domain::order::facts::Presence::Silent;
    assert!(tells(&stage, TimerKind::J6, hour));
    stage.facts.online = true;
    assert!(!tells(&stage, TimerKind::J6, hour));
    let working = Stage::new().in_work();
    let last = at("05T11:40:00");
    assert!(tells(&working, TimerKind::J8, last) && !tells(&working, TimerKind::J8, last + MS));
}

#[test]
fn who_owes_is_reminded_after_a_day_and_after_two() {
    let mut stage = Stage::new().billed(540_000, 0).by(Role::Renter, &CONFIRM);
    let begin = stage.now;
    let mut told = vec![];
    while stage.order.status == Status::PendingSettlement {
        let before = stage.done.len();
        assert!(stage.tick());
        if stage.order.status == Status::PendingSettlement && stage.done.len() > before {
            told.push((stage.now - begin).num_hours());
        }
    }
    assert_eq!(told, [24, 48]);
}
