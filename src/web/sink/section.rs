//! The section of a sink as a form: its initial values, and the section that is read from it.
//!
//! `new.rs` creates a sink with it, `change.rs` changes one.
//!
//! **Invariant**: a section that fills the form is read back as the same section. The form never contains an existing
//! secret; an empty field keeps it.

use serde_json::{Map, Value, json};

use super::rows::{Asked, Control, Group};
use super::schema_form::{self, CONFIG, Wrong};
use crate::form_data::FormData;
use settings::{IS_SET, Shape};

/// The value of the field `start` for a sink that follows the data pool.
pub(super) const LATEST: &str = "latest";
/// The control for streams without a checkbox.
pub(super) const PATTERNS: &str = "patterns";
/// The control to which the checkboxes of hosts in the plugin's settings add.
pub(super) const HOSTS: &str = "http.hosts";
/// The default start of a sink.
const NOW: &str = "now";
/// Maximum streams with a checkbox.
pub(super) const STREAMS_MAX: usize = 500;

/// The form of a sink with this plugin.
pub(super) struct SectionForm<'a> {
    pub(super) plugin: &'a str,
    /// The schema of the plugin's settings, with its references resolved.
    pub(super) schema: &'a Value,
    pub(super) asked: &'a Asked,
    /// The current section of the sink, if it exists: secrets are `{"set": true}`.
    pub(super) kept: Option<&'a Map<String, Value>>,
}

