//! Unit tests of `form/words.rs`.

use super::*;
use settings::ValidationError;
use webhook::InvalidVerifier;

#[test]
fn times_of_a_form_are_utc() {
    assert_eq!(parse_time("1970-01-01T00:01"), Some(Unix::from_ms(60_000)));
    assert_eq!(
        parse_time("1970-01-01T00:01:02"),
        Some(Unix::from_ms(62_000))
    );
    assert_eq!(parse_time("yesterday"), None);
    assert_eq!(
        form_time(Some(Unix::from_ms(62_003))),
        "1970-01-01T00:01:02"
    );
    assert_eq!(form_time(None), "");
}

#[test]
fn what_is_wrong_is_a_sentence_that_names_no_route() {
    let check = |fault: FieldError, expected| assert_eq!(of_fault(&fault), expected);
    check(
        ValidationError::Form("expected 1 to 64 letters".to_owned()).into(),
        "Expected 1 to 64 letters.",
    );
    check(
        ValidationError::Range { min: 1, max: 9 }.into(),
        "Must be from 1 to 9.",
    );
    check(
        FieldError::SameSecret,
        "Another key of this stream has it: every key needs its own secret.",
    );
    let invalid = InvalidVerifier {
        field: "header",
        message: "it is missing; name it".to_owned(),
    };
    assert_eq!(
        field_of("verify", &FieldError::Verify(invalid.clone())),
        "header"
    );
    check(FieldError::Verify(invalid), "It is missing; name it.");
    let no_stream = |meant: Option<&str>| FieldError::NoStream {
        name: "none".to_owned(),
        meant: meant.map(str::to_owned),
    };
    check(
        no_stream(Some("nine")),
        "There is no stream \"none\"; did you mean \"nine\"?",
    );
    check(
        no_stream(None),
        "There is no stream \"none\". Create it first: the page Streams has the button New stream.",
    );
}
