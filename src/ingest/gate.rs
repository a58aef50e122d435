//! The gate: closed while requests could not be stored.
//!
//! `daemon` closes and opens it; the pipeline checks it; `/readyz` shows it.
//!
//! **Invariant**: a closed gate refuses with 503 and never loses anything: nothing was taken yet.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

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

/// Room for one body, given back when dropped.
#[derive(Debug)]
pub(super) struct Room<'a> {
    gate: &'a Gate,
    bytes: u64,
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

    /// Room for a body of this size. A lone body always has it.
    pub(super) fn room(&self, bytes: u64) -> Result<Room<'_>, AcceptError> {
        let before = self.body_bytes.fetch_add(bytes, Ordering::Relaxed);
        let room = Room { gate: self, bytes };
        if before > 0 && before + bytes > self.body_bytes_max {
            return Err(AcceptError::Unavailable {
                reason: "too many bodies are being received",
                retry_after_seconds: 1,
            });
        }
        Ok(room)
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

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.gate
            .body_bytes
            .fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::Gate;

    #[test]
    fn bodies_are_bounded_together_and_a_lone_one_always_fits() {
        let gate = Gate::new(100);
        let large = gate.room(500).expect("alone");
        assert!(gate.room(1).is_err());
        drop(large);
        let half = gate.room(60).expect("room");
        assert!(gate.room(41).is_err());
        let rest = gate.room(40).expect("room");
        drop((half, rest));
        assert!(gate.room(100).is_ok());
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
