//! Bills against a clock that walks minute by minute: what counts, when overtime begins, what needs a word, and what silence agrees to.

use chrono::{DateTime, TimeDelta, Utc};
use furrow_domain::{
    fieldwork::Activity,
    money::{Bps, Fen},
    period::Period,
    rent::{Bill, Extra, LineKind, Quantity, ServiceMode, Snapshot, Unit, Usage, price},
    settlement::{Claim, Draft, Items, Measured, Other, PauseCause, Record, Spell, draft},
};
use proptest::prelude::*;

use crate::{day, frozen, oracle::oracle, random::rules};

/// Midnight of the first of May in Shanghai.
fn minute(of: i64) -> DateTime<Utc> {
    let midnight: DateTime<Utc> = "2026-04-30T16:00:00Z".parse().unwrap();
    midnight + TimeDelta::minutes(of)
}

fn span(from: i64, to: i64) -> Period {
    Period::new(minute(from), minute(to)).unwrap()
}

/// A life in minutes.
#[derive(Debug, Clone)]
struct Life {
    start: i64,
    length: i64,
    /// What each stretch of the track was, from `begins` on.
    begins: i64,
    stretches: Vec<(Activity, i64)>,
    pauses: Vec<(i64, i64, PauseCause)>,
    arrived: Option<i64>,
    has_track: bool,
    good_bps: u32,
    missing_s: u32,
    finished: i64,
}

impl Life {
    fn end(&self) -> i64 {
        self.start + self.length
    }

    fn kinds(&self) -> Vec<(i64, Activity)> {
        let mut at = self.begins;
        let mut all = Vec::new();
        for (activity, length) in &self.stretches {
            all.extend((at..at + length).map(|m| (m, *activity)));
            at += length;
        }
        all
    }

    fn measured(&self, areas: &[u64]) -> Option<Measured> {
        let mut at = self.begins;
        let mut spells = Vec::new();
        for (activity, length) in &self.stretches {
            spells.push(Spell {
                from: minute(at),
                to: minute(at + length),
                activity: *activity,
            });
            at += length;
        }
        spells.reverse();
        self.has_track.then_some(Measured {
            area_e4_m2: (1..).map(day).zip(areas.iter().copied()).collect(),
            spells,
            arrived: self.arrived.map(minute),
            good_bps: self.good_bps,
            missing_s: self.missing_s,
            missing_e4_m2: 0,
            estimate: false,
            track: (minute(self.begins), minute(at)),
        })
    }

    fn record(&self, area: u64, areas: &[u64]) -> Record {
        Record {
            period: span(self.start, self.end()),
            start: minute(self.start),
            end: minute(self.end()),
            area_centi_mu: area,
            service_mode: ServiceMode::Operated,
            started: Some(minute(self.begins)),
            finished: Some(minute(self.finished)),
            late: TimeDelta::zero(),
            pauses: self
                .pauses
                .iter()
                .map(|(from, to, cause)| (span(*from, *to), *cause))
                .collect(),
            needs_word: false,
            measured: self.measured(areas),
        }
    }

    fn paused(&self, m: i64) -> bool {
        self.pauses
            .iter()
            .any(|(from, to, _)| (*from..*to).contains(&m))
    }

    /// First and last minute of work, where the track is good enough to rest on.
    fn seen(&self) -> Option<(i64, i64)> {
        let kinds = self.kinds();
        let mut work = kinds.iter().filter(|(_, a)| *a == Activity::Work);
        let first = work.next()?.0;
        let last = work.next_back().map_or(first, |w| w.0) + 1;
        let gaps = i64::from(self.missing_s) * 10_000 <= (last - first) * 60 * 500;
        (self.has_track && self.good_bps >= 8_000 && gaps).then_some((first, last))
    }

    /// Where the booked time is used up: its minutes run while the clock does.
    fn overtime_from(&self) -> i64 {
        let seen = self.arrived.filter(|_| self.has_track);
        let mut left = self.length + seen.map_or(0, |at| (at - self.start).max(0));
        let mut m = self.start;
        while left > 0 {
            left -= i64::from(!self.paused(m));
            m += 1;
        }
        m
    }

    /// Minutes that count, by the track or by the taps.
    fn worked(&self) -> Vec<i64> {
        let Some((first, last)) = self.seen() else {
            return (self.begins..self.finished)
                .filter(|m| !self.paused(*m))
                .collect();
        };
        let kinds = self.kinds();
        let short = |at: usize| {
            let same = |k: &&(i64, Activity)| k.1 == Activity::Idle;
            let after = kinds[at..].iter().take_while(same).count();
            let before = kinds[..at].iter().rev().take_while(same).count();
            after + before <= 10
        };
        let counts = |(at, (m, activity)): (usize, &(i64, Activity))| {
            let done = match activity {
                Activity::Work | Activity::Turn => true,
                Activity::Idle => short(at),
                Activity::Transit => false,
            };
            (done && *m >= first && *m < last && !self.paused(*m)).then_some(*m)
        };
        kinds.iter().enumerate().filter_map(counts).collect()
    }

