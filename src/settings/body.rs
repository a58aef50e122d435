//! What a body of the API or a form sets of a record, held to the rules of files.
//!
//! A patch is checked alone, by the checker of files; the catalog sets it field by field in its transaction.
//!
//! **Invariant**: each value of a patch passed the check of its row. No message repeats a text that begins like a secret.

use std::collections::HashSet;
use std::fmt;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::checker::Checker;
use super::record::{Field, Shape};
use super::{hint, quoted};
use base::tree::{Data, Entry, Node};

/// The fields that a body sets, with their values. It may hold secrets.
#[derive(Clone, Default)]
pub struct Patch(Map<String, Value>);

/// What is wrong with a field of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyFault {
    /// The field of the body; empty: the body has one that it cannot have.
    pub field: &'static str,
    /// The field, or the place inside of it.
    pub path: String,
    /// What follows the path in a sentence.
    pub message: String,
}

impl BodyFault {
    /// The place inside of the field, or the field.
    pub fn path_or_field(&self) -> String {
        match self.path.is_empty() {
            true => self.field.to_owned(),
            false => self.path.clone(),
        }
    }
}

impl fmt::Display for BodyFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.is_empty() {
            true => formatter.write_str(&self.message),
            false => write!(formatter, "{} {}", self.path, self.message),
        }
    }
}

impl fmt::Debug for Patch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.0.keys()).finish()
    }
}

impl Deref for Patch {
    type Target = Map<String, Value>;

    fn deref(&self) -> &Map<String, Value> {
        &self.0
    }
}

impl Patch {
    /// What a body sets of a new record; `beside`: rows of another that it may set as well.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn of_new(
        fields: &'static [Field],
        beside: &[&'static Field],
        body: Map<String, Value>,
    ) -> Result<Self, Vec<BodyFault>> {
        let own = fields.iter().filter(|row| !row.declared);
        let is_missing =
            |row: &&Field| row.required && !row.assumed && !body.contains_key(row.name);
        let missing = own.clone().find(is_missing).map(|row| BodyFault {
            field: row.name,
            path: String::new(),
            message: format!("the body must have the field {}", row.name),
        });
        let rows: Vec<&Field> = own.chain(beside.iter().copied()).collect();
        match (Self::read(&rows, body), missing) {
            (Ok(patch), None) => Ok(patch),
            (read, missing) => {
                let mut faults = read.err().unwrap_or_default();
                faults.extend(missing);
                Err(faults)
            }
        }
    }

    /// What a body sets of a record that exists.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn of_change(
        fields: &'static [Field],
        body: Map<String, Value>,
    ) -> Result<Self, Vec<BodyFault>> {
        let rows = fields.iter().filter(|row| !row.declared && !row.fixed);
        Self::read(&rows.collect::<Vec<_>>(), body)
    }

    /// Takes a field out.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        self.0.shift_remove(name)
    }

    fn read(rows: &[&'static Field], body: Map<String, Value>) -> Result<Self, Vec<BodyFault>> {
        let mut values = Map::new();
        let mut faults = Vec::new();
        for (name, value) in body {
            let Some(row) = rows.iter().find(|row| row.name == name) else {
                let known: Vec<&str> = rows.iter().map(|row| row.name).collect();
                let hint = hint(&name, &known);
                faults.push(BodyFault {
                    field: "",
                    path: String::new(),
                    message: format!("the field {} is not allowed here{hint}", quoted(&name)),
                });
                continue;
            };
            match check(row, value) {
                Ok(value) => drop(values.insert(name, value)),
                Err(mut wrong) => faults.append(&mut wrong),
            }
        }
        match faults.is_empty() {
            true => Ok(Self(values)),
            false => Err(faults),
        }
    }
}

/// Checks the value of a field.
fn check(row: &'static Field, value: Value) -> Result<Value, Vec<BodyFault>> {
    if value.is_null() && !row.none.is_empty() {
        return Ok(Value::Null);
    }
    let mut problems = Vec::new();
    let mut checker = Checker {
        rank: 0,
        source: Arc::from("body"),
        folder: Path::new(""),
        problems: &mut problems,
        variables: &mut HashSet::new(),
        holds_secret: false,
        is_body: true,
        none: row.none,
    };
    let kept = checker.value(row.name, whole_number(value, &row.shape), &row.shape);
    let faults: Vec<BodyFault> = problems
        .into_iter()
        .map(|problem| BodyFault {
            field: row.name,
            path: problem.path,
            message: problem.message,
        })
        .collect();
    match kept {
        Some(kept) if faults.is_empty() => Ok(json(kept)),
        _ => Err(faults),
    }
}

/// A field of a body as a source of settings has it. A number without a fraction is an integer to a schema, however it
/// is written: 60.0 is one.
fn whole_number(value: Value, shape: &Shape) -> Node {
    let whole = value.as_f64().and_then(|number| {
        let written = number.to_string();
        written.parse::<u64>().ok()
    });
    match (&value, whole) {
        (Value::Number(number), Some(whole)) if !number.is_u64() => node(whole.into(), shape),
        _ => node(value, shape),
    }
}

/// JSON as a source of settings. Null in a table stands for a field that is not there, if there may be none.
fn node(value: Value, shape: &Shape) -> Node {
    Node::bare(match value {
        Value::Null => Data::Refused,
        Value::Bool(flag) => Data::Boolean(flag),
        Value::String(text) => Data::Text(text),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            // What is larger is out of every range, too.
            (Some(number), _) => Data::Integer(i64::try_from(number).unwrap_or(i64::MAX)),
            (None, Some(number)) => Data::Integer(number),
            (None, None) => Data::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::Array(values) => Data::List(
            values
                .into_iter()
                .map(|value| node(value, &Shape::Boolean))
                .collect(),
        ),
        Value::Object(members) => {
            let fields = match shape {
                Shape::Table(fields) => *fields,
                _ => &[],
            };
            let row = |name: &str| fields.iter().find(|field| field.name == name);
            let is_none = |name: &str| row(name).is_some_and(|row| !row.none.is_empty());
            let members = members.into_iter();
            let members = members.filter(|(name, value)| !(value.is_null() && is_none(name)));
            let entries = members.map(|(name, value)| Entry {
                line: None,
                node: node(value, row(&name).map_or(&Shape::Boolean, |row| &row.shape)),
                name,
            });
            Data::Table(entries.collect())
        }
    })
}

/// What was kept, as JSON again.
fn json(node: Node) -> Value {
    match node.data {
        Data::Text(text) | Data::Time(text) => text.into(),
        Data::Integer(number) => number.into(),
        Data::Float(number) => number.into(),
        Data::Boolean(flag) => flag.into(),
        Data::List(nodes) => nodes.into_iter().map(json).collect(),
        Data::Table(entries) => {
            let entries = entries.into_iter();
            Value::Object(
                entries
                    .map(|entry| (entry.name, json(entry.node)))
                    .collect(),
            )
        }
        Data::Refused => Value::Null,
    }
}
