//! Why the daemon could not start, or had to end.
//!
//! **Invariant**: whatever may be wrong with a file of the data folder ends the process with code 70. A file that
//! another version has to be used for is not wrong.

use std::path::Path;

use thiserror::Error;

use backup::restore::RestoreError;
use catalog::CatalogError;
use cluster::JoinError;
use delivery::AddError;
use http::listen::ListenError;
use journal::StorageError;
use plugin::PluginError;
use pool::PoolError;
use postgres::DatabaseError;
use repair::RepairError;
use replica::{ApplyError, AtRestError, NewerLog};
use sqlite::{FileError, suspect};

/// Why the daemon could not start, or had to end.
#[derive(Debug, Error)]
pub enum DaemonError {
    /// The data folder cannot be used.
    #[error("{0}")]
    DataFolder(String),
    /// The journal cannot be opened.
    #[error(transparent)]
    Journal(#[from] StorageError),
    /// The catalog cannot be opened.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The pool cannot be opened.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The plugin engine cannot be set up.
    #[error(transparent)]
    Plugin(#[from] PluginError),
    /// The lanes cannot be made.
    #[error(transparent)]
    Sinks(#[from] AddError),
    /// A listener cannot be bound.
    #[error("{error}; set {setting}")]
    Listen {
        /// The setting that says where it listens.
        setting: &'static str,
        /// Why it cannot be bound.
        error: ListenError,
    },
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// A backup cannot be restored.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// A damaged file cannot be repaired.
    #[error(transparent)]
    Repair(#[from] RepairError),
    /// A file was written by a newer version; nothing was changed.
    #[error("{0}")]
    Newer(String),
    /// There is no room for an upgrade; nothing was changed.
    #[error("{0}")]
    NoRoom(String),
    /// The node cannot be one of its cluster as it is configured.
    #[error("{0}")]
    Cluster(String),
    /// The database of the cluster cannot be used.
    #[error("{0}")]
    Database(#[from] postgres::DatabaseError),
    /// Another node has its name, or the database cannot be used.
    #[error("{0}")]
    Join(#[from] JoinError),
    /// The copies of this node cannot be brought to what the others have.
    #[error("{0}")]
    Copies(#[from] replica::AtRestError),
    /// What was stored is not what was read. Nothing was moved.
    #[error(
        "what was stored differs from what was read ({0}), so nothing was moved: run the command again, and report it if this is repeated"
    )]
    Differs(String),
    /// The database did not confirm the end of a move.
    #[error(
        "{0}; the move may be complete: run the same command again, which compares in that case"
    )]
    MoveUnknown(#[source] postgres::DatabaseError),
    /// The copies are of no use any more: the next start takes new ones.
    #[error("{0}")]
    Copy(String),
    /// A newer version has written the log.
    #[error("{0}")]
    NewerLog(NewerLog),
    /// There is no room on the disk, not even to look at the files.
    #[error(
        "the disk is full: the files in {0} cannot be opened; free some disk space and start again"
    )]
    DiskFull(String),
    /// A file could not be written or flushed while the daemon ran: what is on disk is read afresh by the next start.
    #[error(
        "a file of the data directory cannot be written; check the disk, then start the daemon again"
    )]
    StorageFailed,
    /// A file was found damaged while the daemon ran: the next start repairs it.
    #[error("{0} is damaged; start again: what can be read is kept")]
    Damaged(String),
    /// A file is no longer where it was opened while the daemon ran, and what happened to it.
    #[error(
        "{0} {1} while the daemon used it, so nothing more is accepted; accepted requests are in the files that were moved: put them back, or start again without them"
    )]
    Moved(String, &'static str),
}

impl DaemonError {
    /// The exit code of the process: 78 for a cluster that needs a newer version, 70 for storage, 2 for files of a
    /// newer version and for a cluster that this node cannot be in, 1 for everything else. A supervisor reads from it
    /// whether a restart helps, which it does not for a newer file.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NewerLog(_)
            | Self::Copies(AtRestError::Newer(_) | AtRestError::Apply(ApplyError::Newer(_)))
            | Self::Database(DatabaseError::Newer { .. }) => 78,
            Self::Journal(_)
            | Self::Catalog(_)
            | Self::Pool(_)
            | Self::Sinks(_)
            | Self::Repair(_)
            | Self::NoRoom(_)
            | Self::DiskFull(_)
            | Self::StorageFailed
            | Self::Damaged(_)
            | Self::Moved(..)
            | Self::Database(_)
            | Self::Differs(_)
            | Self::MoveUnknown(_)
            | Self::Copy(_) => 70,
            Self::Cluster(_)
            | Self::Join(JoinError::Taken { .. })
            | Self::Copies(AtRestError::OtherFile(_) | AtRestError::NoLog) => 2,
            Self::Copies(_) | Self::Join(_) => 70,
            Self::Newer(_) => 2,
            Self::Restore(RestoreError::Backup { .. }) => 1,
            Self::Restore(_) => 70,
            _ => 1,
        }
    }

    /// Whether there was no room on the disk to open the files.
    pub(super) fn is_full(&self) -> bool {
        match self {
            Self::Catalog(error) => error.is_full(),
            Self::Pool(error) | Self::Sinks(AddError::Pool(error)) => error.is_full(),
            Self::Repair(error) => error.is_full(),
            _ => self.of_file().is_some_and(|(_, error)| error.is_full()),
        }
    }

    /// The file that cannot be opened, and what is the matter with it.
    fn of_file(&self) -> Option<(&'static str, &FileError)> {
        let (file, error) = match self {
            Self::Catalog(error) => (catalog::FILE, error.of_file()),
            Self::Pool(error) | Self::Sinks(AddError::Pool(error)) => (pool::FILE, error.of_file()),
            Self::Journal(error) | Self::Sinks(AddError::Journal(error)) => {
                (journal::FILE, error.of_file())
            }
            _ => return None,
        };
        Some((file, error?))
    }

    /// The file that may be damaged, if one cannot be opened.
    pub(super) fn damaged_file(&self) -> Option<&'static str> {
        let (file, error) = self.of_file()?;
        error.may_be_damage().then_some(file)
    }

    /// Has the next start look at the file that may be damaged. A file of a newer version is not marked, because the
    /// version that wrote it can use it.
    pub(super) fn suspect(&self, data_dir: &Path) {
        if let Some((file, error)) = self.of_file()
            && error.may_be_damage()
            && !error.is_newer()
        {
            suspect::mark(&data_dir.join(file), &self.to_string());
        }
    }
}
