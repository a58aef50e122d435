//! Unit tests of `text.rs`.

use super::*;

#[test]
fn what_cannot_be_seen_is_written_out() {
    let check = |text: &str, expected: &str| assert_eq!(visible(text), expected);
    check(
        "plain, naïve 日本 👩‍👧 ❤️ مرحبا",
        "plain, naïve 日本 👩‍👧 ❤️ مرحبا",
    );
    check("\u{1b}[31mred\u{7}", "\\u{1b}[31mred\\u{7}");
    check("a\nb\tc\r\0", "a\\nb\\tc\\r\\u{0}");
    check("\u{9b}2J", "\\u{9b}2J");
    check(
        "safe\u{202e}txt.exe\u{2066}",
        "safe\\u{202e}txt.exe\\u{2066}",
    );
    check(
        "a\u{e0041}\u{e0042}b\u{ad}\u{fff9}c\u{180e}",
        "a\\u{e0041}\\u{e0042}b\\u{ad}\\u{fff9}c\\u{180e}",
    );
    check("or\u{200d}ders", "or\\u{200d}ders");
    check(
        "\u{feff}or\u{200b}ders\u{fe0f}",
        "\\u{feff}or\\u{200b}ders\\u{fe0f}",
    );
    check("می\u{200c}خواهم", "می\u{200c}خواهم");
    assert_eq!(visible_lines("a\nb\r\nc"), "a\nb\\r\nc");
    assert!(matches!(visible_lines("ä\nb"), Cow::Borrowed("ä\nb")));
}

#[test]
fn json_stays_the_same_json() {
    let json = "{\n\t\"a\": \"\u{7f}\u{202e}\u{e0001}ü\u{9b}\"}";
    let shown = visible_json(json);
    assert_eq!(
        shown,
        "{\n\t\"a\": \"\\u007f\\u202e\\udb40\\udc01ü\\u009b\"}"
    );
    let read = |json| serde_json::from_str::<serde_json::Value>(json).expect("JSON");
    assert_eq!(read(&shown), read(json));
}

#[test]
fn bytes_are_two_lower_case_digits_each() {
    assert_eq!(hex(&[0, 0x0a, 0x7f, 0xf0]), "000a7ff0");
    assert_eq!(hex(&[]), "");
}

#[test]
fn a_name_is_one_segment_of_a_path() {
    assert_eq!(percent_encoded("orders-2_a.b~c"), "orders-2_a.b~c");
    assert_eq!(
        percent_encoded("../a b/ü?&#%"),
        "..%2Fa%20b%2F%C3%BC%3F%26%23%25"
    );
}

#[test]
fn what_is_quoted_is_one_word() {
    assert_eq!(shell_quoted("a b"), "'a b'");
    assert_eq!(
        shell_quoted("it's $HOME `id` \\ \"x\""),
        r#"'it'\''s $HOME `id` \ "x"'"#
    );
}
