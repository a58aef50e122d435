//! Flattening written for clarity instead of speed: recursive, with trees, on serde_json. Unit tests of `item` and the
//! fuzz targets compare the product with it.
//!
//! **Invariant**: it shares no code with what it is compared with.

use std::collections::HashSet;
use std::fmt;

use serde_json::value::RawValue;

/// The members of an object in order, also those that stand twice.
pub struct Members<'a>(pub Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> serde::Deserialize<'de> for Members<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Self::Value, A::Error> {
                let mut all = Vec::new();
                while let Some(member) = map.next_entry()? {
                    all.push(member);
                }
                Ok(all)
            }
        }
        deserializer.deserialize_map(Visitor).map(Members)
    }
}

/// Flat objects of a body, or why not.
pub fn reference(body: &[u8]) -> Result<Vec<String>, String> {
    let text = std::str::from_utf8(body).map_err(|error| error.to_string())?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let body: &RawValue = parse(text)?;
    let items: Vec<&RawValue> = if body.get().starts_with('[') {
        parse(body.get())?
    } else {
        vec![body]
    };
    let flat = |item: &RawValue| {
        let mut flat = Vec::new();
        flatten_object("", item.get(), &mut flat)?;
        let names: HashSet<_> = flat.iter().map(|(name, _)| name).collect();
        if names.len() < flat.len() {
            return Err("two paths to one field".to_owned());
        }
        let members: Vec<_> = flat
            .iter()
            .map(|(name, value)| format!("{}:{value}", serde_json::json!(name)))
            .collect();
        Ok(format!("{{{}}}", members.join(",")))
    };
    items.into_iter().map(flat).collect()
}

fn flatten_object(
    prefix: &str,
    object: &str,
    flat: &mut Vec<(String, String)>,
) -> Result<(), String> {
    let Members(all) = parse(object)?;
    let mut keys = HashSet::new();
    for (key, value) in all {
        let name = format!("{prefix}{key}");
        if !keys.insert(key) {
            return Err("the same key twice".to_owned());
        }
        let value = value.get();
        if value.starts_with('{') && !parse::<Members<'_>>(value)?.0.is_empty() {
            flatten_object(&format!("{name}."), value, flat)?;
        } else {
            check_strings(value)?;
            flat.push((name, compact(value)));
        }
    }
    Ok(())
}

/// A raw value is not decoded, so lone surrogates in it have not been noticed.
fn check_strings(value: &str) -> Result<(), String> {
    match value.as_bytes()[0] {
        b'"' => parse::<String>(value).map(drop),
        b'[' => parse::<Vec<&RawValue>>(value)?
            .into_iter()
            .try_for_each(|value| check_strings(value.get())),
        b'{' => parse::<Members<'_>>(value)?
            .0
            .into_iter()
            .try_for_each(|(_, value)| check_strings(value.get())),
        _ => Ok(()),
    }
}

/// Reads a text as serde_json does.
pub fn parse<'a, T: serde::Deserialize<'a>>(text: &'a str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

fn compact(value: &str) -> String {
    let mut out = String::new();
    let (mut inside, mut escaped) = (false, false);
    for c in value.chars() {
        if inside || !matches!(c, ' ' | '\t' | '\n' | '\r') {
            out.push(c);
        }
        if inside && !escaped && c == '\\' {
            escaped = true;
            continue;
        }
        if c == '"' && !escaped {
            inside = !inside;
        }
        escaped = false;
    }
    out
}
