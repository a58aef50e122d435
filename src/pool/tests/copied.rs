//! Every test of the pool tests a copy of it as well, and that the log of changes names what changed.

use std::sync::Weak;

use copies::{CopiedFile, ReplicaFile};

use super::*;

/// The copy of a test's pool.
pub(super) struct Copied {
    pool: Weak<Pool>,
    file: CopiedFile,
}

impl Copied {
    pub(super) fn of(pool: &Arc<Pool>) -> Self {
        Self {
            pool: Arc::downgrade(pool),
            file: CopiedFile::of(&pool.lock().connection, ReplicaFile::Pool),
        }
    }

    /// The copy has what the pool has. Not of a pool that a test has taken away, broken or made an older one: what upgrades
    /// it is not recorded.
    pub(super) fn check(&mut self) {
        let Some(pool) = self.pool.upgrade() else {
            return;
        };
        let Ok(writer) = pool.writer.try_lock() else {
            return;
        };
        let connection = &writer.connection;
        let format = sqlite::format(connection).expect("it reads");
        if format != FORMAT {
            self.pool = Weak::new();
        } else if !connection.is_stopped() && connection.is_autocommit() {
            self.file.check(connection);
            change_log::assert_log_is_whole(connection);
        }
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.check();
        }
    }
}
