//! Some of the items of a batch, in any order.
//!
//! **Invariant**: a selection copies no item; it is slices of the same entries, and of consecutive items one slice.

use super::DeriveError;
use crate::batch::{Batch, Slice};

/// Items of a selection, of a batch that has fewer.
pub(super) const SELECTED_MAX: usize = 100_000;

impl Batch {
    /// These items, in this order. What is selected twice counts as bytes of its own: whoever reads the selection reads
    /// it twice.
    ///
    /// # Errors
    /// [`DeriveError::TooMany`], [`DeriveError::Index`], [`DeriveError::TooLarge`].
    pub fn select(&self, indexes: &[u32], room: usize) -> Result<Self, DeriveError> {
        let max = SELECTED_MAX.max(self.items as usize);
        if indexes.len() > max {
            return Err(DeriveError::TooMany {
                count: indexes.len(),
                len: self.items,
                max,
            });
        }
        let ends = self.ends();
        let (runs, is_repeated) = self.runs_of(indexes, &ends)?;
        let mut own_bytes = runs * size_of::<Slice>();
        if own_bytes > room {
            return Err(DeriveError::TooLarge(room));
        }
        let mut slices: Vec<Slice> = Vec::with_capacity(runs);
        let mut hint = 0;
        for index in indexes {
            let (slice, at) = self.locate(&ends, *index, &mut hint)?;
            Slice::add(&mut slices, slice, at);
        }
        if is_repeated {
            for (_, item) in slices.iter().flat_map(Slice::items) {
                own_bytes += item.key.len() + item.fields.len();
                if own_bytes > room {
                    return Err(DeriveError::TooLarge(room));
                }
            }
        }
        Ok(Self {
            suffix: self.suffix.clone(),
            own_bytes,
            moved: self.moved,
            origin: self.origin,
            fill: self.fill,
            ..Self::new(slices, self.attempt)
        })
    }

    /// How many slices a selection is, and whether it has an item more than once. They are counted first, so that a
    /// selection that is too large takes no memory.
    fn runs_of(&self, indexes: &[u32], ends: &[u32]) -> Result<(usize, bool), DeriveError> {
        let mut seen = vec![0_u64; (self.items as usize).div_ceil(64)];
        let (mut runs, mut is_repeated, mut hint) = (0, false, 0);
        let mut last: Option<(&Slice, u32)> = None;
        for index in indexes {
            let (slice, at) = self.locate(ends, *index, &mut hint)?;
            let goes_on = last.is_some_and(|(before, end)| end == at && before.is_of(slice));
            runs += usize::from(!goes_on);
            last = Some((slice, at + 1));
            let (word, bit) = (*index as usize / 64, 1 << (index % 64));
            is_repeated |= seen[word] & bit != 0;
            seen[word] |= bit;
        }
        Ok((runs, is_repeated))
    }

    /// One past the index of the last item of each slice.
    fn ends(&self) -> Vec<u32> {
        let mut end = 0;
        let ends = self.slices.iter().map(|slice| {
            end += slice.len();
            end
        });
        ends.collect()
    }

    /// The slice of an item, and its place in the slice's entry. `hint` is where the one before was found: neighbours
    /// are looked up together.
    fn locate(
        &self,
        ends: &[u32],
        index: u32,
        hint: &mut usize,
    ) -> Result<(&Slice, u32), DeriveError> {
        let is_there = |at: usize| {
            let begin = at.checked_sub(1).map_or(0, |before| ends[before]);
            (begin..ends[at]).contains(&index)
        };
        if index >= self.items {
            return Err(DeriveError::Index {
                index,
                len: self.items,
            });
        }
        if !is_there(*hint) {
            *hint = ends.partition_point(|end| *end <= index);
        }
        let slice = &self.slices[*hint];
        Ok((slice, slice.end - (ends[*hint] - index)))
    }
}
