//! Why the catalog cannot be opened, or a change is not made.
//!
//! **Invariant**: an error says what is the matter and repeats nothing that may be a secret. Where to look next is
//! said by whoever shows it: in the admin API that is a route, on a page a button, on the command line a verb.

use std::fmt;

use thiserror::Error;

use replica::LogError;
use settings::{ValidationError, quoted};
use sqlite::FileError;
use webhook::{CANDIDATES_MAX, InvalidVerifier};

/// Keys that a sentence names. Thousands of keys may name a stream.
const NAMED_MAX: usize = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceKind {
    Stream,
    Connector,
    Key,
    ReadKey,
    /// A request that was sent again.
    Request,
    /// A sink, with its retries and dead letters.
    Sink,
    /// A component that sinks use.
    Plugin,
    /// An item of the data pool.
    Item,
    /// A copy of the files.
    Backup,
    Ticket,
    /// Somebody who is signed in, or wants to be.
    Session,
    /// A link that signs in to the admin pages.
    SignInLink,
    /// A node of a cluster.
    Node,
}

impl ResourceKind {
    pub const ALL: [Self; 13] = [
        Self::Stream,
        Self::Connector,
        Self::Key,
        Self::ReadKey,
        Self::Request,
        Self::Sink,
        Self::Plugin,
        Self::Item,
        Self::Backup,
        Self::Ticket,
        Self::Session,
        Self::SignInLink,
        Self::Node,
    ];

    /// In the audit log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Connector => "connector",
            Self::Key => "key",
            Self::ReadKey => "read_key",
            Self::Request => "request",
            Self::Sink => "sink",
            Self::Plugin => "plugin",
            Self::Item => "item",
            Self::Backup => "backup",
            Self::Ticket => "ticket",
            Self::Session => "session",
            Self::SignInLink => "sign_in_link",
            Self::Node => "node",
        }
    }

    /// In a sentence.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::ReadKey => "read key",
            Self::SignInLink => "sign-in link",
            kind => kind.as_str(),
        }
    }
}

/// What is wrong with a field.
///
/// As a text it follows the field's name; [`FieldError::NoStream`] is a sentence of its own.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FieldError {
    /// It breaks the rule that declared ones follow, too.
    #[error(transparent)]
    ValidationError(#[from] ValidationError),
    /// It is one or two dots.
    #[error("must not be \".\" or \"..\", which are not possible in a URL")]
    Dots,
    /// Too few or too many streams.
    #[error("must name 1 to {max} streams")]
    StreamCount {
        /// The most that one key may name.
        max: usize,
    },
    /// A time that is over.
    #[error("is in the past; set a future time, or omit it")]
    Past,
    /// The old key has ended, and so would the new one.
    #[error("must be set: this key has expired, and the new one would expire too")]
    Ended,
    /// How requests are to be verified does not fit.
    #[error("{}: {}", .0.field, .0.message)]
    Verify(#[from] InvalidVerifier),
    /// A key of the stream has this signing secret.
    #[error("secret: another key of this stream has it; every key needs its own secret")]
    SameSecret,
    /// The stream has as many of them as a delivery is tried with.
    #[error(
        "secret: this connector already has {} signing keys for this stream, the maximum; revoke one first",
        CANDIDATES_MAX
    )]
    Candidates,
    /// A key that signs is rotated without a new secret, or another with one.
    #[error("secret: {0}")]
    Secret(&'static str),
    /// There is no such stream.
    #[error("there is no stream {}{}", quoted(.name), did_you_mean(.meant.as_deref()))]
    NoStream {
        name: String,
        /// A stream that there is, with a name like it.
        meant: Option<String>,
    },
}

impl FieldError {
    /// As the reason why a change is not made.
    pub(super) fn of(self, field: &'static str) -> CatalogError {
        CatalogError::Invalid { field, fault: self }
    }

    /// The fault with the name of its field, where that belongs to it. A fault that is a whole sentence comes without
    /// the name, because it would read wrong.
    pub fn with_field(&self, field: &str) -> String {
        match self {
            Self::NoStream { .. } => self.to_string(),
            Self::Verify(_) | Self::SameSecret | Self::Candidates | Self::Secret(_) => {
                format!("{field}.{self}")
            }
            fault => format!("{field} {fault}"),
        }
    }
}

