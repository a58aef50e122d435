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
/// Ranges of numbers that nobody has, at most: with more, neighbors are taken together. Each transaction of a cluster
/// leaves one, and lag is counted with all of them.
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

    /// Points that rise in both numbers. Times of nodes differ a little, so an earlier one joins the point before it.
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

    /// Takes each two of them together: the numbers are as many, and all of them come first. Their sum stays, because
    /// lag is counted by it.
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
mod tests;
