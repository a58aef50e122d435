//! What is made at run time is held to the rules that the schema has for what a file declares.
//!
//! The catalog asks before it makes or changes something.
//!
//! **Invariant**: no message repeats a text that begins like a secret.

use serde::de::DeserializeOwned;
use serde::{Deserialize as _, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;

use super::schema::{CONNECTOR, Element, Field, STREAM, Shape, VERIFY};
use super::{Connector, DeleteWhen, Stream, Verify, hint, quoted};

/// What is wrong with one field. As a text it follows the field's name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Misfit {
    /// It begins like a key or a token, and so is kept and repeated nowhere.
    #[error("begins like a secret (ik_, rk_, at_), which it must not; nothing was kept of it")]
    Secret,
    /// A number out of bounds.
    #[error("must be from {min} to {max}")]
    Range {
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// A text of another form than is wanted.
    #[error("{0}")]
    Form(String),
}

/// Whether a text begins like a key or a token.
pub fn looks_secret(text: &str) -> bool {
    let markers = ["ik_", "rk_", "at_"];
    markers.iter().any(|marker| text.starts_with(marker))
}

/// What is wrong with a text that `check` is for.
pub fn misfit_of_text(text: &str, check: fn(&str) -> Result<(), String>) -> Option<Misfit> {
    match looks_secret(text) {
        true => Some(Misfit::Secret),
        false => check(text).err().map(Misfit::Form),
    }
}

/// The first field of a stream that does not fit, and why.
pub fn misfit_of_stream(stream: &Stream) -> Option<(&'static str, Misfit)> {
    misfit(&STREAM, stream)
}

/// The first field of a connector that does not fit, and why. Its keys are not looked at.
pub fn misfit_of_connector(connector: &Connector) -> Option<(&'static str, Misfit)> {
    misfit(&CONNECTOR, connector)
}

/// The stream of this name as it was written down. Options that this version does not know are left out; what cannot
/// be read has its defaults, and the log says so.
pub fn written_stream(name: String, json: &str) -> Stream {
    let settings = written(&STREAM, &name, json);
    Stream { name, ..settings }
}

/// The same of a connector.
pub fn written_connector(name: String, json: &str) -> Connector {
    let settings = written(&CONNECTOR, &name, json);
    Connector { name, ..settings }
}

/// How the deliveries of a key are to be verified: an object with what `verify` has in a file, its secrets as texts.
///
/// # Errors
/// What does not fit, in a sentence.
pub fn read_verify(value: &Value) -> Result<Verify, String> {
    read_table("verify", value, VERIFY)?;
    Verify::deserialize(value).map_err(|error| format!("verify cannot be read: {error}"))
}

/// Which items are removals, likewise.
///
/// # Errors
/// What does not fit, in a sentence.
pub fn read_delete_when(value: &Value) -> Result<DeleteWhen, String> {
    read_table("delete_when", value, DeleteWhen::FIELDS)?;
    let when = DeleteWhen::deserialize(value)
        .map_err(|error| format!("delete_when cannot be read: {error}"))?;
    match when.field.is_empty() || when.is.is_empty() {
        true => Err("delete_when must have a field and at least one value in `is`".to_owned()),
        false => Ok(when),
    }
}

fn read_table(path: &str, value: &Value, fields: &[Field]) -> Result<(), String> {
    let Some(table) = value.as_object() else {
        return Err(format!("{path} must be an object"));
    };
    for (name, value) in table {
        let Some(field) = fields.iter().find(|field| field.name == name) else {
            let names: Vec<&str> = fields.iter().map(|field| field.name).collect();
            let hint = hint(name, &names);
            return Err(format!("{path} has no field {}{hint}", quoted(name)));
        };
        let path = format!("{path}.{name}");
        match (&field.shape, value) {
            (_, Value::Null) | (Shape::Secret, Value::String(_)) => {}
            // What names a file or a variable names it on the daemon's machine.
            (Shape::Secret, _) => return Err(format!("{path} must be a text")),
            (Shape::Table(fields), value) => read_table(&path, value, fields)?,
            (Shape::Text(kind), Value::String(text)) => {
                (kind.check)(text).map_err(|message| format!("{path}: {message}"))?;
            }
            (Shape::Choice(words), Value::String(text)) if words.contains(&text.as_str()) => {}
            (Shape::List(kind, _), Value::Array(texts)) => {
                for text in texts {
                    let text = text
                        .as_str()
                        .ok_or_else(|| format!("{path} must be a list of texts"))?;
                    (kind.check)(text).map_err(|message| format!("{path}: {message}"))?;
                }
            }
            (Shape::Integer(min, max), Value::Number(number))
                if number
                    .as_u64()
                    .is_some_and(|it| (*min..=*max).contains(&it)) => {}
            (shape, _) => return Err(format!("{path} must be {}", shape.wants())),
        }
    }
    Ok(())
}

/// How the deliveries of a key are verified, as it was written down. What cannot be read verifies nothing.
pub fn written_verify(json: &str) -> Verify {
    serde_json::from_str(json).unwrap_or_default()
}

fn written<T: DeserializeOwned + Default>(element: &Element, name: &str, json: &str) -> T {
    let known = serde_json::from_str::<Map<String, Value>>(json).and_then(|mut options| {
        options.retain(|name, _| element.fields.iter().any(|field| field.name == name));
        T::deserialize(Value::Object(options))
    });
    known.unwrap_or_else(|error| {
        tracing::warn!(name = %quoted(name), %error, "what was set of it at run time cannot be read: the defaults count");
        T::default()
    })
}

fn misfit(element: &Element, settings: &impl Serialize) -> Option<(&'static str, Misfit)> {
    let settings = serde_json::to_value(settings).unwrap_or_default();
    element.fields.iter().find_map(|field| {
        let wrong = match (&field.shape, &settings[field.name]) {
            (Shape::Text(kind), Value::String(text)) => misfit_of_text(text, kind.check)?,
            (Shape::Integer(min, max), Value::Number(number)) => {
                let fits = number
                    .as_u64()
                    .is_some_and(|it| (*min..=*max).contains(&it));
                (!fits).then_some(Misfit::Range {
                    min: *min,
                    max: *max,
                })?
            }
            _ => return None,
        };
        Some((field.name, wrong))
    })
}
