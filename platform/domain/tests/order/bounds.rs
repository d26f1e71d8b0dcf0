//! Every deadline a millisecond before, at, and after.

use chrono::{DateTime, TimeDelta, Utc};
use furrow_domain::{
    id::ProposalId,
    money::Fen,
    order::{
        actor::Role,
        command::{Command, NoFault, Proposed},
        create::create,
        decision::Outcome,
        refusal::Refusal,
        status::{Status, TimeoutKind},
        terms::Policy,
    },
    period::Period,
};
use uuid::Uuid;

use crate::stage::{Stage, at, booking, cancel, created, hours};

const MS: TimeDelta = TimeDelta::milliseconds(1);
const ID: ProposalId = ProposalId(Uuid::from_u128(5));

fn around(at: DateTime<Utc>) -> [DateTime<Utc>; 3] {
    [at - MS, at, at + MS]
}

#[test]
fn s16_the_lead_of_a_booking_is_exact() {
    for (auto, lead) in [(false, 165), (true, 135)] {
        let mut asked = booking();
        asked.terms.auto_accept = auto;
        let least = asked.start - TimeDelta::minutes(lead);
        let found = around(least).map(|now| create(asked.clone(), now).is_ok());
        assert_eq!(found, [true, true, false], "{auto}");
        let late = create(asked.clone(), least + TimeDelta::seconds(1));
        assert!(matches!(late, Err(Refusal::TooLate(_))));
        let past = create(asked.clone(), asked.start + TimeDelta::seconds(1));
        assert_eq!(past.map(|_| ()), Err(Refusal::InPast));
    }
    assert_eq!(Policy::default().min_lead(false), TimeDelta::minutes(165));
}

#[test]
fn a_booking_is_within_its_bounds() {
    let with = |from: DateTime<Utc>, to: DateTime<Utc>| {
        let mut asked = booking();
        (asked.start, asked.end) = (from, to);
        asked.period = Period::new(from, to).unwrap();
        create(asked, created()).is_ok()
    };
    let from = at("05T08:00:00");
    assert!(!with(from, from + TimeDelta::minutes(30) - MS));
    assert!(with(from, from + TimeDelta::minutes(30)));
    assert!(with(from, from + TimeDelta::days(200)));
    assert!(!with(from, from + TimeDelta::days(200) + MS));
    let last = created() + TimeDelta::days(300);
    assert!(with(last - hours(5), last) && !with(last - hours(5), last + MS));
    let mut many = booking();
    many.unpaid_holds = 5;
    assert_eq!(
        create(many, created()).map(|_| ()),
        Err(Refusal::TooOften(5))
    );
    let mut own = booking();
    own.renter_organisations = vec![own.organisation];
    assert_eq!(
        create(own, created()).map(|_| ()),
        Err(Refusal::SelfDealing)
    );
}

#[test]
fn a_hold_expires_with_its_grace_or_at_the_cutoff() {
    let expires = created() + TimeDelta::minutes(17);
    let found = around(expires).map(|now| {
        let mut stage = Stage::new().at(now);
        stage.try_by(Role::System, &Command::ExpireHold).unwrap();
        stage.order.status
    });
    use Status::{PendingPayment, TimedOut};
    assert_eq!(found, [PendingPayment, TimedOut, TimedOut]);
}

#[test]
fn acceptance_ends_at_its_deadline_and_never_after_the_cutoff() {
    let deadline = created() + hours(24);
    let accept = Command::Accept { seen_version: None };
    let found = around(deadline).map(|now| {
        Stage::new()
            .paid()
            .at(now)
            .try_by(Role::Owner, &accept)
            .is_ok()
    });
    assert_eq!(found, [true, false, false]);
    // Paid a day before: the cutoff comes first.
    let mut near = booking();
    near.terms.policy.pay_min = 5000;
    let cutoff = near.start - hours(2);
    for (now, status) in around(cutoff).into_iter().zip([
        Status::PendingAcceptance,
        Status::TimedOut,
        Status::TimedOut,
    ]) {
        let mut stage = Stage::of(near.clone()).at(cutoff - hours(3)).paid().at(now);
        stage.try_by(Role::System, &Command::AcceptTimeout).unwrap();
        assert_eq!(stage.order.status, status);
        if status == Status::TimedOut {
            assert_eq!(stage.order.timeout_kind, Some(TimeoutKind::Cutoff));
        }
    }
}

#[test]
fn an_auto_accepting_machine_accepts_with_the_payment_but_not_at_the_cutoff() {
    let mut asked = booking();
    asked.terms.auto_accept = true;
    let cutoff = asked.start - hours(2);
    let found = around(cutoff).map(|now| Stage::of(asked.clone()).at(now).paid().order.status);
    use Status::{Accepted, TimedOut};
    assert_eq!(found, [Accepted, TimedOut, TimedOut]);
}

