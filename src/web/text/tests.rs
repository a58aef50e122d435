//! Unit tests of `text.rs`.

use super::*;

#[test]
fn what_breaks_a_page_is_shown_instead() {
    let check = |given: &str, expected: &str| {
        assert_eq!(text(given).into_string(), expected, "{given:?}");
    };
    check("Grüße 漢字 👩‍👧", "<bdi>Grüße 漢字 👩‍👧</bdi>");
    check("<b>\"&'", "<bdi>&lt;b&gt;&quot;&amp;'</bdi>");
    check("\u{1b}[31mred\u{7}", "<bdi>\\u{1b}[31mred\\u{7}</bdi>");
    check("a\u{202e}b\u{2066}", "<bdi>a\\u{202e}b\\u{2066}</bdi>");
    check("a\u{e0041}\u{ad}b", "<bdi>a\\u{e0041}\\u{ad}b</bdi>");
    check("مرحبا", "<bdi>مرحبا</bdi>");
}

#[test]
fn numbers_of_things_are_words() {
    assert_eq!(count(1, "batch"), "1 batch");
    assert_eq!(count(0, "batch"), "0 batches");
    assert_eq!(count(1_200, "item"), "1,200 items");
}

#[test]
fn long_text_is_shortened_by_characters_and_says_so() {
    let shown = text(&"ü".repeat(10_000)).into_string();
    assert_eq!(shown.matches('ü').count(), CHARS_MAX);
    assert!(shown.contains("9,840 more characters"), "{shown}");
    assert_eq!(plain(&"a".repeat(200)).chars().count(), CHARS_MAX + 1);
}

#[test]
fn numbers_are_grouped_and_sizes_have_units() {
    assert_eq!(grouped(7), "7");
    assert_eq!(grouped(1_234_567), "1,234,567");
    assert_eq!(grouped(100_000), "100,000");
    assert_eq!(bytes(1_023), "1023 bytes");
    assert_eq!(bytes(1_536), "1.5 kB");
    assert_eq!(bytes(5 << 30), "5.0 GB");
    assert_eq!(count(1, "item"), "1 item");
    assert_eq!(count(2_000, "item"), "2,000 items");
}
