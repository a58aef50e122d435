//! The gate: closed while requests could not be stored.
//!
//! `daemon` closes and opens it; the pipeline checks it; `/readyz` shows it.
//!
//! **Invariant**: a closed gate refuses with 503 and never loses anything: nothing was taken yet.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::AcceptError;

/// Why requests are refused at the moment, if they are.
#[derive(Debug, Default)]
pub struct Gate {
    disk_low: AtomicBool,
    draining: AtomicBool,
}

impl Gate {
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
    use super::Gate;

    #[test]
    fn a_closed_gate_says_why() {
        let gate = Gate::default();
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
