//! How a file commits: alone, or as an entry of the log. The seam that the pool and the catalog have beside their writer.
//!
//! **Invariant**: what is committed to a file that has a log was appended before. A file alone has no trigger, no table and
//! makes no call: one branch.

use rusqlite::Connection;
use thiserror::Error;

use crate::shared::Refusal;
use crate::{
    ApplyError, Behind, LogEntry, LogError, LogPlace, Recorder, ReplicaFile, SharedLog,
    TouchedTable, change, part_of, raised_to,
};

#[derive(Debug, Default)]
pub enum Commits {
    /// To the file alone.
    #[default]
    Alone,
    /// To the log, and then to the file.
    Logged(Box<LoggedFile>),
}

/// What a writer says of its entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Said {
    /// It is what sinks have settled: only the node that runs them may.
    pub is_settlement: bool,
    /// Number of the newest change of the pool; 0: this is none of the pool.
    pub seq: u64,
    /// Up to here every sink has the accepted requests; 0, likewise.
    pub low_water: u64,
    /// The work can be done in parts: see [`LogError::TooLarge`].
    pub is_divisible: bool,
}

impl Said {
    /// Largest change of the file. A server and each node have an entry in memory several times, and the server takes less
    /// than 1 GiB at once.
    fn bytes_max(self) -> usize {
        match self.is_divisible {
            true => 64 << 20,
            false => 512 << 20,
        }
    }
}

