//! Controls that are generated from the JSON Schema of a plugin's settings, their initial values, and the settings from
//! them.
//!
//! There are controls for text, numbers, yes or no, choices, lists and tables of texts, and objects. All other types
//! are typed as JSON.
//!
//! **Invariant**: values are shown again, except secrets. An empty control sets nothing, so that the plugin's own
//! default applies.

use maud::{Markup, html};
use serde_json::{Map, Value};

use crate::form_data::FormData;

/// Maximum depth of objects that have controls; deeper ones are typed as JSON.
const DEPTH_MAX: usize = 3;
/// Maximum controls of one form.
const CONTROLS_MAX: usize = 200;
/// Maximum characters of a line; `LINES_CHARS_MAX` applies to several lines.
const LINE_CHARS_MAX: usize = 4_096;
const LINES_CHARS_MAX: usize = 65_536;
/// The keyword that marks a control in a schema, and its values.
const MARK: &str = "x-headgate";
const SECRET: &str = "secret";
const BODY: &str = "template:body";

/// The path of the settings of a plugin.
pub(super) const CONFIG: &str = "config";
/// The keyword of references in a schema, and their maximum depth.
const REFERENCE: &str = "$ref";
const REFERENCES_MAX: usize = 8;

/// Errors in the form: the path, and the message.
pub(super) type Wrong = Vec<(String, String)>;

/// The control of a property.
enum Kind<'a> {
    Line,
    Secret,
    Number,
    YesOrNo,
    Words(Vec<&'a str>),
    /// A list of texts, one per line.
    List,
    /// A table of texts, one `name: value` per line.
    Table,
    Object(&'a Map<String, Value>),
    /// A text, or a JSON object or array.
    Body,
    Json,
}

impl<'a> Kind<'a> {
    fn of(schema: &'a Value, depth: usize) -> Self {
        let text = |schema: &Value| schema["type"] == "string";
        if schema[MARK] == BODY {
            return Self::Body;
        }
        if let Some(words) = schema["enum"].as_array() {
            let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
            return words.map_or(Self::Json, Self::Words);
        }
        match schema["type"].as_str() {
            Some("string") if schema[MARK] == SECRET => Self::Secret,
            Some("string") => Self::Line,
            Some("integer" | "number") => Self::Number,
            Some("boolean") => Self::YesOrNo,
            Some("array") if text(&schema["items"]) => Self::List,
            Some("object") => match schema["properties"].as_object() {
                Some(properties) if depth < DEPTH_MAX => Self::Object(properties),
                None if text(&schema["additionalProperties"]) => Self::Table,
                _ => Self::Json,
            },
            _ => Self::Json,
        }
    }
}

/// Resolves the references of a schema to its own parts.
pub(super) fn resolved(schema: &Value) -> Value {
    fn within(schema: &Value, root: &Value, depth: usize) -> Value {
        match schema {
            Value::Object(members) => {
                let mut all = Map::new();
                let meant = members.get(REFERENCE).and_then(Value::as_str);
                let meant = meant.and_then(|place| root.pointer(place.strip_prefix('#')?));
                if let (Some(meant), true) = (meant, depth < REFERENCES_MAX)
                    && let Value::Object(meant) = within(meant, root, depth + 1)
                {
                    all.extend(meant);
                }
                let own = members.iter().filter(|(name, _)| *name != REFERENCE);
                all.extend(own.map(|(name, value)| (name.clone(), within(value, root, depth))));
                Value::Object(all)
            }
            Value::Array(all) => all.iter().map(|one| within(one, root, depth)).collect(),
            other => other.clone(),
        }
    }
    within(schema, schema, 0)
}

/// A form for a schema.
pub(super) struct SchemaForm<'a> {
    /// The path of the described settings.
    root: &'a str,
    schema: &'a Value,
    data: &'a FormData,
    wrong: &'a Wrong,
}

impl<'a> SchemaForm<'a> {
    pub(super) fn new(
        root: &'a str,
        schema: &'a Value,
        data: &'a FormData,
        wrong: &'a Wrong,
    ) -> Self {
        Self {
            root,
            schema,
            data,
            wrong,
        }
    }

    pub(super) fn controls(&self) -> Markup {
        match self.schema["properties"].as_object() {
            Some(properties) => self.object(self.root, properties, self.schema, 0),
            // The schema has no properties.
            None if self.schema.is_object() => {
                self.one(self.root, "Settings", self.schema, false, DEPTH_MAX)
            }
            None => html! { p.quiet { "This plugin has no settings." } },
        }
    }