    fn overrun(&self) -> i64 {
        // Even a poor track may show the last step.
        let kinds = self.kinds();
        let last_work = kinds.iter().rev().find(|(_, a)| *a == Activity::Work);
        let last = last_work
            .filter(|_| self.has_track)
            .map_or(self.finished, |(m, _)| m + 1);
        let over = self.overtime_from()..last;
        i64::try_from(over.filter(|m| !self.paused(*m)).count()).unwrap()
    }
}

fn lives() -> impl Strategy<Value = Life> {
    let activity = prop::sample::select(vec![
        Activity::Work,
        Activity::Work,
        Activity::Turn,
        Activity::Idle,
        Activity::Transit,
    ]);
    let stretches = prop::collection::vec((activity, 1..40_i64), 1..10);
    let causes = prop::sample::select(vec![
        PauseCause::Rain,
        PauseCause::Breakdown,
        PauseCause::Night,
        PauseCause::Other,
    ]);
    // Gaps before and lengths, so that pauses never overlap.
    let pauses = prop::collection::vec((1..90_i64, 1..60_i64, causes), 0..4);
    let times = (
        300..1_500_i64,
        1..10_i64,
        -60..60_i64,
        -30..60_i64,
        0..90_i64,
    );
    let quality = (any::<bool>(), 7_900..8_200_u32, 0..400_u32, any::<bool>());
    (times, stretches, pauses, quality).prop_map(|(times, stretches, pauses, quality)| {
        let (start, halves, early, late, more) = times;
        let (has_track, good_bps, missing_s, knows_arrival) = quality;
        let begins = start + early;
        let done: i64 = stretches.iter().map(|(_, length)| length).sum();
        let mut at = begins;
        let pauses = pauses
            .into_iter()
            .map(|(gap, length, cause)| {
                let from = at + gap;
                at = from + length;
                (from, at, cause)
            })
            .collect();
        Life {
            start,
            length: halves * 30,
            begins,
            stretches,
            pauses,
            arrived: knows_arrival.then_some(start + late),
            has_track,
            good_bps,
            missing_s,
            finished: begins + done + more,
        }
    })
}

fn nothing() -> Bill {
    Bill {
        lines: vec![],
        total_fen: Fen::ZERO,
        commission_base_fen: Fen::ZERO,
        commission_fen: Fen::ZERO,
    }
}

fn other(amount: i64) -> Other {
    Other {
        label: format!("of {amount}"),
        amount_fen: Fen(amount),
        evidence: vec![],
    }
}

type ByDate = Vec<(chrono::NaiveDate, u64)>;

/// How much, and when, by the walk.
fn quantity(
    unit: Unit,
    life: &Life,
    claim: Option<Claim>,
    areas: &[u64],
    booked: u64,
) -> (Quantity, ByDate) {
    let on = |m: i64| day(u32::try_from(m.div_euclid(1_440)).unwrap() + 1);
    let each = |minutes: Vec<i64>| minutes.into_iter().map(|m| (on(m), 1)).collect();
    let claim = claim.map(|c| match c {
        Claim::CentiMu(n) | Claim::Minutes(n) => n,
    });
    if unit == Unit::Hour {
        let begin = life.overtime_from();
        let base: Vec<i64> = life.worked().into_iter().filter(|m| *m < begin).collect();
        let count = u64::try_from(base.len()).unwrap();
        let other = claim.filter(|claim| claim.div_ceil(30) != count.div_ceil(30));
        return (Quantity::Minutes(other.unwrap_or(count)), each(base));
    }
    if life.seen().is_none() {
        let told = (life.begins..life.finished).filter(|m| !life.paused(*m));
        return (
            Quantity::CentiMu(claim.unwrap_or(booked)),
            each(told.collect()),
        );
    }
    let seen: u64 = areas.iter().sum();
    let far = claim.filter(|claim| {
        // In thirds of 1/10,000 m²: 1 centi-mu is 200,000 of them.
        let off = (i128::from(*claim) * 200_000 - i128::from(seen) * 3).abs();
        off * 100 > i128::from(seen) * 9 && off > 10_000_000
    });
    let weights = (1..).map(day).zip(areas.iter().copied()).collect();
    (
        far.map_or(Quantity::AreaE4M2(seen), Quantity::CentiMu),
        weights,
    )
}

/// What the engine is asked by the walk.
fn walked(snapshot: &Snapshot, life: &Life, items: &Items, areas: &[u64], booked: u64) -> Usage {
    let unit = snapshot.rule.unit;
    let (quantity, by_date) = quantity(unit, life, items.claim, areas, booked);
    let booked = Usage::booked(snapshot, &span(life.start, life.end()), booked);
    let idle = by_date.iter().all(|(_, weight)| *weight == 0);
    let kinds = life.kinds();
    let work = kinds.iter().rev().find(|k| k.1 == Activity::Work);
    let end = work
        .filter(|_| life.has_track)
        .map_or(life.finished, |k| k.0 + 1);
    let last = life.pauses.last();
    let rained = last.is_some_and(|(_, to, cause)| *cause == PauseCause::Rain && end <= *to);
    let extra = |o: &Other| Extra {
        label: o.label.clone(),
        amount_fen: o.amount_fen,
        commissionable: o.amount_fen.0 < 0,
    };
    Usage {
        quantity,
        by_date: if idle {
            booked.by_date
        } else {
            merged(by_date)
        },
        overrun_min: u32::try_from(life.overrun()).unwrap(),
        minimum_waived: rained && life.worked().len() < 60,
        extras: items.others.iter().map(extra).collect(),
    }
}

