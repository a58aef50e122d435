//! The fields of an item, and what each of them has reached.
//!
//! An item of a stream with `on_update = "merge"` has fields of several requests. Beside them stands the version that
//! each has reached, where that is not what the key has.
//!
//! **Invariant**: a field keeps its place, its value and what it has reached until an operation writes or removes it.

use std::borrow::Cow;
use std::collections::HashMap;

use item::{Version, members};

/// Up to so many fields are compared one by one.
const LINEAR_MAX: usize = 16;

/// The fields of an item.
#[derive(Debug, Clone)]
pub(crate) enum Fields<'a> {
    /// All of them have reached what the key has.
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
    reached: Option<Version>,
}

impl<'a> Fields<'a> {
    /// The fields of a row: what they have reached stands in `runs`, as [`Fields::runs`] wrote it.
    pub(crate) fn of(json: &'a str, runs: Option<&str>) -> Self {
        let Some(reached) = runs.and_then(read_runs) else {
            return Self::Whole(json);
        };
        let mut each = Each::default();
        let reached = reached.into_iter().chain(std::iter::repeat(None));
        for ((name, value), reached) in members(json).zip(reached) {
            each.push(name, value, reached);
        }
        Self::Each(each)
    }

    /// What a field has reached, where the key has `key`; none if it is not there, or was never written with a version.
    pub(crate) fn reached(&mut self, name: &str, key: Option<Version>) -> Option<Version> {
        let each = self.each(key);
        each.find(name).and_then(|at| each.fields[at].reached)
    }

    /// Whether there is a field of this name.
    pub(super) fn has(&mut self, name: &str, key: Option<Version>) -> bool {
        self.each(key).find(name).is_some()
    }

    /// An update that is as new as the key, or has no version, and the key had `key` before.
    pub(super) fn update(
        &mut self,
        update: &'a str,
        version: Option<Version>,
        key: Option<Version>,
    ) {
        if let Self::Whole(json) = self
            && names_same(json, update)
        {
            *json = update;
            return;
        }
        let each = self.each(key);
        for (name, value) in members(update) {
            each.set(name, value, version);
        }
    }

    /// Writes a field. Without a version it keeps what it has reached.
    pub(super) fn set(
        &mut self,
        name: &'a str,
        value: &'a str,
        version: Option<Version>,
        key: Option<Version>,
    ) {
        self.each(key).set(name, value, version);
    }

    /// Removes the fields that have reached what `goes` says; returns their names as they stand in JSON.
    pub(super) fn remove(
        &mut self,
        goes: impl Fn(Option<Version>) -> bool,
        key: Option<Version>,
    ) -> Vec<&'a str> {
        let each = self.each(key);
        let gone = each.fields.extract_if(.., |field| goes(field.reached));
        let gone = gone.map(|field| field.name).collect();
        each.index.clear();
        gone
    }

    /// The fields as JSON.
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

    /// What the fields have reached, as it is stored; none if all have reached what the key has.
    pub(crate) fn runs(&self, key: Option<Version>) -> Option<String> {
        let Self::Each(each) = self else { return None };
        if each.fields.iter().all(|field| field.reached == key) {
            return None;
        }
        let runs = each.fields.chunk_by(|a, b| a.reached == b.reached);
        let run = |run: &[Field<'_>]| {
            let reached = run[0]
                .reached
                .map(|version| version.millionths().to_string());
            (reached, run.len())
        };
        let runs: Vec<(Option<String>, usize)> = runs.map(run).collect();
        serde_json::to_string(&runs).ok()
    }

    fn each(&mut self, key: Option<Version>) -> &mut Each<'a> {
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
    fn set(&mut self, name: &'a str, value: &'a str, version: Option<Version>) {
        match self.find(name) {
            Some(at) => {
                let field = &mut self.fields[at];
                field.value = value;
                field.reached = version.or(field.reached);
            }
            None => self.push(name, value, version),
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

    fn push(&mut self, name: &'a str, value: &'a str, reached: Option<Version>) {
        if !self.index.is_empty() {
            self.index.insert(name, self.fields.len());
        }
        self.fields.push(Field {
            name,
            value,
            reached,
        });
    }
}

/// By far the most frequent update names the same fields in the same order.
fn names_same(old: &str, new: &str) -> bool {
    let old = members(old).map(|(name, _)| name);
    old.eq(members(new).map(|(name, _)| name))
}

/// For each field in turn what it has reached; none if it is something else, as files of older formats have it.
fn read_runs(runs: &str) -> Option<Vec<Option<Version>>> {
    let runs: Vec<(Option<String>, usize)> = serde_json::from_str(runs).ok()?;
    let mut reached = Vec::new();
    for (version, fields) in runs {
        let version = match version {
            Some(text) => Some(Version::from_millionths(text.parse().ok()?)),
            None => None,
        };
        reached.extend(std::iter::repeat_n(version, fields));
    }
    Some(reached)
}
