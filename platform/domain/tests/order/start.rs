//! Three witnesses: every row of the start rule, and the finish.

use chrono::TimeDelta;
use furrow_domain::order::{
    StartEvidence, actor::Role, command::Command, decision::Outcome, effect::TimerKind,
    facts::Presence, refusal::Refusal, status::Status,
};

use crate::stage::{Stage, at, finish, hours};

fn tap(photo: bool) -> Command {
    Command::Start {
        photo,
        override_reason: None,
        acted_at: None,
    }
}

fn at_field(presence: Presence) -> Stage {
    let mut stage = Stage::new().accepted().at(at("05T08:05:00"));
    stage.facts.presence = presence;
    stage
}

#[test]
fn whoever_taps_while_the_machine_is_elsewhere_is_refused_and_told_the_distance() {
    let mut stage = at_field(Presence::Elsewhere { distance_m: 4200 });
    for role in [Role::Owner, Role::Operator, Role::Renter] {
        assert_eq!(
            stage.try_by(role, &tap(true)),
            Err(Refusal::MachineElsewhere { distance_m: 4200 })
        );
    }
    let admin = Command::Start {
        photo: false,
        override_reason: Some("seen by staff".into()),
        acted_at: None,
    };
    let stage = stage.by(Role::Admin, &admin);
    assert_eq!(stage.order.start_evidence, Some(StartEvidence::Override));
}

#[test]
fn two_taps_at_the_plot_start_and_metering_begins_with_the_first_working_step() {
    let proven = at("05T08:02:00");
    for (presence, started) in [
        (Presence::AtPlot, at("05T08:05:00")),
        (Presence::Started { at: proven }, proven),
    ] {
        let stage = at_field(presence);
        let stage = stage
            .by(Role::Operator, &tap(false))
            .by(Role::Renter, &tap(false));
        assert_eq!(stage.order.status, Status::InWork);
        assert_eq!(stage.order.started_at, Some(started));
        assert_eq!(stage.order.start_evidence, Some(StartEvidence::Taps));
    }
}

#[test]
fn two_taps_without_a_track_need_a_photo() {
    for presence in [Presence::NoDevice, Presence::Silent, Presence::Poor] {
        let mut bare = at_field(presence).by(Role::Owner, &tap(false));
        assert_eq!(
            bare.try_by(Role::Renter, &tap(false)),
            Err(Refusal::Missing("photo"))
        );
        let shown = bare.by(Role::Renter, &tap(true));
        assert_eq!(shown.order.start_evidence, Some(StartEvidence::Photo));
    }
}

#[test]
fn one_tap_and_a_proven_start_ask_the_silent_side_and_then_the_track_starts() {
    let proven = at("05T08:01:00");
    for (taps, wait, evidence) in [
        (1, 15, StartEvidence::Telemetry),
        (0, 60, StartEvidence::TelemetryAlone),
    ] {
        let mut stage = at_field(Presence::Started { at: proven });
        if taps == 1 {
            stage = stage.by(Role::Owner, &tap(false));
        } else {
            stage = stage.by(Role::System, &Command::StartProven);
        }
        let due = stage.now + TimeDelta::minutes(wait);
        assert!(stage.timers.contains(&(TimerKind::StartAsked, due)));
        assert_eq!(stage.order.status, Status::Accepted);
        stage.now = due;
        let stage = stage.by(Role::System, &Command::StartAskedDue);
        assert_eq!(stage.order.start_evidence, Some(evidence));
        assert_eq!(stage.order.started_at, Some(proven));
    }
}

#[test]
fn one_tap_without_more_is_kept_and_starts_nothing() {
    let mut stage = at_field(Presence::AtPlot).by(Role::Owner, &tap(false));
    assert_eq!(stage.order.status, Status::Accepted);
    assert!(stage.order.taps.owner.is_some());
    assert_eq!(
        stage.try_by(Role::System, &Command::StartAskedDue),
        Ok(Outcome::Skipped)
    );
}