    fn object(
        &self,
        path: &str,
        properties: &Map<String, Value>,
        schema: &Value,
        depth: usize,
    ) -> Markup {
        html! {
            @for (name, property) in properties.iter().take(CONTROLS_MAX) {
                (self.one(&below(path, name), name, property, is_required(schema, name), depth))
            }
        }
    }

    fn one(&self, path: &str, name: &str, schema: &Value, required: bool, depth: usize) -> Markup {
        let label = schema["title"].as_str().unwrap_or(name);
        let usual = match &schema["default"] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let kind = Kind::of(schema, depth);
        if let Kind::Object(properties) = kind {
            return html! {
                fieldset.field #(path) {
                    legend { (label) }
                    (hint(path, schema))
                    (self.object(path, properties, schema, depth + 1))
                }
            };
        }
        let message = self.message(path);
        let control = self.control(&kind, path, &usual, required, message.is_some());
        let form = match kind {
            Kind::List => "One per line. ",
            Kind::Table => "A name, a colon and a value per line. ",
            Kind::Json => "As JSON. ",
            Kind::Body => "Text, or a JSON object or list. ",
            _ => "",
        };
        html! {
            div.field {
                label for=(path) { (label) }
                (control)
                p.hint id={ (path) "-hint" } { (form) (schema["description"].as_str().unwrap_or_default()) }
                @if let Some(message) = message { p.wrong { (message) } }
            }
        }
    }

    fn control(
        &self,
        kind: &Kind<'_>,
        path: &str,
        usual: &str,
        required: bool,
        is_wrong: bool,
    ) -> Markup {
        let typed = self.data.get(path).unwrap_or_default();
        let invalid = is_wrong.then_some("true");
        let describes = format!("{path}-hint");
        match kind {
            Kind::Words(words) => html! {
                select id=(path) name=(path) aria-describedby=(describes) aria-invalid=[invalid] {
                    @if !required { option value="" { "as usual" @if !usual.is_empty() { " (" (usual) ")" } } }
                    @for word in words { option value=(word) selected[*word == typed] { (word) } }
                }
            },
            Kind::YesOrNo => html! {
                select id=(path) name=(path) aria-describedby=(describes) aria-invalid=[invalid] {
                    option value="" { "as usual" @if !usual.is_empty() { " (" (yes_or_no(usual)) ")" } }
                    option value="true" selected[typed == "true"] { "yes" }
                    option value="false" selected[typed == "false"] { "no" }
                }
            },
            Kind::Line => html! {
                input id=(path) name=(path) type="text" value=(typed) maxlength=(LINE_CHARS_MAX) placeholder=(usual) required[required]
                    autocomplete="off" autocapitalize="off" spellcheck="false" dir="auto" aria-describedby=(describes) aria-invalid=[invalid];
            },
            Kind::Secret => html! {
                input id=(path) name=(path) type="password" maxlength=(LINE_CHARS_MAX) required[required]
                    autocomplete="off" aria-describedby=(describes) aria-invalid=[invalid];
            },
            Kind::Number => html! {
                input id=(path) name=(path) type="text" inputmode="decimal" value=(typed) maxlength="40" placeholder=(usual) required[required]
                    autocomplete="off" size="14" aria-describedby=(describes) aria-invalid=[invalid];
            },
            Kind::List | Kind::Table | Kind::Body | Kind::Json | Kind::Object(_) => html! {
                textarea.mono id=(path) name=(path) rows="3" maxlength=(LINES_CHARS_MAX) required[required] placeholder=(usual)
                    autocomplete="off" autocapitalize="off" spellcheck="false" dir="auto" aria-describedby=(describes) aria-invalid=[invalid] { (typed) }
            },
        }
    }

    fn message(&self, path: &str) -> Option<&str> {
        let found = self.wrong.iter().find(|(wrong, _)| wrong == path);
        found.map(|(_, message)| message.as_str())
    }
}

fn hint(path: &str, schema: &Value) -> Markup {
    html! {
        @if let Some(about) = schema["description"].as_str() { p.hint id={ (path) "-hint" } { (about) } }
    }
}

fn yes_or_no(usual: &str) -> &'static str {
    if usual == "true" { "yes" } else { "no" }
}

fn is_required(schema: &Value, name: &str) -> bool {
    let required = schema["required"].as_array().into_iter().flatten();
    required.into_iter().any(|one| one == name)
}

/// The path of a property.
fn below(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    }
}

