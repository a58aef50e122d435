//! The pauses between attempts.

use std::time::{Duration, UNIX_EPOCH};

use hyper::HeaderMap;
use hyper::header::{DATE, HeaderName, RETRY_AFTER};

/// The longest pause that a server may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// The backoff of a client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backoff {
    pub(crate) first: Duration,
    pub(crate) max: Duration,
}

impl Backoff {
    /// The pause after so many failures in a row: half to all of a limit that doubles, or what the server asked for if
    /// that is longer. `random` is from 0 to 1.
    pub(crate) fn before(&self, failures: u32, asked: Option<Duration>, random: f64) -> Duration {
        let doubled = 1u32.checked_shl(failures.saturating_sub(1));
        let limit = doubled.filter(|doubled| *doubled > 0);
        let limit = limit.map_or(self.max, |doubled| self.first.saturating_mul(doubled));
        let limit = limit.min(self.max);
        let own = limit / 2 + (limit / 2).mul_f64(random);
        own.max(asked.unwrap_or_default().min(RETRY_AFTER_MAX))
    }
}

/// What an answer asks for: seconds, or a date less the answer's own `Date`.
pub(crate) fn retry_after(headers: &HeaderMap, now: Duration) -> Option<Duration> {
    let text = single(headers, RETRY_AFTER)?;
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        let seconds = text.parse().map(Duration::from_secs);
        return Some(seconds.unwrap_or(RETRY_AFTER_MAX).min(RETRY_AFTER_MAX));
    }
    let date = http_date(text)?;
    let now = single(headers, DATE).and_then(http_date).unwrap_or(now);
    Some(date.saturating_sub(now).min(RETRY_AFTER_MAX))
}

/// The value of a header that is there once, and not empty.
fn single(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().filter(|_| values.next().is_none())?;
    let text = value.to_str().ok()?.trim_matches([' ', '\t']);
    (!text.is_empty()).then_some(text)
}

/// A date that says its zone, since 1970.
fn http_date(text: &str) -> Option<Duration> {
    let date = httpdate::parse_http_date(text).ok()?;
    let since = date.duration_since(UNIX_EPOCH).unwrap_or_default();
    text.ends_with("GMT").then_some(since)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backoff_doubles_up_to_its_limit() {
        let backoff = Backoff {
            first: Duration::from_millis(250),
            max: Duration::from_secs(30),
        };
        for (failures, ms) in [
            (0, 250),
            (1, 250),
            (2, 500),
            (7, 16_000),
            (8, 30_000),
            (u32::MAX, 30_000),
        ] {
            let between =
                [0.0, 1.0].map(|random| backoff.before(failures, None, random).as_millis());
            assert_eq!(between, [ms / 2, ms], "{failures}");
        }
        let asked = Some(Duration::from_secs(1000));
        assert_eq!(backoff.before(1, asked, 0.0), RETRY_AFTER_MAX);
    }
}
