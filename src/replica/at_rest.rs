//! The copies of a node that has not opened them: brought to the head of the log, or taken anew.
//!
//! **Invariant**: a file that is not of this log is never changed. A copy is replaced whole: a node that is killed meanwhile
//! finds the old one, the new one, or none.

mod copy;
mod follow;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::PgConnection;
use thiserror::Error;
use uuid::Uuid;

use super::log::bases::store_base;
use super::log::{BaseError, Log};
use super::{ApplyError, ChainDigest, LogPlace, NewerLog, OWN_TABLE, Recorder, ReplicaFile};
use ::postgres::DatabaseError;
use sqlite::{Synchronous, beside, suspect};

/// What a file is called until it is whole. A node that is killed meanwhile leaves only such a file, so a copy is never
/// half of one.
const PART: &str = ".part";

/// Why the copies of a node are not at the head.
#[derive(Debug, Error)]
pub enum AtRestError {
    /// It has data of its own.
    #[error("{0} is no copy of this cluster; set storage.data_dir to an empty directory")]
    OtherFile(PathBuf),
    /// The copies have what the database has never had, or has no longer.
    #[error(
        "the data directory has copies of a cluster, and the database has none: correct cluster.urls or cluster.schema, or restore the database; to begin a new cluster without data, set storage.data_dir to an empty directory"
    )]
    NoLog,
    /// Nobody has what the copies lack, or nobody who is asked in this version.
    #[error(
        "the log no longer has what this node's copies lack, or only in a format that this version passes over, and no node has stored a newer base; start again when one has, which takes a minute after an upgrade"
    )]
    NoBase,
    /// The log has a format that this version does not know.
    #[error("{0}")]
    Newer(#[from] NewerLog),
    /// A file cannot be brought to its new format.
    #[error("the copy {0} cannot be upgraded: {1}")]
    Upgrade(PathBuf, String),
    /// An entry cannot be applied.
    #[error("{0}")]
    Apply(#[from] ApplyError),
    /// A base cannot be stored or loaded.
    #[error("{0}")]
    Base(#[from] BaseError),
    /// The database did nothing.
    #[error("{0}")]
    Database(#[from] DatabaseError),
    /// SQLite said so.
    #[error("{0}")]
    File(#[from] rusqlite::Error),
    /// A file cannot be replaced.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// The files of a node, in the order of [`ReplicaFile::ALL`], which nobody has open.
#[derive(Debug, Clone, Copy)]
pub struct CopiesAtRest<'a> {
    pub files: [&'a Path; 2],
    /// The newest format of the log that this version knows.
    pub format: i32,
    /// Brings a file of a known older format to what it has in `format`; one that has it stays as it is. Blocks. Files with
    /// equal rows must have equal rows afterwards, whatever node does it at whatever time: nothing of a clock, of chance, or of
    /// `rowid`, which differs between copies.
    pub upgrade: UpgradeFile,
}

/// How a file is brought to the newest format, or why it cannot be.
pub type UpgradeFile = fn(ReplicaFile, &Path) -> Result<(), String>;

impl CopiesAtRest<'_> {
    /// Applies what the copies lack. Where they are missing, damaged or of no use, a base takes their place. None: the log has
    /// not begun; make the files and [`begin_log`](Self::begin_log). Blocks while files are written. The files have the formats
    /// that the log has there, which may be older ones. The same base is not taken twice, because what was of no use
    /// once is so again.
    ///
    /// # Errors
    /// See [`AtRestError`].
    pub async fn bring_to_head(self, log: &mut Log) -> Result<Option<LogPlace>, AtRestError> {
        let mut taken = None;
        loop {
            if let Some(newer) = NewerLog::of(&log.head().await?, self.format) {
                return Err(newer.into());
            }
            if let Some(place) = self.follow(log).await? {
                return Ok(Some(place));
            }
            // Whoever begins the log stores a base with it.
            let has_begun = log.head().await?.place != LogPlace::default();
            let before = taken;
            taken = self.take_base(log).await?;
            match taken {
                // What was of no use once is so again.
                Some(_) if taken == before => return Err(AtRestError::NoBase),
                Some(_) => {}
                None if has_begun => return Err(AtRestError::NoBase),
                None => return Ok(None),
            }
        }
    }

    /// Deletes the copies that are marked as damaged, with their marks: a base takes their place. The file goes before
    /// its mark, so that a node that is killed in between deletes it at its next start.
    ///
    /// # Errors
    /// The system's.
    pub fn delete_suspects(self) -> io::Result<()> {
        for file in self.files {
            let mark = suspect::mark_of(file);
            if mark.exists() {
                tracing::warn!(file = %file.display(), "the copy may be damaged: this node takes a new one");
                delete(file)?;
                fs::remove_file(mark)?;
            }
        }
        Ok(())
    }

    /// Has the log begin with the files as they are, which this node has just made and nobody has open. False: another node
    /// was first, and the files are deleted. The files of the node that was late are deleted, because the base of the
    /// other node replaces them.
    ///
    /// # Errors
    /// See [`AtRestError`].
    pub async fn begin_log(self, log: &mut Log) -> Result<bool, AtRestError> {
        let base = self.first_base()?;
        let stored = log.store_base(base.place, base.format, base.files()).await;
        base.delete()?;
        match stored {
            Ok(()) => Ok(true),
            Err(BaseError::Differs) => {
                self.files.into_iter().try_for_each(delete)?;
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Copies the files as they are to what the log begins with. Blocks for as long as the files are large: it is called
    /// before the transaction in which the copies are stored, which a server ends when it is idle. Its digest is
    /// random, so that this log differs from every other from its first entry on.
    ///
    /// # Errors
    /// See [`AtRestError`].
    pub fn first_base(self) -> Result<FirstBase, AtRestError> {
        // The digest before the first entry tells this log from every other.
        let place = LogPlace {
            n: 0,
            digest: ChainDigest(Uuid::now_v7().into_bytes()),
        };
        let parts = self.files.map(|file| beside(file, PART));
        for ((file, path), part) in ReplicaFile::ALL.into_iter().zip(self.files).zip(&parts) {
            place_at(path, file, place)?;
            delete(part)?;
            sqlite::copy_at_rest(path, &part.to_string_lossy())?;
        }
        Ok(FirstBase {
            place,
            format: self.format,
            parts,
        })
    }

    /// The files are copies no longer: each is one of a daemon alone.
    ///
    /// # Errors
    /// SQLite's.
    pub fn leave_log(self) -> Result<(), AtRestError> {
        for path in self.files {
            let connection = sqlite::open_writer(path, Synchronous::Full)?;
            connection.execute_batch(&format!("DROP TABLE IF EXISTS main.{OWN_TABLE}"))?;
        }
        Ok(())
    }

    /// Replaces both by the newest base; where they are then. None: there is none. Both parts are flushed before either
    /// takes its name, otherwise a power cut could leave half a copy.
    async fn take_base(self, log: &mut Log) -> Result<Option<LogPlace>, AtRestError> {
        let parts = self.files.map(|file| beside(file, PART));
        let loaded = log.load_base(self.format, [&parts[0], &parts[1]]).await?;
        let Some(place) = loaded else {
            parts.iter().try_for_each(|part| delete(part))?;
            return Ok(None);
        };
        for (file, part) in ReplicaFile::ALL.into_iter().zip(&parts) {
            place_at(part, file, place)?;
            File::open(part)?.sync_all()?;
        }
        for (path, part) in self.files.into_iter().zip(&parts) {
            delete(path)?;
            fs::rename(part, path)?;
        }
        Ok(Some(place))
    }
}

/// Files to be stored as the base before the first entry, beside those that they are copies of.
#[derive(Debug)]
pub struct FirstBase {
    place: LogPlace,
    format: i32,
    parts: [PathBuf; 2],
}

impl FirstBase {
    /// Has the log begin within a transaction of this connection, in which nobody else can begin it. False: what the database
    /// has is not what the files have. No statement takes longer than `wait`, and between two of them a part of a file is read.
    ///
    /// # Errors
    /// See [`AtRestError`].
    pub async fn store_within(
        self,
        connection: &mut PgConnection,
        wait: Duration,
    ) -> Result<bool, AtRestError> {
        let base = (self.place, self.format);
        let stored = store_base(connection, wait, base, self.files()).await?;
        self.delete()?;
        Ok(stored.is_equal(connection, wait).await?)
    }

    fn files(&self) -> [&Path; 2] {
        [&self.parts[0], &self.parts[1]]
    }

    fn delete(&self) -> io::Result<()> {
        self.parts.iter().try_for_each(|part| delete(part))
    }
}

/// Notes in a file that nobody has open where it is.
fn place_at(path: &Path, file: ReplicaFile, place: LogPlace) -> Result<(), rusqlite::Error> {
    let connection = sqlite::open_writer(path, Synchronous::Normal)?;
    Recorder::attach(&connection, file)?;
    place.store(&connection)
}

/// Deletes a file of SQLite with its log, whatever of them there is. The log goes first, because a log without its file
/// would belong to the next file of this name.
pub(super) fn delete(path: &Path) -> io::Result<()> {
    for end in ["-wal", "-shm", ""] {
        match fs::remove_file(beside(path, end)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
