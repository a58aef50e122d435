//! The wall clock, and times as people and programs read them.
//!
//! **Invariant**: nothing else in the crate asks the system for the time of day.

use std::time::{SystemTime, UNIX_EPOCH};

use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;

const MILLISECONDS: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");

/// Now: Unix time in milliseconds.
#[expect(clippy::disallowed_methods, reason = "the one place that may ask")]
pub fn unix_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
}

/// RFC 3339 in UTC with milliseconds, `2026-01-31T12:00:00.000Z`, from Unix time in milliseconds.
pub fn rfc3339(unix_ms: u64) -> String {
    let nanoseconds = i128::from(unix_ms) * 1_000_000;
    OffsetDateTime::from_unix_timestamp_nanos(nanoseconds)
        .ok()
        .and_then(|time| time.format(MILLISECONDS).ok())
        .unwrap_or_else(|| unix_ms.to_string())
}

/// Unix time in milliseconds from RFC 3339 with any offset; `None` for anything else.
pub fn parse_rfc3339(text: &str) -> Option<u64> {
    let time = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    u64::try_from(time.unix_timestamp_nanos() / 1_000_000).ok()
}

#[cfg(test)]
mod tests {
    use super::{parse_rfc3339, rfc3339};

    #[test]
    fn times_are_utc_with_milliseconds_and_read_back() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(1_769_860_800_123), "2026-01-31T12:00:00.123Z");
        assert_eq!(
            parse_rfc3339("2026-01-31T13:00:00.123+01:00"),
            Some(1_769_860_800_123)
        );
        assert_eq!(parse_rfc3339("yesterday"), None);
    }
}
