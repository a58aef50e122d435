//! Why the catalog cannot be opened, or a change is not made.
//!
//! **Invariant**: the text says what to do next and repeats nothing that may be a secret.

use thiserror::Error;

use crate::sqlite::{self, Newer};

/// What there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A stream.
    Stream,
    /// A connector.
    Connector,
    /// An ingest key.
    Key,
    /// A read key.
    ReadKey,
    /// A request that was sent again.
    Request,
    /// A sink, with its retries and dead letters.
    Sink,
    /// An item of the data pool.
    Item,
    /// A copy of the files.
    Backup,
    /// A ticket for renderers.
    Ticket,
}

impl Kind {
    /// In the audit trail.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Connector => "connector",
            Self::Key => "key",
            Self::ReadKey => "read_key",
            Self::Request => "request",
            Self::Sink => "sink",
            Self::Item => "item",
            Self::Backup => "backup",
            Self::Ticket => "ticket",
        }
    }

    fn in_words(self) -> &'static str {
        match self {
            Self::ReadKey => "read key",
            kind => kind.as_str(),
        }
    }

    fn listed_at(self) -> &'static str {
        match self {
            Self::Stream => "/api/admin/streams",
            Self::Connector => "/api/admin/connectors",
            Self::Key => "/api/admin/connectors/{id}/keys",
            Self::ReadKey => "/api/admin/read-keys",
            Self::Request => "/api/admin/connectors/{id}/requests",
            Self::Sink => "/api/admin/sinks",
            Self::Item => "/api/streams/{stream}/items",
            Self::Backup | Self::Ticket => "/api/admin/audit",
        }
    }
}

/// Why the catalog cannot be opened, or a change is not made.
#[derive(Debug, Error)]
pub enum CatalogError {
    /// What is wanted cannot be.
    #[error("{message}")]
    Invalid {
        /// The field of the wish, by its name in the admin API.
        field: &'static str,
        /// What is wrong with it.
        message: String,
    },
    /// There is nothing of this name.
    #[error("there is no {} with this name; {} lists them", .0.in_words(), .0.listed_at())]
    NotFound(Kind),
    /// It stands in the configuration.
    #[error(
        "this {} is declared in the configuration and cannot be changed at run time; change it there", .0.in_words()
    )]
    Declared(Kind),
    /// The name is in use.
    #[error("there is a {} of this name already; choose another name", .0.in_words())]
    Taken(Kind),
    /// Keys name the stream.
    #[error(
        "keys name this stream: {0}; delete them first, or use force=true: then what they submit or ask for is answered 404"
    )]
    InUse(String),
    /// The key was revoked.
    #[error(
        "this key was revoked, for good; create another one, and delete this one if its name is wanted"
    )]
    Revoked,
    /// There are too many.
    #[error("there are {max} of these already, which is the most; delete some first")]
    Full {
        /// The most that there may be.
        max: usize,
    },
    /// There is no room on the disk.
    #[error("the disk is full: nothing was changed; try again when there is room")]
    DiskFull,
    /// Another process holds the file.
    #[error("another process holds catalog.db: nothing was changed; try again when it lets go")]
    Busy,
    /// A file of the data folder cannot be trusted any more: the daemon is about to end.
    #[error("the service is stopping: nothing was changed")]
    Closed,
    /// The operating system has no randomness to give.
    #[error("no key can be made: {0}")]
    Randomness(#[from] getrandom::Error),
    /// SQLite said so.
    #[error("catalog: {0}")]
    Storage(#[from] rusqlite::Error),
    /// The file was written by a newer version.
    #[error("catalog: {0}")]
    Newer(#[from] Newer),
}

impl CatalogError {
    pub(super) fn invalid(field: &'static str, message: impl Into<String>) -> Self {
        Self::Invalid {
            field,
            message: message.into(),
        }
    }

    /// Whether a file that cannot be opened for this may be damaged.
    pub fn may_be_damage(&self) -> bool {
        match self {
            Self::Storage(error) => sqlite::damage::may_be_damage(error),
            Self::Newer(_) => true,
            _ => false,
        }
    }

    /// Whether nothing can be written just now, and the same works later.
    pub fn passes(&self) -> bool {
        matches!(self, Self::DiskFull | Self::Busy | Self::Closed)
    }

    /// Whether there was no room on the disk.
    pub fn is_full(&self) -> bool {
        match self {
            Self::DiskFull => true,
            Self::Storage(error) => sqlite::is_full(error),
            _ => false,
        }
    }
}
