//! Unit tests of `content.rs`.

use super::*;
use item::ItemsWriter;

#[test]
fn what_is_shown_is_bounded_and_says_what_is_left_out() {
    let long = format!(r#"{{"text":"{}"}}"#, "ü".repeat(10_000));
    let fields: Vec<String> = (0..300).map(|n| format!(r#""f{n}":{n}"#)).collect();
    let many = format!("{{{}}}", fields.join(","));
    let mut writer = ItemsWriter::new(16 << 20, 0);
    for number in 0..60 {
        let fields = if number == 1 { &many } else { &long };
        writer.push(&number.to_string(), fields).expect("it fits");
    }
    let Content::Items { items, left_out } = of_items(&writer.into_items()) else {
        panic!("they are items");
    };
    assert_eq!((items.len(), left_out), (50, 10));
    let value = &items[0].fields[0];
    assert_eq!(value.value.chars().count(), VALUE_CHARS_MAX);
    assert_eq!(value.value.len() + value.bytes_left_out, 20_002);
    assert_eq!(items[1].fields.len(), FIELDS_MAX);
    assert_eq!(items[1].fields_left_out, 100);
}

#[test]
fn all_of_it_together_is_bounded() {
    let fields: Vec<String> = (0..200)
        .map(|n| format!(r#""f{n}":"{}""#, "x".repeat(1_000)))
        .collect();
    let fields = format!("{{{}}}", fields.join(","));
    let mut writer = ItemsWriter::new(16 << 20, 0);
    for number in 0..50 {
        writer.push(&number.to_string(), &fields).expect("it fits");
    }
    let Content::Items { items, left_out } = of_items(&writer.into_items()) else {
        panic!("they are items");
    };
    let values = items.iter().flat_map(|item| &item.fields);
    let bytes: usize = values.map(|field| field.value.len()).sum();
    assert!(bytes <= SHOWN_BYTES_MAX + VALUE_CHARS_MAX, "{bytes}");
    assert!(left_out > 40, "{left_out}");
}