fn did_you_mean(meant: Option<&str>) -> String {
    let meant = meant.map(|meant| format!("; did you mean {}?", quoted(meant)));
    meant.unwrap_or_default()
}

/// A key that names a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedBy {
    /// Its connector; none: it is a read key.
    pub connector: Option<String>,
    pub key: String,
}

impl fmt::Display for NamedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.connector {
            Some(connector) => write!(f, "{} of {}", quoted(&self.key), quoted(connector)),
            None => write!(f, "the read key {}", quoted(&self.key)),
        }
    }
}

/// The first of them, and how many more there are.
fn list_some(keys: &[NamedBy]) -> String {
    let more = keys.len().saturating_sub(NAMED_MAX);
    let some = keys[..keys.len() - more].iter().map(NamedBy::to_string);
    let some = some.collect::<Vec<_>>().join(", ");
    match more {
        0 => some,
        more => format!("{some} and {more} more"),
    }
}

/// Why the catalog cannot be opened, or a change is not made.
#[derive(Debug, Error)]
pub enum CatalogError {
    /// What is wanted cannot be.
    #[error("{}", .fault.with_field(.field))]
    Invalid {
        /// The field of the wish.
        field: &'static str,
        /// What is wrong with it.
        fault: FieldError,
    },
    /// There is nothing of this name.
    #[error("no such {}", .0.in_words())]
    NotFound(ResourceKind),
    /// It stands in the configuration.
    #[error(
        "this {} is defined in the configuration; edit it there", .0.in_words()
    )]
    Declared(ResourceKind),
    /// The name is in use.
    #[error("there is already a {} with this name; choose another name", .0.in_words())]
    Taken(ResourceKind),
    #[error("keys name this stream: {}", list_some(.0))]
    InUse(Vec<NamedBy>),
    #[error(
        "this key is revoked and cannot be reactivated; create a new key. To reuse the name, delete this key first"
    )]
    Revoked,
    /// The data pool has not caught up, so that nobody can tell what is left of a deleted stream.
    #[error(
        "the data pool has not processed all requests for a deleted stream with the same name; retry in a few seconds"
    )]
    PoolBehind,
    /// There is no secret of a tool to be taken.
    #[error("{0}")]
    NoneSent(&'static str),
    #[error("the limit of {max} is reached; delete some first")]
    Full {
        /// The most that there may be.
        max: usize,
    },
    /// There is no room on the disk.
    #[error("the disk is full; nothing was changed. Free some disk space and retry")]
    DiskFull,
    /// Another process holds the file.
    #[error(
        "another process has locked catalog.db; nothing was changed. Retry when the lock is released"
    )]
    Busy,
    /// A file of the data folder cannot be trusted any more: the daemon is about to end.
    #[error("the service is stopping: nothing was changed")]
    Closed,
    /// The log of the cluster did not take it.
    #[error("{0}")]
    Log(#[source] LogError),
    /// The operating system has no randomness to give.
    #[error("no key can be created: {0}")]
    Randomness(#[source] getrandom::Error),
    /// The file cannot be opened, read or written.
    #[error("catalog: {0}")]
    File(#[source] FileError),
}

impl<E: Into<FileError>> From<E> for CatalogError {
    fn from(error: E) -> Self {
        Self::File(error.into())
    }
}

impl CatalogError {
    /// What is the matter with the file, if that is it.
    pub fn of_file(&self) -> Option<&FileError> {
        match self {
            Self::File(error) => Some(error),
            _ => None,
        }
    }

    /// Whether nothing can be written just now, and the same works later.
    pub fn passes(&self) -> bool {
        match self {
            Self::DiskFull | Self::Busy | Self::Closed => true,
            Self::Log(error) => error.passes(),
            _ => false,
        }
    }

    /// Whether there was no room on the disk.
    pub fn is_full(&self) -> bool {
        match self {
            Self::DiskFull => true,
            Self::File(error) => error.is_full(),
            _ => false,
        }
    }
}
