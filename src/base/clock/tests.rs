//! Unit tests of `clock.rs`.

use std::sync::Mutex;

use super::*;

const MOMENT: Unix = Unix(1_769_860_800_123);
/// The clock of a process is one: tests that look at it twice, or move it, take turns.
static TURN: Mutex<()> = Mutex::new(());

#[test]
fn moments_end_where_numbers_do() {
    let second = Duration::from_secs(1);
    assert_eq!(MOMENT + second - MOMENT, second);
    assert_eq!(MOMENT - (MOMENT + second), Duration::ZERO);
    assert_eq!(Lived::MAX + second, Lived::MAX);
    assert_eq!(Lived::MIN - second, Lived::MIN);
    assert_eq!(Lived::MIN + Duration::MAX, Lived::MAX);
    assert_eq!(Unix::from_column(MOMENT.to_column()), MOMENT);
    assert_eq!(Lived::MAX.to_column(), i64::MAX);
    assert_eq!(millis(Duration::from_nanos(1_999_999)), 1);
    assert_eq!(millis(Duration::MAX), u64::MAX);
}

#[test]
fn time_that_was_not_lived_counts_once_and_never_backward() {
    let _turn = TURN.lock();
    let hours = |hours| Duration::from_hours(hours);
    let (lived, now) = (Lived::now(), Unix::now());
    // Off for 25 hours, after a life of an hour that the wall clock was trusted in.
    let begun = lived - hours(1);
    let added = catch_up(begun, now - hours(26), now);
    assert!(added <= hours(25) && added > hours(24), "{added:?}");
    assert!(Lived::now() - lived >= hours(24));
    assert_eq!(catch_up(begun, now - hours(26), now), Duration::ZERO);
    // The wall clock was set back.
    assert_eq!(catch_up(begun, now + hours(100), now), Duration::ZERO);
}

#[test]
fn moments_of_time_lived_have_a_time_of_day() {
    let _turn = TURN.lock();
    let minute = Duration::from_secs(60);
    let (now, lived) = (Unix::now(), Lived::now());
    let hour = 60 * minute;
    for (at, expected) in [(lived + hour, now + hour), (lived - hour, now - hour)] {
        let found = unix_of_lived(at);
        assert!((expected - minute..expected + minute).contains(&found));
    }
    let (before, moment) = (Lived::now(), Instant::now());
    let at = Lived::at(moment);
    assert!((before..=Lived::now()).contains(&at), "{before:?}, {at:?}");
}

#[test]
fn times_are_written_as_mail_does() {
    assert_eq!(rfc2822(Unix::MIN), "Thu, 01 Jan 1970 00:00:00 +0000");
    assert_eq!(rfc2822(MOMENT), "Sat, 31 Jan 2026 12:00:00 +0000");
}

#[test]
fn times_are_utc_with_milliseconds_and_read_back() {
    assert_eq!(rfc3339(Unix::MIN), "1970-01-01T00:00:00.000Z");
    assert_eq!(rfc3339(MOMENT), "2026-01-31T12:00:00.123Z");
    assert_eq!(
        rfc3339(Unix(253_402_300_799_999)),
        "9999-12-31T23:59:59.999Z"
    );
    assert_eq!(rfc3339(Unix(253_402_300_800_000)), "253402300800000");
    assert_eq!(rfc3339(Unix::MAX), u64::MAX.to_string());
    assert_eq!(parse_rfc3339("2026-01-31T13:00:00.123+01:00"), Some(MOMENT));
    assert_eq!(parse_rfc3339("1497-06-27T15:05:13Z"), Some(Unix::MIN));
    assert_eq!(parse_rfc3339("yesterday"), None);
}
