//! For receivers that take items together or refuse them together for what is in some.
//!
//! ```ignore
//! halves::write(batch.len(), 1_000, |range| {
//!     let answer = send(&batch.select(&range.collect::<Vec<_>>()))?;
//!     Ok(match answer.is_success() {
//!         true => Answer::Taken,
//!         false => Answer::Refused(answer.text()),
//!     })
//! })
//! ```
//!
//! **Invariant**: an item is rejected only after a call with this item alone was refused.

use std::ops::Range;

use crate::{Rejection, WriteError};

/// What the receiver says to some items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It has them.
    Taken,
    /// It will never take them as they are; a reason for operators.
    Refused(String),
}

/// Has `call` write the items `0 .. len`, and while that is refused, their halves, in order, until each refused item is
/// alone. Some items are in several calls, so taking one twice must do no harm.
///
/// # Errors
/// Single items are refused: they are rejected. More than `calls_max` calls would be needed, which speaks against the
/// receiver or the settings rather than against the items: a retry. Or what `call` fails with.
pub fn write(
    len: u32,
    calls_max: usize,
    mut call: impl FnMut(Range<u32>) -> Result<Answer, WriteError>,
) -> Result<(), WriteError> {
    let mut rejected = Vec::new();
    let mut calls = 0;
    let mut ranges: Vec<Range<u32>> = std::iter::once(0..len).collect();
    while let Some(range) = ranges.pop() {
        calls += 1;
        let Answer::Refused(reason) = call(range.clone())? else {
            continue;
        };
        if range.len() < 2 {
            rejected.push(Rejection {
                index: range.start,
                reason,
            });
        } else if calls < calls_max {
            let middle = range.start + (range.end - range.start) / 2;
            ranges.push(middle..range.end);
            ranges.push(range.start..middle);
        } else {
            return Err(WriteError::retry(format!(
                "too many items of one batch are refused, the last ones: {reason}"
            )));
        }
    }
    if rejected.is_empty() {
        Ok(())
    } else {
        Err(WriteError::RejectItems(rejected))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The calls that it takes, and the items that are rejected.
    fn outcome(len: u32, calls_max: usize, bad: &[u32]) -> (Vec<Range<u32>>, Option<Vec<u32>>) {
        let mut calls = Vec::new();
        let result = write(len, calls_max, |range| {
            calls.push(range.clone());
            Ok(match bad.iter().any(|item| range.contains(item)) {
                true => Answer::Refused("bad".to_owned()),
                false => Answer::Taken,
            })
        });
        let rejected = match result {
            Ok(()) => Some(Vec::new()),
            Err(WriteError::RejectItems(items)) => {
                Some(items.iter().map(|one| one.index).collect())
            }
            Err(_) => None,
        };
        (calls, rejected)
    }

    #[test]
    fn refused_items_are_found_and_all_others_written_in_order() {
        let (calls, rejected) = outcome(1_000, 1, &[]);
        assert_eq!((calls.len(), &calls[0]), (1, &(0..1_000)));
        assert_eq!(rejected, Some(vec![]));
        for bad in [&[617][..], &[0], &[999], &[0, 1, 500, 999], &[3, 4]] {
            let (calls, rejected) = outcome(1_000, 100, bad);
            assert_eq!(rejected.as_deref(), Some(bad));
            assert!(
                calls.len() <= 1 + 20 * bad.len(),
                "{bad:?}: {}",
                calls.len()
            );
            let is_bad = |range: &Range<u32>| bad.iter().any(|item| range.contains(item));
            let taken = calls.into_iter().filter(|range| !is_bad(range)).flatten();
            let good = (0..1_000).filter(|item| !bad.contains(item));
            assert!(taken.eq(good), "{bad:?}");
        }
        let all: Vec<u32> = (0..64).collect();
        assert_eq!(outcome(64, 127, &all).1.as_deref(), Some(&all[..]));
        assert_eq!(outcome(64, 60, &all).1, None);
    }
}
