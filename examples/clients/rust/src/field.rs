//! The value that identifies an item, found as the daemon finds it: on the flattened item.

use std::collections::HashMap;

use serde_json::value::RawValue;

use crate::error::{Error, code};

/// How long the value may be.
const KEY_BYTES_MAX: usize = 512;

/// The text of the field of an item: a string, a number or a boolean.
pub(crate) fn key_of(item: &RawValue, field: &str) -> Result<String, Error> {
    let wrong = |problem: &str| {
        let message = format!("the field {field:?}, which is the item key, {problem}");
        Error::new(code::INVALID_PAYLOAD, message)
    };
    let found = lookup(item, field).ok_or_else(|| wrong("is not in the item"))?;
    let text = found.get();
    let key = match text.as_bytes()[0] {
        b'n' | b'[' | b'{' => {
            let kind = kind(text);
            return Err(wrong(&format!(
                "is {kind}; it must be a text, a number or a boolean"
            )));
        }
        b'"' => serde_json::from_str(text).map_err(|error| wrong(&error.to_string()))?,
        _ => text.to_owned(),
    };
    match key.len() {
        1..=KEY_BYTES_MAX => Ok(key),
        len => Err(wrong(&format!(
            "has {len} bytes; it must have 1 to {KEY_BYTES_MAX}"
        ))),
    }
}

/// Goes down where the name of a member, and a dot, is what the field begins with.
fn lookup<'a>(object: &'a RawValue, field: &str) -> Option<&'a RawValue> {
    let members: HashMap<String, &'a RawValue> = serde_json::from_str(object.get()).ok()?;
    if let Some(found) = members.get(field) {
        return Some(found);
    }
    members.iter().find_map(|(name, inner)| {
        let rest = field.strip_prefix(name.as_str())?.strip_prefix('.')?;
        inner.get().starts_with('{').then_some(())?;
        lookup(inner, rest)
    })
}

/// What a JSON text is, by its first character.
pub(crate) fn kind(text: &str) -> &'static str {
    match text.as_bytes().first() {
        Some(b'{') => "an object",
        Some(b'[') => "a list",
        Some(b'"') => "a text",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    }
}

/// What a header can carry as the name of a field.
pub(crate) fn check_name(field: &str) -> Result<(), Error> {
    if field.trim().is_empty() || field.chars().any(char::is_control) {
        return Err(Error::usage(
            "the item key must be the name of a field, without control characters",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_on_the_flattened_item() {
        let item =
            r#"{"a":{"b":{"c":1.10}},"a.b":{"d":"é\n"},"e.f":true,"n":null,"l":[1],"":{"x":2}}"#;
        let item = RawValue::from_string(item.to_owned()).expect("JSON");
        for (field, key) in [
            ("a.b.c", "1.10"),
            ("a.b.d", "é\n"),
            ("e.f", "true"),
            (".x", "2"),
        ] {
            assert_eq!(key_of(&item, field).expect(field), key);
        }
        for (field, problem) in [
            ("a.c", "not in"),
            ("n", "null"),
            ("l", "a list"),
            ("a", "an object"),
        ] {
            let wrong = key_of(&item, field).expect_err(field).message;
            assert!(wrong.contains(problem), "{wrong}");
        }
    }
}
