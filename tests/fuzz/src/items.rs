//! `items`: stored bytes, as a damaged or a forged file may have them.
//!
//! What is taken is read twice and written again. Texts that the flattener would have written also survive nesting and
//! merging; all others must only end.

use bytes::Bytes;

use item::flatten::{FlattenLimits, flatten};
use item::{Items, ItemsWriter, members, merge, nest};

/// Reads items from any bytes.
pub(super) fn items(input: &[u8]) {
    let Ok(items) = Items::from_bytes(Bytes::copy_from_slice(input)) else {
        return;
    };
    // An older encoding is read as what is written today.
    assert!(items.as_bytes() == input || input.first() == Some(&2));
    assert_eq!(items.iter().count(), items.len());
    let mut writer = ItemsWriter::new(usize::MAX, 0);
    for item in &items {
        writer.push_item(&item).expect("there is no bound");
    }
    let written = writer.into_items();
    let again = Items::from_bytes(written.as_bytes().clone()).expect("what was written is read");
    assert_eq!(written, again);
    assert_eq!(again.len(), items.len());
    for (was, is) in items.iter().zip(&again) {
        assert_eq!(
            (
                was.key,
                was.fields,
                was.action,
                was.meta,
                was.version_text()
            ),
            (is.key, is.fields, is.action, is.meta, is.version_text())
        );
    }
    let mut before = "{}";
    for item in &items {
        fields(before, item.fields);
        before = item.fields;
    }
}

fn fields(old: &str, new: &str) {
    let (nested, merged) = (nest(new), merge(old, new));
    if flat(new).as_deref() != Some(new) {
        return;
    }
    let again = flat(&nested).expect("what was nested can be flattened");
    assert_eq!(sorted(&again), sorted(new));
    if flat(old).as_deref() != Some(old) {
        return;
    }
    let has = |name: &str| members(new).any(|(given, _)| given == name);
    let mut expected = sorted(new);
    expected.extend(members(old).filter(|(name, _)| !has(name)));
    expected.sort_unstable();
    assert_eq!(sorted(&merged), expected);
}

/// The one item that a text is once it is flattened.
fn flat(text: &str) -> Option<String> {
    let limits = FlattenLimits {
        flattened_bytes_max: usize::MAX,
        item_bytes_max: usize::MAX,
    };
    let items = flatten(text.as_bytes(), None, limits).ok()?;
    (text.starts_with('{')).then(|| items.iter().next().map(|item| item.fields.to_owned()))?
}

fn sorted(fields: &str) -> Vec<(&str, &str)> {
    let mut all: Vec<_> = members(fields).collect();
    all.sort_unstable();
    all
}
