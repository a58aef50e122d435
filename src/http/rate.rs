//! Headers with the limits of a client: the fields of the IETF draft "RateLimit header fields for HTTP".
//!
//! **Invariant**: a response with `r=0` states in how many seconds (`t`) the next request is possible.

use std::fmt::Write as _;

use salvo_core::Response;
use salvo_core::http::header::{HeaderName, HeaderValue};

use catalog::{QuotaState, VolumeLeft};

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Writes the remaining quota of `whom`, a `key` or an `address`. Bytes are included if they are limited.
pub(super) fn write_headers(res: &mut Response, whom: &str, quota: QuotaState, volume: VolumeLeft) {
    // Every response to a key has these headers, so they avoid the general formatter.
    let [mut first, mut second] = [itoa::Buffer::new(), itoa::Buffer::new()];
    let (burst, window) = (quota.burst, quota.window_seconds);
    let (burst, window) = (first.format(burst), second.format(window));
    let mut policy = ["\"", whom, "\";q=", burst, ";w=", window].concat();
    let (remaining, reset) = (quota.remaining, quota.reset_seconds);
    let (remaining, reset) = (first.format(remaining), second.format(reset));
    let mut state = ["\"", whom, "\";r=", remaining, ";t=", reset].concat();
    for (name, left) in [("bytes", volume.rate), ("day", volume.day)] {
        let Some(left) = left else { continue };
        let (max, window) = (left.bytes_max, left.window_seconds);
        let _ = write!(
            policy,
            r#", "{name}";q={max};qu="content-bytes";w={window}"#
        );
        let (remaining, reset) = (left.remaining, left.reset_seconds);
        let _ = write!(state, r#", "{name}";r={remaining};t={reset}"#);
    }
    for (name, value) in [(RATE_LIMIT_POLICY, policy), (RATE_LIMIT, state)] {
        if let Ok(value) = HeaderValue::try_from(value) {
            res.headers_mut().insert(name, value);
        }
    }
}
