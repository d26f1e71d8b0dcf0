//! A set of sequences as ascending ranges. Pure; never grows with the number of sequences but with their gaps.

/// Inclusive ranges, ascending, neither touching nor overlapping.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// Adds `first..=last`; a reversed range adds nothing.
    pub fn insert(&mut self, first: u64, last: u64) {
        if first > last {
            return;
        }
        // The common case: acks come nearly in order.
        if let Some((_, end)) = self.0.last_mut()
            && end.checked_add(1) == Some(first)
        {
            *end = last;
            return;
        }
        let touches_before = |range: &(u64, u64)| range.1.saturating_add(1) < first;
        let begin = self.0.partition_point(touches_before);
        let end = self
            .0
            .partition_point(|range| range.0 <= last.saturating_add(1));
        let (mut low, mut high) = (first, last);
        if let Some(overlapped) = self.0.get(begin..end)
            && let (Some(head), Some(tail)) = (overlapped.first(), overlapped.last())
        {
            (low, high) = (low.min(head.0), high.max(tail.1));
        }
        self.0.splice(begin..end.max(begin), [(low, high)]);
    }

    /// Whether `seq` is in the set.
    #[must_use]
    pub fn contains(&self, seq: u64) -> bool {
        self.covers(seq, seq)
    }

    /// Whether all of `first..=last` is in the set.
    #[must_use]
    pub fn covers(&self, first: u64, last: u64) -> bool {
        let at = self.0.partition_point(|range| range.1 < first);
        self.0
            .get(at)
            .is_some_and(|range| range.0 <= first && last <= range.1)
    }

    /// The parts of `first..=last` that are not in the set, ascending.
    #[must_use]
    pub fn missing(&self, first: u64, last: u64) -> Vec<(u64, u64)> {
        let mut parts = Vec::new();
        let mut next = Some(first);
        let from = self.0.partition_point(|range| range.1 < first);
        for range in self.0.get(from..).unwrap_or_default() {
            let Some(start) = next.filter(|start| *start <= last && range.0 <= last) else {
                break;
            };
            if start < range.0 {
                parts.push((start, range.0 - 1));
            }
            next = range.1.checked_add(1);
        }
        if let Some(start) = next.filter(|start| *start <= last) {
            parts.push((start, last));
        }
        parts
    }

    /// How many of `first..=last` are not in the set.
    #[must_use]
    pub fn count_missing(&self, first: u64, last: u64) -> u64 {
        self.missing(first, last).iter().fold(0, |sum, (a, b)| {
            sum.saturating_add((b - a).saturating_add(1))
        })
    }

    /// The ranges.
    #[must_use]
    pub fn as_slice(&self) -> &[(u64, u64)] {
        &self.0
    }
}

impl FromIterator<(u64, u64)> for Ranges {
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(ranges: I) -> Self {
        let mut set = Self::default();
        for (first, last) in ranges {
            set.insert(first, last);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_holds_what_a_plain_set_would_hold(
            inserted in prop::collection::vec((0_u64..60, 0_u64..8), 0..40),
            asked in (0_u64..70, 0_u64..12),
        ) {
            let mut ranges = Ranges::default();
            let mut plain = BTreeSet::new();
            for (first, length) in inserted {
                ranges.insert(first, first + length);
                plain.extend(first..=first + length);
            }
            let inside: BTreeSet<u64> = ranges.as_slice().iter().flat_map(|(a, b)| *a..=*b).collect();
            prop_assert_eq!(&inside, &plain);
            prop_assert!(ranges.as_slice().windows(2).all(|w| w[0].1 + 1 < w[1].0));
            let (first, last) = (asked.0, asked.0 + asked.1);
            let gone: Vec<u64> = ranges.missing(first, last).iter().flat_map(|(a, b)| *a..=*b).collect();
            let expected: Vec<u64> = (first..=last).filter(|s| !plain.contains(s)).collect();
            prop_assert_eq!(ranges.covers(first, last), expected.is_empty());
            prop_assert_eq!(ranges.count_missing(first, last), expected.len() as u64);
            prop_assert_eq!(gone, expected);
        }
    }

    #[test]
    fn the_ends_of_the_number_line_do_no_harm() {
        let mut ranges = Ranges::default();
        ranges.insert(u64::MAX, u64::MAX);
        ranges.insert(0, 0);
        ranges.insert(5, 4);
        assert_eq!(ranges.as_slice(), [(0, 0), (u64::MAX, u64::MAX)]);
        assert_eq!(ranges.missing(0, u64::MAX), [(1, u64::MAX - 1)]);
        ranges.insert(1, u64::MAX - 1);
        assert_eq!(ranges.as_slice(), [(0, u64::MAX)]);
        assert!(ranges.missing(0, u64::MAX).is_empty());
    }
}
