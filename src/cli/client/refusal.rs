//! Error answers, decoded into something that people can read.
//!
//! The client makes one of every answer that is no success; verbs print it.
//!
//! **Invariant**: what `Display` writes is safe for a terminal, whoever sent the answer.

use std::fmt;

use serde_json::Value;

use super::Answer;
use crate::cli::output::shown;

/// How much of an answer that is not ours is shown.
const FOREIGN_SHOWN_MAX: usize = 200;
/// How many of the details of an error are shown.
const DETAILS_SHOWN_MAX: usize = 20;

/// An error answer: the service's error envelope, or what could be made of another body.
///
/// `Display` writes it for people, escaped, the details on lines of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// The code, such as `INVALID_PAYLOAD`; none if the answer was not ours.
    pub code: Option<String>,
    /// The sentence that says what is wrong.
    pub message: String,
    /// The request's id, to find it in the request log.
    pub request_id: Option<String>,
    /// JSON texts, one for each place that is wrong.
    pub details: Vec<String>,
}

impl Refusal {
    /// Reads the service's error envelope; of any other body, keeps the beginning.
    pub fn decode(answer: &Answer) -> Refusal {
        let body = serde_json::from_slice::<Value>(&answer.body).unwrap_or_default();
        let error = &body["error"];
        let text = |name: &str| error[name].as_str().map(str::to_owned);
        let details = error["details"].as_array();
        let details = details.into_iter().flatten().map(Value::to_string);
        Refusal {
            status: answer.status,
            code: text("code"),
            message: text("message").unwrap_or_else(|| foreign_message(answer)),
            request_id: text("request_id"),
            details: details.take(DETAILS_SHOWN_MAX).collect(),
        }
    }
}

impl std::error::Error for Refusal {}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status)?;
        if let Some(code) = &self.code {
            write!(f, " {}", shown(code))?;
        }
        write!(f, ": {}", shown(&self.message))?;
        if let Some(id) = &self.request_id {
            write!(f, " (request {})", shown(id))?;
        }
        self.details
            .iter()
            .try_for_each(|detail| write!(f, "\n  {}", shown(detail)))
    }
}

/// What to say of an error answer that is not in the service's form.
fn foreign_message(answer: &Answer) -> String {
    let location = answer
        .headers
        .get("location")
        .and_then(|at| at.to_str().ok());
    if let Some(location) = location.filter(|_| (300..400).contains(&answer.status)) {
        return format!("redirected to {location}; redirects are not followed, give that address");
    }
    let text = String::from_utf8_lossy(&answer.body);
    let beginning: String = text.trim().chars().take(FOREIGN_SHOWN_MAX).collect();
    if beginning.is_empty() {
        "an empty answer".to_owned()
    } else {
        format!("not an answer of Headgate: {beginning}")
    }
}