#[test]
fn what_costs_nothing_is_paid_with_nothing() {
    let mut free = booking();
    free.terms.prepaid_fen = Fen::ZERO;
    free.terms.deposit_fen = Fen::ZERO;
    let stage = Stage::of(free).by(
        Role::System,
        &Command::Pay {
            amount_fen: Fen::ZERO,
        },
    );
    assert_eq!(stage.order.status, Status::PendingAcceptance);
}

#[test]
fn the_fee_that_was_shown_is_the_fee_that_is_taken() {
    let day = at("05T08:00:00") - hours(24);
    for (now, fee) in around(day).into_iter().zip([0, 0, 50_000]) {
        let mut stage = Stage::new().accepted().at(now);
        let wrong = stage.try_by(Role::Renter, &cancel(fee + 1));
        assert_eq!(wrong, Err(Refusal::FeeChanged(Fen(fee))));
        stage.try_by(Role::Renter, &cancel(fee)).unwrap();
        let funds = stage.order.funds;
        // 10 % of 500,000 at 7 %: 3,500 and 46,500; 550,000 go back.
        let share = fee * 7 / 100;
        assert_eq!(funds.commission, Fen(share));
        assert_eq!(funds.owner_pending, Fen(fee - share));
        assert_eq!(funds.refunds, Fen(600_000 - fee));
    }
}

#[test]
fn a_lapse_needs_all_its_conditions_and_its_quarter_of_an_hour() {
    let cutoff = at("05T06:00:00");
    let asked = Stage::new()
        .accepted()
        .at(cutoff - hours(13))
        .by(Role::Owner, &Command::AskReconfirm);
    let at_time = |now: DateTime<Utc>| {
        let mut stage = asked.clone().at(now);
        stage.try_by(Role::System, &Command::Lapse).unwrap();
        stage.order.status == Status::TimedOut
    };
    assert_eq!(around(cutoff).map(at_time), [false, true, true]);
    let window = cutoff + TimeDelta::minutes(15);
    assert_eq!(around(window).map(at_time), [true, false, false]);
    let mut answered = asked
        .clone()
        .by(Role::Renter, &Command::Reconfirm)
        .at(cutoff);
    assert_eq!(
        answered.try_by(Role::System, &Command::Lapse),
        Ok(Outcome::Skipped)
    );
    let mut late = Stage::new()
        .accepted()
        .at(cutoff - hours(11))
        .by(Role::Owner, &Command::AskReconfirm)
        .at(cutoff);
    assert_eq!(
        late.try_by(Role::System, &Command::Lapse),
        Ok(Outcome::Skipped)
    );
}

#[test]
fn no_show_may_be_claimed_after_an_hour_and_is_decided_by_presence() {
    let flag = at("05T09:00:00");
    let found = around(flag).map(|now| {
        let mut stage = Stage::new().accepted().at(now);
        stage.try_by(Role::Renter, &Command::ClaimNoShow).is_ok()
    });
    assert_eq!(found, [false, true, true]);
    let claimed = |by| {
        Stage::new()
            .accepted()
            .at(flag)
            .by(by, &Command::ClaimNoShow)
    };
    let due = |mut stage: Stage, arrived, present_min| {
        stage.facts.arrived = arrived;
        stage.facts.present_min = present_min;
        stage.now += hours(4);
        stage.try_by(Role::System, &Command::ClaimDue).unwrap();
        (
            stage.order.status,
            stage.order.funds.owner_pending.0 + stage.order.funds.commission.0,
        )
    };
    assert_eq!(due(claimed(Role::Renter), false, 0), (Status::Cancelled, 0));
    assert_eq!(due(claimed(Role::Renter), true, 0), (Status::Disputed, 0));
    // Half of the greater of minimum and first day.
    assert_eq!(
        due(claimed(Role::Owner), true, 60),
        (Status::Cancelled, 200_000)
    );
    assert_eq!(due(claimed(Role::Owner), true, 59), (Status::Disputed, 0));
    let mut contested = claimed(Role::Renter);
    contested
        .try_by(Role::Owner, &Command::ContestClaim)
        .unwrap();
    assert_eq!(contested.order.status, Status::Disputed);
}

#[test]
fn what_never_started_ends_twelve_hours_after_its_end() {
    let close = at("06T00:00:00");
    let found = around(close).map(|now| {
        let mut stage = Stage::new().accepted().at(now);
        stage.try_by(Role::System, &Command::NoStart).unwrap();
        stage.order.status == Status::TimedOut
    });
    assert_eq!(found, [false, true, true]);
}

