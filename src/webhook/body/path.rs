//! The items inside an envelope: `items = "value"` on a connector. Called after `decode`, for connectors that have it.
//!
//! **Invariant**: the answer is a piece of the body as it was written; no number is parsed and printed again. Memory
//! does not grow with the number of fields.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use serde::Deserializer as _;
use serde::de::{Error, MapAccess, Visitor};
use serde_json::Deserializer;
use serde_json::value::RawValue;

use super::{BYTE_ORDER_MARK, kind, shown};

/// The JSON of the array or object at a dotted path, `value` or `data.items`, as the raw text of the body. Shares its
/// bytes. The bytes are shared, because a copy of a large body would double its memory.
///
/// # Errors
/// A sentence for the caller that names the path and what stands there; the status is 400.
pub fn at_path(json: &Bytes, path: &str) -> Result<Bytes, String> {
    let setting = format!("`items = \"{}\"`", shown(path));
    let text = std::str::from_utf8(json).map_err(|_| {
        format!("the body is not UTF-8, so {setting} cannot be found in it; send JSON in UTF-8")
    })?;
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let mut value: &RawValue = serde_json::from_str(text).map_err(|error| {
        format!("the body is not JSON, so {setting} cannot be found in it: {error}")
    })?;
    // Where the path has come so far, for messages.
    let mut place = "the body".to_owned();
    for name in path.split('.') {
        if !value.get().starts_with('{') {
            return Err(format!(
                "{place} is {}, so it has no field `{}`; the connector expects its items at {setting}",
                kind(value.get()),
                shown(name)
            ));
        }
        let found = Deserializer::from_str(value.get())
            .deserialize_map(Field(name))
            .map_err(|error| format!("the fields of {place} cannot be read: {error}"))?;
        value = found.ok_or_else(|| {
            format!(
                "{place} has no field `{}`; the connector expects its items at {setting}",
                shown(name)
            )
        })?;
        place = format!("the field `{}`", shown(name));
    }
    if !value.get().starts_with(['{', '[']) {
        return Err(format!(
            "{place} is {}; the connector expects an array of objects or an object at {setting}",
            kind(value.get())
        ));
    }
    Ok(json.slice_ref(value.get().as_bytes()))
}

/// Finds the value of the field with this name. A map of all fields would take many times the memory of the body.
struct Field<'n>(&'n str);

impl<'de> Visitor<'de> for Field<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(name) = fields.next_key::<Cow<'de, str>>()? {
            let value = fields.next_value()?;
            if name == self.0 && found.replace(value).is_some() {
                let name = shown(self.0);
                return Err(A::Error::custom(format_args!("`{name}` occurs twice")));
            }
        }
        Ok(found)
    }
}
