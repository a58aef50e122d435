//! Byte quotas of a key, per second and per day, and today's usage.
//!
//! `ingest` takes the bytes of a body before it is stored, and gives them back if it is not.
//!
//! **Invariant**: a limit is never passed by more than one body, also by requests that come at the same moment, and taking
//! neither locks nor allocates. A body that is the first of a day always fits, and so does one of the largest size after a
//! pause.

use std::sync::atomic::{AtomicU64, Ordering};

use super::bucket::{Bucket, SECOND_NS};
use base::clock::Unix;

const DAY_SECONDS: u64 = 86_400;
/// No body takes so long to come.
const HOUR_SECONDS: u64 = 3_600;
/// The lower bits of [`Volume::today`]: bytes, at most 16 TiB. Above them stands the day. Both are one number, so
/// that a request changes them in one step without a lock.
const BYTES_BITS: u32 = 44;
const BYTES_MASK: u64 = (1 << BYTES_BITS) - 1;

/// What a key may store. 0 stands for no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VolumeLimits {
    /// Bytes of bodies in a second, on average.
    pub bytes_per_second: u64,
    /// Bytes that may come at once before that counts.
    pub burst_bytes: u64,
    /// Bytes of bodies in a day of UTC.
    pub bytes_per_day: u64,
}

#[derive(Debug)]
pub struct Volume {
    limits: VolumeLimits,
    /// For its rate; none: it has none.
    pub(super) bucket: Option<Bucket>,
    /// The day since 1970, and the bytes that were stored in it.
    today: AtomicU64,
    /// The same for what was stored on other nodes. It is apart, because this node reports only its own to the others.
    elsewhere: AtomicU64,
    /// What of that is written down. A key that stored nothing is not written again.
    written: AtomicU64,
}

/// What is left of one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VolumeState {
    /// Bytes that may come in a window.
    pub bytes_max: u64,
    pub window_seconds: u64,
    /// Bytes that may come now.
    pub remaining: u64,
    /// Whole seconds until all of them may come again.
    pub reset_seconds: u64,
}

/// What is left of both limits; none: there is no such limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VolumeLeft {
    pub rate: Option<VolumeState>,
    pub day: Option<VolumeState>,
}

/// Why bytes cannot be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OverVolume {
    pub bytes_max: u64,
    /// Of which time: `second` or `day`.
    pub per: &'static str,
    /// Whole seconds until they can be taken, at least 1.
    pub retry_after_seconds: u64,
}

impl VolumeLimits {
    /// Of a key with these settings; bodies have at most so many bytes.
    pub fn new(bytes_per_second: u64, bytes_per_day: u64, body_bytes_max: u64) -> Self {
        Self {
            bytes_per_second,
            burst_bytes: match bytes_per_second {
                0 => 0,
                rate => rate.saturating_mul(2).max(body_bytes_max),
            },
            bytes_per_day,
        }
    }
}

impl Volume {
    pub fn new(limits: VolumeLimits) -> Self {
        Self {
            limits,
            bucket: match limits.bytes_per_second {
                0 => None,
                rate => Some(Bucket::new(rate, limits.burst_bytes)),
            },
            today: AtomicU64::new(0),
            elsewhere: AtomicU64::new(0),
            written: AtomicU64::new(0),
        }
    }