#[test]
fn the_window_of_a_start_is_exact_and_an_early_one_widens_the_slot() {
    let tapped = |now| {
        let mut stage = Stage::new().accepted().at(now);
        stage.facts.presence = Presence::AtPlot;
        stage.try_by(Role::Owner, &tap(false)).is_ok()
    };
    let ms = TimeDelta::milliseconds(1);
    let (open, shut) = (at("05T07:00:00"), at("05T12:00:00"));
    assert_eq!(
        [open - ms, open, shut - ms, shut].map(tapped),
        [false, true, true, false]
    );
    let mut busy = at_field(Presence::AtPlot);
    busy.facts.other_in_work = true;
    assert_eq!(
        busy.try_by(Role::Owner, &tap(true)),
        Err(Refusal::MachineBusy)
    );
}

#[test]
fn a_renters_finish_while_the_machine_works_asks_the_owner_and_stands_after_a_quarter() {
    let mut stage = Stage::new().in_work().at(at("05T11:00:00"));
    stage.facts.last_work_at = Some(at("05T10:58:00"));
    let mut stage = stage.by(Role::Renter, &finish());
    assert_eq!(stage.order.status, Status::InWork);
    stage.now += TimeDelta::minutes(15);
    let stage = stage.by(Role::System, &Command::FinishAskedDue);
    assert_eq!(stage.order.finished_at, Some(at("05T10:58:00")));
}

#[test]
fn the_clock_finishes_when_the_machine_stands_and_at_the_latest_after_twelve_hours() {
    let mut stage = Stage::new().in_work().at(at("05T12:30:00"));
    stage.facts.stopped_since = Some(at("05T12:01:00"));
    let found = stage.try_by(Role::System, &Command::AutoFinish);
    assert_eq!(found, Ok(Outcome::Postponed(at("05T13:00:00"))));
    stage.facts.stopped_since = Some(at("05T12:00:00"));
    stage.facts.last_work_at = Some(at("05T11:59:00"));
    let done = stage.clone().by(Role::System, &Command::AutoFinish);
    assert_eq!(done.order.finished_at, Some(at("05T11:59:00")));
    let mut silent = Stage::new().in_work();
    while silent.order.status == Status::InWork {
        assert!(silent.tick());
    }
    assert_eq!(silent.now, at("05T12:00:00") + hours(12));
    assert_eq!(
        silent.order.finished_at,
        Some(at("05T12:00:00")),
        "the booked end"
    );
}

#[test]
fn a_machine_that_is_not_given_back_is_a_dispute() {
    let mut asked = crate::stage::booking();
    asked.terms.service_mode = furrow_domain::rent::ServiceMode::SelfDrive;
    let mut stage = Stage::of(asked).in_work().at(at("05T11:00:00"));
    stage = stage.by(Role::Renter, &finish());
    assert_eq!(stage.order.status, Status::InWork, "only a request");
    while stage.order.status == Status::InWork {
        assert!(stage.tick());
    }
    assert_eq!(stage.order.status, Status::Disputed);
}

#[test]
fn a_start_that_was_shown_stays_shown_when_the_device_falls_silent() {
    let proven = at("05T08:01:00");
    let mut stage = at_field(Presence::Started { at: proven }).by(Role::Owner, &tap(false));
    stage.facts.presence = Presence::Silent;
    let stage = stage.by(Role::Renter, &tap(false));
    assert_eq!(stage.order.start_evidence, Some(StartEvidence::Taps));
    assert_eq!(stage.order.started_at, Some(proven));
}

#[test]
fn the_silent_side_has_its_time_and_a_late_tap_never_makes_it_longer() {
    let asked = at("05T08:05:00");
    let ms = TimeDelta::milliseconds(1);
    let stage = at_field(Presence::Started { at: asked }).by(Role::System, &Command::StartProven);
    let hour = asked + hours(1);
    let started = |mut stage: Stage, now| {
        stage.now = now;
        stage.try_by(Role::System, &Command::StartAskedDue).unwrap();
        stage.order.status == Status::InWork
    };
    let found = [hour - ms, hour, hour + ms].map(|now| started(stage.clone(), now));
    assert_eq!(found, [false, true, true]);
    for (minute, due) in [(5, 20), (55, 60)] {
        let tapped = stage
            .clone()
            .at(asked + TimeDelta::minutes(minute))
            .by(Role::Renter, &tap(false));
        let due = asked + TimeDelta::minutes(due);
        assert!(tapped.timers.contains(&(TimerKind::StartAsked, due)));
        let found = [due - ms, due].map(|now| started(tapped.clone(), now));
        assert_eq!(found, [false, true], "{minute}");
    }
}

