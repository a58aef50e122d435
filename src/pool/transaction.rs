//! How the one writer runs its transactions: to the file alone, or as entries of the log.
//!
//! With a log the work may run more than once: another node may have been first. What it returned last is what was
//! committed; what it has changed in memory it must be able to change again, as after an error.
//!
//! **Invariant**: nobody hears of a change before it is committed, and with a log before it is in the log.

use rusqlite::Connection;

use super::change_set::ChangeSet;
use super::sizes::Counting;
use super::views::Views;
use super::{Pool, PoolError, Writer, history, low_water};
use replica::{Again, CommitError, LogError, Said};
use sqlite::DiskError;

/// What a transaction is to the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransactionKind {
    /// What a sink has settled; whether that can be done in parts.
    Settlement {
        is_divisible: bool,
    },
    Other,
}

impl Pool {
    /// Runs what changes items, in a transaction of its own; then keeps what it changed for who listens, and wakes them.
    pub(super) fn change<T>(
        &self,
        work: impl FnMut(&mut Writer, &mut ChangeSet<'_>) -> Result<T, rusqlite::Error>,
    ) -> Result<T, PoolError> {
        self.change_as(TransactionKind::Other, work)
    }

    /// The same of what a sink has settled: of several nodes only one may.
    pub(super) fn settling<T>(
        &self,
        is_divisible: bool,
        work: impl FnMut(&mut Writer, &mut ChangeSet<'_>) -> Result<T, rusqlite::Error>,
    ) -> Result<T, PoolError> {
        self.change_as(TransactionKind::Settlement { is_divisible }, work)
    }

    fn change_as<T>(
        &self,
        kind: TransactionKind,
        mut work: impl FnMut(&mut Writer, &mut ChangeSet<'_>) -> Result<T, rusqlite::Error>,
    ) -> Result<T, PoolError> {
        let run = |writer: &mut Writer| {
            let mut pass = ChangeSet::new(writer.seq, &self.changes);
            writer.counting = Counting::default();
            let done = work(writer, &mut pass)?;
            writer.counting.store(&writer.connection)?;
            for (stream, appending) in pass.appending() {
                let (ends, connection) = (&mut writer.log_ends, &writer.connection);
                ends.append(connection, stream, appending, &self.sizes)?;
            }
            let is_exact = writer.commits.are_logged();
            let (seq, reserved) = (pass.seq(), writer.reserved);
            let reserved = history::reserve(&writer.connection, seq, reserved, is_exact)?;
            Ok((done, reserved, pass))
        };
        let (done, changed) = self.run(kind, run, |writer, (done, reserved, pass)| {
            writer.reserved = reserved;
            self.sizes.committed(std::mem::take(&mut writer.counting));
            if pass.seq() == writer.seq {
                return (done, None);
            }
            writer.seq = pass.seq();
            let changed = self.changes.record(pass.finish(), writer.seq);
            (done, Some(changed))
        })?;
        if let Some(changed) = changed {
            self.changes.wake(&changed);
        }
        Ok(done)
    }

    /// Runs what changes no items, in a transaction of its own.
    pub(super) fn write<T>(
        &self,
        work: impl FnMut(&mut Writer) -> Result<T, rusqlite::Error>,
    ) -> Result<T, PoolError> {
        self.write_then(work, |_, done| done)
    }

    /// The same, and then `after` under the same lock, so that memory and file agree for the next one that takes it.
    pub(super) fn write_then<T, R>(
        &self,
        work: impl FnMut(&mut Writer) -> Result<T, rusqlite::Error>,
        after: impl FnOnce(&mut Writer, T) -> R,
    ) -> Result<R, PoolError> {
        self.run(TransactionKind::Other, work, after)
    }

    fn run<T, R>(
        &self,
        kind: TransactionKind,
        mut work: impl FnMut(&mut Writer) -> Result<T, rusqlite::Error>,
        after: impl FnOnce(&mut Writer, T) -> R,
    ) -> Result<R, PoolError> {
        let mut again = Again::default();
        loop {
            let mut writer = self.lock();
            if writer.connection.is_stopped() {
                return Err(PoolError::Closed);
            }
            let done = writer.in_transaction(kind, &mut work);
            writer.views.ended(done.is_ok());
            if done.is_err() {
                writer.log_ends.forget();
            }
            let behind = match done {
                Ok(done) => {
                    writer.connection.committed();
                    return Ok(after(&mut writer, done));
                }
                Err(CommitError::Behind(behind)) => behind,
                Err(error) => return Err(writer.failed(error)),
            };
            writer.connection.roll_back();
            // Who follows needs the file.
            drop(writer);
            behind.follow(&mut again).map_err(PoolError::Log)?;
        }
    }
}

impl Writer {
    /// Runs `work` in a transaction of its own, which stays open if anything fails, so that the error is classified
    /// before the rollback.
    pub(super) fn in_transaction<T>(
        &mut self,
        kind: TransactionKind,
        work: &mut impl FnMut(&mut Self) -> Result<T, rusqlite::Error>,
    ) -> Result<T, CommitError> {
        self.clear()?;
        if self.removals.is_outdated {
            self.removals.load_anew(&self.connection)?;
        }
        self.commits.begin(&self.connection)?;
        let done = work(self)?;
        let connection = &self.connection;
        let say = || said(connection, kind);
        self.commits.commit(connection, say)?;
        Ok(done)
    }

    /// Who had the connection before may have panicked: one lane's defect is not everybody's.
    pub(super) fn clear(&mut self) -> Result<(), rusqlite::Error> {
        if !self.connection.is_autocommit() {
            sqlite::roll_back(&self.connection)?;
            self.views = Views::load(&self.connection)?;
        }
        Ok(())
    }

    /// What became of a transaction that failed; it is taken back.
    pub(super) fn failed(&self, error: CommitError) -> PoolError {
        match error {
            CommitError::File(error) => match self.connection.failed(&error) {
                DiskError::Full => PoolError::Full,
                DiskError::Busy => PoolError::Busy,
                DiskError::Damaged | DiskError::Failed => PoolError::File(error.into()),
            },
            CommitError::Left(error) => {
                self.connection.fail(&error.to_string());
                self.connection.roll_back();
                PoolError::Closed
            }
            CommitError::Log(error) => {
                self.connection.roll_back();
                PoolError::Log(error)
            }
            error @ CommitError::Behind(_) => {
                self.connection.roll_back();
                PoolError::Log(LogError::NotFollowed(error.to_string()))
            }
        }
    }
}

/// What the log is told of the open transaction.
fn said(connection: &Connection, kind: TransactionKind) -> Result<Said, rusqlite::Error> {
    Ok(Said {
        is_settlement: kind != TransactionKind::Other,
        is_divisible: kind == TransactionKind::Settlement { is_divisible: true },
        seq: history::read(connection)?.seq.get(),
        low_water: low_water(connection)?.get(),
    })
}