/// Why a transaction was not committed. It is still open, but for [`CommitError::Left`].
#[derive(Debug, Error)]
pub enum CommitError {
    /// SQLite's; nothing was appended.
    #[error("{0}")]
    File(#[from] rusqlite::Error),
    /// The log has entries that the file lacks: roll back, [`Behind::follow`], and do the work again.
    #[error("the log has entries that this copy lacks")]
    Behind(Behind),
    /// It was not appended.
    #[error("{0}")]
    Log(#[from] LogError),
    /// It was appended, and SQLite did not commit: the file is behind what was answered to nobody. The process must end; the
    /// next one follows.
    #[error("a change is in the log, and not in the file: {0}")]
    Left(#[source] rusqlite::Error),
}

/// A change of the catalog that lookups of this node include.
#[derive(Debug)]
pub struct SeenHere {
    log: SharedLog,
    n: u64,
}

impl SeenHere {
    /// Waits until those of every node that lives do, or until one has had time enough: 7 s. Blocks; the file must not be
    /// locked.
    pub fn everywhere(self) {
        self.log.wait_for_all(self.n);
    }
}

/// A file that has a log.
#[derive(Debug)]
pub struct LoggedFile {
    file: ReplicaFile,
    recorder: Recorder,
    log: SharedLog,
    /// The last entry that it knows of. Entries of the other file alone may have come since.
    place: LogPlace,
    /// What of that is in the file. It may be behind `place`, because an entry of the other file alone is stored once a
    /// second.
    stored: LogPlace,
    /// The entry of the last transaction; none: it changed nothing.
    appended: Option<u64>,
}

impl Commits {
    /// The file of `connection`, which is in no transaction, commits to the log from now on. The file need not flush
    /// its commits, because the log has what a power cut takes.
    ///
    /// # Errors
    /// SQLite's.
    pub fn to(
        log: &SharedLog,
        connection: &Connection,
        file: ReplicaFile,
    ) -> Result<Self, rusqlite::Error> {
        let recorder = Recorder::attach(connection, file)?;
        // What a power cut takes is in the log.
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        let place = LogPlace::of(connection)?;
        log.open_at(place);
        Ok(Self::Logged(Box::new(LoggedFile {
            file,
            recorder,
            log: log.clone(),
            place,
            stored: place,
            appended: None,
        })))
    }

    /// The file's part in the log, if it has one.
    pub fn logged(&mut self) -> Option<&mut LoggedFile> {
        match self {
            Self::Alone => None,
            Self::Logged(file) => Some(file),
        }
    }

    /// What the last transaction has changed can be looked up on this node. None: nothing, or there is no other node.
    pub fn seen(&mut self) -> Option<SeenHere> {
        let file = self.logged()?;
        let n = file.appended.take()?;
        file.log.catalog_is_seen(n);
        let log = file.log.clone();
        Some(SeenHere { log, n })
    }

    /// Whether the file has a log.
    pub fn are_logged(&self) -> bool {
        matches!(self, Self::Logged(_))
    }

    /// Begins a transaction.
    ///
    /// # Errors
    /// SQLite's.
    pub fn begin(&mut self, connection: &Connection) -> Result<(), rusqlite::Error> {
        if let Self::Logged(file) = self {
            file.recorder.prepare(connection)?;
        }
        sqlite::begin(connection)
    }

    /// Commits it. `say` is asked only if there is a log.
    ///
    /// # Errors
    /// See [`CommitError`].
    pub fn commit(
        &mut self,
        connection: &Connection,
        say: impl FnOnce() -> Result<Said, rusqlite::Error>,
    ) -> Result<(), CommitError> {
        match self {
            Self::Alone => Ok(sqlite::commit(connection)?),
            Self::Logged(file) => file.commit(connection, say),
        }
    }
}

impl LoggedFile {
    /// A transaction that changed nothing of the tables appends nothing, so a look costs the other nodes nothing.
    fn commit(
        &mut self,
        connection: &Connection,
        say: impl FnOnce() -> Result<Said, rusqlite::Error>,
    ) -> Result<(), CommitError> {
        self.appended = None;
        let Some(part) = self.recorder.take(connection)? else {
            return Ok(sqlite::commit(connection)?);
        };
        let said = say()?;
        let (bytes, bytes_max) = (part.0.len(), said.bytes_max());
        if bytes > bytes_max {
            return Err(LogError::TooLarge { bytes, bytes_max }.into());
        }
        let change = change(&[(self.file, part)]);
        let place = match self.log.append(self.place, change, said) {
            Ok(place) => place,
            Err(Refusal::Behind(behind)) => return Err(CommitError::Behind(behind)),
            Err(Refusal::Log(error)) => return Err(error.into()),
        };
        let stored = place.store(connection);
        let committed = stored.and_then(|()| sqlite::commit(connection));
        committed.map_err(CommitError::Left)?;
        (self.place, self.stored, self.appended) = (place, place, Some(place.n));
        Ok(())
    }

    /// Whether the file is to [`apply`](Self::apply) an entry, which follows on `before`.
    ///
    /// # Errors
    /// [`LogError::Differs`].
    pub fn lacks(&mut self, before: LogPlace, entry: &LogEntry<'_>) -> Result<bool, LogError> {
        let differs = || {
            self.log.end(LogError::Differs);
            LogError::Differs
        };
        if entry.place != before.after(entry.change) {
            return Err(differs());
        }
        if entry.place.n <= self.place.n {
            let is_other = entry.place.n == self.place.n && entry.place != self.place;
            return if is_other { Err(differs()) } else { Ok(false) };
        }
        // The file has the format that the log is raised to, or this would be an older version, which has ended.
        let concerns = match raised_to(entry.change) {
            Ok(Some(format)) if format <= self.log.format() => Ok(None),
            _ => part_of(entry.change, self.file),
        };
        match concerns {
            Ok(Some(_)) => Ok(true),
            Ok(None) => {
                self.place = entry.place;
                Ok(false)
            }
            Err(_) => Err(differs()),
        }
    }

    /// Applies an entry that the file lacks in a transaction of its own, which stays open if anything fails; `derive` loads
    /// anew within it what memory has of the tables.
    ///
    /// # Errors
    /// See [`CommitError`], which never is [`CommitError::Behind`] here.
    pub fn apply<T>(
        &mut self,
        connection: &Connection,
        before: LogPlace,
        entry: &LogEntry<'_>,
        derive: impl FnOnce(&[TouchedTable]) -> Result<T, rusqlite::Error>,
    ) -> Result<T, CommitError> {
        self.recorder.prepare(connection)?;
        sqlite::begin(connection)?;
        let applied = match self.recorder.apply(connection, before, entry) {
            Ok(applied) => applied,
            Err(ApplyError::File(error)) => return Err(error.into()),
            Err(refused) => {
                let why = match refused {
                    ApplyError::Newer(newer) => LogError::Newer(newer.into()),
                    _ => LogError::Differs,
                };
                self.log.end(why.clone());
                return Err(why.into());
            }
        };
        let derived = derive(&applied.tables)?;
        sqlite::commit(connection)?;
        (self.place, self.stored) = (applied.place, applied.place);
        Ok(derived)
    }

    /// Stores where the file is, if only the other one has changed since: once a second and at the end. The file is locked
    /// and in no transaction.
    ///
    /// # Errors
    /// SQLite's.
    pub fn keep_place(&mut self, connection: &Connection) -> Result<(), rusqlite::Error> {
        // Entries of this file up to there are committed: that needs its lock.
        let shared = self.log.place();
        if shared.n > self.place.n {
            self.place = shared;
        }
        if self.stored != self.place {
            self.place.store(connection)?;
            self.stored = self.place;
        }
        Ok(())
    }
}
