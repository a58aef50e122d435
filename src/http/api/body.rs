//! Bodies of changes: which fields there are, and what stands in them.
//!
//! **Invariant**: a field that is not known is refused, and no message repeats a value: it may be a secret in the
//! wrong place.

use salvo_core::Request;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::clock;
use crate::config::{self, DeleteWhen, Networks, Verify, hint, quoted};
use crate::http::body;
use crate::http::error::ApiError;

/// A field: none if it is absent. In a tuple, so that null is something else.
pub(super) type Field = Option<(Value,)>;

/// The fields of a body; none: nothing is given. Or what is wrong with it.
pub(super) async fn read<T>(req: &mut Request) -> Result<T, ApiError>
where
    T: Default + Serialize + DeserializeOwned,
{
    let fields: Option<Map<String, Value>> = body::small_json(req).await?;
    parse(fields.unwrap_or_default())
}

/// The fields of a body that was read.
pub(super) fn parse<T>(fields: Map<String, Value>) -> Result<T, ApiError>
where
    T: Default + Serialize + DeserializeOwned,
{
    let known = serde_json::to_value(T::default()).unwrap_or_default();
    let known: Vec<&str> = known
        .as_object()
        .into_iter()
        .flat_map(Map::keys)
        .map(String::as_str)
        .collect();
    if let Some(unknown) = fields.keys().find(|name| !known.contains(&name.as_str())) {
        return Err(ApiError::invalid(format!(
            "the field {} cannot be given here{}",
            quoted(unknown),
            hint(unknown, &known)
        )));
    }
    let fields = fields.into_iter();
    let fields = fields.map(|(name, value)| (name, Value::Array(vec![value])));
    T::deserialize(Value::Object(fields.collect()))
        .map_err(|_| ApiError::invalid("the body cannot be read"))
}

/// A field that must be given.
pub(super) fn required<T>(
    name: &str,
    field: Field,
    read: impl Fn(&str, Value) -> Result<T, ApiError>,
) -> Result<T, ApiError> {
    let (value,) =
        field.ok_or_else(|| ApiError::invalid(format!("the body must have the field {name}")))?;
    read(name, value)
}

/// A field that need not be given.
pub(super) fn optional<T>(
    name: &str,
    field: Field,
    read: impl Fn(&str, Value) -> Result<T, ApiError>,
) -> Result<Option<T>, ApiError> {
    field.map(|(value,)| read(name, value)).transpose()
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

/// Sets what was given.
pub(super) fn set<T>(value: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *value = given;
    }
}

/// A text.
pub(super) fn text(name: &str, value: Value) -> Result<String, ApiError> {
    match value {
        Value::String(text) => Ok(text),
        _ => Err(ApiError::invalid(format!("{name} must be a text"))),
    }
}

/// A list of texts.
pub(super) fn texts(name: &str, value: Value) -> Result<Vec<String>, ApiError> {
    let Value::Array(values) = value else {
        return Err(ApiError::invalid(format!("{name} must be a list of texts")));
    };
    let texts = values.into_iter().map(|value| text("each", value).ok());
    let texts: Option<Vec<String>> = texts.collect();
    texts.ok_or_else(|| ApiError::invalid(format!("{name} must be a list of texts")))
}

/// From where a key is taken.
pub(super) fn networks(name: &str, value: Value) -> Result<Networks, ApiError> {
    let texts = texts(name, value)?;
    Networks::of(texts).map_err(|message| ApiError::invalid(format!("{name}: {message}")))
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

/// A number of requests.
pub(super) fn rate(name: &str, value: Value) -> Result<u32, ApiError> {
    // What does not fit is over the limit; the catalog says so.
    number(name, value).map(|number| u32::try_from(number).unwrap_or(u32::MAX))
}

/// True or false.
pub(super) fn flag(name: &str, value: Value) -> Result<bool, ApiError> {
    let flag = value.as_bool();
    flag.ok_or_else(|| ApiError::invalid(format!("{name} must be true or false")))
}

/// Which items are removals.
pub(super) fn delete_when(_: &str, value: Value) -> Result<DeleteWhen, ApiError> {
    config::read_delete_when(&value).map_err(ApiError::invalid)
}

/// How deliveries are verified.
pub(super) fn verify(_: &str, value: Value) -> Result<Verify, ApiError> {
    config::read_verify(&value).map_err(ApiError::invalid)
}

/// A time: Unix time in milliseconds.
pub(super) fn time(name: &str, value: Value) -> Result<u64, ApiError> {
    let time = value.as_str().and_then(clock::parse_rfc3339);
    time.ok_or_else(|| {
        ApiError::invalid(format!(
            "{name} must be a time like \"2030-01-31T12:00:00Z\""
        ))
    })
}

/// One of some words.
pub(super) fn choice<T: Copy>(
    words: &'static [(&'static str, T)],
) -> impl Fn(&str, Value) -> Result<T, ApiError> {
    move |name, value| {
        let word = value.as_str().unwrap_or_default();
        match words.iter().find(|(known, _)| *known == word) {
            Some((_, meant)) => Ok(*meant),
            None => {
                let known: Vec<String> = words
                    .iter()
                    .map(|(known, _)| format!("{known:?}"))
                    .collect();
                Err(ApiError::invalid(format!(
                    "{name} must be {}",
                    known.join(" or ")
                )))
            }
        }
    }
}
