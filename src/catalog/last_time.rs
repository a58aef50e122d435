//! When something happened last, and whether that is written down.
//!
//! **Invariant**: a time that is raised is never lowered.

use std::sync::atomic::{AtomicU64, Ordering};

use base::clock::Unix;

/// The last time that something happened, and what of that is written down. 1970: never, as far as is known. Both are
/// atomic numbers, so that a request notes its time without a lock.
#[derive(Debug, Default)]
pub(super) struct LastTime {
    /// Both are a [`Unix`], in milliseconds.
    at: AtomicU64,
    /// Without it every key would be written again each minute.
    written: AtomicU64,
}

impl LastTime {
    /// A key that is replaced by its changed self keeps its times so.
    pub(super) fn copied(&self) -> Self {
        Self {
            at: AtomicU64::new(self.at.load(Ordering::Relaxed)),
            written: AtomicU64::new(self.written.load(Ordering::Relaxed)),
        }
    }

    pub(super) fn note(&self, at: Unix) {
        self.at.store(at.ms(), Ordering::Relaxed);
    }

    /// It happened at this time or later, which is written down or not.
    pub(super) fn raise(&self, at: Unix, written: bool) {
        self.at.fetch_max(at.ms(), Ordering::Relaxed);
        if written {
            self.written.fetch_max(at.ms(), Ordering::Relaxed);
        }
    }

    /// The time, if it is not written down.
    pub(super) fn unwritten(&self) -> Option<Unix> {
        let written = Unix::from_ms(self.written.load(Ordering::Relaxed));
        self.get().filter(|at| *at > written)
    }

    pub(super) fn get(&self) -> Option<Unix> {
        let at = Unix::from_ms(self.at.load(Ordering::Relaxed));
        Some(at).filter(|at| *at > Unix::MIN)
    }
}
