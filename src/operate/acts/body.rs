//! Bodies of acts.
//!
//! **Invariant**: no member of a body is ignored, and none is taken for another.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use base::clock::{self, Lived, Unix};
use item::flatten::{self, FlattenLimits};
use pool::acts::{Act, Until, is_zero};

/// Maximum bytes of a body.
pub const ACT_BYTES_MAX: usize = 1 << 20;
/// The longest `until` in seconds: a year.
const UNTIL_MAX: u64 = 31_536_000;
/// Maximum keys of one act.
const KEYS_MAX: usize = 10_000;

/// A member that can be absent; `null` is a value, so that `null` is rejected instead of taken for absent.
#[derive(Debug)]
struct Given<T>(Option<T>);

impl<T> Default for Given<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Given<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(|value| Self(Some(value)))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OverrideBody {
    key: String,
    fields: Box<RawValue>,
    #[serde(default)]
    until: Given<Value>,
    #[serde(default)]
    create: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AddBody {
    key: String,
    field: String,
    by: Box<RawValue>,
    #[serde(default)]
    until: Given<Value>,
    #[serde(default)]
    create: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReleaseBody {
    #[serde(default)]
    key: Given<String>,
    #[serde(default)]
    fields: Given<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HoldBody {
    #[serde(default)]
    keys: Given<Vec<String>>,
    #[serde(default)]
    until: Given<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeysBody {
    #[serde(default)]
    keys: Given<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UndoBody {
    #[serde(default)]
    skip: bool,
}

/// The act of a body, or the error in it.
pub fn read(verb: &str, body: &[u8]) -> Result<Act, String> {
    Ok(match verb {
        "override" => override_of(parse(verb, body)?)?,
        "add" => add_of(parse(verb, body)?)?,
        "release" => {
            let body: ReleaseBody = parse(verb, body)?;
            let fields = names("fields", body.fields)?;
            let key = body.key.0.map(key).transpose()?;
            if key.is_none() && fields.is_some() {
                return Err("`fields` needs the `key` of their item beside it; without both, all overrides of the stream are released".to_owned());
            }
            Act::Release { key, fields }
        }
        "hold" => {
            let body: HoldBody = parse(verb, body)?;
            Act::Hold {
                keys: keys(body.keys)?,
                until: until(body.until)?,
            }
        }
        "take" => Act::Take {
            keys: keys(parse::<KeysBody>(verb, body)?.keys)?,
        },
        "resume" => Act::Resume {
            keys: keys(parse::<KeysBody>(verb, body)?.keys)?,
        },
        "undo" => Act::Undo {
            skip: parse::<UndoBody>(verb, body)?.skip,
        },
        other => return Err(format!("there is no act {other:?}")),
    })
}

fn override_of(body: OverrideBody) -> Result<Act, String> {
    let fields = fields(body.fields.get().as_bytes())?;
    if fields == "{}" {
        return Err(
            "`fields` names no field; give at least one, such as {\"home.score\": 3}".to_owned(),
        );
    }
    Ok(Act::Override {
        key: key(body.key)?,
        fields,
        until: until(body.until)?.flatten(),
        create: body.create,
    })
}

fn add_of(body: AddBody) -> Result<Act, String> {
    let step = body.by.get();
    if !step.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
        return Err("`by` must be a number such as 1 or -1".to_owned());
    }
    if is_zero(step) {
        return Err(
            "`by` is 0, which would override the field and change nothing; give another number"
                .to_owned(),
        );
    }
    Ok(Act::Add {
        key: key(body.key)?,
        field: body.field,
        step: step.to_owned(),
        until: until(body.until)?,
        create: body.create,
    })
}

fn parse<T: DeserializeOwned>(verb: &str, body: &[u8]) -> Result<T, String> {
    let empty = body.trim_ascii().is_empty();
    let body = match (empty, verb) {
        (true, "hold" | "take" | "resume" | "undo") => &b"{}"[..],
        (true, _) => return Err(format!("{verb} needs a body, a JSON object")),
        (false, _) => body,
    };
    // An array would do for a structure too.
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err("the body must be a JSON object".to_owned());
    }
    serde_json::from_slice(body)
        .map_err(|error| format!("the body of {verb} cannot be used: {error}"))
}

/// The JSON text of an object, flattened as in a request.
pub fn fields(body: &[u8]) -> Result<String, String> {
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err("the fields must be a JSON object, such as {\"home.score\": 3}".to_owned());
    }
    let limits = FlattenLimits {
        flattened_bytes_max: 2 * ACT_BYTES_MAX,
        item_bytes_max: 2 * ACT_BYTES_MAX,
    };
    let items = flatten::flatten(body, None, limits).map_err(|error| error.to_string())?;
    let item = items.iter().next();
    Ok(item.map_or("{}", |item| item.fields).to_owned())
}

fn key(key: String) -> Result<String, String> {
    match (1..=flatten::ITEM_KEY_BYTES_MAX).contains(&key.len()) {
        true => Ok(key),
        false => Err(format!(
            "a key has 1 to {} bytes",
            flatten::ITEM_KEY_BYTES_MAX
        )),
    }
}

fn keys(keys: Given<Vec<String>>) -> Result<Option<Vec<String>>, String> {
    let keys = names("keys", keys)?;
    keys.map(|keys| keys.into_iter().map(key).collect())
        .transpose()
}

fn names(member: &str, names: Given<Vec<String>>) -> Result<Option<Vec<String>>, String> {
    match names.0 {
        Some(names) if names.is_empty() => Err(format!(
            "`{member}` is an empty list; name at least one, or leave the member out"
        )),
        Some(names) if names.len() > KEYS_MAX => Err(format!(
            "`{member}` names {}; at most {KEYS_MAX} at once",
            names.len()
        )),
        names => Ok(names),
    }
}

/// `None`: absent. `Some(None)`: without an end. Seconds are counted by the uptime clock, so that a step of the wall
/// clock does not move the end.
fn until(until: Given<Value>) -> Result<Option<Option<Until>>, String> {
    let wrong = || {
        format!(
            "`until` must be null, whole seconds from 1 to {UNTIL_MAX}, or a time ahead with an offset, such as \"2030-01-31T20:15:00+01:00\""
        )
    };
    let Some(value) = until.0 else {
        return Ok(None);
    };
    Ok(Some(match value {
        Value::Null => None,
        Value::String(time) => {
            let time = clock::parse_rfc3339(&time).filter(|time| *time > Unix::now());
            Some(Until::Wall(time.ok_or_else(wrong)?))
        }
        number => {
            let whole = number
                .as_u64()
                .or_else(|| number.as_f64()?.to_string().parse().ok());
            let seconds = whole.filter(|seconds| (1..=UNTIL_MAX).contains(seconds));
            Some(Until::Lived(
                Lived::now() + Duration::from_secs(seconds.ok_or_else(wrong)?),
            ))
        }
    }))
}

#[cfg(test)]
mod tests;