#[test]
fn a_proposal_lives_a_day_and_only_the_other_side_answers() {
    let proposed = Proposed::NoFault(NoFault::Mutual);
    let propose = Command::Propose { id: ID, proposed };
    let answer = Command::Answer {
        id: ID,
        agree: true,
    };
    let stage = Stage::new().accepted().by(Role::Owner, &propose);
    let end = stage.now + hours(24);
    let found = around(end).map(|now| stage.clone().at(now).try_by(Role::Renter, &answer).is_ok());
    assert_eq!(found, [true, false, false]);
    let own = stage.clone().try_by(Role::Owner, &answer);
    assert_eq!(own, Err(Refusal::NotYours));
    let rival = stage.clone().try_by(Role::Renter, &propose);
    assert_eq!(rival, Err(Refusal::StillOpen("proposal")));
    let done = stage.by(Role::Renter, &answer);
    assert_eq!(done.order.funds.refunds, Fen(600_000));
}

#[test]
fn s12_a_change_of_time_is_one_step_of_a_new_epoch_and_never_a_second_payment() {
    let moved = |hours_later: i64| {
        let period = Period::new(
            at("05T08:00:00") + hours(hours_later),
            at("05T12:00:00") + hours(hours_later),
        )
        .unwrap();
        Command::Propose {
            id: ID,
            proposed: Proposed::Reschedule {
                period,
                start: period.from(),
                end: period.to(),
                machine: None,
            },
        }
    };
    let answer = Command::Answer {
        id: ID,
        agree: true,
    };
    let stage = Stage::new().accepted().by(Role::Renter, &moved(2));
    let mut taken = stage.clone();
    taken.facts.slot_free = false;
    assert!(matches!(
        taken.try_by(Role::Owner, &answer),
        Err(Refusal::SlotTaken { .. })
    ));
    assert_eq!(
        taken.order.period.from(),
        at("05T08:00:00"),
        "the old slot stays"
    );
    let mut dear = stage.clone();
    dear.facts.new_estimate_fen = Some(Fen(600_001));
    assert_eq!(
        dear.try_by(Role::Owner, &answer),
        Err(Refusal::NeedsNewOrder)
    );
    let mut done = stage.by(Role::Owner, &answer);
    assert_eq!((done.order.epoch, done.order.start), (2, at("05T10:00:00")));
    assert_eq!(
        done.try_by(Role::Owner, &answer),
        Err(Refusal::ProposalGone)
    );
    for count in 1..=3 {
        let found = done.try_by(Role::Renter, &moved(2 + count));
        if count == 3 {
            assert_eq!(found, Err(Refusal::TooOften(3)));
        } else {
            done.try_by(Role::Owner, &answer).unwrap();
        }
    }
}

#[test]
fn s13_an_extension_meets_the_next_booking() {
    let extend = Command::Propose {
        id: ID,
        proposed: Proposed::Extend {
            end: at("05T13:00:00"),
        },
    };
    let mut stage = Stage::new().in_work();
    stage.facts.slot_free = false;
    stage.facts.next_busy_from = Some(at("05T12:00:00"));
    assert_eq!(
        stage.try_by(Role::Renter, &extend),
        Err(Refusal::SlotTaken {
            next_busy_from: Some(at("05T12:00:00"))
        })
    );
    stage.facts.slot_free = true;
    let answer = Command::Answer {
        id: ID,
        agree: true,
    };
    let done = stage.by(Role::Renter, &extend).by(Role::Owner, &answer);
    assert_eq!(done.order.end, at("05T13:00:00"));
    assert_eq!(done.order.period.to(), at("05T13:00:00"));
}

#[test]
fn a_finish_is_taken_back_within_ten_minutes() {
    let told = at("05T11:30:00");
    let end = told + TimeDelta::minutes(10);
    let found = around(end).map(|now| {
        let mut stage = Stage::new().finished().at(now);
        stage.try_by(Role::Owner, &Command::UndoFinish).is_ok()
    });
    assert_eq!(found, [true, false, false]);
}

#[test]
fn a_fee_is_waived_until_it_matures_and_our_share_shrinks_with_it() {
    let mut stage = Stage::new().accepted().at(at("05T07:00:00"));
    stage.try_by(Role::Renter, &cancel(150_000)).unwrap();
    let waive = Command::WaiveFee {
        amount_fen: Fen(100_001),
        reason: "kind".into(),
    };
    stage.try_by(Role::Admin, &waive).unwrap();
    let funds = stage.order.funds;
    assert_eq!(funds.commission, Fen(49_999 * 7 / 100));
    assert_eq!(funds.owner_pending.0 + funds.commission.0, 49_999);
    assert_eq!(funds.refunds, Fen(550_001));
    let mut late = stage.clone();
    while late.order.sealed_at.is_none() {
        assert!(late.tick());
    }
    assert!(late.try_by(Role::Admin, &waive).is_err());
}
