//! The text of single values in TOML.
//!
//! **Invariant**: what is written here reads back as the same value.

use serde_json::Value;

pub(super) fn lines<'v>(text: &mut String, fields: impl Iterator<Item = (&'v String, &'v Value)>) {
    for (name, value) in fields {
        text.push_str(&format!("{} = {}\n", key(name), written(value, true)));
    }
}

/// The name of a field.
fn key(name: &str) -> String {
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    match !name.is_empty() && name.bytes().all(bare) {
        true => name.to_owned(),
        false => quoted(name),
    }
}

/// A value on the right of `=`. Within a table in a line no text has lines of its own.
pub(super) fn written(value: &Value, has_lines: bool) -> String {
    match value {
        Value::String(text) => string(text, has_lines),
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(|one| written(one, false)).collect();
            format!("[{}]", values.join(", "))
        }
        Value::Object(fields) if fields.is_empty() => "{}".to_owned(),
        Value::Object(fields) => {
            let fields = fields.iter();
            let fields: Vec<String> = fields
                .map(|(name, value)| format!("{} = {}", key(name), written(value, false)))
                .collect();
            format!("{{ {} }}", fields.join(", "))
        }
        other => other.to_string(),
    }
}

fn string(text: &str, has_lines: bool) -> String {
    let plain = |character: char| !character.is_control() || character == '\t';
    if has_lines
        && text.contains('\n')
        && !text.contains("'''")
        && !text.ends_with('\'')
        && text.chars().all(|one| plain(one) || one == '\n')
    {
        return format!("'''\n{text}'''");
    }
    match text.contains(['"', '\\']) && !text.contains('\'') && text.chars().all(plain) {
        true => format!("'{text}'"),
        false => quoted(text),
    }
}

/// As in JSON, whose escapes TOML has too; it wants one more.
fn quoted(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}
