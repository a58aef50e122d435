//! `presets`: a path, a body, then the file of a preset.
//!
//! What a file says is printed and read back as the same, or refused. A path finds what plain JSON has there, and is
//! printed as it was written.

use serde_json::Value;

use webhook::{Path, Preset};

use crate::request::line;

/// Reads all three.
pub(super) fn presets(input: &[u8]) {
    let (path, rest) = line(input);
    let (body, file) = line(rest);
    if let Ok(path) = std::str::from_utf8(path) {
        walk(path, body);
    }
    let Ok(file) = std::str::from_utf8(file) else {
        return;
    };
    let Ok(preset) = Preset::read("fuzz", file) else {
        return;
    };
    let printed = preset.to_toml();
    match Preset::read("fuzz", &printed) {
        Ok(again) => assert_eq!(again, preset, "{printed}"),
        Err(error) => panic!("{error}\n{printed}"),
    }
    // As an entry of a list it is TOML, too.
    let entry = preset.to_entry().parse::<toml_edit::DocumentMut>();
    assert!(entry.is_ok(), "{}", preset.to_entry());
}

/// Compares what a path finds with what is there in JSON that has been read.
fn walk(text: &str, body: &[u8]) {
    let Ok(path) = Path::parse(text) else { return };
    assert_eq!(path.text(), text);
    assert_eq!(Path::parse(path.text()).as_ref(), Ok(&path));
    let found = path.find_all(body);
    assert_eq!(path.find(body).is_none(), found.is_empty());
    // Names without brackets and quotes, and a body without a text that is JSON itself or a name that stands twice.
    let is_plain = !text.contains(['"', '[', ']']);
    let whole: Option<Value> = serde_json::from_slice(body).ok();
    let Some(whole) = whole.filter(|_| is_plain) else {
        return;
    };
    let written = whole.to_string();
    if written.len() != body.len() || written.contains("\\\"") {
        return;
    }
    let mut value = Some(&whole);
    for name in text.split('.') {
        value = value.and_then(|value| value.get(name));
        if value.is_some_and(|value| value.as_str().is_some_and(|text| text.contains(['{', '[']))) {
            return;
        }
    }
    let expected = match value {
        Some(Value::String(text)) => vec![text.clone()],
        Some(value @ (Value::Bool(_) | Value::Number(_))) => vec![value.to_string()],
        _ => Vec::new(),
    };
    if !matches!(value, Some(Value::Number(_))) {
        assert_eq!(found, expected, "{text} in {written}");
    } else {
        assert_eq!(found.len(), 1, "{text} in {written}");
    }
}
