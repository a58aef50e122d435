//! Rules, and which of them an item meets.
//!
//! **Invariant**: a column is fetched once for a batch, however many rules ask for it.

use std::collections::{BTreeMap, HashMap};

use headgate_sdk::{ALL, Batch};
use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Deserialize)]
pub(crate) struct Settings {
    pub(crate) rules: Vec<Rule>,
    #[serde(default)]
    pub(crate) otherwise: Otherwise,
}

impl Settings {
    /// The streams that rules put items into.
    pub(crate) fn targets(&self) -> impl Iterator<Item = &String> {
        self.rules.iter().filter_map(|rule| rule.stream.as_ref())
    }

    /// Whether some rule may put items of a stream into another one.
    pub(crate) fn moves(&self, stream: &str, target: &str) -> bool {
        let mut rules = self.rules.iter();
        rules.any(|rule| rule.stream.as_deref() == Some(target) && rule.is_for(stream))
    }
}

/// What becomes of items that no rule is for.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Otherwise {
    #[default]
    Keep,
    Drop,
}

/// Which items it is for, and what becomes of them.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Rule {
    streams: Option<Vec<String>>,
    when: Vec<Condition>,
    pub(crate) drop: bool,
    pub(crate) keep: Option<Vec<String>>,
    pub(crate) remove: Vec<String>,
    pub(crate) rename: BTreeMap<String, String>,
    pub(crate) stream: Option<String>,
}

/// What a field must be. All that is there must hold.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    field: String,
    exists: Option<bool>,
    equals: Option<Value>,
    differs_from: Option<Value>,
    above: Option<f64>,
    below: Option<f64>,
}

/// What rules ask of a batch.
pub(crate) struct Columns {
    streams: Vec<String>,
    texts: HashMap<String, Vec<Option<String>>>,
    numbers: HashMap<String, Vec<f64>>,
}

impl Columns {
    pub(crate) fn new(batch: &Batch, rules: &[Rule]) -> Self {
        let mut columns = Self {
            streams: batch.streams(ALL),
            texts: HashMap::new(),
            numbers: HashMap::new(),
        };
        for condition in rules.iter().flat_map(|rule| &rule.when) {
            let name = &condition.field;
            if condition.needs_numbers() && !columns.numbers.contains_key(name) {
                let numbers = batch.numbers(name, ALL);
                columns.numbers.insert(name.clone(), numbers);
            }
            if condition.needs_texts() && !columns.texts.contains_key(name) {
                columns.texts.insert(name.clone(), batch.texts(name, ALL));
            }
        }
        columns
    }

    /// The first rule that the item at this place meets.
    pub(crate) fn first_match(&self, rules: &[Rule], index: usize) -> Option<usize> {
        rules.iter().position(|rule| {
            rule.is_for(&self.streams[index])
                && rule
                    .when
                    .iter()
                    .all(|condition| self.holds(condition, index))
        })
    }

    fn holds(&self, condition: &Condition, index: usize) -> bool {
        let text = self.texts.get(&condition.field);
        let text = text.and_then(|column| column[index].as_deref());
        let number = self.numbers.get(&condition.field);
        let number = number.map_or(f64::NAN, |column| column[index]);
        let is = |wanted: &Value| match wanted {
            Value::Number(wanted) => wanted.as_f64() == Some(number),
            Value::String(wanted) => text == Some(wanted),
            Value::Bool(wanted) => text == Some(if *wanted { "true" } else { "false" }),
            _ => false,
        };
        condition
            .exists
            .is_none_or(|wanted| text.is_some() == wanted)
            && condition.equals.as_ref().is_none_or(is)
            && !condition.differs_from.as_ref().is_some_and(is)
            && condition.above.is_none_or(|limit| number > limit)
            && condition.below.is_none_or(|limit| number < limit)
    }
}

impl Rule {
    fn is_for(&self, stream: &str) -> bool {
        let streams = self.streams.as_ref();
        streams.is_none_or(|patterns| patterns.iter().any(|pattern| matches(pattern, stream)))
    }
}

impl Condition {
    fn values(&self) -> impl Iterator<Item = &Value> {
        self.equals.iter().chain(&self.differs_from)
    }

    fn needs_numbers(&self) -> bool {
        self.above.is_some() || self.below.is_some() || self.values().any(Value::is_number)
    }

    fn needs_texts(&self) -> bool {
        self.exists.is_some() || self.values().any(|value| !value.is_number())
    }
}

fn matches(pattern: &str, stream: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(begin) => stream.starts_with(begin),
        None => stream == pattern,
    }
}
