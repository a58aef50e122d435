//! Where a refused batch of a spool is cut, so that a bad item stands alone and all others are accepted.
//!
//! Called by `spool`. Client libraries cut at the same places, and so parts that one of them has sent are known again by
//! their keys.
//!
//! **Invariant**: the parts are the whole, in order, and each is smaller than it.

use std::collections::BTreeSet;
use std::ops::Range;

/// The parts of a batch, or of a part of one: the items that the refusal names stand alone, else it is halved. None of a
/// single item. `named` counts from the beginning of `refused`.
pub(super) fn cut(refused: &Range<usize>, named: &[u64]) -> Vec<Range<usize>> {
    let count = refused.len();
    if count < 2 {
        return Vec::new();
    }
    let named = named.iter().filter_map(|item| usize::try_from(*item).ok());
    let mut cuts: BTreeSet<usize> = (named.filter(|item| *item < count))
        .flat_map(|item| [item, item + 1])
        .filter(|cut| (1..count).contains(cut))
        .collect();
    if cuts.is_empty() {
        cuts.insert(count / 2);
    }
    cuts.insert(count);
    let mut start = 0;
    let part = |end| refused.start + std::mem::replace(&mut start, end)..refused.start + end;
    cuts.into_iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_items_stand_alone_and_what_names_none_is_halved() {
        let check = |refused: Range<usize>, named: &[u64], parts: &[Range<usize>]| {
            assert_eq!(cut(&refused, named), parts, "{refused:?}, {named:?}");
        };
        check(0..0, &[], &[]);
        check(3..4, &[0], &[]);
        check(0..5, &[], &[0..2, 2..5]);
        check(10..12, &[], &[10..11, 11..12]);
        check(0..5, &[2], &[0..2, 2..3, 3..5]);
        check(7..12, &[4, 0, 4], &[7..8, 8..11, 11..12]);
        check(0..4, &[1, 2], &[0..1, 1..2, 2..3, 3..4]);
        check(0..4, &[4, u64::MAX], &[0..2, 2..4]);
    }
}
