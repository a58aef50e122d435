//! Times in tables and lines: in the time zone of this machine, or in UTC with an option.
//!
//! All text output of times uses it; JSON has the times of the daemon unchanged.
//!
//! **Invariant**: a time stays RFC 3339 with its offset, so it can be used as an option. Any other text stays
//! unchanged.

use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};

/// Set once, before anything is printed.
static UTC: AtomicBool = AtomicBool::new(false);

/// Shows all times in UTC from now on.
pub fn use_utc() {
    UTC.store(true, Ordering::Relaxed);
}

/// A time of the daemon in this zone.
pub fn local(time: &str) -> String {
    match UTC.load(Ordering::Relaxed) {
        true => time.to_owned(),
        false => in_zone(time, TimeZone::system()),
    }
}

fn in_zone(time: &str, zone: TimeZone) -> String {
    let Ok(moment) = time.parse::<Timestamp>() else {
        return time.to_owned();
    };
    let zoned = moment.to_zoned(zone);
    if zoned.offset() == Offset::UTC {
        return time.to_owned();
    }
    let format = match time.contains('.') {
        true => "%Y-%m-%dT%H:%M:%S%.3f%:z",
        false => "%Y-%m-%dT%H:%M:%S%:z",
    };
    zoned.strftime(format).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_the_same_moment_with_the_offset_of_its_day() {
        let berlin = "CET-1CEST,M3.5.0,M10.5.0/3";
        for (time, shown) in [
            ("2026-01-31T12:00:00.123Z", "2026-01-31T13:00:00.123+01:00"),
            ("2026-07-31T22:30:00Z", "2026-08-01T00:30:00+02:00"),
            ("never", "never"),
            ("", ""),
        ] {
            let zone = TimeZone::posix(berlin).expect("a zone");
            assert_eq!(in_zone(time, zone), shown);
            assert_eq!(in_zone(time, TimeZone::UTC), time);
        }
    }
}
