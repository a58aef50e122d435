//! Unit tests of `xml.rs`.

use proptest::prelude::*;

use super::*;

#[test]
fn names_become_those_of_elements() {
    for (name, expected) in [
        ("home_score", "home_score"),
        ("home.score", "home.score"),
        ("2nd", "_2nd"),
        ("-x", "_-x"),
        ("", "_"),
        ("a b:c", "a_b_c"),
        ("größe", "größe"),
        ("⚽", "_"),
        ("日本", "日本"),
    ] {
        assert_eq!(element_name(name), expected);
    }
}

proptest! {
    /// The letters, digits and dots that all editions of XML 1.0 have in common, and no digit first.
    #[test]
    fn any_name_becomes_one_that_an_element_can_have(name in any::<String>()) {
        let element = element_name(&name);
        let mut characters = element.chars();
        prop_assert!(characters.next().is_some_and(is_letter), "{}", element);
        let may_follow = |one: char| is_letter(one) || one.is_ascii_digit() || one == '-' || one == '.';
        prop_assert!(characters.all(may_follow), "{}", element);
        prop_assert_eq!(element_name(&element), element);
    }

    #[test]
    fn any_text_is_without_what_xml_cannot_have(text in any::<String>()) {
        let mut out = String::new();
        escape_into(&text, &mut out);
        let kept = out.contains(['<', '>', '"', '\u{0}', '\u{b}', '\u{fffe}', '\u{ffff}', '\r', '\n', '\t']);
        prop_assert!(!kept, "{}", out);
        let plain = out.replace("&lt;", "").replace("&gt;", "").replace("&quot;", "").replace("&amp;", "");
        let plain = plain.replace("&#13;", "").replace("&#10;", "").replace("&#9;", "");
        prop_assert!(!plain.contains('&'), "{}", plain);
    }
}
