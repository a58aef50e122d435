//! The gate: closed while requests could not be stored.
//!
//! `daemon` closes and opens it; the pipeline checks it; `/readyz` shows it.
//!
//! **Invariant**: a closed gate refuses with 503 and never loses anything: nothing was taken yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::BodyError;
use crate::error::AcceptError;

/// Why requests are refused at the moment, if they are.
#[derive(Debug)]
pub struct Gate {
    disk_low: AtomicBool,
    draining: AtomicBool,
    /// Bytes of bodies that are being read or wait for the journal.
    body_bytes: AtomicU64,
    body_bytes_max: u64,
}

/// What one body may take; given back when dropped.
#[derive(Debug)]
pub struct BodyBudget {
    gate: Arc<Gate>,
    taken: u64,
    bytes_max: u64,
    /// What all bodies together may have before this one is too much.
    all_max: u64,
}

impl BodyBudget {
    /// Takes room for bytes that have arrived. The first body always has it.
    ///
    /// # Errors
    /// [`BodyError::TooLarge`] over the limit of one body, [`BodyError::NoRoom`] over that of all.
    pub fn take(&mut self, bytes: u64) -> Result<(), BodyError> {
        if self.taken + bytes > self.bytes_max {
            return Err(BodyError::TooLarge);
        }
        let others = self.gate.body_bytes.fetch_add(bytes, Ordering::Relaxed) - self.taken;
        self.taken += bytes;
        if others > 0 && others + self.taken > self.all_max {
            return Err(BodyError::NoRoom);
        }
        Ok(())
    }
}

impl Drop for BodyBudget {
    fn drop(&mut self) {
        self.gate
            .body_bytes
            .fetch_sub(self.taken, Ordering::Relaxed);
    }
}

impl Gate {
    /// An open gate. Bodies of `body_bytes_max` bytes together may be on their way to the journal.
    pub fn new(body_bytes_max: u64) -> Self {
        Self {
            disk_low: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            body_bytes: AtomicU64::new(0),
            body_bytes_max,
        }
    }

    /// What a body of at most `bytes_max` bytes may take.
    pub(super) fn budget(self: &Arc<Self>, bytes_max: u64) -> BodyBudget {
        BodyBudget {
            gate: Arc::clone(self),
            taken: 0,
            bytes_max,
            all_max: self.body_bytes_max,
        }
    }

    /// The same for a body that nobody vouches for yet: those leave room for the others.
    pub(super) fn budget_of_stranger(self: &Arc<Self>, bytes_max: u64) -> BodyBudget {
        let mut budget = self.budget(bytes_max);
        budget.all_max = self.body_bytes_max / 2;
        budget
    }

    /// The disk has too little room, or has room again.
    pub fn set_disk_low(&self, low: bool) -> bool {
        self.disk_low.swap(low, Ordering::Relaxed)
    }

    /// The daemon is stopping. There is no way back.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Passes, or says why not.
    ///
    /// # Errors
    /// [`AcceptError::Unavailable`].
    pub fn check(&self) -> Result<(), AcceptError> {
        let (reason, retry_after_seconds) = if self.draining.load(Ordering::Relaxed) {
            ("the service is stopping", 5)
        } else if self.disk_low.load(Ordering::Relaxed) {
            ("the disk is nearly full", 30)
        } else {
            return Ok(());
        };
        Err(AcceptError::Unavailable {
            reason,
            retry_after_seconds,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use super::{BodyError, Gate};

    #[test]
    fn bodies_are_bounded_together_and_a_lone_one_always_fits() {
        let gate = Arc::new(Gate::new(100));
        let mut large = gate.budget(500);
        assert_eq!(large.take(400), Ok(()));
        assert_eq!(large.take(100), Ok(()));
        assert_eq!(large.take(1), Err(BodyError::TooLarge));
        assert_eq!(gate.budget(500).take(1), Err(BodyError::NoRoom));
        drop(large);
        let mut half = gate.budget(500);
        assert_eq!(half.take(60), Ok(()));
        assert_eq!(gate.budget(500).take(41), Err(BodyError::NoRoom));
        assert_eq!(gate.budget(500).take(40), Ok(()));
        drop(half);
        assert_eq!(gate.body_bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_closed_gate_says_why() {
        let gate = Gate::new(1);
        assert_eq!(gate.check(), Ok(()));
        gate.set_disk_low(true);
        let text = gate.check().expect_err("closed").to_string();
        assert!(text.contains("disk"), "{text}");
        gate.set_disk_low(false);
        assert_eq!(gate.check(), Ok(()));
        gate.drain();
        assert!(gate.check().is_err());
    }
}
