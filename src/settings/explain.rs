//! Every effective setting with the place it comes from, for `headgate config show`.
//!
//! Called by the command line, which prints either form.
//!
//! **Invariant**: rows are made from the serialised settings, in which secrets are masked; no row can show one.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;

use super::merge::Origins;
use super::problem::{self, Origin};
use super::schema::{Field, ROOT, Shape};
use super::{Loaded, masking};

/// One effective setting.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The setting, as in `connectors[0].keys[1].stream`.
    pub path: String,
    /// Its value; secrets are masked or shown as the file or variable that holds them.
    pub value: Value,
    /// Where it was set: `config/production.toml:3`, `environment variable HEADGATE_LOG__LEVEL`, or `default`.
    pub origin: String,
}

impl Row {
    /// The value as TOML, on one line.
    pub fn toml(&self) -> String {
        toml(&self.value).to_string()
    }
}

/// Lists every effective setting in the order of `default.toml`.
pub fn explain(loaded: &Loaded) -> Vec<Row> {
    let mut settings = serde_json::to_value(&loaded.settings).unwrap_or_default();
    if loaded.settings.admin.token.is_none() {
        // Not a setting that anyone made, but where the token is to be found.
        let file = loaded.settings.admin.token_file.to_string_lossy();
        settings["admin"]["token"] = serde_json::json!({ "file": file });
    }
    let mut rows = Vec::new();
    table(&mut rows, &loaded.origins, "", &settings, ROOT);
    rows
}

/// `server.listen = "127.0.0.1:8080"    # config/production.toml:3`, a line each.
pub fn render_text(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{} = {}    # {}", row.path, row.toml(), row.origin);
    }
    text
}

/// A JSON array with `path`, `value` and `origin` of each row.
pub fn render_json(rows: &[Row]) -> Value {
    serde_json::to_value(rows).unwrap_or_default()
}

fn table(rows: &mut Vec<Row>, origins: &Origins, path: &str, value: &Value, fields: &[Field]) {
    for field in fields {
        let Some(value) = value.get(field.name).filter(|value| !value.is_null()) else {
            continue;
        };
        let path = problem::join(path, field.name);
        match (&field.shape, value) {
            (Shape::Table(fields), _) => table(rows, origins, &path, value, fields),
            (Shape::Tables(element), Value::Array(elements)) if !elements.is_empty() => {
                for (index, value) in elements.iter().enumerate() {
                    let path = format!("{path}[{index}]");
                    table(rows, origins, &path, value, element.fields);
                }
            }
            (shape, value) => {
                let mut value = value.clone();
                match shape {
                    Shape::Free => masking::mask(&mut value),
                    _ => masking::mask_urls(&mut value),
                }
                row(rows, origins, path, &value);
            }
        }
    }
}

/// A row; of a table that several sources have made together, one for each key.
fn row(rows: &mut Vec<Row>, origins: &Origins, path: String, value: &Value) {
    let origin = origins.of(&path);
    if let (Some(origin), Value::Object(members)) = (origin, value) {
        let inside = members.keys().map(|name| problem::join(&path, name));
        let mut sources = inside.filter_map(|path| origins.of(&path));
        if sources.any(|other| other.source() != origin.source()) {
            for (name, value) in members {
                row(rows, origins, problem::join(&path, name), value);
            }
            return;
        }
    }
    rows.push(Row {
        value: value.clone(),
        origin: origin.map_or_else(|| "default".to_owned(), Origin::to_string),
        path,
    });
}

/// The value as TOML has it. Null is no value of TOML, and no setting: [`table`] leaves it out.
pub(super) fn toml(value: &Value) -> toml_edit::Value {
    match value {
        Value::Null => "".into(),
        Value::Bool(value) => (*value).into(),
        Value::Number(number) => match number.as_i64() {
            Some(number) => number.into(),
            None => number.as_f64().unwrap_or_default().into(),
        },
        Value::String(text) => text.into(),
        Value::Array(values) => values.iter().map(toml).collect(),
        Value::Object(members) => (members.iter())
            .map(|(name, value)| (name, toml(value)))
            .collect(),
    }
}
