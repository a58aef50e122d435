//! Controls made from the JSON Schema of a plugin's settings, and the settings that were typed into them.
//!
//! Text, numbers, yes or no, words to choose from, lists and tables of texts, and objects have controls of their own;
//! anything else is typed as JSON.
//!
//! **Invariant**: what was typed comes back, but for secrets. A control that is left empty sets nothing, so that the
//! plugin's own default counts.

use maud::{Markup, html};
use serde_json::{Map, Value};

use crate::form_data::FormData;

/// How deep objects have controls of their own.
const DEPTH_MAX: usize = 3;
/// Controls of one form.
const CONTROLS_MAX: usize = 200;
/// Characters of a line, and of several.
const LINE_CHARS_MAX: usize = 4_096;
const LINES_CHARS_MAX: usize = 65_536;
/// What marks a control in a schema, and how.
const MARK: &str = "x-headgate";
const SECRET: &str = "secret";
const BODY: &str = "template:body";

/// What is wrong with what was typed: the place, and the sentence.
pub(super) type Wrong = Vec<(String, String)>;

/// What a property takes.
enum Kind<'a> {
    Line,
    Secret,
    Number,
    YesOrNo,
    Words(Vec<&'a str>),
    /// A list of texts, one in each line.
    List,
    /// A table of texts, `name: value` in each line.
    Table,
    Object(&'a Map<String, Value>),
    /// Text, or a JSON object or list.
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

/// A form of a schema.
pub(super) struct SchemaForm<'a> {
    schema: &'a Value,
    data: &'a FormData,
    wrong: &'a Wrong,
}

impl<'a> SchemaForm<'a> {
    pub(super) fn new(schema: &'a Value, data: &'a FormData, wrong: &'a Wrong) -> Self {
        Self {
            schema,
            data,
            wrong,
        }
    }

    /// The controls.
    pub(super) fn controls(&self) -> Markup {
        match self.schema["properties"].as_object() {
            Some(properties) => self.object("config", properties, self.schema, 0),
            // There is no property to ask for.
            None if self.schema.is_object() => {
                self.one("config", "Settings", self.schema, false, DEPTH_MAX)
            }
            None => html! { p.quiet { "This plugin takes no settings." } },
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
                (self.one(&format!("{path}.{name}"), name, property, is_required(schema, name), depth))
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
            Kind::List => "One in each line. ",
            Kind::Table => "In each line a name, a colon and a value. ",
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

/// The settings that were typed.
pub(super) fn typed(schema: &Value, data: &FormData, wrong: &mut Wrong) -> Map<String, Value> {
    match schema["properties"].as_object() {
        Some(properties) => object("config", properties, data, 0, wrong),
        None => match read(data, "config", &Kind::Json) {
            Ok(Some(Value::Object(all))) => all,
            Ok(_) => Map::new(),
            Err(message) => {
                wrong.push(("config".to_owned(), message));
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
        let path = format!("{path}.{name}");
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

/// Whether anything was typed below a place.
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
            _ => return Err("Give a number.".to_owned()),
        },
        Kind::List => lines().map(Value::from).collect(),
        Kind::Table => {
            let mut table = Map::new();
            for line in lines() {
                let (name, value) = line
                    .split_once(':')
                    .ok_or_else(|| "Write a name, a colon and a value in each line.".to_owned())?;
                table.insert(name.trim().to_owned(), value.trim().into());
            }
            Value::Object(table)
        }
        // A text may begin with a placeholder.
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
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({
            "type": "object", "required": ["url"],
            "properties": {
                "url": {"type": "string", "title": "Address"},
                "count": {"type": "integer", "default": 7},
                "yes": {"type": "boolean", "default": true},
                "word": {"enum": ["a", "b"]},
                "list": {"type": "array", "items": {"type": "string"}},
                "table": {"type": "object", "additionalProperties": {"type": "string"}},
                "inner": {"type": "object", "properties": {"deep": {"type": "number"}}},
                "token": {"type": "string", "x-headgate": "secret"},
                "odd": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
                "body": {"x-headgate": "template:body"},
                "text": {"x-headgate": "template:body"},
            },
        })
    }

    fn form(fields: &[(&str, &str)]) -> FormData {
        let mut data = FormData::default();
        for (name, value) in fields {
            data.put(name, (*value).to_owned());
        }
        data
    }

    #[test]
    fn what_is_typed_is_read_as_the_schema_has_it_and_what_is_empty_sets_nothing() {
        let data = form(&[
            ("config.url", " https://a "),
            ("config.count", "12"),
            ("config.yes", "false"),
            ("config.word", "b"),
            ("config.list", "x\n\n y \n"),
            ("config.table", "A: b:c\nd:e"),
            ("config.inner.deep", "1.5"),
            ("config.odd", "[1, null]"),
            ("config.body", "{\"a\": \"{n}\"}"),
            ("config.text", "{n} left"),
            ("config.unknown", "1"),
        ]);
        let mut wrong = Wrong::new();
        let all = typed(&schema(), &data, &mut wrong);
        assert_eq!(wrong, []);
        assert_eq!(
            Value::Object(all),
            json!({
                "url": "https://a", "count": 12, "yes": false, "word": "b", "list": ["x", "y"],
                "table": {"A": "b:c", "d": "e"}, "inner": {"deep": 1.5}, "odd": [1, null],
                "body": {"a": "{n}"}, "text": "{n} left",
            })
        );
        let all = typed(
            &schema(),
            &form(&[("config.url", ""), ("config.yes", "")]),
            &mut wrong,
        );
        assert_eq!((Value::Object(all), wrong), (json!({}), Vec::new()));
    }

    #[test]
    fn what_cannot_be_read_is_said_at_its_control_and_comes_back_without_secrets() {
        let fields = [
            ("config.count", "\"><script>"),
            ("config.table", "no colon"),
            ("config.odd", "{"),
            ("config.token", "hush-typed"),
        ];
        let data = form(&fields);
        let mut wrong = Wrong::new();
        typed(&schema(), &data, &mut wrong);
        let places: Vec<&str> = wrong.iter().map(|(path, _)| &**path).collect();
        assert_eq!(places, ["config.count", "config.table", "config.odd"]);
        let schema = schema();
        let shown = SchemaForm::new(&schema, &data, &wrong)
            .controls()
            .into_string();
        assert!(
            shown.contains("value=\"&quot;&gt;&lt;script&gt;\""),
            "{shown}"
        );
        assert!(shown.contains("Give a number."), "{shown}");
        assert!(
            shown.contains("type=\"password\"") && !shown.contains("hush"),
            "{shown}"
        );
        assert!(shown.contains(">Address</label>"), "{shown}");
        assert!(shown.contains("as usual (yes)"), "{shown}");
    }
}
