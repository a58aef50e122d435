//! HTML forms, `application/x-www-form-urlencoded` (URL Standard, section 5.1). Called by `decode`.
//!
//! **Invariant**: no byte is replaced: what is not UTF-8 is refused, where the crate `form_urlencoded` would put in
//! U+FFFD.

use bytes::Bytes;
use serde_json::map::Entry;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::output::Output;
use super::{DecodeError, percent, shown};

/// The only field of GitHub's default form, and of Slack's interactive messages: its value is the JSON itself. Without
/// it, such an item would have one field with JSON in it.
const PAYLOAD: &str = "payload";
/// A field takes much more memory than the two bytes that it may be sent in.
const FIELDS_MAX: usize = 10_000;

/// The JSON in the field `payload` if there is no other field; else an object of the fields as strings, in order. A
/// repeated field is an array of strings where it stands first.
pub(super) fn to_json(body: &[u8], bytes_max: usize) -> Result<Bytes, DecodeError> {
    let mut object = Map::new();
    let fields = body
        .split(|byte| *byte == b'&')
        .filter(|field| !field.is_empty());
    for (position, field) in fields.enumerate() {
        if position == FIELDS_MAX {
            return Err(DecodeError::Invalid(format!(
                "the form has more than {FIELDS_MAX} fields; send JSON with `Content-Type: application/json`"
            )));
        }
        let mut parts = field.splitn(2, |byte| *byte == b'=');
        let name = text(parts.next().unwrap_or_default())
            .ok_or_else(|| not_utf8("the name of a field in the form"))?;
        let value = text(parts.next().unwrap_or_default())
            .ok_or_else(|| not_utf8(&format!("the field `{}` of the form", shown(&name))))?;
        match object.entry(name) {
            Entry::Vacant(entry) => {
                entry.insert(Value::String(value));
            }
            Entry::Occupied(mut entry) => match entry.get_mut() {
                Value::Array(values) => values.push(Value::String(value)),
                first => *first = Value::Array(vec![first.take(), Value::String(value)]),
            },
        }
    }
    if object.is_empty() {
        return Err(DecodeError::Invalid(
            "the form is empty; send at least one field, or JSON with `Content-Type: application/json`"
                .to_owned(),
        ));
    }
    if let Some(json) = payload(&mut object) {
        return Ok(Bytes::from(json));
    }
    let mut out = Output::new(bytes_max);
    serde_json::to_writer(&mut out, &object).map_err(|_| DecodeError::TooLarge)?;
    Ok(out.into_bytes())
}

/// The JSON of a form that has the one field `payload`.
fn payload(object: &mut Map<String, Value>) -> Option<String> {
    if object.len() > 1 {
        return None;
    }
    let Some(Value::String(text)) = object.get_mut(PAYLOAD) else {
        return None;
    };
    let json: &RawValue = serde_json::from_str(text).ok()?;
    json.get()
        .starts_with(['{', '['])
        .then(|| std::mem::take(text))
}

/// A name or a value decoded; `None` if it is not UTF-8. A replacement character would change the data without anybody
/// noticing it.
fn text(encoded: &[u8]) -> Option<String> {
    let mut spaced = encoded.to_vec();
    for byte in &mut spaced {
        if *byte == b'+' {
            *byte = b' ';
        }
    }
    String::from_utf8(percent::decode(&spaced)).ok()
}

fn not_utf8(what: &str) -> DecodeError {
    DecodeError::Invalid(format!(
        "{what} is not UTF-8 after percent-decoding; send the form in UTF-8"
    ))
}
