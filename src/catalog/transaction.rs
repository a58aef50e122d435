//! How the one writer runs its transactions: to the file alone, or as entries of the log.
//!
//! With a log the work may run more than once: another node may have been first. What it returned last is what was
//! committed. A secret that it has made belongs to that.
//!
//! **Invariant**: what a change did counts when it is committed, and with a log when it is in the log.

use std::sync::Arc;

use rusqlite::Connection;

use super::entries::Entries;
use super::{Actor, Catalog, CatalogError, Store, audit, schema};
use replica::{Again, CommitError, LogError, Said};
use sqlite::{DiskError, FileError};

impl Catalog {
    /// Runs a change in a transaction, with its entry in the audit log. What it did counts when this returns, on every node
    /// that answers.
    pub(super) fn commit<T>(
        &self,
        actor: &Actor,
        mut work: impl FnMut(&Connection, &Entries) -> Result<(T, audit::Change), CatalogError>,
    ) -> Result<(T, Arc<Entries>), CatalogError> {
        self.commit_all(actor, |database, entries| {
            work(database, entries).map(|(value, change)| (value, vec![change]))
        })
    }

    /// The same for changes that are made together. The rows are loaded before the commit, because a change that is
    /// committed must not fail afterwards.
    pub(super) fn commit_all<T>(
        &self,
        actor: &Actor,
        mut work: impl FnMut(&Connection, &Entries) -> Result<(T, Vec<audit::Change>), CatalogError>,
    ) -> Result<(T, Arc<Entries>), CatalogError> {
        let run = |store: &Store| {
            let (value, changes) = work(&store.connection, &self.now())?;
            for change in &changes {
                audit::write(&store.connection, actor, change)?;
            }
            // Before the commit: after it nothing may fail.
            let made = schema::load(&store.connection)?;
            Ok((value, made))
        };
        let (done, seen) = self.write_then(run, |store, (value, made)| {
            store.made = made;
            let entries = self.publish(store);
            ((value, entries), store.commits.seen())
        })?;
        if let Some(seen) = seen {
            seen.everywhere();
        }
        Ok(done)
    }

    /// Runs `work` in a transaction: all of it happens, or nothing.
    pub(super) fn write<T>(
        &self,
        work: impl FnMut(&Store) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError> {
        self.write_then(work, |store, done| {
            // No lookup reads it: who waits for lookups need not wait for this.
            store.commits.seen();
            done
        })
    }

    /// The same, and then `after` under the same lock. The lock is released while the log is followed, because who
    /// follows writes the same file.
    pub(super) fn write_then<T, R>(
        &self,
        mut work: impl FnMut(&Store) -> Result<T, CatalogError>,
        after: impl FnOnce(&mut Store, T) -> R,
    ) -> Result<R, CatalogError> {
        let mut again = Again::default();
        loop {
            let mut guard = self.store();
            let store = &mut *guard;
            if store.connection.is_stopped() {
                return Err(CatalogError::Closed);
            }
            let begun = store.commits.begin(&store.connection);
            let done = begun.map_err(CatalogError::from).and_then(|()| work(store));
            let committed = match done {
                Ok(done) => {
                    let say = || Ok(Said::default());
                    let committed = store.commits.commit(&store.connection, say);
                    committed.map(|()| done)
                }
                Err(CatalogError::File(FileError::Sqlite(error))) => Err(CommitError::File(error)),
                Err(refused) => {
                    store.connection.roll_back();
                    return Err(refused);
                }
            };
            let behind = match committed {
                Ok(done) => {
                    store.connection.committed();
                    return Ok(after(store, done));
                }
                Err(CommitError::Behind(behind)) => behind,
                Err(error) => return Err(store.failed(error)),
            };
            store.connection.roll_back();
            // Who follows needs the file.
            drop(guard);
            behind.follow(&mut again).map_err(CatalogError::Log)?;
        }
    }
}

impl Store {
    /// What became of a transaction that failed; it is taken back.
    pub(super) fn failed(&self, error: CommitError) -> CatalogError {
        match error {
            CommitError::File(error) => match self.connection.failed(&error) {
                DiskError::Full => CatalogError::DiskFull,
                DiskError::Busy => CatalogError::Busy,
                DiskError::Damaged | DiskError::Failed => error.into(),
            },
            CommitError::Left(error) => {
                self.connection.fail(&error.to_string());
                self.connection.roll_back();
                CatalogError::Closed
            }
            CommitError::Log(error) => {
                self.connection.roll_back();
                CatalogError::Log(error)
            }
            error @ CommitError::Behind(_) => {
                self.connection.roll_back();
                CatalogError::Log(LogError::NotFollowed(error.to_string()))
            }
        }
    }
}
