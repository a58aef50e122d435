//! What is made at run time is held to the rules that the schema has for what a file declares.
//!
//! The catalog asks before it makes or changes something.
//!
//! **Invariant**: no message repeats a text that begins like a secret.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use thiserror::Error;

use super::record::Field;
use super::{Connector, Stream, Verify, quoted};

/// What is wrong with one field. As a text it follows the field's name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ValidationError {
    /// It begins like a key or a token, and so is kept and repeated nowhere.
    #[error(
        "begins like a secret (ik_, rk_, ok_, at_), which is not allowed; nothing of it was stored"
    )]
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
    let markers = ["ik_", "rk_", "ok_", "at_"];
    markers.iter().any(|marker| text.starts_with(marker))
}

/// What is wrong with a text that `check` is for.
pub fn invalid_text(text: &str, check: fn(&str) -> Result<(), String>) -> Option<ValidationError> {
    match looks_secret(text) {
        true => Some(ValidationError::Secret),
        false => check(text).err().map(ValidationError::Form),
    }
}

/// The stream of this name as it was written down. Options that this version does not know are left out; what cannot
/// be read has its defaults, and the log says so.
pub fn written_stream(name: String, json: &str) -> Stream {
    let settings = written(Stream::FIELDS, &name, json);
    Stream { name, ..settings }
}

/// The same of a connector.
pub fn written_connector(name: String, json: &str) -> Connector {
    let settings = written(Connector::FIELDS, &name, json);
    Connector { name, ..settings }
}

/// How the deliveries of a key are verified, as it was written down. What cannot be read verifies nothing.
pub fn written_verify(json: &str) -> Verify {
    serde_json::from_str(json).unwrap_or_default()
}

fn written<T: DeserializeOwned + Default>(fields: &[Field], name: &str, json: &str) -> T {
    let known = serde_json::from_str::<Map<String, Value>>(json).and_then(|mut options| {
        options.retain(|name, _| fields.iter().any(|field| field.name == name));
        T::deserialize(Value::Object(options))
    });
    known.unwrap_or_else(|error| {
        tracing::warn!(name = %quoted(name), %error, "its settings of run time cannot be read: the defaults apply");
        T::default()
    })
}
