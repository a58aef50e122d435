//! Operations: what an item is besides its fields, in this encoding and in older ones.

use super::*;

fn meta(version: Option<i128>, seconds: u32) -> ItemMeta {
    ItemMeta {
        version: version.map(Version::from_millionths),
        expire_after_seconds: NonZeroU32::new(seconds),
        ..ItemMeta::default()
    }
}

type Operation<'a> = (&'a str, &'a str, Action, ItemMeta);

fn operations(items: &Items) -> Vec<Operation<'_>> {
    fn operation(item: ItemRef<'_>) -> Operation<'_> {
        (item.key, item.fields, item.action, item.meta)
    }
    // From any place, too.
    let all: Vec<_> = items.iter().map(operation).collect();
    for from in 0..items.len() {
        let rest = items.iter_from(u32::try_from(from).expect("few"));
        assert!(rest.map(operation).eq(all[from..].iter().copied()));
    }
    all
}

#[test]
fn operations_keep_their_order_action_version_and_end() {
    use Action::{Remove, Upsert};
    let wanted = [
        ("a", r#"{"n":1}"#, Upsert, meta(Some(-7), 0)),
        ("b", "{}", Remove, ItemMeta::default()),
        ("b", "{}", Upsert, ItemMeta::default()),
        ("ü", r#"{"n":3}"#, Upsert, meta(Some(i128::MAX), u32::MAX)),
        ("ü", "{}", Remove, meta(Some(1 << 90), 0)),
        ("c", "{}", Remove, ItemMeta::REMOVAL_IN_TIME),
    ];
    let written = |bytes_max| {
        let mut writer = ItemsWriter::new(bytes_max, 0);
        for (key, fields, action, meta) in wanted {
            let pushed = writer.push_with(key, fields, action, meta);
            pushed.expect("there is room");
        }
        writer
    };
    let items = written(1 << 20).into_items();
    let again = Items::from_bytes(items.as_bytes().clone()).expect("whole");
    for items in [&items, &again] {
        assert_eq!(operations(items), wanted);
        assert!(items.iter().all(|item| item.sent_version.is_empty()));
        assert_eq!(items.as_bytes()[0], 3);
        assert_eq!((items.removals(), items.action()), (3, None));
    }
    // An operation that does not fit leaves those before it as they are.
    let mut writer = written(items.byte_len());
    let full = writer.push_with("c", "{}", Remove, meta(Some(1), 0));
    full.expect_err("full");
    assert_eq!(writer.into_items(), items);
    for end in 0..items.byte_len() {
        Items::from_bytes(items.as_bytes().slice(..end)).expect_err("cut");
    }
}

#[test]
fn an_update_takes_no_bytes_for_what_it_is_not() {
    let mut writer = ItemsWriter::new(1 << 20, 0);
    let pushed = writer.push_with("k", r#"{"a":1}"#, Action::Upsert, ItemMeta::default());
    pushed.expect("there is room");
    let items = writer.into_items();
    assert_eq!(items, written(&[("k", r#"{"a":1}"#)]));
    assert_eq!(items.action(), Some(Action::Upsert));
}

/// Key, fields, and a version of 64 bits with how long an item stays.
type Before<'a> = (&'a str, &'a str, Option<(i64, u32)>);

/// Items as older programs wrote them.
fn encoding_2<const N: usize>(all: [Before<'_>; N]) -> Bytes {
    let mut bytes = vec![2];
    bytes.extend(u32::try_from(N).expect("few").to_le_bytes());
    for (key, fields, meta) in all {
        let len = |text: &str| u32::try_from(text.len()).expect("short");
        let flag = u32::from(meta.is_some()) << 31;
        bytes.extend((len(key) | flag).to_le_bytes());
        bytes.extend(len(fields).to_le_bytes());
        bytes.extend(shape(fields).to_le_bytes());
        if let Some((version, seconds)) = meta {
            bytes.extend(version.to_le_bytes());
            bytes.extend(seconds.to_le_bytes());
        }
        bytes.extend(key.as_bytes());
        bytes.extend(fields.as_bytes());
    }
    bytes.into()
}

#[test]
fn older_encodings_are_read_with_what_stood_beside_them() {
    use Action::{Remove, Upsert};
    let fields = r#"{"n":1}"#;
    let bytes = encoding_2([
        ("a", fields, Some((-7_000, 0))),
        ("b", "{}", None),
        ("c", fields, Some((i64::MIN, 60))),
    ]);
    for action in [Upsert, Remove] {
        let items = Items::from_stored(bytes.clone(), action).expect("whole");
        let wanted = [
            ("a", fields, action, meta(Some(-7_000_000), 0)),
            ("b", "{}", action, ItemMeta::default()),
            ("c", fields, action, meta(None, 60)),
        ];
        assert_eq!(operations(&items), wanted);
        assert_eq!(items.action(), Some(action));
        let again = Items::from_bytes(items.as_bytes().clone());
        assert_eq!(again, Ok(items));
    }
    for end in 0..bytes.len() {
        Items::from_stored(bytes.slice(..end), Remove).expect_err("cut");
    }
    let plain = written(&[("a", "{}"), ("b", "{}")]);
    let removals = Items::from_stored(plain.as_bytes().clone(), Remove).expect("whole");
    assert_eq!(removals.removals(), 2);
    // What says itself what is asked is believed.
    let again = Items::from_stored(removals.as_bytes().clone(), Upsert);
    assert_eq!(again, Ok(removals));
    // No older encoding has a flag that it did not know.
    for version in [1, 2] {
        let mut bytes = plain.as_bytes().to_vec();
        (bytes[0], bytes[8]) = (version, 1 << 6);
        let error = Items::from_bytes(bytes.into()).expect_err("no such flag");
        assert_eq!(error, CorruptItems::Truncated(0));
    }
}

#[test]
fn a_version_keeps_the_text_that_was_sent() {
    let day = "2026-01-05T10:00:00Z";
    let item = |sent_version, version, action| ItemRef {
        key: "k",
        fields: "{}",
        shape: shape("{}"),
        action,
        meta: meta(version, 7),
        sent_version,
    };
    let long = "0".repeat(65);
    let all = [
        (item(day, Some(5_000_000), Action::Remove), Some(day)),
        (item("", Some(5_500_000), Action::Upsert), Some("5.5")),
        (item(day, Some(1), Action::Upsert), Some(day)),
        (item("", None, Action::Remove), None),
        (item(&long, Some(0), Action::Upsert), Some("0")),
    ];
    let mut writer = ItemsWriter::new(1 << 20, 0);
    for (item, _) in &all {
        writer.push_item(item).expect("there is room");
    }
    let items = writer.into_items();
    let again = Items::from_bytes(items.as_bytes().clone()).expect("whole");
    for ((item, text), read) in all.iter().zip(&again) {
        assert_eq!(read.version_text().as_deref(), *text);
        assert_eq!((read.action, read.meta), (item.action, item.meta));
    }
    for end in 0..items.byte_len() {
        Items::from_bytes(items.as_bytes().slice(..end)).expect_err("cut");
    }
}
