//! What an operation does to what the pool has of its key.
//!
//! Updates, removals and expiry come here, one after the other in the order of acceptance. Knows no SQL: `pool/apply/`
//! reads the row or the tombstone of a key, and writes what it has become.
//!
//! **Invariant**: a batch is only a faster way to the same end: however operations are cut into batches, applying them
//! one after the other gives the same. What a key has reached never falls.

#[cfg(test)]
pub(crate) mod cases;
mod fields;
#[cfg(test)]
pub(crate) mod tests;

use std::borrow::Cow;

use item::{Version, field_name, members};
use settings::OnUpdate;

pub(super) use fields::Fields;

/// A place in the order of acceptance: entry, and position in it.
pub(super) type Place = (i64, u32);

/// A version with its text as it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reached<'a> {
    pub(super) version: Version,
    pub(super) text: Cow<'a, str>,
}

/// What the pool has of a key: a row, a tombstone, or nothing.
#[derive(Debug, Clone, Default)]
pub(super) struct State<'a> {
    /// None: there is no item.
    pub(super) item: Option<Shown<'a>>,
    /// The highest version of any operation so far.
    pub(super) reached: Option<Reached<'a>>,
    /// What removals have reached: it counts for fields that are not there, too. Without an item, what the key has
    /// reached.
    pub(super) floor: Option<Version>,
    /// The entry of the last removal; 0: none is known.
    pub(super) removed_seq: i64,
    /// The last operation that changed it.
    pub(super) place: Place,
}

/// An item.
#[derive(Debug, Clone)]
pub(super) struct Shown<'a> {
    pub(super) fields: Fields<'a>,
    /// [`Operation::index`] of the update that it shows. None: still the one that it showed before.
    pub(super) by: Option<usize>,
    /// It is not the item that was there before.
    pub(super) is_new: bool,
}

/// An update or a removal.
#[derive(Debug, Clone)]
pub(super) struct Operation<'a> {
    pub(super) place: Place,
    /// None: a removal.
    pub(super) fields: Option<&'a str>,
    /// What it is compared by.
    pub(super) version: Option<Version>,
    /// What the key has reached with it: its version, or its arrival if that stands for one.
    pub(super) reaches: Option<Reached<'a>>,
    pub(super) on_update: OnUpdate,
    /// It was a dead letter: something newer may be there.
    pub(super) is_resent: bool,
    /// By which its caller knows it.
    pub(super) index: usize,
}

/// What became of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Became<'a> {
    /// It counts.
    Applied,
    /// Its version is lower than what was reached. It changed nothing.
    Stale,
    /// The same, but these fields, in which nothing newer had been written, were taken, or by a removal removed.
    Partly(Vec<Cow<'a, str>>),
    /// What is there has it behind it already.
    Again,
}

impl<'a> Became<'a> {
    /// Of a lower version that was taken in these fields; they are named in the order of their names.
    fn of_lower(mut taken: Vec<Cow<'a, str>>) -> Self {
        taken.sort_unstable();
        match taken.is_empty() {
            true => Self::Stale,
            false => Self::Partly(taken),
        }
    }
}

/// Whether an operation at `place` has been applied to what was last changed at `changed`, or comes from another writer
/// that is behind.
pub(super) fn is_behind(place: Place, changed: Place) -> bool {
    place <= changed
}

/// Applies one operation.
pub(super) fn apply<'a>(
    mut state: State<'a>,
    operation: &Operation<'a>,
) -> (State<'a>, Became<'a>) {
    let became = match (operation.on_update, operation.fields) {
        _ if state.counts(operation, state.version()) => {
            state.take(operation);
            Became::Applied
        }
        (OnUpdate::Merge, Some(fields)) => state.fill_in(operation, fields),
        (OnUpdate::Merge, None) => state.remove_older(operation),
        (OnUpdate::Replace, _) => Became::Stale,
    };
    let is_behind = is_behind(operation.place, state.place);
    match became {
        Became::Stale if is_behind => (state, Became::Again),
        Became::Stale => (state, Became::Stale),
        became => {
            state.place = state.place.max(operation.place);
            (state, became)
        }
    }
}

impl<'a> State<'a> {
    fn version(&self) -> Option<Version> {
        self.reached.as_ref().map(|reached| reached.version)
    }

    /// Whether an operation counts where this has been reached. One that is behind counts only if it is higher: then it
    /// was not applied before.
    fn counts(&self, operation: &Operation<'_>, reached: Option<Version>) -> bool {
        let is_behind = is_behind(operation.place, self.place);
        match (operation.version, reached) {
            (None, _) => !is_behind,
            (Some(_), None) => true,
            (Some(own), Some(reached)) => own > reached || (own == reached && !is_behind),
        }
    }

    /// The operation is as new as what was reached, or has no version.
    fn take(&mut self, operation: &Operation<'a>) {
        let before = self.version();
        if let Some(reaches) = &operation.reaches
            && before.is_none_or(|before| before <= reaches.version)
        {
            self.reached = Some(reaches.clone());
        }
        let Some(update) = operation.fields else {
            self.item = None;
            self.floor = self.version();
            self.removed_seq = self.place.max(operation.place).0;
            return;
        };
        let item = self.item.take();
        let is_new = item.as_ref().is_none_or(|item| item.is_new);
        let fields = match item {
            Some(mut item) if operation.on_update == OnUpdate::Merge => {
                item.fields.update(update, operation.version, before);
                item.fields
            }
            // Without a version they inherit what the key has reached.
            _ => Fields::Whole(update),
        };
        self.item = Some(Shown {
            fields,
            by: Some(operation.index),
            is_new,
        });
    }

    /// An update that is older than something of the item has the fields that nothing newer has written. Of a dead letter
    /// without a version these are the fields that the item does not have, unless a removal came later.
    fn fill_in(&mut self, operation: &Operation<'a>, update: &'a str) -> Became<'a> {
        let (reached, floor) = (self.version(), self.floor);
        let Some(mut item) = self.item.take() else {
            return Became::Stale;
        };
        let mut taken = Vec::new();
        let is_late = operation.is_resent
            && operation.version.is_none()
            && operation.place.0 > self.removed_seq;
        for (name, value) in members(update) {
            let of_field = item.fields.reached(name, reached).max(floor);
            let counts = match is_late {
                true => !item.fields.has(name, reached),
                false => self.counts(operation, of_field),
            };
            if counts {
                item.fields.set(name, value, operation.version, reached);
                taken.push(field_name(name));
            }
        }
        self.item = Some(item);
        match is_late && !taken.is_empty() {
            true => Became::Applied,
            false => Became::of_lower(taken),
        }
    }

    /// A removal that is older than something of the item takes what is not newer, and what comes and is older.
    fn remove_older(&mut self, operation: &Operation<'a>) -> Became<'a> {
        let (reached, floor) = (self.version(), self.floor);
        let Some(mut item) = self.item.take() else {
            return Became::Stale;
        };
        let goes = |of_field: Option<Version>| self.counts(operation, of_field.max(floor));
        let gone = item.fields.remove(goes, reached);
        self.item = Some(item);
        self.floor = self.floor.max(operation.version);
        Became::of_lower(gone.into_iter().map(field_name).collect())
    }
}
