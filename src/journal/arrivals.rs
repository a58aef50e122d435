//! When the entries that lanes have not taken arrived, in time lived.
//!
//! The file says the time of day only, by which nothing can be measured; of what an earlier process accepted the timeline
//! says the rest.
//!
//! **Invariant**: no moment is more than [`GRAIN`] before the arrival of the entry that it is given for, and the memory
//! that this takes is bounded.

use std::collections::VecDeque;
use std::time::Duration;

use base::clock::Lived;
use base::order::Seq;

/// Entries that arrive within this time after one share its moment. A moment for each entry would take as much memory
/// as entries come.
const GRAIN: Duration = Duration::from_millis(100);
/// Moments that are remembered: under load those of the last seven minutes. A lane that lags longer needs none that
/// exact, because the file has points in time.
const MOMENTS_MAX: usize = 4_096;

/// Numbers of entries, each with the moment at which it arrived; both rise.
#[derive(Debug, Default)]
pub(super) struct Arrivals(VecDeque<(Seq, Lived)>);

impl Arrivals {
    /// The entry of this number, higher than all before, arrived then.
    pub(super) fn note(&mut self, seq: Seq, arrived: Lived) {
        if (self.0.back()).is_some_and(|(_, newest)| arrived < *newest + GRAIN) {
            return;
        }
        if self.0.len() == MOMENTS_MAX {
            self.0.pop_front();
        }
        self.0.push_back((seq, arrived));
    }

    /// When the entry arrived; `None`: before what is remembered.
    pub(super) fn of(&self, seq: Seq) -> Option<Lived> {
        let behind = self.0.partition_point(|(first, _)| *first <= seq);
        let (_, arrived) = self.0.get(behind.checked_sub(1)?)?;
        Some(*arrived)
    }

    /// Nobody asks for entries up to this one any more.
    pub(super) fn forget_through(&mut self, seq: Seq) {
        while let Some((next, _)) = self.0.get(1)
            && *next <= seq
        {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_share_the_moment_of_one_that_came_shortly_before() {
        let at = |tenths: u64| Lived::from_ms(1_000 + tenths * 100);
        let mut arrivals = Arrivals::default();
        assert_eq!(arrivals.of(Seq::new(7)), None);
        let soon = Duration::from_millis(99);
        for (seq, arrived) in [(7, at(0)), (8, at(0) + soon), (12, at(1)), (20, at(50))] {
            arrivals.note(Seq::new(seq), arrived);
        }
        let found = [6, 7, 8, 12, 19, 20, 900].map(|seq| arrivals.of(Seq::new(seq)));
        let some = [0, 0, 1, 1, 50, 50].map(|tenths| Some(at(tenths)));
        assert_eq!((found[0], &found[1..]), (None, &some[..]));
        arrivals.forget_through(Seq::new(15));
        assert_eq!(
            (arrivals.of(Seq::new(11)), arrivals.of(Seq::new(15))),
            (None, Some(at(1)))
        );
        arrivals.forget_through(Seq::new(900));
        assert_eq!(arrivals.of(Seq::new(900)), Some(at(50)));
    }

    #[test]
    fn no_more_is_remembered_than_there_is_room_for() {
        let mut arrivals = Arrivals::default();
        let seconds = |seq: u64| Lived::from_ms(seq * 1_000);
        for seq in 0..10_000 {
            arrivals.note(Seq::new(seq), seconds(seq));
        }
        assert_eq!(arrivals.0.len(), MOMENTS_MAX);
        assert_eq!(arrivals.of(Seq::new(9_999)), Some(seconds(9_999)));
        assert_eq!(arrivals.of(Seq::new(5_000)), None);
    }
}
