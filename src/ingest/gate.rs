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
    database_away: AtomicBool,
    copy_behind: AtomicBool,
    draining: AtomicBool,
}

impl Gate {
    /// The disk has too little room, or has room again.
    pub fn set_disk_low(&self, low: bool) -> bool {
        self.disk_low.swap(low, Ordering::Relaxed)
    }

    /// The database of the cluster cannot be reached, or can be reached again. Returns whether it was away.
    pub fn set_database_away(&self, away: bool) -> bool {
        self.database_away.swap(away, Ordering::Relaxed)
    }

    /// The copies of this node are far behind what other nodes wrote, or are not any more: the node takes requests,
    /// and shows an old state. Returns whether they were behind. The gate stays open, because requests are stored in
    /// the database and not in the copies.
    pub fn set_copy_behind(&self, behind: bool) -> bool {
        self.copy_behind.swap(behind, Ordering::Relaxed)
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
        } else if self.database_away.load(Ordering::Relaxed) {
            ("the database of the cluster cannot be reached", 2)
        } else {
            return Ok(());
        };
        Err(AcceptError::Unavailable {
            reason,
            retry_after_seconds,
        })
    }

    /// Whether it is closed by nothing but the database of the cluster. Problems name the database then and not the
    /// requests that follow from it.
    pub fn is_closed_by_database(&self) -> bool {
        let is_closed_here =
            self.draining.load(Ordering::Relaxed) || self.disk_low.load(Ordering::Relaxed);
        self.database_away.load(Ordering::Relaxed) && !is_closed_here
    }

    /// Whether a node of a cluster must get no requests of others: what is the matter, in a word and in a sentence.
    pub fn not_ready(&self) -> Option<(&'static str, &'static str)> {
        if self.database_away.load(Ordering::Relaxed) {
            let sentence = "the database of the cluster cannot be reached";
            Some(("database", sentence))
        } else if self.copy_behind.load(Ordering::Relaxed) {
            let sentence = "the copy of this node is over 10 s behind what other nodes wrote";
            Some(("copy", sentence))
        } else {
            None
        }
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
        assert!(!gate.is_closed_by_database());
        gate.set_database_away(true);
        assert!(gate.is_closed_by_database());
        gate.set_disk_low(true);
        assert!(!gate.is_closed_by_database(), "the disk is full, too");
        gate.set_disk_low(false);
        assert_eq!(gate.not_ready().map(|(what, _)| what), Some("database"));
        let text = gate.check().expect_err("closed").to_string();
        assert!(text.contains("database"), "{text}");
        gate.set_database_away(false);
        // Requests are stored elsewhere, so an old copy does not refuse them.
        gate.set_copy_behind(true);
        assert_eq!(gate.not_ready().map(|(what, _)| what), Some("copy"));
        assert_eq!(gate.check(), Ok(()));
        gate.drain();
        assert!(gate.check().is_err());
    }
}
