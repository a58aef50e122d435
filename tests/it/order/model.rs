//! What streams show after any operations: a second account of the rules, which knows nothing of the product.
//!
//! **Invariant**: it is as plain as the rules are when they are read aloud. Operations come one after the other, in the
//! order of acceptance; there are no batches, no retries, no files.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

pub(super) type Fields = Map<String, Value>;

/// An update or a removal, as it was accepted.
#[derive(Debug, Clone)]
pub(super) struct Op {
    pub(super) key: String,
    pub(super) version: Option<u64>,
    /// None: a removal.
    pub(super) fields: Option<Fields>,
    /// What its stream did with updates when it was accepted.
    pub(super) merges: bool,
    /// An operator put it: it takes the place of the whole item.
    pub(super) is_whole: bool,
}

/// What became of an operation whose version was lower.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lower {
    pub(super) reached: u64,
    /// Fields that were taken all the same.
    pub(super) taken: Vec<String>,
}

/// What is known of a key.
#[derive(Debug, Clone, Default)]
pub(super) struct Item {
    pub(super) shown: Option<Fields>,
    /// What each field of a merged item has reached.
    of_field: BTreeMap<String, Option<u64>>,
    pub(super) reached: Option<u64>,
    /// What removals have reached.
    floor: Option<u64>,
}

impl Item {
    /// Applies an operation. None: it counts.
    pub(super) fn apply(&mut self, op: &Op) -> Option<Lower> {
        let lower = match (op.version, self.reached) {
            (Some(own), Some(reached)) if own < reached => Some(reached),
            _ => None,
        };
        match (lower, &op.fields) {
            (None, Some(fields)) => self.update(op, fields),
            (None, None) => {
                self.reached = self.reached.max(op.version);
                self.remove();
            }
            (Some(reached), _) if !op.merges => {
                return Some(Lower {
                    reached,
                    taken: Vec::new(),
                });
            }
            (Some(reached), Some(fields)) => {
                let taken = self.fill_in(op.version, fields);
                return Some(Lower { reached, taken });
            }
            (Some(reached), None) => {
                let taken = self.remove_older(op.version);
                return Some(Lower { reached, taken });
            }
        }
        None
    }

    fn update(&mut self, op: &Op, fields: &Fields) {
        self.reached = self.reached.max(op.version);
        if !op.merges || op.is_whole || self.shown.is_none() {
            // The whole item has been written by what its key has reached.
            self.of_field = fields
                .keys()
                .map(|name| (name.clone(), self.reached))
                .collect();
            self.shown = Some(fields.clone());
            return;
        }
        let shown = self.shown.get_or_insert_default();
        for (name, value) in fields {
            shown.insert(name.clone(), value.clone());
            let of_field = self.of_field.entry(name.clone()).or_default();
            *of_field = op.version.or(*of_field);
        }
    }

    fn remove(&mut self) {
        self.shown = None;
        self.of_field.clear();
        self.floor = self.reached;
    }

    /// Takes the fields in which nothing newer was written.
    fn fill_in(&mut self, version: Option<u64>, fields: &Fields) -> Vec<String> {
        let Some(shown) = &mut self.shown else {
            return Vec::new();
        };
        let mut taken = Vec::new();
        for (name, value) in fields {
            let of_field = self.of_field.get(name).copied().flatten();
            if version >= of_field.max(self.floor) {
                shown.insert(name.clone(), value.clone());
                self.of_field.insert(name.clone(), version);
                taken.push(name.clone());
            }
        }
        taken
    }

    /// Takes away the fields in which nothing newer was written.
    fn remove_older(&mut self, version: Option<u64>) -> Vec<String> {
        let Some(shown) = &mut self.shown else {
            self.floor = self.floor.max(version);
            return Vec::new();
        };
        let floor = self.floor;
        let goes = |name: &String| {
            let of_field = self.of_field.get(name).copied().flatten();
            version >= of_field.max(floor)
        };
        let gone: Vec<String> = shown.keys().filter(|name| goes(name)).cloned().collect();
        for name in &gone {
            shown.remove(name);
            self.of_field.remove(name);
        }
        self.floor = floor.max(version);
        gone
    }
}

/// The items of a stream.
#[derive(Debug, Default)]
pub(super) struct Stream {
    pub(super) items: BTreeMap<String, Item>,
}

impl Stream {
    /// Applies a request; what its status says of lower versions.
    pub(super) fn apply(&mut self, ops: &[Op]) -> Vec<Value> {
        let mut stale = Vec::new();
        for (position, op) in ops.iter().enumerate() {
            let item = self.items.entry(op.key.clone()).or_default();
            let Some(lower) = item.apply(op) else {
                continue;
            };
            let version = op.version.map(|version| version.to_string());
            let mut said =
                json!({"item": position, "version": version, "reached": lower.reached.to_string()});
            if !lower.taken.is_empty() {
                let in_order: BTreeSet<String> = lower.taken.into_iter().collect();
                said["taken"] = json!(in_order);
            }
            stale.push(said);
        }
        stale
    }

    /// Items as they are shown.
    pub(super) fn shown(&self) -> BTreeMap<String, Value> {
        let shown = self.items.iter().filter_map(|(key, item)| {
            let fields = item.shown.clone()?;
            Some((key.clone(), Value::Object(fields)))
        });
        shown.collect()
    }
}

#[test]
fn the_model_agrees_with_the_cases() {
    let (mut agreed, mut left) = (0, 0);
    for case in super::cases::cases() {
        if case["stream"]["version"] != "rev" {
            continue;
        }
        let merges = case["stream"]["on_update"] == "merge";
        let steps = case["steps"].as_array().expect("steps").iter();
        let requests: Option<Vec<Vec<Op>>> = steps.map(|step| operations(step, merges)).collect();
        let Some(requests) = requests else {
            left += 1;
            continue;
        };
        let mut stream = Stream::default();
        for (ops, expected) in requests
            .iter()
            .zip(case["expect"]["requests"].as_array().expect("requests"))
        {
            assert_eq!(
                json!(stream.apply(ops)),
                expected["stale"],
                "{}",
                case["name"]
            );
        }
        assert_eq!(
            json!(stream.shown()),
            case["expect"]["pool"],
            "{}",
            case["name"]
        );
        agreed += 1;
    }
    assert!(
        agreed > 100,
        "{agreed}, and {left} are about texts, times and nested objects"
    );
}

/// The operations of a step, if the model knows such.
fn operations(step: &Value, merges: bool) -> Option<Vec<Op>> {
    if let Some(key) = step["delete"].as_str() {
        return Some(vec![Op {
            key: key.to_owned(),
            version: None,
            fields: None,
            merges,
            is_whole: false,
        }]);
    }
    let one = |item: &Value| {
        let fields = item.as_object()?;
        let is_flat = fields
            .values()
            .all(|value| value.is_u64() || value.is_string());
        let version = match fields.get("rev") {
            None => None,
            Some(rev) => Some(rev.as_u64()?),
        };
        is_flat.then_some(())?;
        Some(Op {
            key: item["id"].as_str()?.to_owned(),
            version,
            fields: (item["gone"] != "yes").then(|| fields.clone()),
            merges,
            is_whole: false,
        })
    };
    step["post"].as_array()?.iter().map(one).collect()
}
