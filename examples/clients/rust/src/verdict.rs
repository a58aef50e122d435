//! What an answer to a submission means: the one place that decides whether items may be given up.
//!
//! **Invariant**: only Headgate's own envelope is an acceptance or a refusal. Everything else leaves the items in the queue.

use std::time::Duration;

use serde_json::Value;

use crate::client::Receipt;
use crate::error::{Detail, Error, code};
use crate::pause::Backoff;
use crate::transport::{Answer, Reply};

/// Keeps a batch of many bad items from being many requests at once.
const PAUSE_AFTER_REFUSAL: Duration = Duration::from_millis(100);
/// The shortest pause while Headgate rejects the key.
const PAUSE_BLOCKED_MIN: Duration = Duration::from_secs(5);

/// How an attempt ended. Only the first three take something from the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VerdictKind {
    Accepted,
    /// Headgate's word about items.
    Refused,
    /// The key belongs to other content.
    Mismatch,
    /// Headgate's word about key, stream or request.
    Blocked,
    /// Everything else.
    Retrying,
}

/// An attempt, and what follows from it.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) kind: VerdictKind,
    pub(crate) result: Result<Receipt, Error>,
    /// Headgate may have accepted it.
    pub(crate) unknown: bool,
    /// Something in between finds the body too large.
    pub(crate) shrink: bool,
}

impl Verdict {
    /// What a reply to a submission of so many items means; none: their number is not known, as of a removal.
    pub(crate) fn of(reply: Reply, sent: Option<usize>, now: Duration) -> Self {
        let answer = match reply {
            Reply::Complete(answer) => answer,
            Reply::Nothing { error, left } => return Self::new(VerdictKind::Retrying, error, left),
        };
        let status = answer.status;
        let error = Error::of_answer(&answer, now);
        match envelope(&answer) {
            None => Self {
                shrink: status == 413,
                ..Self::new(VerdictKind::Retrying, error, status == 202 || status >= 500)
            },
            Some(Envelope::Receipt(receipt)) if status == 202 => {
                Self::of_receipt(receipt, &answer, sent)
            }
            Some(_) if (200..300).contains(&status) => {
                Self::new(VerdictKind::Retrying, error, true)
            }
            Some(Envelope::Refusal(_)) if is_about_items(&error) => {
                Self::new(VerdictKind::Refused, error, false)
            }
            Some(_) if is_final(status) => Self::new(VerdictKind::Blocked, error, false),
            Some(_) => Self::new(VerdictKind::Retrying, error, status >= 500 && status != 503),
        }
    }

    fn new(kind: VerdictKind, error: Error, unknown: bool) -> Self {
        Self {
            kind,
            result: Err(error),
            unknown,
            shrink: false,
        }
    }

    /// Compares what was accepted with what was sent.
    fn of_receipt(mut receipt: Receipt, answer: &Answer, sent: Option<usize>) -> Self {
        let count = receipt.items_received;
        if let Some(sent) = sent.filter(|sent| *sent as u64 != count) {
            let message = format!(
                "the idempotency key belongs to another request with {count} items, but {sent} were sent; use a new key"
            );
            let mut error = Error::new(code::MISMATCH, message);
            error.status = Some(answer.status);
            error.request_id = Some(receipt.request_id);
            return Self::new(VerdictKind::Mismatch, error, false);
        }
        let replayed = answer.headers.get("idempotent-replayed");
        receipt.replayed = replayed.is_some_and(|value| value == "true");
        Self {
            kind: VerdictKind::Accepted,
            result: Ok(receipt),
            unknown: false,
            shrink: false,
        }
    }

    /// How long to wait before the next attempt.
    pub(crate) fn pause(&self, backoff: &Backoff, failures: u32, random: f64) -> Duration {
        let asked = self
            .result
            .as_ref()
            .err()
            .and_then(|error| error.retry_after);
        match self.kind {
            VerdictKind::Accepted | VerdictKind::Mismatch => Duration::ZERO,
            VerdictKind::Refused => PAUSE_AFTER_REFUSAL,
            VerdictKind::Blocked => backoff
                .before(failures, asked, random)
                .max(PAUSE_BLOCKED_MIN),
            VerdictKind::Retrying => backoff.before(failures, asked, random),
        }
    }
}

/// Which of so many items an error names, in order.
pub(crate) fn named(error: &Error, count: usize) -> Vec<usize> {
    let items = error.details.iter().filter_map(|detail| detail.item);
    let items = items.filter_map(|item| usize::try_from(item).ok());
    let mut items: Vec<usize> = items.filter(|item| *item < count).collect();
    items.sort_unstable();
    items.dedup();
    items
}

/// An answer of Headgate.
pub(crate) enum Envelope {
    Receipt(Receipt),
    Refusal(Error),
}

/// Reads a complete answer of Headgate; none if it is not one. No header but `Content-Type` is asked: proxies replace the
/// others.
pub(crate) fn envelope(answer: &Answer) -> Option<Envelope> {
    let mut kinds = answer.headers.get_all("content-type").iter();
    let kind = kinds.next().filter(|_| kinds.next().is_none())?;
    let media = kind.to_str().ok()?.split(';').next()?.trim();
    if !media.eq_ignore_ascii_case("application/json") {
        return None;
    }
    let body: Value = serde_json::from_slice(&answer.body).ok()?;
    let text = |value: &Value| {
        let text = value.as_str().filter(|text| !text.is_empty());
        text.map(str::to_owned)
    };
    match body["success"].as_bool()? {
        true => {
            let data = &body["data"];
            Some(Envelope::Receipt(Receipt {
                stream: text(&data["stream"])?,
                items_received: data["items_received"].as_u64()?,
                request_id: text(&data["request_id"])?,
                replayed: false,
            }))
        }
        false => {
            let given = &body["error"];
            let message = given["message"].as_str().unwrap_or_default();
            let mut error = Error::new(&text(&given["code"])?, message);
            error.request_id = Some(text(&given["request_id"])?);
            let details = given["details"].as_array();
            error.details = details.into_iter().flatten().map(Detail::of).collect();
            Some(Envelope::Refusal(error))
        }
    }
}

/// Whether an error of Headgate is its word about items.
pub(crate) fn is_about_items(error: &Error) -> bool {
    let names_header = error.details.iter().any(|detail| detail.header.is_some());
    let (status, code) = (error.status.unwrap_or_default(), error.code.as_str());
    let is_about = matches!(
        (status, code),
        (400, "INVALID_PAYLOAD") | (413, "PAYLOAD_TOO_LARGE")
    );
    is_about && !names_header
}

/// Whether an answer of Headgate with this status is the same when the request is repeated.
pub(crate) fn is_final(status: u16) -> bool {
    (400..500).contains(&status) && !matches!(status, 408 | 425 | 429)
}
