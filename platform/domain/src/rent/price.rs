//! The engine: a snapshot and a usage in, lines out. Pure, integers only, one rounding a line; estimate and bill come from here alike.

use thiserror::Error;

use super::{
    centi_mu_rounded_half_up,
    line::{Bill, Line, LineKind},
    rule::{Minimum, Snapshot, Unit},
    slices::split,
    text,
    usage::{Quantity, Usage},
};
use crate::money::{Bps, Fen, Overflow, divided_half_up};

/// This engine's version; an order keeps the one that it was quoted by.
pub const ENGINE_VERSION: u16 = 1;
/// Hours count in steps of so many minutes.
const HOUR_STEP_MIN: u64 = 30;

/// Why there is no price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PriceError {
    /// It grows beyond all bounds.
    #[error(transparent)]
    Overflow(#[from] Overflow),
    /// Area for a rule of hours, or the like.
    #[error("the quantity is not of the rule's unit")]
    WrongQuantity,
    /// The snapshot is of an engine that this build does not have.
    #[error("engine {0} is not known")]
    UnknownEngine(u16),
}

/// Prices a usage.
///
/// # Errors
///
/// [`PriceError`].
pub fn price(snapshot: &Snapshot, usage: &Usage) -> Result<Bill, PriceError> {
    if snapshot.engine != ENGINE_VERSION {
        return Err(PriceError::UnknownEngine(snapshot.engine));
    }
    let quantity = rounded(snapshot.rule.unit, usage.quantity)?;
    let mut lines = rent(snapshot, usage, quantity)?;
    let rent_fen = sum(&lines)?;
    lines.extend(topup(snapshot, usage, rent_fen)?);
    lines.extend(overtime(snapshot, usage, rent_fen)?);
    lines.extend(travel(snapshot)?);
    for extra in &usage.extras {
        let kind = if extra.amount_fen < Fen::ZERO {
            LineKind::Discount
        } else {
            LineKind::Extra
        };
        lines.push(plain(
            kind,
            extra.amount_fen,
            extra.commissionable,
            extra.label.clone(),
        ));
    }
    lines.extend(discount(snapshot, quantity, rent_fen)?);
    close(snapshot, lines)
}

/// The quantity in the engine's unit, rounded once: area half up, hours up to the half hour.
fn rounded(unit: Unit, quantity: Quantity) -> Result<u64, PriceError> {
    match (unit, quantity) {
        (Unit::Mu, Quantity::AreaE4M2(area)) => Ok(centi_mu_rounded_half_up(area)),
        (Unit::Mu, Quantity::CentiMu(area)) => Ok(area),
        (Unit::Hour, Quantity::Minutes(minutes)) => minutes
            .checked_next_multiple_of(HOUR_STEP_MIN)
            .ok_or(Overflow.into()),
        (Unit::Day | Unit::HalfDay | Unit::Season, Quantity::Units(units)) => Ok(units),
        _ => Err(PriceError::WrongQuantity),
    }
}

/// Dates in a row with the same factor are one line.
fn rent(snapshot: &Snapshot, usage: &Usage, quantity: u64) -> Result<Vec<Line>, PriceError> {
    let rule = &snapshot.rule;
    let mut runs: Vec<(chrono::NaiveDate, u64, Bps)> = Vec::new();
    for (day, part) in split(quantity, &usage.by_date) {
        let factor = snapshot.factor(day);
        match runs.last_mut() {
            Some((_, count, last)) if *last == factor => *count += part,
            _ => runs.push((day, part, factor)),
        }
    }
    runs.into_iter()
        .map(|(day, count, factor)| {
            let amount = amount(count, rule.unit_price_fen, factor, rule.unit)?;
            let (text_zh, text_en) =
                text::product(amount, (count, rule.unit), rule.unit_price_fen, factor);
            Ok(Line {
                kind: LineKind::Rent,
                label: String::new(),
                quantity: count,
                unit: Some(rule.unit),
                unit_price_fen: rule.unit_price_fen,
                factor_bps: factor,
                local_date: Some(day),
                amount_fen: amount,
                commissionable: true,
                text_zh,
                text_en,
            })
        })
        .collect()
}

/// quantity x price x factor, rounded half up once.
fn amount(quantity: u64, price: Fen, factor: Bps, unit: Unit) -> Result<Fen, Overflow> {
    let product = i128::from(quantity)
        .checked_mul(i128::from(price.0))
        .and_then(|p| p.checked_mul(i128::from(factor.0)))
        .ok_or(Overflow)?;
    divided_half_up(product, i128::from(unit.scale()) * 10_000)
}

/// The least that is charged.
fn minimum(snapshot: &Snapshot) -> Result<Fen, Overflow> {
    let rule = &snapshot.rule;
    match rule.minimum {
        None => Ok(Fen::ZERO),
        Some(Minimum::AmountFen(fen)) => Ok(fen),
        Some(Minimum::Quantity(quantity)) => amount(
            u64::from(quantity),
            rule.unit_price_fen,
            Bps::WHOLE,
            rule.unit,
        ),
    }
}

fn topup(snapshot: &Snapshot, usage: &Usage, rent: Fen) -> Result<Option<Line>, PriceError> {
    let minimum = minimum(snapshot)?;
    if usage.minimum_waived || rent >= minimum {
        return Ok(None);
    }
    let (text_zh, text_en) = text::topup(minimum, rent);
    let mut line = plain(
        LineKind::MinChargeTopup,
        minimum.minus(rent)?,
        true,
        String::new(),
    );
    (line.text_zh, line.text_en) = (text_zh, text_en);
    Ok(Some(line))
}