impl SectionForm<'_> {
    /// The initial values of the form. The first [`STREAMS_MAX`] of `streams` have checkboxes.
    pub(super) fn filled(&self, streams: &[&str]) -> FormData {
        let mut data = FormData::default();
        let Some(kept) = self.kept else {
            return data;
        };
        let said = |name: &str| kept.get(name).unwrap_or(&Value::Null);
        let boxed = &streams[..streams.len().min(STREAMS_MAX)];
        let (known, others): (Vec<&str>, Vec<&str>) =
            texts(said("streams")).partition(|name| boxed.contains(name));
        for name in known {
            data.put("streams", name.to_owned());
        }
        data.put(PATTERNS, others.join(", "));
        for one in Control::selections().chain(Control::grants(self.asked)) {
            let value = self.kept_at(&one.pointer()).unwrap_or(&Value::Null);
            match one.row.shape {
                Shape::Secrets(_) => {
                    for (name, _) in value.as_object().into_iter().flatten() {
                        data.put(&one.names(), name.clone());
                    }
                }
                Shape::Secret => {}
                Shape::List(..) => {
                    data.put(one.path, texts(value).collect::<Vec<_>>().join(", "));
                }
                _ => data.put(one.path, line(value)),
            }
        }
        let start = match said("mode") == LATEST {
            true => LATEST.to_owned(),
            // A browser sends the first choice if none is selected.
            false => match line(said("start")) {
                unsaid if unsaid.is_empty() => NOW.to_owned(),
                said => said,
            },
        };
        data.put("start", start);
        schema_form::fill(CONFIG, self.schema, said("config"), &mut data);
        for Group { place, schema, .. } in self.asked.groups() {
            let of = match place {
                "" => &Value::Object(kept.clone()),
                place => said(place),
            };
            schema_form::fill(place, &schema, of, &mut data);
        }
        data
    }

    /// Reads the section, without its name.
    pub(super) fn read(&self, data: &FormData, wrong: &mut Wrong) -> Map<String, Value> {
        let mut body = Map::new();
        body.insert("plugin".to_owned(), self.plugin.into());
        let mut streams: Vec<String> = data.all("streams").map(str::to_owned).collect();
        streams.extend(words(text(data, PATTERNS)));
        if streams.is_empty() {
            wrong.push((
                "streams".to_owned(),
                "Choose a stream, or write a pattern.".to_owned(),
            ));
        }
        body.insert("streams".to_owned(), json!(streams));
        match text(data, "start") {
            "" => {}
            LATEST => drop(body.insert("mode".to_owned(), LATEST.into())),
            start => drop(body.insert("start".to_owned(), start.into())),
        }
        for one in Control::selections() {
            if let Some(value) = self.value(one, data, wrong) {
                body.insert(one.path.to_owned(), value);
            }
        }
        let config = schema_form::typed(CONFIG, self.schema, data, wrong);
        body.insert(CONFIG.to_owned(), config.into());
        for one in Control::grants(self.asked) {
            let value = self.value(one, data, wrong);
            let Some(table) = one.table else {
                body.extend(value.map(|value| (one.path.to_owned(), value)));
                continue;
            };
            // Without what it requires there is no table. Another one is a grant even if it is empty.
            if one.row.required && value.is_none() {
                continue;
            }
            let members = body.entry(table.name).or_insert_with(|| json!({}));
            if let Some(value) = value {
                members[one.row.name] = value;
            }
        }
        for Group { place, schema, .. } in self.asked.groups() {
            let typed = schema_form::typed(place, &schema, data, wrong);
            match place {
                "" => body.extend(typed),
                _ if typed.is_empty() => {}
                place => match body.entry(place).or_insert_with(|| json!({})) {
                    Value::Object(known) => known.extend(typed),
                    other => *other = typed.into(),
                },
            }
        }
        body
    }

    /// The value of a control; `None`: it is empty.
    fn value(&self, one: &Control, data: &FormData, wrong: &mut Wrong) -> Option<Value> {
        let typed = text(data, one.path);
        match one.row.shape {
            Shape::List(..) => {
                let mut list = words(typed);
                let ticked = data.all("grant").filter(|_| one.path == HOSTS);
                for host in ticked.map(str::to_owned) {
                    if !list.contains(&host) {
                        list.push(host);
                    }
                }
                (!list.is_empty()).then(|| json!(list))
            }
            Shape::Secrets(_) => {
                let pairs = self.pairs(data, one, wrong);
                (!pairs.is_empty()).then(|| pairs.into())
            }
            // An empty field keeps the current secret.
            Shape::Secret if typed.is_empty() => {
                self.set(&one.pointer()).then(|| json!({ IS_SET: true }))
            }
            _ => (!typed.is_empty()).then(|| typed.into()),
        }
    }

    /// The value in the current section at a JSON pointer.
    fn kept_at(&self, place: &str) -> Option<&Value> {
        let place = place.strip_prefix('/')?;
        let (name, below) = place.split_at(place.find('/').unwrap_or(place.len()));
        self.kept?.get(name)?.pointer(below)
    }

    /// Whether a secret is set.
    pub(super) fn set(&self, place: &str) -> bool {
        self.kept_at(place).is_some()
    }

    /// Pairs of names and secrets. An empty field keeps the current secret.
    fn pairs(&self, data: &FormData, one: &Control, wrong: &mut Wrong) -> Map<String, Value> {
        let (names, values) = (one.names(), one.values());
        let kept = self.kept_at(&one.pointer());
        let is_set = |name: &str| kept.is_some_and(|kept| kept.get(name).is_some());
        // A form that fills itself from the current section has no values.
        let values = data.all(&values).chain(std::iter::repeat(""));
        let mut pairs = Map::new();
        for (name, value) in data.all(&names).zip(values) {
            let value = match (name.trim(), value) {
                ("", "") => continue,
                ("", _) => {
                    wrong.push((names.clone(), "Give the secret a name.".to_owned()));
                    continue;
                }
                (name, "") if is_set(name) => json!({ IS_SET: true }),
                (name, "") => {
                    wrong.push((names.clone(), format!("Give {name} a value.")));
                    continue;
                }
                (_, value) => value.into(),
            };
            pairs.insert(name.trim().to_owned(), value);
        }
        pairs
    }
}

/// The JSON merge patch that changes `before` into `after`; `None`: they are equal.
pub(super) fn difference(before: &Value, after: &Value) -> Option<Value> {
    if before == after {
        return None;
    }
    let (Value::Object(known), Value::Object(wanted)) = (before, after) else {
        return Some(after.clone());
    };
    let mut patch = Map::new();
    for (name, value) in wanted {
        let changed = difference(known.get(name).unwrap_or(&Value::Null), value);
        if let Some(changed) = changed {
            patch.insert(name.clone(), changed);
        }
    }
    let gone = known.keys().filter(|name| !wanted.contains_key(*name));
    patch.extend(gone.map(|name| (name.clone(), Value::Null)));
    Some(Value::Object(patch))
}

fn text<'a>(data: &'a FormData, name: &str) -> &'a str {
    data.get(name).unwrap_or_default().trim()
}

fn line(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

/// Splits a text at commas and whitespace.
pub(super) fn words(text: &str) -> Vec<String> {
    let parts = text.split([',', ' ', '\n', '\r', '\t']);
    parts
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests;