#[test]
fn the_same_tap_again_asks_nobody_again() {
    let mut stage = at_field(Presence::AtPlot).by(Role::Owner, &tap(false));
    stage.now += TimeDelta::minutes(1);
    assert_eq!(
        stage.try_by(Role::Operator, &tap(false)),
        Ok(Outcome::AlreadyApplied)
    );
    let stage = stage.by(Role::Owner, &tap(true));
    assert!(stage.order.taps.owner.is_some_and(|t| t.photo));
}

#[test]
fn a_proven_start_waits_for_the_machines_other_order_to_end() {
    let mut stage = at_field(Presence::Started {
        at: at("05T08:01:00"),
    })
    .by(Role::Owner, &tap(false));
    stage.facts.other_in_work = true;
    stage.now += TimeDelta::minutes(15);
    let found = stage.try_by(Role::System, &Command::StartAskedDue);
    let again = stage.now + TimeDelta::minutes(15);
    assert_eq!(found, Ok(Outcome::Postponed(again)));
    stage.facts.other_in_work = false;
    let stage = stage.at(again).by(Role::System, &Command::StartAskedDue);
    assert_eq!(stage.order.status, Status::InWork);
}

#[test]
fn an_early_start_widens_the_orders_own_time_as_well() {
    let mut stage = Stage::new().accepted().at(at("05T07:10:00"));
    stage.facts.presence = Presence::AtPlot;
    let stage = stage
        .by(Role::Owner, &tap(false))
        .by(Role::Renter, &tap(false));
    assert_eq!(stage.order.period.from(), at("05T07:10:00"));
    assert_eq!(stage.order.start, at("05T08:00:00"), "fees count from here");
}

#[test]
fn what_only_the_track_saw_begin_is_billed_by_the_renters_word() {
    let stage = at_field(Presence::Started {
        at: at("05T08:01:00"),
    })
    .by(Role::System, &Command::StartProven)
    .at(at("05T09:05:00"))
    .by(Role::System, &Command::StartAskedDue)
    .at(at("05T11:30:00"))
    .by(Role::Owner, &finish());
    let mut silent = stage.by(Role::Owner, &crate::stage::propose(540_000, 0));
    assert!(silent.order.bill.is_some_and(|b| b.sum.needs_consent));
    // Silence grants what was estimated and no more.
    while silent.order.status == Status::PendingSettlement {
        assert!(silent.tick());
    }
    let bill = silent.order.bill.unwrap();
    assert_eq!(bill.sum.total_fen, silent.order.terms.estimate_fen);
}

#[test]
fn a_machine_is_handed_over_with_photos_of_both() {
    let mut asked = crate::stage::booking();
    asked.terms.service_mode = furrow_domain::rent::ServiceMode::SelfDrive;
    let mut stage = Stage::of(asked).accepted().at(at("05T08:00:00"));
    stage.facts.presence = Presence::AtPlot;
    let mut stage = stage.by(Role::Owner, &tap(true));
    assert_eq!(
        stage.try_by(Role::Renter, &tap(false)),
        Err(Refusal::Missing("photo"))
    );
    assert_eq!(
        stage.by(Role::Renter, &tap(true)).order.status,
        Status::InWork
    );
}

#[test]
fn a_machine_has_set_off_when_it_has_moved_and_not_when_somebody_says_so() {
    let six = at("05T02:00:00");
    let ms = TimeDelta::milliseconds(1);
    let early = Stage::new()
        .accepted()
        .at(six - ms)
        .try_by(Role::Owner, &Command::Depart);
    assert_eq!(early, Err(Refusal::TooEarly(six)));
    let mut stage = Stage::new()
        .accepted()
        .at(six)
        .by(Role::Operator, &Command::Depart);
    let fee =
        |stage: &Stage| furrow_domain::order::renter_fee(&stage.order, false, stage.now).unwrap();
    assert_eq!(fee(&stage).0, 50_000, "as for anybody six hours before");
    for (moved, fen) in [(1000, 50_000), (1001, 150_000)] {
        stage.facts.moved_m = moved;
        assert!(stage.tick());
        assert_eq!(fee(&stage).0, fen);
    }
    let mut bare = crate::stage::booking();
    bare.terms.has_device = false;
    let stage = Stage::of(bare)
        .accepted()
        .at(six)
        .by(Role::Owner, &Command::Depart);
    assert!(!stage.timers.iter().any(|(k, _)| *k == TimerKind::Departed));
}

