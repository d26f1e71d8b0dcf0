//! Prices the long way round, from the rules in words and in exact fractions. Shares no code with the engine.

use chrono::NaiveDate;
use furrow_domain::rent::{Extra, Minimum, Quantity, Rule, Season, Snapshot, Step, Unit, Usage};

/// An exact fraction, for an oracle that shares no code with the engine.
#[derive(Clone, Copy)]
pub struct Fraction {
    pub over: i128,
    pub under: i128,
}

impl Fraction {
    pub fn half_up(self) -> i128 {
        let doubled = self.over * 2 + self.under;
        doubled.div_euclid(self.under * 2)
    }
}

/// The quantity of each date: the largest remainder first, the earliest of equals.
fn oracle_parts(usage: &Usage) -> (i128, Vec<(NaiveDate, i128)>) {
    let quantity: i128 = match usage.quantity {
        Quantity::AreaE4M2(area) => Fraction {
            over: i128::from(area) * 3,
            under: 200_000,
        }
        .half_up(),
        Quantity::CentiMu(n) | Quantity::Units(n) => i128::from(n),
        Quantity::Minutes(n) => i128::from(n.div_ceil(30)) * 30,
    };
    let weight: i128 = usage.by_date.iter().map(|(_, w)| i128::from(*w)).sum();
    let mut parts: Vec<(NaiveDate, i128, i128)> = usage
        .by_date
        .iter()
        .map(|(d, w)| {
            (
                *d,
                quantity * i128::from(*w) / weight,
                quantity * i128::from(*w) % weight,
            )
        })
        .collect();
    let mut left = quantity - parts.iter().map(|p| p.1).sum::<i128>();
    while left > 0 {
        // The largest remainder that is not used yet; the earliest of equals.
        let best = parts.iter().map(|p| p.2).max().unwrap();
        let part = parts.iter_mut().find(|p| p.2 == best).unwrap();
        part.1 += 1;
        part.2 = -1;
        left -= 1;
    }
    let counts = parts.into_iter().map(|p| (p.0, p.1)).collect();
    (quantity, counts)
}

/// One line of rent.
fn oracle_line(rule: &Rule, count: i128, factor: u32) -> i128 {
    let scale: i128 = match rule.unit {
        Unit::Mu => 100,
        Unit::Hour => 60,
        _ => 1,
    };
    Fraction {
        over: count * i128::from(rule.unit_price_fen.0) * i128::from(factor),
        under: scale * 10_000,
    }
    .half_up()
}

/// Runs of dates with one factor are one line.
fn oracle_rent(snapshot: &Snapshot, parts: &[(NaiveDate, i128)]) -> i128 {
    let rule = &snapshot.rule;
    let factor = |d: NaiveDate| {
        let mut best: Option<&Season> = None;
        for season in rule.seasons.iter().filter(|s| s.from <= d && d < s.to) {
            if best.is_none_or(|b| b.priority < season.priority) {
                best = Some(season);
            }
        }
        best.map_or(10_000, |s| s.factor_bps.0)
            .min(snapshot.max_factor_bps.0)
    };
    let (mut rent, mut run) = (0, None::<(i128, u32)>);
    for (d, count) in parts.iter().filter(|p| p.1 > 0) {
        run = match run {
            Some((sum, f)) if f == factor(*d) => Some((sum + count, f)),
            other => {
                rent += other.map_or(0, |(sum, f)| oracle_line(rule, sum, f));
                Some((*count, factor(*d)))
            }
        };
    }
    rent + run.map_or(0, |(sum, f)| oracle_line(rule, sum, f))
}

/// Total and commission.
pub fn oracle(snapshot: &Snapshot, usage: &Usage) -> (i128, i128) {
    let rule = &snapshot.rule;
    let (quantity, parts) = oracle_parts(usage);
    let rent = oracle_rent(snapshot, &parts);
    let minimum = match rule.minimum {
        None => 0,
        Some(Minimum::AmountFen(fen)) => i128::from(fen.0),
        Some(Minimum::Quantity(q)) => oracle_line(rule, i128::from(q), 10_000),
    };
    let topup = if usage.minimum_waived {
        0
    } else {
        (minimum - rent).max(0)
    };
    let over = rule.overtime.map_or(0, |o| {
        if usage.overrun_min <= u32::from(rule.grace_min) {
            return 0;
        }
        let (step, per) = if o.step == Step::HalfHour {
            (30, 60)
        } else {
            (360, 360)
        };
        let whole = Fraction {
            over: i128::from(usage.overrun_min.div_ceil(step) * step) * i128::from(o.price_fen.0),
            under: per,
        };
        let cap = Fraction {
            over: rent * i128::from(o.cap_bps.0),
            under: 10_000,
        };
        whole.half_up().min(cap.half_up())
    });
    let way = i128::from(rule.travel_fen_per_km.0) * i128::from(snapshot.travel_km);
    let mut reached = rule.discounts.clone();
    reached.retain(|d| i128::from(d.from_quantity) <= quantity);
    reached.sort_by_key(|d| d.from_quantity);
    let off = reached.last().map_or(0, |d| {
        Fraction {
            over: rent * i128::from(d.bps.0),
            under: 10_000,
        }
        .half_up()
    });
    let beside = |of: fn(&Extra) -> bool| -> i128 {
        let extras = usage.extras.iter().filter(|e| of(e));
        extras.map(|e| i128::from(e.amount_fen.0)).sum()
    };
    let total = (rent + topup + over + way - off + beside(|_| true)).max(0);
    let base = (rent + topup + over - off + beside(|e| e.commissionable)).clamp(0, total);
    (total, base * i128::from(snapshot.commission_bps.0) / 10_000)
}
