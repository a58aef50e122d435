//! Fields of a body that a check or a greeting needs before the body is parsed as data.
//!
//! Timestamps and tokens in bodies, and the handshakes, are read with [`parse`] and [`at`].
//!
//! **Invariant**: what is no JSON, or lacks the field, is `None`; nothing here fails otherwise.

use serde_json::Value;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The body as JSON.
pub(super) fn parse(body: &[u8]) -> Option<Value> {
    let body = body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body);
    serde_json::from_slice(body).ok()
}

/// The text, number or truth value at a path of names with dots between them.
pub(super) fn at(value: &Value, path: &str) -> Option<String> {
    let mut names = path.split('.');
    match names.try_fold(value, |value, name| value.as_object()?.get(name))? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The same, straight from the bytes.
pub(super) fn of(body: &[u8], path: &str) -> Option<String> {
    at(&parse(body)?, path)
}
