//! The catalog as one of several copies: it commits to the log, and follows what other nodes have appended.
//!
//! **Invariant**: when an entry of another node is applied, lookups see it, before the pool applies its part.

use std::path::Path;

use super::{Catalog, CatalogError, schema, uses};
use replica::{LogEntry, LogPlace, SharedLog, TouchedTable};
use settings::Settings;
use sqlite::FailStop;

/// What lookups read. A change of other tables does not load everything again.
const LOOKED_UP: [&str; 5] = ["streams", "connectors", "keys", "read_keys", "sinks"];
const USES: [&str; 2] = ["key_uses", "key_refusals"];

impl Catalog {
    /// The same as [`Catalog::open`] of a copy, which commits to a log. Follow the log next, with the pool.
    ///
    /// # Errors
    /// See [`Catalog::open`].
    pub fn open_logged(
        path: &Path,
        settings: &Settings,
        fail_stop: &FailStop,
        log: &SharedLog,
    ) -> Result<(Self, Vec<String>), CatalogError> {
        Self::over(path, settings, fail_stop, Some(log))
    }

    /// Applies an entry of the log that follows on `before`, if the file lacks it: lookups see it when this returns.
    /// The pool applies its part afterwards, so that no screen sees what came after its key was revoked. Blocks.
    ///
    /// # Errors
    /// SQLite's, or [`replica::LogError::Differs`] and [`replica::LogError::Newer`]; the file is as before.
    pub fn follow_entry(&self, before: LogPlace, entry: &LogEntry<'_>) -> Result<(), CatalogError> {
        let mut guard = self.store();
        let store = &mut *guard;
        if store.connection.is_stopped() {
            return Err(CatalogError::Closed);
        }
        let Some(file) = store.commits.logged() else {
            return Ok(());
        };
        if !file.lacks(before, entry).map_err(CatalogError::Log)? {
            return Ok(());
        }
        let connection = &store.connection;
        let derive = |tables: &[TouchedTable]| {
            let is_touched = |names: &[&str]| tables.iter().any(|one| names.contains(&&*one.name));
            let made = match is_touched(&LOOKED_UP) {
                true => Some(schema::load(connection)?),
                false => None,
            };
            Ok((made, is_touched(&USES)))
        };
        let (made, is_used) = match file.apply(connection, before, entry, derive) {
            Ok(derived) => derived,
            Err(error) => return Err(store.failed(error)),
        };
        store.connection.committed();
        let is_used = is_used || made.is_some();
        if let Some(made) = made {
            store.made = made;
            self.publish(store);
        }
        if is_used {
            uses::raise(&store.connection, &self.now())?;
        }
        Ok(())
    }

    /// Stores which entry the file has come to, where only the pool has changed since. Call it once a second. Each
    /// entry of the pool would write a page of this file otherwise. Blocks.
    ///
    /// # Errors
    /// SQLite's.
    pub fn keep_place(&self) -> Result<(), CatalogError> {
        let mut guard = self.store();
        let store = &mut *guard;
        if store.connection.is_stopped() {
            return Ok(());
        }
        let Some(file) = store.commits.logged() else {
            return Ok(());
        };
        let kept = file.keep_place(&store.connection);
        kept.map_err(|error| store.failed(error.into()))
    }
}