#[test]
fn what_the_track_shows_as_begun_is_never_closed_as_never_begun() {
    let mut stage = Stage::new().accepted().at(at("06T00:00:00"));
    stage.facts.presence = Presence::Started {
        at: at("05T11:58:00"),
    };
    let stage = stage.by(Role::System, &Command::NoStart);
    assert_eq!(stage.order.status, Status::Disputed);
}

/// Taps without a network, told later.
fn told_late(now: &str, acted: &str, photo: bool) -> (Stage, Command) {
    let mut stage = Stage::new().accepted().at(at(now));
    stage.facts.presence = Presence::AtPlot;
    let command = Command::Start {
        photo,
        override_reason: None,
        acted_at: Some(at(acted)),
    };
    (stage, command)
}

#[test]
fn a_tap_counts_from_when_it_was_made_if_it_is_told_within_twelve_hours_of_the_end() {
    let ms = TimeDelta::milliseconds(1);
    let end = at("06T00:00:00");
    let found = [end - ms, end, end + ms].map(|now| {
        let (mut stage, tap) = told_late("05T13:00:00", "05T08:03:00", true);
        stage.now = now;
        stage.try_by(Role::Operator, &tap).is_ok()
    });
    assert_eq!(found, [true, true, false]);
    // A phone whose clock is ahead, or behind the acceptance, says nothing about when.
    for wrong in ["05T13:00:01", "01T00:00:00"] {
        let (mut stage, tap) = told_late("05T13:00:00", wrong, true);
        if wrong == "01T00:00:00" {
            stage.order.accepted_at = Some(at("02T00:00:00"));
        }
        let found = stage.try_by(Role::Operator, &tap);
        assert_eq!(found, Err(Refusal::TooLate(at("05T12:00:00"))));
    }
    let (mut early, tap) = told_late("05T09:00:00", "05T06:59:59", true);
    let found = early.try_by(Role::Operator, &tap);
    assert_eq!(found, Err(Refusal::TooEarly(at("05T07:00:00"))));
}

#[test]
fn work_began_with_the_later_of_the_two_taps_in_whatever_order_they_are_told() {
    for (first, second) in [
        ("05T08:03:00", "05T08:07:00"),
        ("05T08:07:00", "05T08:03:00"),
    ] {
        let (stage, owner) = told_late("05T13:00:00", first, true);
        let (_, renter) = told_late("05T13:00:00", second, true);
        let done = stage.by(Role::Operator, &owner).by(Role::Renter, &renter);
        assert_eq!(done.order.started_at, Some(at("05T08:07:00")));
    }
}

#[test]
fn pauses_are_as_long_as_the_phone_says_and_never_overlap() {
    let pause = |acted: &str| Command::Pause {
        reason: "rain".into(),
        acted_at: Some(at(acted)),
    };
    let resume = |acted: &str| Command::Resume {
        acted_at: Some(at(acted)),
    };
    let stage = Stage::new().in_work().at(at("05T11:00:00"));
    let stage = stage
        .by(Role::Operator, &pause("05T09:00:00"))
        .by(Role::Operator, &resume("05T09:30:00"));
    assert_eq!(stage.order.paused(stage.now), TimeDelta::minutes(30));
    // Before work, within the former pause, or in time to come: the time of the telling.
    for wrong in ["05T07:59:59", "05T09:29:59", "05T11:00:01"] {
        let again = stage.clone().by(Role::Operator, &pause(wrong));
        assert_eq!(again.order.pauses[1].from, at("05T11:00:00"), "{wrong}");
    }
    let again = stage.by(Role::Operator, &pause("05T10:00:00"));
    let backwards = again.by(Role::Operator, &resume("05T09:59:59"));
    assert_eq!(backwards.order.pauses[1].to, Some(at("05T11:00:00")));
}
