//! The wall clock, time lived, and times as people and programs read them.
//!
//! The wall clock is for people: when something happened, when a key expires. How old something is, and what is due, is
//! measured in time lived: a clock that began with the time of day when the data folder was made, and goes on only while
//! a daemon runs on it. Nobody can set it, so nothing ages because a machine without a clock chip wakes up in 1970, or
//! because somebody corrects the date. The journal carries it from one start to the next.
//!
//! **Invariant**: nothing else in the crate asks the system for the time of day. Time lived never goes back.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Now: Unix time in milliseconds.
#[expect(clippy::disallowed_methods, reason = "the one place that may ask")]
pub fn unix_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
}

/// The same in nanoseconds.
#[expect(clippy::disallowed_methods, reason = "the one place that may ask")]
pub fn unix_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
        })
}

/// Waits, on a thread that does nothing else.
#[expect(
    clippy::disallowed_methods,
    reason = "for the journal's writer and the plugins' clock, which have threads of their own"
)]
pub fn sleep_on_own_thread(time: Duration) {
    std::thread::sleep(time);
}

/// When this process began to live.
static BEGAN: OnceLock<Instant> = OnceLock::new();
/// What had been lived then, in milliseconds.
static LIVED_BEFORE: AtomicU64 = AtomicU64::new(0);

fn began() -> Instant {
    *BEGAN.get_or_init(|| {
        LIVED_BEFORE.fetch_max(unix_ms(), Ordering::AcqRel);
        Instant::now()
    })
}

/// Time lived, in milliseconds: of the same size as Unix time, but no time of day.
pub fn lived_ms() -> u64 {
    let since = u64::try_from(began().elapsed().as_millis()).unwrap_or(u64::MAX);
    LIVED_BEFORE.load(Ordering::Acquire).saturating_add(since)
}

/// The next full second of this process's life. Who looks for something every second waits for this one, so that an idle
/// machine is woken once for all of them.
pub fn next_second() -> Instant {
    let began = began();
    began + Duration::from_secs(began.elapsed().as_secs() + 1)
}

/// The data folder had lived so long when it was last used, and lives on from there. Without a call the life begins now,
/// with the time of day.
pub fn live_on_from(lived_before_ms: u64) {
    let mut first = false;
    BEGAN.get_or_init(|| {
        LIVED_BEFORE.store(lived_before_ms, Ordering::Release);
        first = true;
        Instant::now()
    });
    if !first {
        // A second folder in one process: the time of both only goes on.
        let missing = lived_before_ms.saturating_sub(lived_ms());
        LIVED_BEFORE.fetch_add(missing, Ordering::AcqRel);
    }
}

/// The time of day, Unix milliseconds, of a moment in time lived: past or to come.
pub fn unix_of_lived(lived_at_ms: u64) -> u64 {
    let (now, lived) = (unix_ms(), lived_ms());
    now.saturating_add(lived_at_ms.saturating_sub(lived))
        .saturating_sub(lived.saturating_sub(lived_at_ms))
}

/// RFC 3339 in UTC with milliseconds, `2026-01-31T12:00:00.000Z`, from Unix time in milliseconds.
///
/// Every stored item has one, and a general formatter takes four times as long.
pub fn rfc3339(unix_ms: u64) -> String {
    let seconds = i64::try_from(unix_ms / 1_000).unwrap_or(i64::MAX);
    let Ok(time) = OffsetDateTime::from_unix_timestamp(seconds) else {
        return unix_ms.to_string();
    };
    let (year, month, day) = time.to_calendar_date();
    let (hour, minute, second) = time.to_hms();
    let mut text = String::with_capacity("2026-01-31T12:00:00.000Z".len());
    // A time after 1970 that can be shown has four digits of a year.
    push_digits(&mut text, u64::from(year.unsigned_abs()), 4);
    for (before, number) in [
        ('-', u8::from(month)),
        ('-', day),
        ('T', hour),
        (':', minute),
        (':', second),
    ] {
        text.push(before);
        push_digits(&mut text, u64::from(number), 2);
    }
    text.push('.');
    push_digits(&mut text, unix_ms % 1_000, 3);
    text.push('Z');
    text
}

/// RFC 2822 in UTC, `Sat, 31 Jan 2026 12:00:00 +0000`, from Unix time in milliseconds.
pub fn rfc2822(unix_ms: u64) -> String {
    let seconds = i64::try_from(unix_ms / 1_000).unwrap_or(i64::MAX);
    let Ok(time) = OffsetDateTime::from_unix_timestamp(seconds) else {
        return unix_ms.to_string();
    };
    let (weekday, month) = (time.weekday().to_string(), time.month().to_string());
    let (hour, minute, second) = time.to_hms();
    format!(
        "{}, {:02} {} {:04} {hour:02}:{minute:02}:{second:02} +0000",
        &weekday[..3],
        time.day(),
        &month[..3],
        time.year(),
    )
}

/// The last `count` decimal digits of a number.
fn push_digits(text: &mut String, number: u64, count: u32) {
    for place in (0..count).rev() {
        let digit = number / 10_u64.pow(place) % 10;
        text.push(char::from(b'0' + digit as u8));
    }
}

/// Now, in UTC, as a part of a file's name: `20260131T120000Z`.
pub fn stamp() -> String {
    let time = rfc3339(unix_ms());
    let (seconds, _) = time.split_once('.').unwrap_or((&time, ""));
    seconds.replace(['-', ':', 'Z'], "") + "Z"
}

/// Unix time in milliseconds from RFC 3339 with any offset, 0 for a time before 1970; `None` for anything else.
pub fn parse_rfc3339(text: &str) -> Option<u64> {
    let time = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    u64::try_from(time.unix_timestamp_nanos().max(0) / 1_000_000).ok()
}

#[cfg(test)]
mod tests {
    use super::{parse_rfc3339, rfc2822, rfc3339};

    #[test]
    fn times_are_written_as_mail_does() {
        assert_eq!(rfc2822(0), "Thu, 01 Jan 1970 00:00:00 +0000");
        assert_eq!(
            rfc2822(1_769_860_800_123),
            "Sat, 31 Jan 2026 12:00:00 +0000"
        );
    }

    #[test]
    fn times_are_utc_with_milliseconds_and_read_back() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(1_769_860_800_123), "2026-01-31T12:00:00.123Z");
        assert_eq!(rfc3339(253_402_300_799_999), "9999-12-31T23:59:59.999Z");
        assert_eq!(rfc3339(253_402_300_800_000), "253402300800000");
        assert_eq!(rfc3339(u64::MAX), u64::MAX.to_string());
        assert_eq!(
            parse_rfc3339("2026-01-31T13:00:00.123+01:00"),
            Some(1_769_860_800_123)
        );
        assert_eq!(parse_rfc3339("1497-06-27T15:05:13Z"), Some(0));
        assert_eq!(parse_rfc3339("yesterday"), None);
    }
}
