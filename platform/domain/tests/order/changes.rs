//! Changes of time: what belonged to the old time does not work in the new one.

use chrono::{DateTime, TimeDelta, Utc};
use furrow_domain::{
    id::ProposalId,
    money::Fen,
    order::{
        actor::Role,
        command::{Command, Proposed},
        effect::TimerKind,
        facts::Presence,
        refusal::Refusal,
        status::{Status, TimeoutKind},
    },
    period::Period,
};
use uuid::Uuid;

use crate::stage::{Stage, at, booking, hours};

const ID: ProposalId = ProposalId(Uuid::from_u128(5));
const YES: Command = Command::Answer {
    id: ID,
    agree: true,
};

fn extend(end: DateTime<Utc>) -> Command {
    Command::Propose {
        id: ID,
        proposed: Proposed::Extend { end },
    }
}

fn reschedule(from: DateTime<Utc>) -> Command {
    let period = Period::new(from, from + hours(4)).unwrap();
    Command::Propose {
        id: ID,
        proposed: Proposed::Reschedule {
            period,
            start: period.from(),
            end: period.to(),
            machine: None,
        },
    }
}

fn due(stage: &Stage, kind: TimerKind) -> Option<DateTime<Utc>> {
    let found = stage.timers.iter().find(|(k, _)| *k == kind);
    found.map(|(_, due)| *due)
}

#[test]
fn taps_and_a_proven_start_of_the_old_time_start_nothing_in_the_new_one() {
    let tap = Command::Start {
        photo: true,
        override_reason: None,
        acted_at: None,
    };
    let mut stage = Stage::new().accepted().at(at("05T08:05:00"));
    stage.facts.presence = Presence::Started {
        at: at("05T08:01:00"),
    };
    let stage = stage.by(Role::Owner, &tap);
    assert!(due(&stage, TimerKind::StartAsked).is_some());
    let mut moved = stage
        .by(Role::Owner, &reschedule(at("07T08:00:00")))
        .by(Role::Renter, &YES);
    assert_eq!(due(&moved, TimerKind::StartAsked), None);
    moved.facts.presence = Presence::AtPlot;
    let moved = moved.at(at("07T08:00:00")).by(Role::Renter, &tap);
    assert_eq!(
        moved.order.status,
        Status::Accepted,
        "one tap, of the renter"
    );
}

#[test]
fn a_departure_for_the_old_time_is_none_for_the_new_one() {
    let mut stage = Stage::new()
        .accepted()
        .at(at("05T03:00:00"))
        .by(Role::Owner, &Command::Depart);
    stage.facts.moved_m = 5000;
    let stage = stage
        .by(Role::System, &Command::DepartedDue)
        .by(Role::Owner, &reschedule(at("08T08:00:00")))
        .by(Role::Renter, &YES);
    assert_eq!((stage.order.go_at, stage.order.departed_at), (None, None));
    assert_eq!(due(&stage, TimerKind::Departed), None);
    let fee = furrow_domain::order::renter_fee(&stage.order, false, stage.now);
    assert_eq!(fee, Ok(Fen::ZERO));
}

#[test]
fn the_agreed_estimate_is_the_one_that_the_bill_is_measured_by() {
    let mut stage = Stage::new().in_work();
    stage.facts.new_estimate_fen = Some(Fen(590_000));
    let stage = stage
        .by(Role::Renter, &extend(at("05T13:00:00")))
        .by(Role::Owner, &YES);
    assert_eq!(stage.order.terms.estimate_fen, Fen(590_000));
    assert_eq!(stage.order.terms.prepaid_fen, Fen(500_000), "R stays");
}

#[test]
fn an_extension_stays_within_the_bounds_of_a_booking() {
    let propose = |end| {
        let mut stage = Stage::new().in_work();
        stage.try_by(Role::Renter, &extend(end)).map(|_| ())
    };
    let begin = at("05T08:00:00");
    assert_eq!(propose(begin + TimeDelta::days(200)), Ok(()));
    for end in [
        begin + TimeDelta::days(200) + TimeDelta::milliseconds(1),
        DateTime::<Utc>::MAX_UTC,
        at("05T12:00:00"),
        at("05T11:59:59"),
    ] {
        let found = propose(end);
        assert!(matches!(found, Err(Refusal::Invalid { .. })), "{end}");
    }
    assert_eq!(propose(at("05T08:00:00")), Err(Refusal::InPast), "is now");
    assert_eq!(propose(DateTime::<Utc>::MIN_UTC), Err(Refusal::InPast));
    // The machine was late: also after the end, while nothing began.
    let mut late = Stage::new().accepted().at(at("05T12:30:00"));
    late.try_by(Role::Owner, &extend(at("05T15:00:00")))
        .unwrap();
}

#[test]
fn times_beyond_all_calendars_are_refused() {
    for (from, to) in [
        (DateTime::<Utc>::MIN_UTC, DateTime::<Utc>::MAX_UTC),
        (at("05T08:00:00"), DateTime::<Utc>::MAX_UTC),
        (
            DateTime::<Utc>::MAX_UTC - hours(4),
            DateTime::<Utc>::MAX_UTC,
        ),
    ] {
        let period = Period::new(from, to).unwrap();
        let proposed = Proposed::Reschedule {
            period,
            start: from,
            end: to,
            machine: None,
        };
        let command = Command::Propose { id: ID, proposed };
        assert!(
            Stage::new()
                .accepted()
                .try_by(Role::Renter, &command)
                .is_err()
        );
    }
}

#[test]
fn an_open_question_survives_an_extension_and_not_a_new_time() {
    let asked = Stage::new()
        .accepted()
        .at(at("04T12:00:00"))
        .by(Role::Owner, &Command::AskReconfirm);
    let cutoff = at("05T06:00:00");
    assert_eq!(due(&asked, TimerKind::J5b), Some(cutoff));
    let longer = asked
        .clone()
        .by(Role::Owner, &extend(at("05T13:00:00")))
        .by(Role::Renter, &YES);
    assert_eq!(due(&longer, TimerKind::J5b), Some(cutoff));
    let later = asked
        .by(Role::Owner, &reschedule(at("06T08:00:00")))
        .by(Role::Renter, &YES);
    assert_eq!(due(&later, TimerKind::J5b), None);
    assert_eq!(later.order.reconfirm, None);
    assert_eq!(due(&later, TimerKind::J7Close), Some(at("07T00:00:00")));
}

#[test]
fn a_timeout_is_named_by_what_ran_out_first_however_late_one_looks() {
    // Paid four days ahead: the day to accept is over long before the cutoff.
    let mut stage = Stage::new().paid().at(at("05T07:00:00"));
    stage.try_by(Role::System, &Command::AcceptTimeout).unwrap();
    assert_eq!(stage.order.timeout_kind, Some(TimeoutKind::Accept));
}

#[test]
fn who_accepts_by_itself_is_told_that_it_is_paid() {
    use furrow_domain::order::effect::{Effect, NoticeKind, Recipient};
    let mut asked = booking();
    asked.terms.auto_accept = true;
    let stage = Stage::of(asked).paid();
    assert_eq!(stage.order.status, Status::Accepted);
    let told = stage.done.iter().flat_map(|step| &step.effects);
    let owners = told.filter(|e| matches!(e, Effect::Notice(Recipient::Owner, _)));
    let expected = Effect::Notice(Recipient::Owner, NoticeKind::OrderBooked);
    assert_eq!(owners.collect::<Vec<_>>(), [&expected]);
}
