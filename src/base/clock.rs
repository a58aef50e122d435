//! The wall clock, time lived, and times as people and programs read them.
//!
//! The wall clock is for people: when something happened, when a key expires. How old something is, and what is due, is
//! measured in time lived: a clock that began with the time of day when the data folder was made, and goes on while a
//! daemon runs on it, suspended or not. Nobody can set it, so nothing ages because a machine without a clock chip wakes up
//! in 1970, or because somebody corrects the date. The journal carries it from one start to the next, and adds the time in
//! between once the wall clock can be trusted to know it ([`Trust`]).
//!
//! Each clock has a type, [`Unix`] and [`Lived`], so that the compiler finds what mixes them.
//!
//! **Invariant**: nothing else in the crate asks the system for the time of day. Time lived never goes back. Only
//! [`unix_of_lived`] leads from one clock to the other, and [`catch_up`] what is trusted.

mod synchronized;

use std::ops::{Add, AddAssign, Sub};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Milliseconds of a duration, as programs are given them; what does not fit in 64 bits is as much as fits.
pub const fn millis(duration: Duration) -> u64 {
    (duration.as_secs().saturating_mul(1_000)).saturating_add(duration.subsec_millis() as u64)
}

/// The latest moment that a column of a database can say.
const LATEST: u64 = i64::MAX.cast_unsigned();

/// What both clocks can do. Neither mixes with the other or with a plain number.
macro_rules! moment {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u64);

        impl $name {
            /// Before every other.
            pub const MIN: Self = Self(0);
            /// After every other.
            pub const MAX: Self = Self(u64::MAX);

            /// From milliseconds, as files, programs and tests write them.
            pub const fn from_ms(ms: u64) -> Self {
                Self(ms)
            }

            /// Milliseconds, for files and programs.
            pub const fn ms(self) -> u64 {
                self.0
            }

            /// From a column of a database, whose numbers have a sign.
            pub const fn from_column(ms: i64) -> Self {
                Self(ms.unsigned_abs())
            }

            /// For a column of a database; what is too late for one is the latest that it can say.
            pub const fn to_column(self) -> i64 {
                match self.0 {
                    0..=LATEST => self.0.cast_signed(),
                    _ => i64::MAX,
                }
            }
        }

        impl Add<Duration> for $name {
            type Output = Self;

            fn add(self, more: Duration) -> Self {
                Self(self.0.saturating_add(millis(more)))
            }
        }

        impl AddAssign<Duration> for $name {
            fn add_assign(&mut self, more: Duration) {
                *self = *self + more;
            }
        }

        impl Sub<Duration> for $name {
            type Output = Self;

            fn sub(self, less: Duration) -> Self {
                Self(self.0.saturating_sub(millis(less)))
            }
        }

        /// How long before `self` the other one was; zero if it was not.
        impl Sub for $name {
            type Output = Duration;

            fn sub(self, earlier: Self) -> Duration {
                Duration::from_millis(self.0.saturating_sub(earlier.0))
            }
        }
    };
}

moment! {
    /// A moment by the wall clock, in milliseconds since 1970: for people, and for what others date. Anybody can set that
    /// clock, so nothing is measured by it that must be right.
    Unix
}

moment! {
    /// A moment of time lived, in milliseconds: of the same size as Unix time, but no time of day. Ages, pauses and what
    /// is due are measured by it.
    Lived
}

impl Unix {
    /// Now, by the wall clock.
    pub fn now() -> Self {
        Self(millis(since_1970()))
    }

    /// Full seconds since 1970.
    pub const fn seconds(self) -> u64 {
        self.0 / 1_000
    }
}

impl Lived {
    /// Now, in time lived.
    pub fn now() -> Self {
        let began = began();
        before() + (since_boot() - began.boot)
    }

    /// The same for a moment that this process measured.
    pub fn at(moment: Instant) -> Self {
        Self::now() - moment.elapsed()
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that may ask")]
fn since_1970() -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or(Duration::ZERO)
}

/// Now, by the wall clock, in nanoseconds since 1970.
pub fn unix_ns() -> u64 {
    u64::try_from(since_1970().as_nanos()).unwrap_or(u64::MAX)
}

/// Waits, on a thread that does nothing else.
#[expect(
    clippy::disallowed_methods,
    reason = "for the journal's writer and the plugins' clock, which have threads of their own"
)]
pub fn sleep_on_own_thread(time: Duration) {
    std::thread::sleep(time);
}

/// When this process began to live, by two clocks that nobody can set.
#[derive(Debug, Clone, Copy)]
struct Began {
    instant: Instant,
    /// Goes on while the machine is suspended.
    boot: Duration,
}

impl Began {
    fn now() -> Self {
        Self {
            instant: Instant::now(),
            boot: since_boot(),
        }
    }
}

