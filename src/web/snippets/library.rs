//! Example requests with the client libraries.
//!
//! **Invariant**: as in [`snippets`](super). There is no example if the connector requires more than a plain object,
//! because the library cannot send it.

use super::{Address, Sample, json};
use catalog::key::KeyText;

const NODE: &str = include_str!("library.mjs");
const PYTHON: &str = include_str!("library.py");
const C_SHARP: &str = include_str!("library.cs");
const GO: &str = include_str!("library.go");

/// The first request in this language. Without a key, the code reads the variable `HEADGATE_KEY`.
pub(super) fn of(
    language: &str,
    address: &Address,
    sample: &Sample<'_>,
    key: Option<&KeyText>,
) -> Option<String> {
    let (code, absent, comment) = match language {
        "Node.js" => (NODE, "", " // the key: HEADGATE_KEY"),
        "Python" => (PYTHON, "", "  # the key: HEADGATE_KEY"),
        "C#" => (C_SHARP, "", " // the key: HEADGATE_KEY"),
        "Go" => (GO, ", \"\"", " // the key: HEADGATE_KEY"),
        _ => return None,
    };
    if !sample.is_plain || address.socket.is_some() {
        return None;
    }
    let (key, comment) = match key {
        Some(key) => (format!(", \"{}\"", key.expose()), ""),
        None => (absent.to_owned(), comment),
    };
    // The field is replaced last: it can contain any text.
    let code = code
        .replace("{base}", &address.base)
        .replace("{key}", &key)
        .replace("{from}", comment);
    Some(code.replace("{field}", &json(sample.item_key.unwrap_or("id"))))
}
