//! The one type of error, and how answers become errors.
//!
//! **Invariant**: no error contains a key.

use std::time::Duration;

use serde_json::Value;

use crate::transport::Answer;
use crate::verdict::{self, Envelope};

/// Codes of the library. Every other code is Headgate's, such as `UNAUTHORIZED` or `RATE_LIMITED`.
pub mod code {
    /// The item cannot be sent as it is; Headgate has this code, too.
    pub const INVALID_PAYLOAD: &str = "INVALID_PAYLOAD";
    /// No connection, or it was lost before the answer ended.
    pub const CONNECTION: &str = "CONNECTION";
    /// No answer in time.
    pub const TIMEOUT: &str = "TIMEOUT";
    /// The item or the body is longer than Headgate takes.
    pub const TOO_LARGE: &str = "TOO_LARGE";
    /// The batcher is closed, or was before the item was accepted.
    pub const CLOSED: &str = "CLOSED";
    /// The queue is full.
    pub const FULL: &str = "FULL";
    /// The queue was full, and this was the oldest.
    pub const DROPPED: &str = "DROPPED";
    /// Headgate may have accepted the batch more than 23 hours ago.
    pub const EXPIRED: &str = "EXPIRED";
    /// The idempotency key belongs to other content.
    pub const MISMATCH: &str = "MISMATCH";
    /// The disk under the spool takes nothing; only `on_state` reports it.
    pub const SPOOL: &str = "SPOOL";
    /// Another program or batcher uses the spool.
    pub const SPOOL_IN_USE: &str = "SPOOL_IN_USE";
    /// The program canceled the call.
    pub const CANCELED: &str = "CANCELED";
    /// An answer that is not from Headgate: the page of a proxy, a redirect, more than 1 MiB.
    pub const UNEXPECTED_ANSWER: &str = "UNEXPECTED_ANSWER";
    /// An invalid option, URL or key.
    pub const USAGE: &str = "USAGE";
}

/// Every error of this crate.
#[derive(Debug, Clone, thiserror::Error)]
#[error("headgate: {message} ({code}{})", .request_id.as_ref().map(|id| format!(", request {id}")).unwrap_or_default())]
#[non_exhaustive]
pub struct Error {
    /// What is wrong, for programs: one of [`code`], or Headgate's own.
    pub code: String,
    /// Of the answer, if there was one.
    pub status: Option<u16>,
    /// What is wrong and what to do, for people.
    pub message: String,
    /// Finds the request in the daemon's log.
    pub request_id: Option<String>,
    /// Places in the request, at most 20.
    pub details: Vec<Detail>,
    /// Whether the same request may be accepted later.
    pub retryable: bool,
    /// What the server asked for.
    pub(crate) retry_after: Option<Duration>,
}

/// A place in a request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Detail {
    /// The item's position, from 0; none if it is about the whole body.
    pub item: Option<u64>,
    /// The name of its field, if it is about one.
    pub field: Option<String>,
    /// The name of a header of the request, if it is about one: then it is not about items.
    pub header: Option<String>,
}

impl Error {
    pub(crate) fn new(code: &str, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            status: None,
            message: message.into(),
            request_id: None,
            details: Vec::new(),
            retryable: false,
            retry_after: None,
        }
    }

    pub(crate) fn retryable(code: &str, message: impl Into<String>) -> Self {
        Self {
            retryable: true,
            ..Self::new(code, message)
        }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(code::USAGE, message)
    }

    pub(crate) fn timeout() -> Self {
        Self::retryable(code::TIMEOUT, "no response within the timeout")
    }

    /// The program canceled the call; `last` is the error of the last attempt.
    pub(crate) fn canceled(last: Option<&Self>) -> Self {
        let mut error = Self::new(code::CANCELED, "canceled");
        if let Some(last) = last.filter(|last| last.code != code::CANCELED) {
            error.message = format!("canceled; the last attempt: {}", last.message);
            error.status = last.status;
        }
        error
    }

    /// An answer that is not what was asked for: Headgate's own error, or somebody else's.
    pub(crate) fn of_answer(answer: &Answer, now: Duration) -> Self {
        let mut error = match verdict::envelope(answer) {
            Some(Envelope::Refusal(mut own)) => {
                own.retryable = !verdict::is_final(answer.status);
                own
            }
            _ => Self::unexpected(answer),
        };
        error.status = Some(answer.status);
        error.retry_after = crate::pause::retry_after(&answer.headers, now);
        error
    }

    /// Something that is not Headgate answered.
    pub(crate) fn unexpected(answer: &Answer) -> Self {
        let status = answer.status;
        let message = match status {
            300..400 => format!(
                "the server answered {status}, a redirect, which is not followed; set the final URL"
            ),
            _ => format!(
                "the response is not from Headgate; status {status}{}",
                excerpt(&answer.body)
            ),
        };
        Self {
            status: Some(status),
            ..Self::retryable(code::UNEXPECTED_ANSWER, message)
        }
    }
}

impl Detail {
    /// Reads what can be read: a member of another type is as none.
    pub(crate) fn of(given: &Value) -> Self {
        let text = |name: &str| {
            let text = given[name].as_str().filter(|text| !text.is_empty());
            text.map(str::to_owned)
        };
        Self {
            item: given["item"].as_u64(),
            field: text("field"),
            header: text("header"),
        }
    }
}

/// The text of a page, without its markup, as far as a message can hold it.
fn excerpt(body: &[u8]) -> String {
    let begin = &body[..body.len().min(4096)];
    let mut text = String::new();
    let (mut in_tag, mut space) = (false, false);
    for character in String::from_utf8_lossy(begin).chars() {
        if text.len() >= 120 {
            break;
        }
        match character {
            '<' => (in_tag, space) = (true, true),
            '>' if in_tag => in_tag = false,
            _ if in_tag => {}
            _ if character.is_whitespace() => space = true,
            char::REPLACEMENT_CHARACTER => {}
            _ if character.is_control() => {}
            _ => {
                if space && !text.is_empty() {
                    text.push(' ');
                }
                space = false;
                text.push(character);
            }
        }
    }
    match text.is_empty() {
        true => text,
        false => format!(": {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_page_its_text_is_shown() {
        let page = b"<html><title>Sign\n in</title><p>to the  hotel\x1b[0m</html>";
        assert_eq!(excerpt(page), ": Sign in to the hotel[0m");
        assert_eq!(excerpt(b"<html>"), "");
        assert!(excerpt("ä".repeat(9000).as_bytes()).len() < 130);
    }
}
