//! Bodies of changes: which fields there are, and what stands in them.
//!
//! **Invariant**: a field that is not known is refused, and no message repeats a value: it may be a secret in the
//! wrong place.

use salvo_core::Request;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use base::clock::{self, Unix};
use http::body;
use http::error::ApiError;
use settings::{hint, quoted};
use wire::ShownSettings;

/// A field: none if it is absent. In a tuple, so that null is something else.
pub(super) type Field = Option<(Value,)>;

/// The fields of a body; none: nothing is given. Or what is wrong with it.
pub(super) async fn read<T>(req: &mut Request) -> Result<T, ApiError>
where
    T: Default + Serialize + DeserializeOwned,
{
    let fields: Option<Map<String, Value>> = body::small_json(req).await?;
    let fields = fields.unwrap_or_default();
    let known = serde_json::to_value(T::default()).unwrap_or_default();
    let known: Vec<&str> = known
        .as_object()
        .into_iter()
        .flat_map(Map::keys)
        .map(String::as_str)
        .collect();
    if let Some(unknown) = fields.keys().find(|name| !known.contains(&name.as_str())) {
        return Err(ApiError::invalid(format!(
            "the field {} is not allowed here{}",
            quoted(unknown),
            hint(unknown, &known)
        )));
    }
    let fields = fields.into_iter();
    let fields = fields.map(|(name, value)| (name, Value::Array(vec![value])));
    T::deserialize(Value::Object(fields.collect()))
        .map_err(|_| ApiError::invalid("the body cannot be read"))
}

/// What can be set of a record, but for what only files set: its keys, which are an answer of their own, and secrets.
pub(super) fn shown(fields: &[settings::Field], record: &impl Serialize) -> ShownSettings {
    let mut settings = match serde_json::to_value(record) {
        Ok(Value::Object(settings)) => settings,
        _ => Map::new(),
    };
    for row in fields.iter().filter(|row| row.declared) {
        settings.shift_remove(row.name);
    }
    ShownSettings(settings)
}

/// A field that need not be given.
pub(super) fn optional<T>(
    name: &str,
    field: Field,
    read: impl Fn(&str, Value) -> Result<T, ApiError>,
) -> Result<Option<T>, ApiError> {
    field.map(|(value,)| read(name, value)).transpose()
}

/// The object of a body; none: nothing is given.
pub(super) async fn object(req: &mut Request) -> Result<Map<String, Value>, ApiError> {
    let fields: Option<Map<String, Value>> = body::small_json(req).await?;
    Ok(fields.unwrap_or_default())
}

/// A field that need not be given and may be null.
pub(super) fn nullable<T>(
    name: &str,
    field: Field,
    read: impl Fn(&str, Value) -> Result<T, ApiError>,
) -> Result<Option<Option<T>>, ApiError> {
    match field {
        Some((Value::Null,)) => Ok(Some(None)),
        field => Ok(optional(name, field, read)?.map(Some)),
    }
}

/// A text.
pub(super) fn text(name: &str, value: Value) -> Result<String, ApiError> {
    match value {
        Value::String(text) => Ok(text),
        _ => Err(ApiError::invalid(format!("{name} must be a text"))),
    }
}

/// A whole number, not negative.
pub(super) fn number(name: &str, value: Value) -> Result<u64, ApiError> {
    let number = whole(&value);
    number.ok_or_else(|| ApiError::invalid(format!("{name} must be a whole number")))
}

/// A number without a fraction, however it is written: 60.0 is an integer to a schema.
pub(super) fn whole(value: &Value) -> Option<u64> {
    let written_otherwise = || value.as_f64()?.to_string().parse().ok();
    value.as_u64().or_else(written_otherwise)
}

/// True or false.
pub(super) fn flag(name: &str, value: Value) -> Result<bool, ApiError> {
    let flag = value.as_bool();
    flag.ok_or_else(|| ApiError::invalid(format!("{name} must be true or false")))
}

/// A time.
pub(super) fn time(name: &str, value: Value) -> Result<Unix, ApiError> {
    let time = value.as_str().and_then(clock::parse_rfc3339);
    time.ok_or_else(|| {
        ApiError::invalid(format!(
            "{name} must be a time like \"2030-01-31T12:00:00Z\""
        ))
    })
}
