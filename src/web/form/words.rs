//! The messages of forms, and the time format of forms.
//!
//! **Invariant**: a message is a sentence that names no route; times are in UTC.

use crate::text::as_sentence;
use base::clock::{self, Unix};
use catalog::FieldError;

/// Parses a time of a form, in UTC, with or without seconds.
pub(crate) fn parse_time(text: &str) -> Option<Unix> {
    clock::parse_rfc3339(&format!("{text}Z"))
        .or_else(|| clock::parse_rfc3339(&format!("{text}:00Z")))
}

/// Formats a time for a form; empty for `None`.
pub(crate) fn form_time(at: Option<Unix>) -> String {
    let text = at.map(clock::rfc3339).unwrap_or_default();
    text.get(..19).unwrap_or_default().to_owned()
}

/// The message below an invalid field.
pub(super) fn of_fault(fault: &FieldError) -> String {
    match fault {
        FieldError::NoStream { meant: None, .. } => {
            format!(
                "{} Create it first: the page Streams has the button New stream.",
                as_sentence(&fault.to_string())
            )
        }
        FieldError::Ended => {
            "The key has expired: set the expiry of the new key, or choose that it never expires."
                .to_owned()
        }
        FieldError::Verify(invalid) => as_sentence(&invalid.message),
        FieldError::SameSecret => {
            "Another key of this stream has it: every key needs its own secret.".to_owned()
        }
        FieldError::Candidates => as_sentence(fault.to_string().trim_start_matches("secret: ")),
        FieldError::Secret(why) => as_sentence(why),
        fault => as_sentence(&fault.to_string()),
    }
}

/// The field with the error. `verify` has several fields in a form.
pub(super) fn field_of(field: &'static str, fault: &FieldError) -> &'static str {
    match fault {
        FieldError::Verify(invalid) => invalid.field,
        FieldError::SameSecret | FieldError::Candidates | FieldError::Secret(_) => "secret",
        _ => field,
    }
}

#[cfg(test)]
mod tests {
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
}
