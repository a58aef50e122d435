//! Timestamps of deliveries, and how far they may be from this machine's clock.
//!
//! The signature layouts and the special cases call [`check`]; what signs and the samples call [`written`], and
//! certificates have times too.
//!
//! **Invariant**: a timestamp that came is read to be compared and never printed again: what is signed is its text.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::preset::Unit;
use super::{Because, Refused};
use base::clock::Unix;

/// More digits than any time of this era has, even in microseconds. A longer number would overflow where it is
/// multiplied.
const DIGITS_MAX: usize = 16;
const RFC3339_LEN_MAX: usize = 40;
/// The last millisecond of the year 9999, where RFC 3339 ends.
const RFC3339_MAX: Unix = Unix::from_ms(253_402_300_799_999);

/// Checks that a timestamp has its form and is within the tolerance; a tolerance of 0 leaves it at the form. Without a
/// tolerance a captured delivery could be sent again at any time.
pub(super) fn check(
    text: &str,
    unit: Unit,
    tolerance_seconds: u64,
    now: Unix,
) -> Result<(), Refused> {
    let Some(at) = read(text, unit) else {
        let wanted = match unit {
            Unit::Seconds => "Unix seconds in digits",
            Unit::Milliseconds => "Unix milliseconds in digits",
            Unit::Rfc3339 => "a time as in RFC 3339",
        };
        let message = format!("the timestamp is not {wanted}");
        return Err(Refused::new(Because::Timestamp, message));
    };
    let off_ms = at - i128::from(now.ms());
    if tolerance_seconds == 0 || off_ms.unsigned_abs() <= u128::from(tolerance_seconds) * 1_000 {
        return Ok(());
    }
    // Rounded away from zero, so that the number shown is above the one allowed.
    let seconds = off_ms.unsigned_abs().div_ceil(1_000);
    let side = if off_ms > 0 { "ahead of" } else { "behind" };
    let message = format!(
        "the timestamp is {} s {side} this machine's clock, and the limit is {} s; check the clock",
        grouped(seconds),
        grouped(tolerance_seconds.into())
    );
    let signed = i64::try_from(seconds).unwrap_or(i64::MAX);
    Err(Refused {
        because: Because::Timestamp,
        message,
        seconds_off: Some(if off_ms > 0 { signed } else { -signed }),
    })
}

/// A time as senders write it.
pub(super) fn written(unit: Unit, at: Unix) -> String {
    match unit {
        Unit::Seconds => at.seconds().to_string(),
        Unit::Milliseconds => at.ms().to_string(),
        Unit::Rfc3339 => {
            let nanos = i128::from(at.min(RFC3339_MAX).ms()) * 1_000_000;
            let at = OffsetDateTime::from_unix_timestamp_nanos(nanos).ok();
            // No time up to the year 9999 fails.
            at.and_then(|at| at.format(&Rfc3339).ok())
                .unwrap_or_default()
        }
    }
}

/// Unix milliseconds, which may be before 1970. Digits alone count as a number: no sign, no space, no fraction.
pub(super) fn read(text: &str, unit: Unit) -> Option<i128> {
    let number = || {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        (digits && text.len() <= DIGITS_MAX).then(|| text.parse::<i128>().ok())?
    };
    match unit {
        Unit::Seconds => Some(number()? * 1_000),
        Unit::Milliseconds => number(),
        Unit::Rfc3339 if text.len() <= RFC3339_LEN_MAX => {
            let at = OffsetDateTime::parse(text, &Rfc3339).ok()?;
            Some(at.unix_timestamp_nanos() / 1_000_000)
        }
        Unit::Rfc3339 => None,
    }
}

/// `3,812`.
fn grouped(number: u128) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
