//! Headers with the limits of a client: the fields of the IETF draft "RateLimit header fields for HTTP".
//!
//! **Invariant**: a response with `r=0` states in how many seconds (`t`) the next request is possible.

use std::fmt::Write as _;
use std::ops::Range;

use bytes::Bytes;
use salvo_core::Response;
use salvo_core::http::header::{HeaderMap, HeaderName, HeaderValue};

use catalog::{QuotaState, VolumeLeft};

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Headers, and the part of a text that is the value of each.
pub(super) type RateHeaders = [(HeaderName, Range<usize>); 2];

/// Writes the remaining quota of `whom`, a `key` or an `address`. Bytes are included if they are limited.
pub(super) fn write_headers(res: &mut Response, whom: &str, quota: QuotaState, volume: VolumeLeft) {
    let mut text = String::with_capacity(96);
    let parts = push(&mut text, whom, quota, volume);
    let text = Bytes::from(text);
    for (name, part) in parts {
        insert(res.headers_mut(), name, text.slice(part));
    }
}

/// Appends the values of these headers to a text.
pub(super) fn push(
    text: &mut String,
    whom: &str,
    quota: QuotaState,
    volume: VolumeLeft,
) -> RateHeaders {
    // Every response to a key has these headers, so they avoid the general formatter.
    let [mut first, mut second] = [itoa::Buffer::new(), itoa::Buffer::new()];
    let (burst, window) = (quota.burst, quota.window_seconds);
    let (burst, window) = (first.format(burst), second.format(window));
    let bytes = [("bytes", volume.rate), ("day", volume.day)];
    let bytes = || (bytes.iter()).filter_map(|(name, left)| Some((name, (*left)?)));
    let policy_at = text.len();
    text.extend(["\"", whom, "\";q=", burst, ";w=", window]);
    for (name, left) in bytes() {
        let (max, window) = (left.bytes_max, left.window_seconds);
        let _ = write!(text, r#", "{name}";q={max};qu="content-bytes";w={window}"#);
    }
    let (remaining, reset) = (quota.remaining, quota.reset_seconds);
    let (remaining, reset) = (first.format(remaining), second.format(reset));
    let state_at = text.len();
    text.extend(["\"", whom, "\";r=", remaining, ";t=", reset]);
    for (name, left) in bytes() {
        let (remaining, reset) = (left.remaining, left.reset_seconds);
        let _ = write!(text, r#", "{name}";r={remaining};t={reset}"#);
    }
    let (policy, state) = (policy_at..state_at, state_at..text.len());
    [(RATE_LIMIT_POLICY, policy), (RATE_LIMIT, state)]
}

/// Sets a header to a text without control characters.
pub(super) fn insert(headers: &mut HeaderMap, name: HeaderName, text: Bytes) {
    if let Ok(value) = HeaderValue::from_maybe_shared(text) {
        headers.insert(name, value);
    }
}
