//! How a line was calculated, in words of both languages. Never calculates.

use super::{difference::DifferenceReason, rule::Unit};
use crate::money::{Bps, Fen};

/// A quantity in the price's unit: `123.46`, `4.5`, `3`.
fn quantity(quantity: u64, unit: Unit) -> String {
    match unit {
        Unit::Mu => format!("{}.{:02}", quantity / 100, quantity % 100),
        // Minutes come in half hours.
        Unit::Hour if quantity.is_multiple_of(60) => format!("{}", quantity / 60),
        Unit::Hour => format!("{}.{}", quantity / 60, quantity % 60 * 10 / 60),
        Unit::Day | Unit::HalfDay | Unit::Season => quantity.to_string(),
    }
}

const fn names(unit: Unit) -> (&'static str, &'static str) {
    match unit {
        Unit::Mu => ("亩", "mu"),
        Unit::Hour => ("小时", "h"),
        Unit::Day => ("天", "days"),
        Unit::HalfDay => ("个半天", "half-days"),
        Unit::Season => ("季", "season"),
    }
}

fn factor(factor: Bps) -> String {
    if factor == Bps::WHOLE {
        return String::new();
    }
    let text = format!("{}.{:04}", factor.0 / 10_000, factor.0 % 10_000);
    format!(" × {}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// `123.46 亩 × 65.00 元 = 8024.90 元`, and the same in English.
pub(super) fn product(
    amount: Fen,
    (count, unit): (u64, Unit),
    price: Fen,
    by: Bps,
) -> (String, String) {
    let (zh, en) = names(unit);
    let (count, by) = (quantity(count, unit), factor(by));
    (
        format!(
            "{count} {zh} × {} 元{by} = {} 元",
            price.yuan(),
            amount.yuan()
        ),
        format!("{count} {en} × ¥{}{by} = ¥{}", price.yuan(), amount.yuan()),
    )
}

/// `最低消费 500.00 元`, and the same in English.
pub(super) fn topup(minimum: Fen, reached: Fen) -> (String, String) {
    (
        format!("最低收费 {} 元 − {} 元", minimum.yuan(), reached.yuan()),
        format!("minimum charge ¥{} − ¥{}", minimum.yuan(), reached.yuan()),
    )
}

/// Overtime in minutes at a price for `per` minutes.
pub(super) fn overtime(minutes: u64, price: Fen, per: u32, capped: bool) -> (String, String) {
    let (zh_cap, en_cap) = if capped {
        ("（已封顶）", " (capped)")
    } else {
        ("", "")
    };
    (
        format!(
            "超时 {minutes} 分钟 × {} 元/{per} 分钟{zh_cap}",
            price.yuan()
        ),
        format!(
            "{minutes} min overtime × ¥{} per {per} min{en_cap}",
            price.yuan()
        ),
    )
}

/// So many km at a price.
pub(super) fn travel(km: u32, price: Fen) -> (String, String) {
    (
        format!("{km} 公里 × {} 元", price.yuan()),
        format!("{km} km × ¥{}", price.yuan()),
    )
}

/// A share of an amount.
pub(super) fn share(bps: Bps, of: Fen) -> (String, String) {
    let percent = format!("{}.{:02}", bps.0 / 100, bps.0 % 100);
    let percent = percent
        .trim_end_matches('0')
        .trim_end_matches('.')
        .to_owned();
    (
        format!("{percent}% × {} 元", of.yuan()),
        format!("{percent}% of ¥{}", of.yuan()),
    )
}

/// Why a bill is not what was estimated: `实际 41.30 亩，预估 50.00 亩`, and the same in English.
pub(super) fn difference(reason: &DifferenceReason) -> (String, String) {
    match reason {
        DifferenceReason::Quantity {
            unit,
            estimated,
            billed,
        } => {
            let (zh, en) = names(*unit);
            let (before, after) = (quantity(*estimated, *unit), quantity(*billed, *unit));
            (
                format!("实际 {after} {zh}，预估 {before} {zh}"),
                format!("{after} {en} done, {before} {en} estimated"),
            )
        }
        DifferenceReason::Dates => (
            "作业日期的季节系数与预估不同".into(),
            "done on dates of another seasonal factor".into(),
        ),
        DifferenceReason::Minimum { rent_fen } => (
            format!("按租金 {} 元补足最低收费", rent_fen.yuan()),
            format!("minimum charge above a rent of ¥{}", rent_fen.yuan()),
        ),
        DifferenceReason::MinimumWaived => (
            "因雨停工不足一小时，不收最低收费".into(),
            "stopped by rain within the hour: no minimum charge".into(),
        ),
        DifferenceReason::Overrun { minutes } => (
            format!("超出预定结束时间，计 {minutes} 分钟"),
            format!("beyond the booked end: {minutes} min counted"),
        ),
        DifferenceReason::Share { rent_fen } => (
            format!("折扣按租金 {} 元计算", rent_fen.yuan()),
            format!("discount on a rent of ¥{}", rent_fen.yuan()),
        ),
        DifferenceReason::Agreed { label } => {
            (format!("新增项目：{label}"), format!("added: {label}"))
        }
        DifferenceReason::Amount => ("金额不同".into(), "the amount differs".into()),
    }
}