fn overtime(snapshot: &Snapshot, usage: &Usage, rent: Fen) -> Result<Option<Line>, PriceError> {
    let rule = &snapshot.rule;
    let Some(overtime) = &rule.overtime else {
        return Ok(None);
    };
    if usage.overrun_min <= u32::from(rule.grace_min) {
        return Ok(None);
    }
    let (step, per) = overtime.step.minutes();
    let counted = u64::from(usage.overrun_min).next_multiple_of(u64::from(step));
    let product = i128::from(counted) * i128::from(overtime.price_fen.0);
    let whole = divided_half_up(product, i128::from(per))?;
    let cap = overtime.cap_bps.of_rounded_half_up(rent)?;
    let amount = whole.min(cap);
    if amount.is_zero() {
        return Ok(None);
    }
    let (text_zh, text_en) = text::overtime(counted, overtime.price_fen, per, whole > cap);
    Ok(Some(Line {
        kind: LineKind::Overtime,
        label: String::new(),
        quantity: counted,
        unit: Some(Unit::Hour),
        unit_price_fen: overtime.price_fen,
        factor_bps: Bps::WHOLE,
        local_date: None,
        amount_fen: amount,
        commissionable: true,
        text_zh,
        text_en,
    }))
}

fn travel(snapshot: &Snapshot) -> Result<Option<Line>, PriceError> {
    let price = snapshot.rule.travel_fen_per_km;
    let amount = Fen::new(i128::from(price.0) * i128::from(snapshot.travel_km))?;
    if amount.is_zero() {
        return Ok(None);
    }
    let mut line = plain(LineKind::Travel, amount, false, String::new());
    line.quantity = u64::from(snapshot.travel_km);
    line.unit_price_fen = price;
    (line.text_zh, line.text_en) = text::travel(snapshot.travel_km, price);
    Ok(Some(line))
}

fn discount(snapshot: &Snapshot, quantity: u64, rent: Fen) -> Result<Option<Line>, PriceError> {
    let reached = snapshot
        .rule
        .discounts
        .iter()
        .filter(|d| u64::from(d.from_quantity) <= quantity)
        .max_by_key(|d| d.from_quantity);
    let Some(discount) = reached else {
        return Ok(None);
    };
    let amount = discount.bps.of_rounded_half_up(rent)?;
    if amount.is_zero() {
        return Ok(None);
    }
    let mut line = plain(
        LineKind::Discount,
        Fen::ZERO.minus(amount)?,
        true,
        String::new(),
    );
    (line.text_zh, line.text_en) = text::share(discount.bps, rent);
    Ok(Some(line))
}

fn plain(kind: LineKind, amount: Fen, commissionable: bool, label: String) -> Line {
    Line {
        kind,
        text_zh: label.clone(),
        text_en: label.clone(),
        label,
        quantity: 1,
        unit: None,
        unit_price_fen: amount,
        factor_bps: Bps::WHOLE,
        local_date: None,
        amount_fen: amount,
        commissionable,
    }
}

fn sum(lines: &[Line]) -> Result<Fen, Overflow> {
    Fen::sum(lines.iter().map(|l| l.amount_fen))
}

/// Sums up. What is taken off never goes below nothing: the last line that takes off is cut to it.
fn close(snapshot: &Snapshot, mut lines: Vec<Line>) -> Result<Bill, PriceError> {
    let mut missing = Fen::ZERO.minus(sum(&lines)?)?.or_zero();
    for line in lines.iter_mut().rev().filter(|l| l.amount_fen < Fen::ZERO) {
        let cut = missing.min(Fen::ZERO.minus(line.amount_fen)?);
        line.amount_fen = line.amount_fen.plus(cut)?;
        missing = missing.minus(cut)?;
    }
    lines.retain(|l| !l.amount_fen.is_zero() || l.kind == LineKind::Rent);
    let total = sum(&lines)?;
    let base = Fen::sum(
        lines
            .iter()
            .filter(|l| l.commissionable)
            .map(|l| l.amount_fen),
    )?;
    let base = base.or_zero().min(total);
    Ok(Bill {
        commission_fen: snapshot.commission_bps.of_rounded_down(base)?,
        commission_base_fen: base,
        total_fen: total,
        lines,
    })
}

/// What an order's money rests on, of its estimate: prepaid rent, and half of what a no-show costs.
///
/// The second is the greater of the minimum charge and the first day's price.
///
/// # Errors
///
/// [`Overflow`].
pub fn terms_of(snapshot: &Snapshot, estimate: &Bill) -> Result<(Fen, Fen), Overflow> {
    let prepaid = snapshot
        .rule
        .prepay_bps
        .of_rounded_half_up(estimate.total_fen)?;
    let first_day = estimate.lines.iter().find(|l| l.kind == LineKind::Rent);
    let first_day = first_day.map_or(Fen::ZERO, |line| match (line.unit, line.quantity) {
        (Some(Unit::Day), quantity @ 1..) => {
            divided_half_up(i128::from(line.amount_fen.0), i128::from(quantity))
                .unwrap_or(line.amount_fen)
        }
        _ => line.amount_fen,
    });
    Ok((prepaid, first_day.max(minimum(snapshot)?)))
}
