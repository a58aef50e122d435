//! The fields of an item, and which operation wrote each of them.
//!
//! An item of a stream with `on_update = "merge"` has fields of several requests. Beside them stands what each was
//! [written](Written) by, where that is not what the key has.
//!
//! **Invariant**: a field keeps its position, its value and what it was written by until an operation writes or removes it.

use std::borrow::Cow;
use std::collections::HashMap;

use item::{Version, members};
use serde::{Deserialize, Serialize};

use super::Place;

/// Up to so many fields are compared one by one, because an index costs more than it saves for few.
const LINEAR_MAX: usize = 16;

/// What a field, or all of a key, was written by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Written {
    /// The highest version that it was written with.
    pub(crate) reached: Option<Version>,
    /// The last operation that wrote it.
    pub(crate) place: Place,
}

/// The fields of an item.
#[derive(Debug, Clone)]
pub(crate) enum Fields<'a> {
    /// All of them were written by what the key was.
    Whole(&'a str),
    Each(Each<'a>),
}

/// Fields one by one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Each<'a> {
    fields: Vec<Field<'a>>,
    /// Places by name, if there are many.
    index: HashMap<&'a str, usize>,
}

#[derive(Debug, Clone)]
struct Field<'a> {
    /// As it stands in JSON.
    name: &'a str,
    value: &'a str,
    written: Written,
}

/// Neighbors that were written by the same.
#[derive(Serialize, Deserialize)]
struct Run {
    /// In millionths; text, as JSON's readers round numbers of this size.
    version: Option<String>,
    fields: usize,
    place: Place,
}

impl<'a> Fields<'a> {
    /// The fields of a row: what they were written by stands in `runs`, as [`Fields::runs`] wrote it.
    pub(crate) fn of(json: &'a str, runs: Option<&str>) -> Self {
        let Some(written) = runs.and_then(read_runs) else {
            return Self::Whole(json);
        };
        let mut each = Each::default();
        for ((name, value), written) in members(json).zip(written) {
            each.push(name, value, written);
        }
        Self::Each(each)
    }

    /// What a field was written by, where the key was by `key`; none if it is not there.
    pub(crate) fn written(&mut self, name: &str, key: Written) -> Option<Written> {
        let each = self.each(key);
        each.find(name).map(|at| each.fields[at].written)
    }

    /// An update that is as new as the key, or has no version, and the key was written by `key` before.
    pub(super) fn update(&mut self, update: &'a str, by: Written, key: Written) {
        if let Self::Whole(json) = self
            && names_same(json, update)
        {
            *json = update;
            return;
        }
        let each = self.each(key);
        for (name, value) in members(update) {
            each.set(name, value, by);
        }
    }

    /// Writes a field. Without a version it keeps what it has reached. Otherwise an update without a version would
    /// lower what the field has reached.
    pub(super) fn set(&mut self, name: &'a str, value: &'a str, by: Written, key: Written) {
        self.each(key).set(name, value, by);
    }

    /// Removes the fields of which `goes` says so; returns their names as they stand in JSON.
    pub(super) fn remove(&mut self, goes: impl Fn(Written) -> bool, key: Written) -> Vec<&'a str> {
        let each = self.each(key);
        let gone = each.fields.extract_if(.., |field| goes(field.written));
        let gone = gone.map(|field| field.name).collect();
        each.index.clear();
        gone
    }

    pub(crate) fn json(&self) -> Cow<'a, str> {
        let each = match self {
            Self::Whole(json) => return Cow::Borrowed(json),
            Self::Each(each) => each,
        };
        let bytes = each.fields.iter();
        let bytes: usize = bytes
            .map(|field| field.name.len() + field.value.len() + 2)
            .sum();
        let mut json = String::with_capacity(bytes + 2);
        json.push('{');
        for field in &each.fields {
            if json.len() > 1 {
                json.push(',');
            }
            json.push_str(field.name);
            json.push(':');
            json.push_str(field.value);
        }
        json.push('}');
        Cow::Owned(json)
    }

    /// What the fields were written by, as it is stored; none if all were by what the key was.
    pub(crate) fn runs(&self, key: Written) -> Option<String> {
        let Self::Each(each) = self else { return None };
        if each.fields.iter().all(|field| field.written == key) {
            return None;
        }
        let runs = each.fields.chunk_by(|a, b| a.written == b.written);
        let run = |run: &[Field<'_>]| Run {
            version: (run[0].written.reached).map(|version| version.millionths().to_string()),
            fields: run.len(),
            place: run[0].written.place,
        };
        serde_json::to_string(&runs.map(run).collect::<Vec<_>>()).ok()
    }

    fn each(&mut self, key: Written) -> &mut Each<'a> {
        if let Self::Whole(json) = self {
            let mut each = Each::default();
            for (name, value) in members(json) {
                each.push(name, value, key);
            }
            *self = Self::Each(each);
        }
        match self {
            Self::Each(each) => each,
            Self::Whole(_) => unreachable!("it was taken apart"),
        }
    }
}

impl<'a> Each<'a> {
    fn set(&mut self, name: &'a str, value: &'a str, by: Written) {
        match self.find(name) {
            Some(at) => {
                let field = &mut self.fields[at];
                field.value = value;
                field.written = Written {
                    reached: by.reached.or(field.written.reached),
                    place: by.place.max(field.written.place),
                };
            }
            None => self.push(name, value, by),
        }
    }

    fn find(&mut self, name: &str) -> Option<usize> {
        if self.fields.len() <= LINEAR_MAX {
            return self.fields.iter().position(|field| field.name == name);
        }
        if self.index.is_empty() {
            let names = self.fields.iter().map(|field| field.name);
            self.index = names.zip(0..).collect();
        }
        self.index.get(name).copied()
    }

    fn push(&mut self, name: &'a str, value: &'a str, written: Written) {
        if !self.index.is_empty() {
            self.index.insert(name, self.fields.len());
        }
        self.fields.push(Field {
            name,
            value,
            written,
        });
    }
}

/// By far the most frequent update names the same fields in the same order. Then values are exchanged in place, without
/// a lookup for each name.
fn names_same(old: &str, new: &str) -> bool {
    let old = members(old).map(|(name, _)| name);
    old.eq(members(new).map(|(name, _)| name))
}

/// For each field in turn what it was written by; none if it is something else, as files of older formats have it.
fn read_runs(runs: &str) -> Option<Vec<Written>> {
    let runs: Vec<Run> = serde_json::from_str(runs).ok()?;
    let mut written = Vec::new();
    for run in runs {
        let reached = match run.version {
            Some(text) => Some(Version::from_millionths(text.parse().ok()?)),
            None => None,
        };
        let one = Written {
            reached,
            place: run.place,
        };
        written.extend(std::iter::repeat_n(one, run.fields));
    }
    Some(written)
}