fn merged(by_date: ByDate) -> ByDate {
    let mut all = std::collections::BTreeMap::new();
    for (date, weight) in by_date {
        *all.entry(date).or_insert(0) += weight;
    }
    all.into_iter().collect()
}

fn check(snapshot: &Snapshot, life: &Life, items: &Items, areas: &[u64], booked: u64) -> Draft {
    let record = life.record(booked, areas);
    let found = draft(snapshot, &nothing(), &record, items).unwrap();
    let usage = walked(snapshot, life, items, areas, booked);
    let (total, commission) = oracle(snapshot, &usage);
    assert_eq!(i128::from(found.total_fen.0), total, "{usage:?}");
    assert_eq!(i128::from(found.commission_fen.0), commission, "{usage:?}");
    found
}

/// What holds for every bill.
fn lawful(snapshot: &Snapshot, found: &Draft) {
    let sum = Fen::sum(found.lines.iter().map(|l| l.line.amount_fen)).unwrap();
    assert_eq!(found.total_fen, sum);
    assert!(found.total_fen >= Fen::ZERO && found.commission_fen <= found.total_fen);
    let most = snapshot
        .commission_bps
        .of_rounded_down(found.commission_base_fen);
    assert_eq!(Ok(found.commission_fen), most);
    for line in &found.lines {
        assert!(line.line.factor_bps <= snapshot.max_factor_bps.max(Bps::WHOLE));
    }
    let differences = found.differences.iter();
    let apart: i64 = differences
        .map(|d| d.billed_fen.0 - d.estimated_fen.0)
        .sum();
    assert_eq!(apart, found.total_fen.0, "from an estimate of nothing");
    // What needs a word says so in a line, where there is one.
    assert!(found.needs_consent() || found.consent_lines().is_empty());
    if let Some(silent) = &found.unanswered {
        let own = silent.lines.iter().filter(|l| l.kind == LineKind::Extra);
        assert_eq!(own.count(), 0, "silence agrees to no extra");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100_000))]

    #[test]
    fn a_bill_is_what_a_walk_through_its_minutes_comes_to(
        rule in rules(),
        life in lives(),
        by_hours in any::<bool>(),
        claim in prop::option::of(0..20_000_u64),
        near in prop::option::of(-400..400_i64),
        others in prop::collection::vec(prop_oneof![-900_000..-1_i64, 1..90_000_i64], 0..3),
        areas in prop::collection::vec(0..3_000_000_000_u64, 1..3),
        numbers in (0..=2_000_u32, 5_000..30_000_u32, 0..200_u32, 0..20_000_u64),
    ) {
        let (commission, most, km, booked) = numbers;
        let unit = if by_hours { Unit::Hour } else { Unit::Mu };
        let snapshot = Snapshot {
            commission_bps: Bps(commission),
            max_factor_bps: Bps(most),
            travel_km: km,
            ..frozen(furrow_domain::rent::Rule { unit, ..rule })
        };
        let seen = i64::try_from(areas.iter().sum::<u64>() * 3 / 200_000).unwrap();
        let close = near.map(|off| u64::try_from((seen + off).max(0)).unwrap());
        let claim = match unit {
            Unit::Hour => claim.map(|n| Claim::Minutes(n % 600)),
            _ => close.or(claim).map(Claim::CentiMu),
        };
        let items = Items {
            claim,
            others: others.into_iter().map(other).collect(),
            damage: vec![],
        };
        lawful(&snapshot, &check(&snapshot, &life, &items, &areas, booked));
    }
}

#[test]
fn an_estimate_and_a_bill_differ_by_what_their_differences_say() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let cases = (rules(), lives(), 0..20_000_u64, 1..3_000_000_000_u64);
    runner
        .run(&cases, |(rule, life, booked, area)| {
            let snapshot = frozen(rule);
            let period = span(life.start, life.end());
            let estimate = price(&snapshot, &Usage::booked(&snapshot, &period, booked)).unwrap();
            let record = life.record(booked, &[area]);
            let bill = draft(&snapshot, &estimate, &record, &Items::default()).unwrap();
            let differences = bill.differences.iter();
            let apart: i64 = differences
                .map(|d| d.billed_fen.0 - d.estimated_fen.0)
                .sum();
            prop_assert_eq!(apart, bill.total_fen.0 - estimate.total_fen.0);
            for difference in &bill.differences {
                prop_assert!(!difference.text_zh.is_empty() && !difference.text_en.is_empty());
            }
            Ok(())
        })
        .unwrap();
}
