//! What keys promise: they check, they find typos, they show little.
//!
//! Run by `cargo test`. **Invariant**: the keys written here are made up and open nothing.

use std::collections::HashMap;

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

/// Checksum worked out with an independent CRC32 and base62 (zlib, Python).
const SAMPLE: &str = "ik_live_a1b2c3d4_0123456789ABCDEFGHIJKLMNOPQRSTUV21y6BL";

fn kinds() -> impl Strategy<Value = KeyKind> {
    prop::sample::select(KeyKind::ALL.to_vec())
}

proptest! {
    #[test]
    fn generated_keys_check_and_begin_with_their_marker(kind in kinds()) {
        let key = generate(kind).expect("the system has randomness");
        prop_assert_eq!(check_form(key.expose()), Ok(()));
        prop_assert_eq!(key.expose().len(), KEY_LEN);
        prop_assert!(key.prefix().starts_with(kind.marker()));
        prop_assert_eq!(key.prefix().len(), 16);
        prop_assert_eq!(is_test(key.expose()), kind == KeyKind::IngestTest);
    }

    #[test]
    fn a_changed_character_is_found(kind in kinds(), at in any::<Index>(), new in any::<char>()) {
        let key = generate(kind).expect("the system has randomness");
        let mut chars: Vec<char> = key.expose().chars().collect();
        let at = at.index(chars.len());
        prop_assume!(chars[at] != new);
        chars[at] = new;
        prop_assert!(check_form(&chars.into_iter().collect::<String>()).is_err());
    }

    #[test]
    fn a_changed_digit_is_found(kind in kinds(), at in 0..KEY_LEN, new in 0..62usize) {
        let key = generate(kind).expect("the system has randomness");
        let mut bytes = key.expose().as_bytes().to_vec();
        prop_assume!(bytes[at] != BASE62[new]);
        bytes[at] = BASE62[new];
        let changed = String::from_utf8(bytes).expect("base62 is ASCII");
        prop_assert!(check_form(&changed).is_err());
    }

    #[test]
    fn no_text_panics_or_shows_more_than_a_third(text in "(ik_live_|ik_test_|rk_live_|ik_|)\\PC{0,80}") {
        let form = check_form(&text);
        let shown = prefix(&text);
        prop_assert!(text.starts_with(shown));
        prop_assert!(shown.chars().count() * 3 <= text.chars().count());
        prop_assert!(form.is_ok() || shown.chars().count() <= 8);
        let _ = is_test(&text);
        let _ = text.parse::<KeyHash>();
    }

    #[test]
    fn a_hash_survives_its_text(bytes in any::<[u8; 32]>()) {
        let hash = KeyHash::from_bytes(bytes);
        prop_assert_eq!(hash.to_string().parse(), Ok(hash));
        prop_assert_eq!(hash.to_string().to_uppercase().parse(), Ok(hash));
    }
}

#[test]
fn a_hash_is_the_plain_sha_256_of_the_text() {
    // The first test vector of FIPS 180.
    let hash = KeyHash::of("abc");
    assert_eq!(
        hash.to_string(),
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    );
    assert_eq!(format!("{hash:?}"), "KeyHash(ba7816bf…)");
}

#[test]
fn a_hash_in_another_form_is_refused() {
    let check = |text: &str, expected| assert_eq!(text.parse::<KeyHash>(), Err(expected));
    check("", KeyHashError::Length(0));
    check(&"0".repeat(63), KeyHashError::Length(63));
    check(&format!("{}g", "0".repeat(63)), KeyHashError::Digit(64));
    check(&format!("é{}", "0".repeat(63)), KeyHashError::Digit(1));
}

#[test]
fn a_wrong_form_says_what_is_wrong() {
    let check = |text: &str, expected| assert_eq!(check_form(text), expected, "{text}");
    check(SAMPLE, Ok(()));
    check("", Err(KeyFormError::Marker));
    check("rk_test_a1b2c3d4", Err(KeyFormError::Marker));
    check(&SAMPLE[..40], Err(KeyFormError::Length(40)));
    check(
        &format!("{SAMPLE} "),
        Err(KeyFormError::Length(KEY_LEN + 1)),
    );
    check(
        &SAMPLE.replace("d4_", "d4-"),
        Err(KeyFormError::Character(17)),
    );
    check(&SAMPLE.replace('5', "é"), Err(KeyFormError::Character(23)));
    check(&SAMPLE.replace("live", "test"), Err(KeyFormError::Checksum));
    check(&SAMPLE.replace("01", "10"), Err(KeyFormError::Checksum));
}

#[test]
fn a_key_of_another_form_shows_its_beginning_only() {
    let check = |text: &str, shown: &str| assert_eq!(prefix(text), shown);
    check(SAMPLE, "ik_live_a1b2c3d4");
    check("ik_our-old-gateway-key-2019", "ik_our-o");
    check("ik_shortest-with-24-char", "ik_short");
    check("ik_abc", "ik");
    check("ik", "");
    check("", "");
    check("ééééééé", "éé");
}

#[test]
fn a_key_is_not_printed_by_accident() {
    let key = generate(KeyKind::Ingest).expect("the system has randomness");
    assert_eq!(
        format!("{key:?}"),
        format!("KeyText({}…)", &key.expose()[..16])
    );
}

#[test]
fn all_digits_are_equally_likely() {
    const DIGITS: usize = 124_000;
    let mut text = String::new();
    push_random_base62(&mut text, DIGITS).expect("the system has randomness");
    assert_eq!(text.len(), DIGITS);
    let mut counts: HashMap<char, f64> = HashMap::new();
    for digit in text.chars() {
        *counts.entry(digit).or_default() += 1.0;
    }
    assert_eq!(counts.len(), 62);
    let expected = DIGITS as f64 / 62.0;
    let chi_squared: f64 = counts
        .values()
        .map(|n| (n - expected).powi(2) / expected)
        .sum();
    // 61 degrees of freedom: above 150 once in about two billion runs. Bytes taken modulo 62
    // without rejecting any give more than 700 here.
    assert!(chi_squared < 150.0, "{chi_squared}");
}