    /// The same with other limits: what was stored today stays so.
    pub(super) fn with(&self, limits: VolumeLimits) -> Self {
        let new = Self::new(limits);
        for (new, old) in [(&new.today, &self.today), (&new.elsewhere, &self.elsewhere)] {
            new.store(old.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        new
    }

    pub fn limits(&self) -> VolumeLimits {
        self.limits
    }

    /// Bytes that were stored today, on all nodes.
    pub fn stored_today(&self) -> u64 {
        self.stored_on(day_of(Unix::now()))
    }

    /// So many bytes were stored on a day since 1970 on all other nodes.
    pub fn set_elsewhere(&self, (day, bytes): (u64, u64)) {
        self.elsewhere
            .store(added(0, day, bytes), Ordering::Relaxed);
    }

    /// Takes the bytes of a body that is about to be stored, of a request that came at this time. The bytes are taken
    /// before the body is stored, so that requests at the same moment do not all pass the limit.
    ///
    /// # Errors
    /// There is no room for them now; nothing was taken.
    pub fn take(&self, bytes: u64, came_at: Unix) -> Result<(), OverVolume> {
        // It is still the same day, and without a limit nothing else of the time matters.
        let is_enough = self.limits.bytes_per_day == 0 && rest_of_day(came_at) > HOUR_SECONDS;
        let now = match is_enough {
            true => came_at,
            false => Unix::now(),
        };
        self.take_at(bytes, self.now_ns(), now)
    }

    /// The body was not stored after all.
    pub fn give_back(&self, bytes: u64) {
        if let Some(bucket) = &self.bucket {
            bucket.give_back(bytes);
        }
        self.forget(bytes);
    }

    /// Counts less for today.
    fn forget(&self, bytes: u64) {
        let less =
            |today: u64| Some((today & !BYTES_MASK) | (today & BYTES_MASK).saturating_sub(bytes));
        let _ = (self.today).fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// So many bytes were stored on a day since 1970, before this process began.
    pub(super) fn restore(&self, (day, bytes): (u64, u64)) {
        let today = added(0, day, bytes);
        self.today.store(today, Ordering::Relaxed);
        self.written.store(today, Ordering::Relaxed);
    }

    /// The day since 1970 and the bytes that were stored in it, if that is not written down.
    pub fn unwritten(&self) -> Option<(u64, u64)> {
        let today = self.today.load(Ordering::Relaxed);
        let is_new = today != self.written.load(Ordering::Relaxed);
        is_new.then_some((today >> BYTES_BITS, today & BYTES_MASK))
    }

    pub fn note_written(&self, (day, bytes): (u64, u64)) {
        (self.written).store(added(0, day, bytes), Ordering::Relaxed);
    }

    /// Without a limit the clock is not read.
    pub fn left(&self) -> VolumeLeft {
        match self.limits.bytes_per_second | self.limits.bytes_per_day {
            0 => VolumeLeft::default(),
            _ => self.left_at(self.now_ns(), Unix::now()),
        }
    }

    /// What a full bucket refuses is taken off the day again, because nothing was stored.
    fn take_at(&self, bytes: u64, now_ns: u64, now: Unix) -> Result<(), OverVolume> {
        let day = day_of(now);
        let day_max = self.limits.bytes_per_day;
        let elsewhere = stored_on(self.elsewhere.load(Ordering::Relaxed), day);
        let add = |today: u64| {
            let stored = stored_on(today, day).saturating_add(elsewhere);
            let fits = day_max == 0 || stored == 0 || stored.saturating_add(bytes) <= day_max;
            fits.then(|| added(today, day, bytes))
        };
        let taken = (self.today).fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        taken.map_err(|_| OverVolume {
            bytes_max: day_max,
            per: "day",
            retry_after_seconds: rest_of_day(now),
        })?;
        let Some(bucket) = &self.bucket else {
            return Ok(());
        };
        let taken = bucket.take(bytes, now_ns);
        taken.map(drop).map_err(|wait_ns| {
            self.forget(bytes);
            OverVolume {
                bytes_max: self.limits.bytes_per_second,
                per: "second",
                retry_after_seconds: wait_ns.div_ceil(SECOND_NS).max(1),
            }
        })
    }

    fn left_at(&self, now_ns: u64, now: Unix) -> VolumeLeft {
        let limits = self.limits;
        let rate = self.bucket.as_ref().map(|bucket| {
            let left = bucket.left(now_ns);
            VolumeState {
                bytes_max: limits.burst_bytes,
                window_seconds: bucket.window_seconds(),
                remaining: left.remaining,
                reset_seconds: left.missing_ns.div_ceil(SECOND_NS),
            }
        });
        let day = (limits.bytes_per_day > 0).then(|| VolumeState {
            bytes_max: limits.bytes_per_day,
            window_seconds: DAY_SECONDS,
            remaining: (limits.bytes_per_day).saturating_sub(self.stored_on(day_of(now))),
            reset_seconds: rest_of_day(now),
        });
        VolumeLeft { rate, day }
    }

    fn now_ns(&self) -> u64 {
        self.bucket.as_ref().map_or(0, |_| Bucket::now_ns())
    }

    fn stored_on(&self, day: u64) -> u64 {
        let [own, others] = [&self.today, &self.elsewhere]
            .map(|stored| stored_on(stored.load(Ordering::Relaxed), day));
        own.saturating_add(others)
    }
}

/// Days since 1970.
pub fn day_of(now: Unix) -> u64 {
    now.seconds() / DAY_SECONDS
}

/// Whole seconds until the next day begins, at least 1.
fn rest_of_day(now: Unix) -> u64 {
    DAY_SECONDS - now.seconds() % DAY_SECONDS
}

/// A day that is another one counts from nothing, whichever way the clock was set, because a clock that was ahead
/// must not use up the days until then.
fn stored_on(today: u64, day: u64) -> u64 {
    match today >> BYTES_BITS == day {
        true => today & BYTES_MASK,
        false => 0,
    }
}

/// It ends at the most that the bits hold, because a carry would change the day.
fn added(today: u64, day: u64, bytes: u64) -> u64 {
    let stored = stored_on(today, day).saturating_add(bytes);
    (day << BYTES_BITS) | stored.min(BYTES_MASK)
}

#[cfg(test)]
mod tests;
