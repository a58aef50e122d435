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

use base::order::{ItemPosition, Seq};
use item::{Version, field_name, members};
use settings::OnUpdate;

pub(super) use fields::{Fields, Written};

/// A place in the order of acceptance: entry, and position in it.
pub(super) type Place = (Seq, ItemPosition);

/// A place as a row of a database has it.
pub(super) fn place(seq: i64, position: u32) -> Place {
    (Seq::from_column(seq), ItemPosition::new(position))
}

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
    /// reached. Otherwise an older update could bring back a field that a removal took.
    pub(super) floor: Option<Version>,
    /// The last removal; (0, 0): none is known.
    pub(super) removed: Place,
    /// The last operation that changed it.
    pub(super) place: Place,
}

#[derive(Debug, Clone)]
pub(super) struct Shown<'a> {
    pub(super) fields: Fields<'a>,
    /// [`Operation::index`] of the update that it shows. None: still the one that it showed before.
    pub(super) by: Option<usize>,
    /// It is not the item that was there before. Its time of creation begins again then.
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
    /// By which its caller knows it.
    pub(super) index: usize,
}

/// What became of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Became<'a> {
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

/// Applies one operation. Where it is behind what was last changed, it comes from a sink that is behind another one, or
/// was a dead letter.
pub(super) fn apply<'a>(
    mut state: State<'a>,
    operation: &Operation<'a>,
) -> (State<'a>, Became<'a>) {
    let is_behind = is_behind(operation.place, state.place);
    let became = match (operation.on_update, operation.fields) {
        _ if operation.counts(state.version(), is_behind) => {
            state.take(operation);
            Became::Applied
        }
        (OnUpdate::Merge, Some(fields)) => state.fill_in(operation, fields),
        (OnUpdate::Merge, None) => state.remove_older(operation),
        (OnUpdate::Replace, _) => Became::Stale,
    };
    match became {
        Became::Stale if is_behind => (state, Became::Again),
        Became::Stale => (state, Became::Stale),
        became => {
            // An operation that comes late does not move the place back; otherwise those after it could be applied
            // again.
            state.place = state.place.max(operation.place);
            (state, became)
        }
    }
}

/// Of an update at `place` in a stream whose updates merge, the fields that nothing later has written or removed, as an
/// object; none: there are none.
pub(super) fn unchanged_since(mut state: State<'_>, place: Place, update: &str) -> Option<String> {
    let (key, removed) = (state.written(), state.removed);
    let item = state.item.as_mut()?;
    let changed = |fields: &mut Fields<'_>, name: &str| {
        let written = fields.written(name, key);
        written.map_or(removed, |written| written.place) > place
    };
    let left = members(update).filter(|(name, _)| !changed(&mut item.fields, name));
    let left: Vec<String> = left
        .map(|(name, value)| format!("{name}:{value}"))
        .collect();
    (!left.is_empty()).then(|| format!("{{{}}}", left.join(",")))
}

impl Operation<'_> {
    /// Whether it counts where this has been reached. One that is behind counts only if it is higher: then it was not
    /// applied before.
    fn counts(&self, reached: Option<Version>, is_behind: bool) -> bool {
        match (self.version, reached) {
            (None, _) | (Some(_), None) => !is_behind,
            (Some(own), Some(reached)) => own > reached || (own == reached && !is_behind),
        }
    }

    /// What it writes fields by.
    fn written(&self) -> Written {
        Written {
            reached: self.version,
            place: self.place,
        }
    }

    /// What became of it where something newer was there: it counts in these fields.
    fn in_fields<'a>(&self, taken: Vec<Cow<'a, str>>) -> Became<'a> {
        match self.version {
            None if !taken.is_empty() => Became::Applied,
            _ => Became::of_lower(taken),
        }
    }
}

impl<'a> State<'a> {
    fn version(&self) -> Option<Version> {
        self.reached.as_ref().map(|reached| reached.version)
    }

    /// What the key was written by, and all fields that do not say something else.
    pub(super) fn written(&self) -> Written {
        Written {
            reached: self.version(),
            place: self.place,
        }
    }

    /// The operation is as new as what was reached, or has no version.
    fn take(&mut self, operation: &Operation<'a>) {
        let before = self.written();
        if let Some(reaches) = &operation.reaches
            && before
                .reached
                .is_none_or(|before| before <= reaches.version)
        {
            self.reached = Some(reaches.clone());
        }
        let Some(update) = operation.fields else {
            self.item = None;
            self.floor = self.version();
            self.removed = self.place.max(operation.place);
            return;
        };
        let item = self.item.take();
        let is_new = item.as_ref().is_none_or(|item| item.is_new);
        let fields = match item {
            Some(mut item) if operation.on_update == OnUpdate::Merge => {
                item.fields.update(update, operation.written(), before);
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

    /// An update that is older than something of the item has the fields that nothing newer has written or removed.
    fn fill_in(&mut self, operation: &Operation<'a>, update: &'a str) -> Became<'a> {
        let (key, floor) = (self.written(), self.floor);
        let Some(item) = &mut self.item else {
            return Became::Stale;
        };
        let mut taken = Vec::new();
        for (name, value) in members(update) {
            let written = item.fields.written(name, key);
            let reached = written.and_then(|written| written.reached).max(floor);
            let place = written.map_or(self.removed, |written| written.place);
            if operation.counts(reached, is_behind(operation.place, place)) {
                item.fields.set(name, value, operation.written(), key);
                taken.push(field_name(name));
            }
        }
        operation.in_fields(taken)
    }

    /// A removal that is older than something of the item takes what is not newer, and what comes and is older.
    fn remove_older(&mut self, operation: &Operation<'a>) -> Became<'a> {
        let (key, floor) = (self.written(), self.floor);
        let Some(item) = &mut self.item else {
            return Became::Stale;
        };
        let goes = |field: Written| {
            let is_behind = is_behind(operation.place, field.place);
            match field.reached.max(floor) {
                None => !is_behind,
                reached => operation.counts(reached, is_behind),
            }
        };
        let gone = item.fields.remove(goes, key);
        self.floor = self.floor.max(operation.version);
        self.removed = self.removed.max(operation.place);
        operation.in_fields(gone.into_iter().map(field_name).collect())
    }
}
