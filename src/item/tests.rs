//! Tests of the encoding and of reading flat objects.

mod operations;

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Map, Value};

use std::num::NonZeroU32;

use super::*;

fn written(all: &[(&str, &str)]) -> Items {
    let mut writer = ItemsWriter::new(1 << 20, 0);
    for (key, fields) in all {
        writer.push(key, fields).expect("fits");
    }
    writer.into_items()
}

#[test]
fn the_encoding_is_as_documented() {
    let items = written(&[("k", r#"{"a":1}"#)]);
    let mut expected = vec![1, 1, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0];
    expected.extend(shape(r#"{"a":1}"#).to_le_bytes());
    expected.extend(b"k{\"a\":1}");
    assert_eq!(items.as_bytes(), &expected);
    assert_eq!(items.byte_len(), expected.len());
    assert_eq!(written(&[]).as_bytes().as_ref(), [1, 0, 0, 0, 0]);
    assert!(written(&[]).is_empty());
}

#[test]
fn items_can_be_read_from_any_place() {
    for count in [0, 1, 63, 64, 65, 127, 128, 129, 1_000] {
        let keys: Vec<String> = (0..count).map(|key: u32| key.to_string()).collect();
        let items = written(&keys.iter().map(|key| (&**key, "{}")).collect::<Vec<_>>());
        for from in 0..count + 70 {
            let rest: Vec<_> = items.iter_from(from).map(|item| item.key).collect();
            let wanted = keys.get(from as usize..).unwrap_or_default();
            assert_eq!(rest, wanted, "{from} of {count}");
        }
    }
}

#[test]
fn items_are_in_memory_of_their_own_and_are_marked_there() {
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(100_000));
    for fields in [r#"{"a":1}"#, &large, r#"{"b":2}"#] {
        let items = written(&[("k", fields)]);
        let address = items.as_bytes().as_ptr();
        let other = written(&[("other", "{}")]);
        assert_eq!(items.iter().next().map(|item| item.fields), Some(fields));
        let merged = items.accepted(true);
        assert_eq!(merged.as_bytes().as_ptr(), address);
        let kept = merged.clone();
        let replaced = merged.accepted(false);
        let said = [&other, &kept, &replaced].map(Items::merges);
        assert_eq!(said, [None, Some(true), Some(false)]);
        assert!(replaced.iter().eq(&kept));
    }
    let memory = Vec::from(written(&[("k", "{}")]).bytes);
    assert_eq!(memory.capacity(), memory.len());
}

#[test]
fn unfinished_items_are_dropped() {
    let mut writer = ItemsWriter::new(200, 0);
    writer.push("a", "{}").expect("fits");
    writer.begin().expect("fits");
    writer.write("{\"x").expect("fits");
    assert_eq!(writer.written(), "{\"x");
    writer.begin().expect("fits");
    assert_eq!(writer.written(), "");
    writer.write("{}").expect("fits");
    writer.finish("b", 7).expect("fits");
    writer.begin().expect("fits");
    writer.abandon();
    assert_eq!(writer.written(), "");
    assert_eq!(
        writer.push("c", &"x".repeat(200)),
        Err(Full { bytes_max: 200 })
    );
    let items = writer.into_items();
    let keys: Vec<_> = items.iter().map(|item| (item.key, item.fields)).collect();
    assert_eq!(keys, [("a", "{}"), ("b", "{}")]);
    assert_eq!(items.iter().len(), 2);
}

#[test]
fn damage_is_named() {
    let good = written(&[("é", r#"{"ü":1}"#), ("k", "{}")]);
    let check = |change: fn(&mut Vec<u8>), expected| {
        let mut bytes = good.as_bytes().to_vec();
        change(&mut bytes);
        assert_eq!(Items::from_bytes(bytes.into()), Err(expected));
    };
    check(Vec::clear, CorruptItems::Truncated(0));
    check(|bytes| bytes.truncate(3), CorruptItems::Truncated(0));
    check(|bytes| bytes[0] = 4, CorruptItems::Version(4));
    // Version 2, with what is said of updates.
    check(|bytes| bytes[0] = 0x42, CorruptItems::Version(0x42));
    check(|bytes| bytes[1] = 3, CorruptItems::Truncated(2));
    check(|bytes| bytes[1] = 1, CorruptItems::Trailing(19));
    check(|bytes| bytes.push(0), CorruptItems::Trailing(1));
    check(
        |bytes| bytes.truncate(bytes.len() - 1),
        CorruptItems::Truncated(1),
    );
    check(|bytes| bytes[8] = 0xff, CorruptItems::Truncated(0));
    check(|bytes| bytes[21] = 0xff, CorruptItems::Utf8(0));
    // One byte of the key moves into the fields: both are cut inside a character.
    check(
        |bytes| {
            bytes[5] -= 1;
            bytes[9] += 1;
        },
        CorruptItems::Utf8(0),
    );
}

#[test]
fn members_are_given_as_written() {
    let check = |fields: &str, expected: &[(&str, &str)]| {
        assert_eq!(members(fields).collect::<Vec<_>>(), expected, "{fields}");
    };
    check("{}", &[]);
    check(r#"{"a":1}"#, &[("\"a\"", "1")]);
    check(
        r#"{"a\"}":"x,\\","":{},"b":[1,"]",[{"c":"\"]"}]],"d":null}"#,
        &[
            (r#""a\"}""#, r#""x,\\""#),
            (r#""""#, "{}"),
            (r#""b""#, r#"[1,"]",[{"c":"\"]"}]]"#),
            (r#""d""#, "null"),
        ],
    );
    // Not flat objects: an early end, no panic.
    for fields in [
        "", "{", "[1]", "{\"", "{\"a", "{\"a\\", "{\"a\"", "{\"a\":", "{\"a\":[", "{\"a\":1", "{é}",
    ] {
        check(fields, &[]);
    }
}

#[test]
fn merging_keeps_what_is_not_named() {
    let check = |old: &str, new: &str, expected: &str| assert_eq!(merge(old, new), expected);
    check("{}", "{}", "{}");
    check("{}", r#"{"a":1}"#, r#"{"a":1}"#);
    check(r#"{"a":1}"#, "{}", r#"{"a":1}"#);
    check(r#"{"a":1,"b":2}"#, r#"{"a":3,"b":4}"#, r#"{"a":3,"b":4}"#);
    check(r#"{"a":1,"b":2}"#, r#"{"b":4,"a":3}"#, r#"{"a":3,"b":4}"#);
    check(
        r#"{"a":1,"b":[2]}"#,
        r#"{"c":{},"b":null}"#,
        r#"{"a":1,"b":null,"c":{}}"#,
    );
}

#[test]
fn names_decode_and_encode() {
    for (raw, text) in [
        (r#""""#, ""),
        (r#""a.b""#, "a.b"),
        (
            r#""\"\\/\b\f\n\r\t\u0000\u001f""#,
            "\"\\/\u{8}\u{c}\n\r\t\0\u{1f}",
        ),
        ("\"é😀\u{7f}\"", "é😀\u{7f}"),
    ] {
        assert_eq!(field_name(raw), text);
        let mut inside = String::new();
        quote_into(text, &mut inside);
        assert_eq!(format!("\"{inside}\""), raw);
        assert_eq!(serde_json::to_string(text).expect("is a string"), raw);
    }
    assert_eq!(field_name(r#""\u0061\ud83d\ude00\/""#), "a😀/");
    // Not JSON: still no panic.
    for raw in [
        r"\",
        r"\u",
        r"\u12",
        r"\ud800",
        r"\ud800\u0041",
        r"\x",
        r"\é",
        r"\u00é",
    ] {
        assert!(
            field_name(raw).contains(char::REPLACEMENT_CHARACTER),
            "{raw}"
        );
    }
}

/// Shapes are stored, so these values must never change.
#[test]
fn shapes_are_stable() {
    for (fields, expected) in [
        ("{}", 0x243f_6a88_85a3_08d3),
        (r#"{"a":1}"#, 0xf144_dac7_6b17_cdd0),
        (
            r#"{"id":1,"customer.name":"x","customer.address.zip":null}"#,
            0x7a96_7e2b_5187_2a03,
        ),
    ] {
        assert_eq!(shape(fields), expected, "{fields} {:#x}", shape(fields));
    }
}

#[test]
fn shapes_differ_by_names_and_their_order_only() {
    assert_eq!(
        shape(r#"{"a":1,"b":2}"#),
        shape(r#"{"a":[{"c":1}],"b":null}"#)
    );
    let mut seen = std::collections::HashSet::new();
    let mut add = |fields: &str| assert!(seen.insert(shape(fields)), "{fields}");
    add("{}");
    add(r#"{"a":1,"b":2}"#);
    add(r#"{"b":1,"a":2}"#);
    add(r#"{"ab":1}"#);
    add(r#"{"":1}"#);
    add(r#"{"":1,"":1}"#);
    for length in 1..40 {
        add(&format!("{{\"{}\":1}}", "a".repeat(length)));
        // Each byte counts.
        for at in 0..length {
            let mut name = vec![b'a'; length];
            name[at] = b'x';
            add(&format!(
                "{{\"{}\":1}}",
                String::from_utf8(name).expect("is ASCII")
            ));
        }
    }
}

/// A flat object as flattening writes it.
fn flat() -> impl Strategy<Value = Map<String, Value>> {
    let value = prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        Just(Value::Null),
        Just(serde_json::json!({})),
        "[\"\\\\\\[\\]{},: a]{0,9}"
            .prop_map(|text| serde_json::json!([text, [{ text.clone(): [text] }], {}, []])),
    ];
    let name = prop_oneof!["[a-h]", any::<String>()];
    proptest::collection::vec((name, value), 0..40).prop_map(|all| all.into_iter().collect())
}

fn text(object: &Map<String, Value>) -> String {
    serde_json::to_string(object).expect("is JSON")
}

fn parsed(fields: &str) -> Map<String, Value> {
    serde_json::from_str(fields).expect("is JSON")
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read(all in proptest::collection::vec((any::<String>(), flat()), 0..5)) {
        let mut writer = ItemsWriter::new(usize::MAX, 0);
        for (key, object) in &all {
            writer.push(key, &text(object)).expect("fits");
        }
        let items = writer.into_items();
        prop_assert_eq!(Items::from_bytes(items.as_bytes().clone()), Ok(items.clone()));
        prop_assert_eq!(items.len(), all.len());
        for (item, (key, object)) in items.iter().zip(&all) {
            prop_assert_eq!(item.key, key);
            prop_assert_eq!(item.fields, text(object));
            prop_assert_eq!(item.shape, shape(item.fields));
        }
        // Every cut is noticed.
        for cut in 0..items.byte_len() {
            prop_assert!(Items::from_bytes(items.as_bytes().slice(..cut)).is_err());
        }
    }

    #[test]
    fn damaged_bytes_never_panic(
        all in proptest::collection::vec((any::<String>(), flat()), 0..3),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut writer = ItemsWriter::new(usize::MAX, 0);
        for (key, object) in &all {
            writer.push(key, &text(object)).expect("fits");
        }
        let mut bytes = writer.into_items().as_bytes().to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(items) = Items::from_bytes(Bytes::from(bytes)) {
            for item in &items {
                let _ = shape(item.fields);
                for (name, value) in members(item.fields) {
                    let _ = (field_name(name), field_name(value));
                }
                let _ = merge(item.fields, item.key);
                let _ = merge(item.key, item.fields);
            }
        }
    }

    #[test]
    fn members_are_those_of_serde_json(object in flat()) {
        let fields = text(&object);
        let read: Vec<(String, Value)> = members(&fields)
            .map(|(name, value)| {
                (field_name(name).into_owned(), serde_json::from_str(value).expect("is JSON"))
            })
            .collect();
        prop_assert_eq!(read, object.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn merging_is_that_of_maps(old in flat(), new in flat()) {
        let merged = merge(&text(&old), &text(&new));
        let mut expected = old;
        expected.extend(new);
        prop_assert_eq!(&merged, &text(&expected));
        prop_assert_eq!(parsed(&merged), expected);
    }

    #[test]
    fn names_survive(name in any::<String>(), junk in "[\\\\ud8ce0\"é]{0,12}") {
        let mut inside = String::new();
        quote_into(&name, &mut inside);
        prop_assert_eq!(format!("\"{inside}\""), serde_json::to_string(&name).expect("is a string"));
        prop_assert_eq!(unescape(&inside), name);
        // Whatever serde_json decodes is decoded alike; the rest must not panic.
        let decoded = unescape(&junk);
        if let Ok(expected) = serde_json::from_str::<String>(&format!("\"{junk}\"")) {
            prop_assert_eq!(decoded, expected);
        }
    }
}
