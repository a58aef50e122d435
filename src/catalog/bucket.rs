//! A bucket of requests or of bytes that fills at a rate, of which a node of a cluster may have a share.
//!
//! **Invariant**: taking neither locks nor allocates, and takes at the same moment share one bucket. A full bucket lets
//! whatever is asked for through. A share that grows gives nothing at once.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use base::node_share::NodeShare;

pub(super) const SECOND_NS: u64 = 1_000_000_000;
/// Of the time that a unit takes: nanoseconds have so many more bits, because a unit may take less than one, or no
/// whole number of them.
const UNIT_BITS: u32 = 20;

/// The moment from which nanoseconds are counted. A wall clock that is set would empty or fill every bucket.
static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// A bucket that holds `burst` units and fills at `rate` units a second.
#[derive(Debug)]
pub(super) struct Bucket {
    rate: u64,
    burst: u64,
    /// How long an empty bucket fills, whatever the share. It is independent of the share, so that all nodes together
    /// have the burst once.
    burst_ns: u64,
    /// How long a unit of this node's share takes, in nanoseconds with [`UNIT_BITS`] more bits.
    unit: AtomicU64,
    /// When the bucket is full again: nanoseconds since [`BEGAN`]. One time instead of a count and a time, so that a
    /// request changes it in one atomic step.
    full_at_ns: AtomicU64,
    /// Other nodes have shares as well. A bucket of one node alone counts nothing, so that its requests do not pay for
    /// it.
    is_shared: AtomicBool,
    /// Units that were asked for since somebody looked, if it is shared.
    wanted: AtomicU64,
}

/// What is left of a bucket.
#[derive(Debug, Clone, Copy)]
pub(super) struct Left {
    /// Units that may come now.
    pub(super) remaining: u64,
    /// How long until it is full.
    pub(super) missing_ns: u64,
}

impl Bucket {
    /// Full, and this node's alone. A rate of 0 counts as 1. With a rate of 0 it would divide by zero.
    pub(super) fn new(rate: u64, burst: u64) -> Self {
        let rate = rate.max(1);
        let burst_ns = u128::from(burst) * u128::from(SECOND_NS) / u128::from(rate);
        Self {
            rate,
            burst,
            burst_ns: u64::try_from(burst_ns).unwrap_or(u64::MAX),
            unit: AtomicU64::new(unit_of(rate, NodeShare::WHOLE)),
            full_at_ns: AtomicU64::new(0),
            is_shared: AtomicBool::new(false),
            wanted: AtomicU64::new(0),
        }
    }

    pub(super) fn rate(&self) -> u64 {
        self.rate
    }

    /// Whole seconds in which an empty bucket fills.
    pub(super) fn window_seconds(&self) -> u64 {
        self.burst.div_ceil(self.rate)
    }

    /// Nanoseconds since [`BEGAN`].
    pub(super) fn now_ns() -> u64 {
        u64::try_from(BEGAN.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Takes units. A full bucket lets more than its burst through, because a body larger than the burst would
    /// otherwise never fit.
    ///
    /// # Errors
    /// They are not there; in so many nanoseconds they are.
    pub(super) fn take(&self, units: u64, now_ns: u64) -> Result<Left, u64> {
        if self.is_shared.load(Ordering::Relaxed) {
            self.wanted.fetch_add(units, Ordering::Relaxed);
        }
        let unit = self.unit.load(Ordering::Relaxed);
        let cost_ns = cost_ns(unit, units);
        let latest = now_ns.saturating_add(self.burst_ns.max(cost_ns));
        let after = |full_at: u64| full_at.max(now_ns).saturating_add(cost_ns);
        let later = |full_at: u64| Some(after(full_at)).filter(|full_at| *full_at <= latest);
        let taken = (self.full_at_ns).fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
        match taken {
            Ok(before) => Ok(self.left_of(unit, after(before), now_ns)),
            Err(before) => Err(after(before) - latest),
        }
    }

    /// They were not used after all.
    pub(super) fn give_back(&self, units: u64) {
        let cost_ns = cost_ns(self.unit.load(Ordering::Relaxed), units);
        let sub = |full_at: u64| Some(full_at.saturating_sub(cost_ns));
        let _ = (self.full_at_ns).fetch_update(Ordering::Relaxed, Ordering::Relaxed, sub);
    }

    pub(super) fn left(&self, now_ns: u64) -> Left {
        let unit = self.unit.load(Ordering::Relaxed);
        self.left_of(unit, self.full_at_ns.load(Ordering::Relaxed), now_ns)
    }

    fn left_of(&self, unit: u64, full_at_ns: u64, now_ns: u64) -> Left {
        let missing_ns = full_at_ns.saturating_sub(now_ns);
        let there = u128::from(self.burst_ns.saturating_sub(missing_ns)) << UNIT_BITS;
        let remaining = u64::try_from(there / u128::from(unit)).unwrap_or(u64::MAX);
        Left {
            remaining: remaining.min(self.burst),
            missing_ns,
        }
    }

    /// Gives this node a share of the bucket. One that grows holds no more than before at that moment. Otherwise each
    /// growth would let a burst through.
    pub(super) fn set_share(&self, share: NodeShare, now_ns: u64) {
        let unit = unit_of(self.rate, share);
        let before = self.unit.load(Ordering::Relaxed);
        self.is_shared
            .store(share < NodeShare::WHOLE, Ordering::Relaxed);
        if unit == before {
            return;
        }
        if unit < before {
            let drain = |full_at: u64| {
                let there_ns = (self.burst_ns).saturating_sub(full_at.saturating_sub(now_ns));
                let there_ns = u128::from(there_ns) * u128::from(unit) / u128::from(before);
                let there_ns = u64::try_from(there_ns).unwrap_or(u64::MAX);
                Some(now_ns.saturating_add(self.burst_ns - there_ns.min(self.burst_ns)))
            };
            let _ = (self.full_at_ns).fetch_update(Ordering::Relaxed, Ordering::Relaxed, drain);
        }
        self.unit.store(unit, Ordering::Relaxed);
    }

    /// Units that were asked for since this was called last, also those that were refused. Counted while others have
    /// a share. They count, because they show what the share should be.
    pub(super) fn take_wanted(&self) -> u64 {
        match self.wanted.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.wanted.swap(0, Ordering::Relaxed),
        }
    }
}

/// How long a unit takes at this rate, with [`UNIT_BITS`] more bits. At least 1, because the units that are left are
/// found by dividing by it.
fn unit_of(rate: u64, share: NodeShare) -> u64 {
    let whole = (u128::from(SECOND_NS) << UNIT_BITS) / u128::from(rate);
    let unit = whole * u128::from(NodeShare::WHOLE.parts()) / u128::from(share.parts());
    u64::try_from(unit).unwrap_or(u64::MAX).max(1)
}

/// The product is computed with 128 bits, because a body's bytes times [`UNIT_BITS`] would overflow 64.
fn cost_ns(unit: u64, units: u64) -> u64 {
    let cost = (u128::from(unit) * u128::from(units)) >> UNIT_BITS;
    u64::try_from(cost).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