/// Since the machine was started, also while it slept: it is never set, and says nothing of any other machine.
pub fn since_boot() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::try_from(now).unwrap_or(Duration::ZERO)
}

static BEGAN: OnceLock<Began> = OnceLock::new();
/// What had been lived then, in milliseconds.
static LIVED_BEFORE: AtomicU64 = AtomicU64::new(0);

fn began() -> Began {
    *BEGAN.get_or_init(|| {
        LIVED_BEFORE.fetch_max(Unix::now().ms(), Ordering::AcqRel);
        Began::now()
    })
}

/// What had been lived when this process began; asked after [`began`].
fn before() -> Lived {
    Lived(LIVED_BEFORE.load(Ordering::Acquire))
}

/// The next full second of this process's life. Who looks for something every second waits for this one, so that an idle
/// machine is woken once for all of them.
pub fn next_second() -> Instant {
    let began = began().instant;
    began + Duration::from_secs(began.elapsed().as_secs() + 1)
}

/// The data folder had lived up to here when it was last used, and lives on from there. Without a call the life begins
/// now, with the time of day.
pub fn live_on_from(lived_before: Lived) {
    let mut first = false;
    BEGAN.get_or_init(|| {
        LIVED_BEFORE.store(lived_before.ms(), Ordering::Release);
        first = true;
        Began::now()
    });
    if !first {
        // A second folder in one process: the time of both only goes on.
        let missing = lived_before - Lived::now();
        LIVED_BEFORE.fetch_add(millis(missing), Ordering::AcqRel);
    }
}

/// When the wall clock is trusted to say how long a data folder was not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// While the kernel says that it is synchronized.
    Auto,
    /// At all times.
    Always,
    /// Never: only the time counts in which a daemon runs.
    Never,
}

static TRUST: AtomicU8 = AtomicU8::new(Trust::Never as u8);

/// Says when the wall clock is trusted; never, until this is called.
pub fn trust(trust: Trust) {
    TRUST.store(trust as u8, Ordering::Relaxed);
}

/// Now by the wall clock, if it is trusted now.
pub fn trusted_now() -> Option<Unix> {
    let trust = TRUST.load(Ordering::Relaxed);
    let is_trusted = trust == Trust::Always as u8
        || trust == Trust::Auto as u8 && synchronized::is_synchronized();
    is_trusted.then(Unix::now)
}

/// `lived` had been lived when the wall clock was last trusted and said `then`; now it is trusted again, and says `now`.
/// What passed in between and was not lived counts as lived from here on. Returns it.
pub fn catch_up(lived: Lived, then: Unix, now: Unix) -> Duration {
    let missing = (now - then).saturating_sub(Lived::now() - lived);
    LIVED_BEFORE.fetch_add(millis(missing), Ordering::AcqRel);
    missing
}

/// The time of day of a moment in time lived, past or to come. The one way from one clock to the other, as right as the
/// wall clock is now.
pub fn unix_of_lived(at: Lived) -> Unix {
    let (now, lived) = (Unix::now(), Lived::now());
    now + (at - lived) - (lived - at)
}

/// RFC 3339 in UTC with milliseconds, `2026-01-31T12:00:00.000Z`, by the wall clock.
///
/// Every stored item has one, and a general formatter takes four times as long.
pub fn rfc3339(at: Unix) -> String {
    let seconds = i64::try_from(at.seconds()).unwrap_or(i64::MAX);
    let Ok(time) = OffsetDateTime::from_unix_timestamp(seconds) else {
        return at.ms().to_string();
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
    push_digits(&mut text, at.ms() % 1_000, 3);
    text.push('Z');
    text
}

/// RFC 2822 in UTC, `Sat, 31 Jan 2026 12:00:00 +0000`, by the wall clock.
pub fn rfc2822(at: Unix) -> String {
    let seconds = i64::try_from(at.seconds()).unwrap_or(i64::MAX);
    let Ok(time) = OffsetDateTime::from_unix_timestamp(seconds) else {
        return at.ms().to_string();
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
    let time = rfc3339(Unix::now());
    let (seconds, _) = time.split_once('.').unwrap_or((&time, ""));
    seconds.replace(['-', ':', 'Z'], "") + "Z"
}

/// A time in RFC 3339 with any offset, 1970 for an earlier one; `None` for anything else.
pub fn parse_rfc3339(text: &str) -> Option<Unix> {
    let ms = u64::try_from(nanos_of_rfc3339(text)?.max(0) / 1_000_000).ok()?;
    Some(Unix(ms))
}

/// The nanoseconds from 1970 to a time in RFC 3339; of one before 1970 they are negative.
pub fn nanos_of_rfc3339(text: &str) -> Option<i128> {
    let time = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    Some(time.unix_timestamp_nanos())
}

#[cfg(test)]
mod tests;
