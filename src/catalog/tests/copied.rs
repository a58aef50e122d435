//! Every test of the catalog tests a copy of it as well.

use std::cell::Cell;
use std::sync::Weak;

use copies::{CopiedFile, ReplicaFile};

use super::*;

/// The copy of a test's catalog.
pub(super) struct Copied {
    catalog: Weak<Catalog>,
    file: CopiedFile,
    /// Somebody else has written the file.
    is_bypassed: Cell<bool>,
}

impl Copied {
    pub(super) fn of(catalog: &Arc<Catalog>) -> Self {
        Self {
            catalog: Arc::downgrade(catalog),
            file: CopiedFile::of(&catalog.store().connection, ReplicaFile::Catalog),
            is_bypassed: Cell::new(false),
        }
    }

    /// A test writes the file on a connection of its own.
    pub(super) fn bypass(&self) {
        self.is_bypassed.set(true);
    }
}

impl Drop for Copied {
    /// The copy has what the catalog has. Not of one that a test has taken away or written itself.
    fn drop(&mut self) {
        let Some(catalog) = self.catalog.upgrade() else {
            return;
        };
        let store = catalog.store();
        let connection = &store.connection;
        if !std::thread::panicking() && !connection.is_stopped() && !self.is_bypassed.get() {
            self.file.check(connection);
        }
    }
}
