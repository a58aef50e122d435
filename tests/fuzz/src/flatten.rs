//! `flatten`: a line with the item key, empty for none; then the body.
//!
//! Compared with the recursive reference of the unit tests: both take the same bodies and make the same of them. With
//! the limits of the pipeline, only what is over them is refused beside that.

use serde_json::value::RawValue;

use item::Items;
use item::flatten::{FlattenError, FlattenLimits, flatten as flattened};
use reference::{Members, parse, reference};

use crate::request::line;

const UNLIMITED: FlattenLimits = FlattenLimits {
    flattened_bytes_max: usize::MAX,
    item_bytes_max: usize::MAX,
};
/// Smaller than the default, so that small inputs reach it.
const ITEM_BYTES_MAX: usize = 32 * 1_024;
/// Deeper arrays are refused here and not by the reference; the body that has them has more brackets.
const ARRAY_LEVELS_MAX: usize = 900;
/// A message is part of an answer and of the request log.
const MESSAGE_BYTES_MAX: usize = 2_048;

/// Flattens a body, with and without an item key.
pub(super) fn flatten(input: &[u8]) {
    let (key, body) = line(input);
    let plain = flattened(body, None, UNLIMITED).map_err(bounded);
    match (&plain, reference(body)) {
        (Ok(items), Ok(expected)) => {
            let fields: Vec<&str> = items.iter().map(|item| item.fields).collect();
            assert_eq!(fields, expected);
        }
        (Err(_), Err(_)) => {}
        (Err(error), Ok(_)) => {
            let brackets = body.iter().filter(|byte| matches!(byte, b'[' | b'{'));
            assert!(brackets.count() > ARRAY_LEVELS_MAX, "{error}");
        }
        (Ok(_), Err(error)) => panic!("taken, but: {error}"),
    }
    within_limits(body, None, plain.as_ref().ok());
    if let (Ok(items), true) = (&plain, !body.is_empty()) {
        assert!(
            items
                .iter()
                .enumerate()
                .all(|(at, item)| item.key == at.to_string())
        );
        items.iter().for_each(|item| is_flat(item.fields));
    }

    let Ok(key) = std::str::from_utf8(key) else {
        return;
    };
    if key.is_empty() {
        return;
    }
    let keyed = flattened(body, Some(key), UNLIMITED).map_err(bounded);
    within_limits(body, Some(key), keyed.as_ref().ok());
    let expected: Option<Vec<_>> = plain
        .as_ref()
        .ok()
        .and_then(|items| items.iter().map(|item| key_of(item.fields, key)).collect());
    let keys = keyed
        .as_ref()
        .ok()
        .map(|items| items.iter().map(|item| item.key.to_owned()).collect());
    assert_eq!(keys, expected);
    if let (Ok(plain), Ok(keyed)) = (&plain, &keyed) {
        let same = plain
            .iter()
            .zip(keyed)
            .all(|(plain, keyed)| (plain.fields, plain.shape) == (keyed.fields, keyed.shape));
        assert!(same && plain.len() == keyed.len());
    }
}

/// The limits of the pipeline change nothing but that what is over them is refused.
fn within_limits(body: &[u8], key: Option<&str>, unlimited: Option<&Items>) {
    let limits = FlattenLimits {
        flattened_bytes_max: body.len() * 8 + (64 << 10),
        item_bytes_max: ITEM_BYTES_MAX,
    };
    let limited = flattened(body, key, limits).map_err(bounded).ok();
    let fits = |items: &&Items| {
        items.byte_len() <= limits.flattened_bytes_max
            && items
                .iter()
                .all(|item| item.fields.len() <= limits.item_bytes_max)
    };
    assert_eq!(limited.as_ref(), unlimited.filter(fits));
}

fn bounded(error: FlattenError) -> FlattenError {
    assert!(error.message.len() <= MESSAGE_BYTES_MAX, "{error}");
    assert!((0..=20).contains(&error.details.len()), "{error:?}");
    error
}

/// An object of different names, whose values are no objects with anything in them.
fn is_flat(fields: &str) {
    let Members(all) = parse(fields).expect("an object");
    let mut names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all.len());
    for (name, value) in &all {
        let value: &RawValue = value;
        let inside = value.get().starts_with('{') && value.get() != "{}";
        assert!(!inside, "{name} is an object");
    }
}

/// The text of a field, if it can be a key.
fn key_of(fields: &str, field: &str) -> Option<String> {
    let Members(all) = parse(fields).expect("an object");
    let (_, value) = all.into_iter().find(|(name, _)| name == field)?;
    let text = match value.get().as_bytes()[0] {
        b'"' => parse(value.get()).expect("a string"),
        b'[' | b'{' | b'n' => return None,
        _ => value.get().to_owned(),
    };
    (1..=512).contains(&text.len()).then_some(text)
}
