//! A quantity split over local dates so that the parts sum to the whole.

use chrono::NaiveDate;

/// Splits `total` by weights, by the largest remainder; equal remainders go to the earlier date. Dates
/// in order; a date that is given twice is one. With no weight at all the first date has it.
#[must_use]
pub(super) fn split(total: u64, by_date: &[(NaiveDate, u64)]) -> Vec<(NaiveDate, u64)> {
    let mut dates: Vec<(NaiveDate, u128)> = Vec::new();
    let mut sorted: Vec<_> = by_date.to_vec();
    sorted.sort_by_key(|(day, _)| *day);
    for (day, weight) in sorted {
        match dates.last_mut() {
            Some((last, sum)) if *last == day => *sum += u128::from(weight),
            _ => dates.push((day, u128::from(weight))),
        }
    }
    let sum: u128 = dates.iter().map(|(_, weight)| weight).sum();
    if sum == 0 {
        return dates
            .first()
            .map(|(day, _)| (*day, total))
            .into_iter()
            .collect();
    }
    let mut parts: Vec<(NaiveDate, u64, u128)> = dates
        .iter()
        .map(|(day, weight)| {
            let product = u128::from(total) * weight;
            let whole = u64::try_from(product / sum).unwrap_or(u64::MAX);
            (*day, whole, product % sum)
        })
        .collect();
    let given: u64 = parts.iter().map(|(_, whole, _)| whole).sum();
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|i| {
        parts
            .get(*i)
            .map(|(day, _, rest)| (std::cmp::Reverse(*rest), *day))
    });
    for i in order
        .into_iter()
        .take(usize::try_from(total - given).unwrap_or(0))
    {
        if let Some((_, whole, _)) = parts.get_mut(i) {
            *whole += 1;
        }
    }
    parts
        .into_iter()
        .filter(|(_, whole, _)| *whole > 0)
        .map(|(day, whole, _)| (day, whole))
        .collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn the_largest_remainder_takes_what_is_left_and_ties_go_to_the_earlier_date() {
        let day = |d| NaiveDate::from_ymd_opt(2026, 5, d).unwrap();
        assert_eq!(
            split(12_346, &[(day(1), 60_127), (day(2), 63_329)]),
            [(day(1), 6_013), (day(2), 6_333)]
        );
        assert_eq!(
            split(3, &[(day(2), 1), (day(1), 1)]),
            [(day(1), 2), (day(2), 1)]
        );
        assert_eq!(split(7, &[(day(3), 0), (day(4), 0)]), [(day(3), 7)]);
        assert_eq!(split(u64::MAX, &[(day(1), u64::MAX)]), [(day(1), u64::MAX)]);
    }
}
