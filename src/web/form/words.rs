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
mod tests;
