//! When a journal had come how far, as each engine keeps it: points of a file, generations of a cluster.
//!
//! **Invariant**: nothing is said to be older than it is.

use std::ops::Range;
use std::time::Duration;

use base::clock::{Lived, Unix};
use base::order::Seq;

/// The least time of a generation, and the most of them that a log becomes: what is old goes a generation at a time.
const GENERATION: Duration = Duration::from_hours(6);
const GENERATIONS_MAX: u32 = 8;
/// Points of a file are so far apart at least.
const POINTS_EVERY: Duration = Duration::from_secs(30);
/// Ranges of numbers that nobody has, at most: with more, neighbors are taken together.
const GAPS_MAX: usize = 4_096;

/// Where a journal stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// The highest number that it gave, or skipped.
    pub(crate) last: Seq,
    /// The time lived.
    pub(crate) lived: Lived,
    /// How much had been lived when the wall clock was last trusted, and what it said.
    pub(crate) trusted: Option<(Lived, Unix)>,
    /// Where a generation begins, and when it did. Both rise.
    pub(crate) spans: Vec<(Seq, Lived)>,
    /// The oldest request of which there is a payload.
    pub(crate) oldest: Option<Seq>,
}

/// Generations of a log with these points, which rise, up to the time lived.
pub(crate) fn spans(points: &[(Lived, Seq)], lived: Lived) -> Vec<(Seq, Lived)> {
    let oldest = points.first().map_or(lived, |(at, _)| *at);
    let step = GENERATION.max((lived - oldest) / GENERATIONS_MAX);
    let mut spans = vec![(Seq::MIN, oldest)];
    let mut due = oldest + step;
    for (at, seq) in points {
        // What is at or below the number is at least as old as the point.
        let first = *seq + 1;
        if *at >= due && spans.last().is_some_and(|(before, _)| *before < first) {
            spans.push((first, *at));
            due = *at + step;
        }
    }
    spans
}

/// Points of a file that are collected in any order.
#[derive(Debug, Default)]
pub(crate) struct Points(Vec<(Seq, Lived)>);

impl Points {
    /// The request of this number had arrived by then. They come in the order of their numbers.
    pub(crate) fn arrived(&mut self, seq: Seq, at: Lived) {
        let newest = self.0.last().map_or(Lived::MIN, |(_, newest)| *newest);
        if at >= newest + POINTS_EVERY {
            self.0.push((seq, at));
        }
    }

    /// The numbers up to this one had been given by then.
    pub(crate) fn given(&mut self, through: Seq, at: Lived) {
        self.0.push((through, at));
    }

    /// Points that rise in both numbers.
    pub(crate) fn rising(mut self) -> Vec<(Lived, Seq)> {
        self.0.sort_unstable();
        let mut rising: Vec<(Lived, Seq)> = Vec::new();
        for (seq, at) in self.0 {
            match rising.last_mut() {
                // The nodes of a cluster do not have the same time to the moment.
                Some((newest, through)) if at <= *newest => *through = seq,
                _ => rising.push((at, seq)),
            }
        }
        rising
    }
}

/// Numbers that no request has, between those that have one.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    last: Option<Seq>,
    ranges: Vec<Range<Seq>>,
}

impl Gaps {
    /// The next request has this number.
    pub(crate) fn request(&mut self, seq: Seq) {
        if let Some(last) = self.last
            && seq - last > 1
        {
            self.ranges.push(last..seq - 1);
            if self.ranges.len() >= GAPS_MAX {
                self.halve();
            }
        }
        self.last = Some(seq);
    }

    /// Takes each two of them together: the numbers are as many, and all of them come first.
    fn halve(&mut self) {
        let pairs = self.ranges.chunks(2);
        let joined = pairs.map(|pair| {
            let start = pair[0].start;
            let numbers: u64 = pair.iter().map(|range| range.end - range.start).sum();
            start..start + numbers
        });
        self.ranges = joined.collect();
    }

    /// After the start of each, up to and including its end.
    pub(crate) fn ranges(self) -> Vec<Range<Seq>> {
        self.ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);
    const BEGAN: Lived = Lived::from_ms(1 << 40);

    #[test]
    fn a_log_becomes_few_generations_that_rise() {
        for (hours, most) in [(0_u32, 1), (5, 1), (6, 2), (13, 3), (24 * 30, 9)] {
            let points: Vec<(Lived, Seq)> = (0..=hours)
                .map(|hour| (BEGAN + HOUR * hour, Seq::new(u64::from(hour) * 10)))
                .collect();
            let lived = points.last().expect("a point").0;
            let spans = spans(&points, lived);
            assert!(spans.len() <= most, "{hours}: {spans:?}");
            assert_eq!(spans[0], (Seq::MIN, BEGAN));
            assert!(spans.is_sorted_by(|a, b| a.0 < b.0 && a.1 + 6 * HOUR <= b.1));
            for (first, at) in &spans[1..] {
                assert!(points.contains(&(*at, *first - 1)));
            }
        }
        // Nobody sent anything for a month.
        let idle = [
            (BEGAN, Seq::new(7)),
            (BEGAN + 700 * HOUR, Seq::new(7)),
            (BEGAN + 701 * HOUR, Seq::new(8)),
        ];
        assert_eq!(spans(&idle, BEGAN + 701 * HOUR).len(), 2);
        assert_eq!(spans(&[], BEGAN), [(Seq::MIN, BEGAN)]);
    }

    #[test]
    fn points_rise_and_make_nothing_older() {
        let mut points = Points::default();
        let at = |seconds| BEGAN + Duration::from_secs(seconds);
        let arrived = [(10, 0), (11, 1), (12, 40), (13, 35), (14, 90)];
        for (seq, seconds) in arrived {
            points.arrived(Seq::new(seq), at(seconds));
        }
        points.given(Seq::new(20), at(95));
        points.given(Seq::new(11), at(20));
        points.given(Seq::new(30), at(95));
        let rising = points.rising();
        assert!(
            rising.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1),
            "{rising:?}"
        );
        for (seq, seconds) in arrived {
            let reached = rising.iter().find(|(_, through)| *through >= Seq::new(seq));
            assert!(
                reached.is_some_and(|(lived, _)| *lived >= at(seconds)),
                "{seq}"
            );
        }
        assert_eq!(rising.last(), Some(&(at(95), Seq::new(30))));
    }

    #[test]
    fn numbers_that_nobody_has_are_as_many_however_they_are_taken_together() {
        let mut gaps = Gaps::default();
        let requests = 3 * GAPS_MAX as u64;
        for number in 0..requests {
            gaps.request(Seq::new(1 + number * 4_096));
            gaps.request(Seq::new(2 + number * 4_096));
        }
        let ranges = gaps.ranges();
        assert!(ranges.len() < GAPS_MAX);
        assert!(ranges.is_sorted_by(|a, b| a.end <= b.start));
        let numbers: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        assert_eq!(numbers, (requests - 1) * 4_094);
        let mut few = Gaps::default();
        for number in [3, 4, 10] {
            few.request(Seq::new(number));
        }
        assert_eq!(few.ranges(), [Seq::new(4)..Seq::new(9)]);
    }
}
