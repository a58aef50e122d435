//! The section of a sink as a form: its initial values, and the section that is read from it.
//!
//! `new.rs` creates a sink with it, `change.rs` changes one.
//!
//! **Invariant**: a section that fills the form is read back as the same section. The form never contains an existing
//! secret; an empty field keeps it.

use serde_json::{Map, Value, json};

use super::rows::{Asked, Group};
use super::schema_form::{self, CONFIG, Wrong};
use crate::form_data::FormData;
use settings::IS_SET;

/// The value of the field `start` for a sink that follows the data pool.
pub(super) const LATEST: &str = "latest";
/// The default start of a sink.
const NOW: &str = "now";
/// Maximum streams with a checkbox.
pub(super) const STREAMS_MAX: usize = 500;

/// The form of a sink with this plugin.
pub(super) struct SectionForm<'a> {
    pub(super) plugin: &'a str,
    /// The schema of the plugin's settings, with its references resolved.
    pub(super) schema: &'a Value,
    pub(super) asked: Asked,
    /// The current section of the sink, if it exists: secrets are `{"set": true}`.
    pub(super) kept: Option<&'a Map<String, Value>>,
}

/// The destinations and networks in the form.
fn wire(data: &FormData) -> Value {
    let mut wire = json!({ "to": words(text(data, "wire")) });
    let networks = words(text(data, "wire_networks"));
    if !networks.is_empty() {
        wire["networks"] = json!(networks);
    }
    wire
}

impl SectionForm<'_> {
    /// The grants that are lists, by the names of their controls.
    fn granted(&self) -> [(&'static str, String); 6] {
        let list = |place: &str| {
            let list = self.kept_at(place).unwrap_or(&Value::Null);
            texts(list).collect::<Vec<_>>().join(", ")
        };
        let folder = self.kept_at("/folder/path").and_then(Value::as_str);
        [
            ("writes", list("/writes")),
            ("hosts", list("/http/hosts")),
            ("networks", list("/http/networks")),
            ("wire", list("/wire/to")),
            ("wire_networks", list("/wire/networks")),
            ("folder", folder.unwrap_or_default().to_owned()),
        ]
    }

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
        for (name, text) in self.granted() {
            data.put(name, text);
        }
        let lines = [
            ("patterns", others.join(", ")),
            ("where", line(said("where"))),
            ("fields", line(said("fields"))),
        ];
        for (name, text) in lines {
            data.put(name, text);
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
        for (names, secrets) in [
            ("header_name", &said("http")["headers"]),
            ("secret_name", said("secrets")),
        ] {
            for name in secrets.as_object().into_iter().flatten() {
                data.put(names, name.0.clone());
            }
        }
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
        streams.extend(words(text(data, "patterns")));
        if streams.is_empty() {
            wrong.push((
                "streams".to_owned(),
                "Choose a stream, or write a pattern.".to_owned(),
            ));
        }
        body.insert("streams".to_owned(), json!(streams));
        for name in ["start", "where", "fields"] {
            let said = text(data, name);
            if !said.is_empty() {
                let name = if said == LATEST { "mode" } else { name };
                body.insert(name.to_owned(), said.into());
            }
        }
        let writes = words(text(data, "writes"));
        if !writes.is_empty() {
            body.insert("writes".to_owned(), json!(writes));
        }
        let config = schema_form::typed(CONFIG, self.schema, data, wrong);
        body.insert(CONFIG.to_owned(), config.into());
        if self.asked.http {
            let http = self.http(data, wrong);
            body.insert("http".to_owned(), http);
        }
        if let Some(url) = self.database(data) {
            body.insert("postgres".to_owned(), json!({ "url": url }));
        }
        if self.asked.wire {
            body.insert("wire".to_owned(), wire(data));
        }
        let folder = text(data, "folder");
        if self.asked.folder && !folder.is_empty() {
            body.insert("folder".to_owned(), json!({ "path": folder }));
        }
        let secrets = self.pairs(data, "secret", "/secrets", wrong);
        if !secrets.is_empty() {
            body.insert("secrets".to_owned(), secrets.into());
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

    fn http(&self, data: &FormData, wrong: &mut Wrong) -> Value {
        let mut hosts = words(text(data, "hosts"));
        for host in data.all("grant").map(str::to_owned) {
            if !hosts.contains(&host) {
                hosts.push(host);
            }
        }
        let mut http = json!({ "hosts": hosts });
        let networks = words(text(data, "networks"));
        if !networks.is_empty() {
            http["networks"] = json!(networks);
        }
        let headers = self.pairs(data, "header", "/http/headers", wrong);
        if !headers.is_empty() {
            http["headers"] = headers.into();
        }
        http
    }

    /// The URL of the database; an empty field keeps the current one.
    fn database(&self, data: &FormData) -> Option<Value> {
        if !self.asked.postgres {
            return None;
        }
        match text(data, "postgres_url") {
            "" => self.set("/postgres/url").then(|| json!({ IS_SET: true })),
            url => Some(url.into()),
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
    fn pairs(
        &self,
        data: &FormData,
        what: &str,
        place: &str,
        wrong: &mut Wrong,
    ) -> Map<String, Value> {
        let (names, values) = (format!("{what}_name"), format!("{what}_value"));
        let kept = self.kept_at(place);
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
