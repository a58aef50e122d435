//! The fields of a record in a form: controls, initial values, and the change that they describe.
//!
//! The controls are generated from the rows of the record, by shape.
//!
//! **Invariant**: a value that is shown is read back as the same value. A setting without a control keeps its value.

use maud::{Markup, html};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::Typed;
use super::controls;
use crate::text::{as_sentence, grouped};
use base::clock;
use catalog::Catalog;
use settings::{BodyFault, Field, Patch, Shape};

/// Maximum characters of a list, and of a text without its own limit.
const CHARS_MAX: usize = 2_048;

/// The name of a control in a table; a table has a control for each of its fields.
fn inner(field: &'static Field) -> &'static str {
    match field.flag.is_empty() {
        true => field.name,
        false => field.flag,
    }
}

impl Typed {
    /// The controls of these rows of a record, in their order. Inherited defaults are those of `[limits]`.
    pub(crate) fn record(
        &self,
        fields: impl IntoIterator<Item = &'static Field>,
        is_new: bool,
        catalog: &Catalog,
    ) -> Markup {
        let is_asked = |row: &&Field| !(row.declared || row.fixed || is_new && row.late);
        let is_shown = |row: &&Field| !row.label.is_empty() || matches!(row.shape, Shape::Table(_));
        let rows = fields.into_iter().filter(is_asked).filter(is_shown);
        let rows: Vec<&'static Field> = rows.collect();
        let groups = rows.chunk_by(|a, b| !a.group.is_empty() && a.group == b.group);
        html! {
            @for group in groups {
                @if let [row] = group { (self.control(row.name, row, catalog)) }
                @else { div.fields { @for row in group { (self.control(row.name, row, catalog)) } } }
            }
        }
    }

    /// The control of a row, with this name.
    fn control(&self, name: &'static str, row: &'static Field, catalog: &Catalog) -> Markup {
        let hint = hint(row);
        let field = controls::Field {
            name,
            label: row.label,
            hint: &hint,
        };
        match row.shape {
            // Browsers do not send an unchecked checkbox.
            Shape::Boolean if row.none.is_empty() => html! {
                input type="hidden" name=(name) value="no";
                (self.tick(field))
            },
            Shape::List(..) if row.boxes => html! {
                input type="hidden" name=(name) value="";
                (self.stream_boxes(field, catalog))
            },
            Shape::Boolean | Shape::Choice(_) => self.select(field, row.choices),
            Shape::Integer(..) => self.number_input(field, &placeholder(row, catalog)),
            Shape::Time => self.time_input(field),
            Shape::Table(fields) => html! {
                div.fields { @for field in fields { (self.control(inner(field), field, catalog)) } }
            },
            Shape::Text(kind) => {
                let words = (kind.words)();
                if !words.is_empty() {
                    return self.select(field, &[row.choices, &words].concat());
                }
                let chars_max = kind.chars.map_or(CHARS_MAX, |(_, max)| max);
                self.input(field, chars_max, false)
            }
            _ => self.input(field, CHARS_MAX, false),
        }
    }

    /// The settings of a new record: those of the form, and `known`.
    pub(crate) fn new_record(
        &mut self,
        fields: &'static [Field],
        known: Map<String, Value>,
    ) -> Patch {
        let rows = fields.iter().filter(|row| !row.declared);
        let mut body = self.body(rows, known);
        if body
            .get("name")
            .and_then(Value::as_str)
            .is_none_or(str::is_empty)
        {
            body.shift_remove("name");
            self.reject("name", "Enter a name.");
            // A placeholder, so that all other errors are found too.
            body.insert("name".to_owned(), "name".into());
        }
        let patch = Patch::of_new(fields, &[], body);
        patch.unwrap_or_else(|faults| self.reject_faults(fields, faults))
    }

    /// The new record; its errors are added to the form.
    pub(crate) fn settings<R: Default + DeserializeOwned>(
        &mut self,
        fields: &'static [Field],
        known: Map<String, Value>,
    ) -> R {
        let patch = self.new_record(fields, known);
        serde_json::from_value(Value::Object((*patch).clone())).unwrap_or_default()
    }

    /// The changed settings of an existing record.
    pub(crate) fn changed_record(&mut self, fields: &'static [Field]) -> Patch {
        let rows = fields.iter().filter(|row| !row.declared && !row.fixed);
        let body = self.body(rows, Map::new());
        let patch = Patch::of_change(fields, body);
        patch.unwrap_or_else(|faults| self.reject_faults(fields, faults))
    }

    /// The equivalent body of the API; `known` has the values that are not in the form.
    fn body(
        &mut self,
        rows: impl Iterator<Item = &'static Field>,
        known: Map<String, Value>,
    ) -> Map<String, Value> {
        let rows = rows.filter(|row| !known.contains_key(row.name));
        let values = rows.filter_map(|row| Some((row.name.to_owned(), self.value(row)?)));
        let mut body: Map<String, Value> = values.collect();
        body.extend(known);
        body
    }

    /// The value of a control; `None`: the control is absent, or its value is invalid.
    fn value(&mut self, row: &'static Field) -> Option<Value> {
        if let Shape::Table(fields) = row.shape {
            return self.table(fields);
        }
        if !self.has(row.name) {
            return None;
        }
        if row.boxes {
            let chosen = self.all(row.name);
            return Some(chosen.into_iter().filter(|one| !one.is_empty()).collect());
        }
        let text = self.text(row.name);
        let is_none = text.is_empty() && !row.none.is_empty();
        Some(match row.shape {
            Shape::Boolean if row.none.is_empty() => self.is_ticked(row.name).into(),
            Shape::Integer(..) if text.is_empty() => (row.default)(),
            Shape::Integer(min, max) => self.number(row.name, min, max).into(),
            Shape::Time => self.time(row.name).map(clock::rfc3339).into(),
            Shape::List(..) => {
                let entries = text.split([',', ' ']).filter(|one| !one.is_empty());
                entries.collect()
            }
            _ if is_none => Value::Null,
            Shape::Boolean => (text == "yes").into(),
            _ => text.into(),
        })
    }

    /// A table, which is either complete or empty.
    fn table(&mut self, fields: &'static [Field]) -> Option<Value> {
        if !fields.iter().any(|field| self.has(inner(field))) {
            return None;
        }
        let texts: Vec<String> = fields.iter().map(|field| self.text(inner(field))).collect();
        if texts.iter().all(String::is_empty) {
            return Some(Value::Null);
        }
        let mut table = Map::new();
        for (field, text) in fields.iter().zip(texts) {
            let entries = text.split(',').map(str::trim).filter(|one| !one.is_empty());
            let value = match field.shape {
                Shape::List(..) => entries.collect(),
                _ => Value::from(text.clone()),
            };
            if value == json!("") || value == json!([]) {
                self.reject(inner(field), "Fill in both fields, or neither.");
            }
            table.insert(field.name.to_owned(), value);
        }
        (!self.is_wrong()).then_some(Value::Object(table))
    }

    /// Adds errors to their controls.
    fn reject_faults(&mut self, fields: &'static [Field], faults: Vec<BodyFault>) -> Patch {
        for fault in faults {
            let row = fields.iter().find(|row| row.name == fault.field);
            let (Some(row), false) = (row, self.is_rejected(fault.field)) else {
                continue;
            };
            let control = match row.shape {
                Shape::Table(fields) => {
                    let within = fault.path.strip_prefix(row.name).unwrap_or_default();
                    let within = within.trim_start_matches('.');
                    let named = fields.iter().find(|field| within.starts_with(field.name));
                    named.map_or(row.name, inner)
                }
                _ => row.name,
            };
            let message = match row.shape {
                Shape::List(..) if row.boxes && self.all(row.name).iter().all(String::is_empty) => {
                    "Choose at least one stream.".to_owned()
                }
                Shape::Choice(_) => "Choose one of these.".to_owned(),
                _ => as_sentence(&fault.message),
            };
            self.reject(control, message);
        }
        Patch::default()
    }

    /// The initial values of the controls of a record.
    pub(crate) fn initial(fields: &'static [Field], record: &Value) -> Vec<(&'static str, String)> {
        let mut values = Vec::new();
        for row in fields.iter().filter(|row| !row.declared && !row.fixed) {
            let value = &record[row.name];
            match row.shape {
                Shape::Table(fields) => values.extend(
                    fields
                        .iter()
                        .map(|field| (inner(field), shown(field, &value[field.name]))),
                ),
                _ if row.boxes => {
                    let chosen = value.as_array().into_iter().flatten();
                    let chosen = chosen.filter_map(Value::as_str);
                    values.extend(chosen.map(|one| (row.name, one.to_owned())));
                }
                _ => values.push((row.name, shown(row, value))),
            }
        }
        values
    }
}

/// The hint below a control: the description, and the default.
fn hint(row: &Field) -> String {
    let said = if row.hint.is_empty() {
        row.about()
    } else {
        row.hint
    };
    let is_typed = matches!(row.shape, Shape::Text(_) | Shape::Time);
    let default = match (row.none, row.shape) {
        (none, _) if is_typed && !row.usual.is_empty() => format!(" Default: {none}."),
        (_, Shape::List(..)) if !row.boxes => " Separate several with commas.".to_owned(),
        _ => String::new(),
    };
    format!("{said}{default}").replace('`', "")
}

/// The default of a number.
fn placeholder(row: &Field, catalog: &Catalog) -> String {
    let limits = serde_json::to_value(catalog.limits()).unwrap_or_default();
    match limits[row.inherits].as_u64() {
        Some(0) => "unlimited".to_owned(),
        Some(number) => grouped(number),
        None if row.none.is_empty() => (row.default)().to_string(),
        None => row.none.to_owned(),
    }
}

/// A value as its control shows it.
fn shown(row: &Field, value: &Value) -> String {
    match (value, row.shape) {
        (Value::Null, _) => String::new(),
        (Value::Bool(flag), _) => (if *flag { "yes" } else { "no" }).to_owned(),
        (Value::String(text), Shape::Time) => super::form_time(clock::parse_rfc3339(text)),
        (Value::String(text), _) => text.clone(),
        (Value::Array(entries), _) => {
            let entries = entries.iter().filter_map(Value::as_str);
            entries.collect::<Vec<_>>().join(", ")
        }
        (value, _) => value.to_string(),
    }
}