/// Fills a form with the current settings. Secrets are left out.
pub(super) fn fill(root: &str, schema: &Value, set: &Value, data: &mut FormData) {
    fn object(
        path: &str,
        properties: &Map<String, Value>,
        set: &Value,
        data: &mut FormData,
        depth: usize,
    ) {
        for (name, property) in properties.iter().take(CONTROLS_MAX) {
            let value = &set[&**name];
            let path = below(path, name);
            match Kind::of(property, depth) {
                _ if value.is_null() => {}
                Kind::Object(properties) => object(&path, properties, value, data, depth + 1),
                Kind::Secret => {}
                kind => data.put(&path, written(&kind, value)),
            }
        }
    }
    match schema["properties"].as_object() {
        Some(properties) => object(root, properties, set, data, 0),
        None if set.as_object().is_some_and(|set| !set.is_empty()) => {
            data.put(root, written(&Kind::Json, set));
        }
        None => {}
    }
}

/// A value as its control shows it.
fn written(kind: &Kind<'_>, value: &Value) -> String {
    let plain = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    match (kind, value) {
        (Kind::List, Value::Array(all)) => all.iter().map(plain).collect::<Vec<_>>().join("\n"),
        (Kind::Table, Value::Object(all)) => {
            let lines = all
                .iter()
                .map(|(name, value)| format!("{name}: {}", plain(value)));
            lines.collect::<Vec<_>>().join("\n")
        }
        (Kind::Json | Kind::Object(_), value) => value.to_string(),
        (Kind::Body, value @ (Value::Object(_) | Value::Array(_))) => {
            serde_json::to_string_pretty(value).unwrap_or_default()
        }
        (_, value) => plain(value),
    }
}

/// Reads the settings from a form.
pub(super) fn typed(
    root: &str,
    schema: &Value,
    data: &FormData,
    wrong: &mut Wrong,
) -> Map<String, Value> {
    match schema["properties"].as_object() {
        Some(properties) => object(root, properties, data, 0, wrong),
        None => match read(data, root, &Kind::Json) {
            Ok(Some(Value::Object(all))) => all,
            Ok(_) => Map::new(),
            Err(message) => {
                wrong.push((root.to_owned(), message));
                Map::new()
            }
        },
    }
}

fn object(
    path: &str,
    properties: &Map<String, Value>,
    data: &FormData,
    depth: usize,
    wrong: &mut Wrong,
) -> Map<String, Value> {
    let mut all = Map::new();
    for (name, property) in properties.iter().take(CONTROLS_MAX) {
        let path = below(path, name);
        let value = match Kind::of(property, depth) {
            Kind::Object(properties) => {
                let inner = object(&path, properties, data, depth + 1, wrong);
                Ok(Some(Value::Object(inner)).filter(|_| has_any(data, &path)))
            }
            kind => read(data, &path, &kind),
        };
        match value {
            Ok(Some(value)) => drop(all.insert(name.clone(), value)),
            Ok(None) => {}
            Err(message) => wrong.push((path, message)),
        }
    }
    all
}

/// Whether any field below a path has a value.
fn has_any(data: &FormData, path: &str) -> bool {
    data.names_below(path)
        .any(|(_, value)| !value.trim().is_empty())
}

fn read(data: &FormData, path: &str, kind: &Kind<'_>) -> Result<Option<Value>, String> {
    let text = data.get(path).unwrap_or_default();
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Ok(None);
    }
    let lines = || {
        trimmed
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
    };
    Ok(Some(match kind {
        Kind::Line | Kind::Words(_) | Kind::Secret => trimmed.into(),
        Kind::YesOrNo => Value::Bool(trimmed == "true"),
        Kind::Number => match serde_json::from_str::<Value>(trimmed) {
            Ok(number @ Value::Number(_)) => number,
            _ => return Err("Enter a number.".to_owned()),
        },
        Kind::List => lines().map(Value::from).collect(),
        Kind::Table => {
            let mut table = Map::new();
            for line in lines() {
                let (name, value) = line
                    .split_once(':')
                    .ok_or_else(|| "Write a name, a colon and a value per line.".to_owned())?;
                table.insert(name.trim().to_owned(), value.trim().into());
            }
            Value::Object(table)
        }
        // A text can begin with a placeholder.
        Kind::Body => match serde_json::from_str(trimmed) {
            Ok(value @ (Value::Object(_) | Value::Array(_))) => value,
            _ => trimmed.into(),
        },
        Kind::Object(_) | Kind::Json => {
            serde_json::from_str(trimmed).map_err(|error| format!("This is not JSON: {error}."))?
        }
    }))
}

#[cfg(test)]
mod tests;
