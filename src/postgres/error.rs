//! What becomes of a statement that failed.
//!
//! **Invariant**: no text of an error quotes a URL or a password.

use std::time::Duration;

use thiserror::Error;

/// SQLSTATE of this schema's own refusals.
pub mod refusal {
    /// No such writer: the node has been sent away, or its row was lost with the last primary.
    pub const UNKNOWN_NODE: &str = "HG001";
    /// The catalog has changed since the group was made.
    pub const CATALOG_CHANGED: &str = "HG002";
    /// Another node runs the sinks.
    pub const NOT_THE_OWNER: &str = "HG003";
    /// The copy lacks entries of the log.
    pub const BEHIND: &str = "HG004";
    /// A newer version has written.
    pub const NEWER_FORMAT: &str = "HG005";
    /// A group of this number holds other requests.
    pub const OTHER_GROUP: &str = "HG006";
    /// The claims of one group meet each other.
    pub const CLAIMS_MEET: &str = "HG007";
    /// The newest entry of the copy is not the one of the log.
    pub const OTHER_ENTRY: &str = "HG008";
    /// The server's own: there is a row of this key.
    pub const UNIQUE: &str = "23505";
    /// There is an entry already where this one belongs.
    pub const PLACE_TAKEN: &str = "HG010";
    /// The log keeps no longer what says whether an entry was appended.
    pub const ENTRY_GONE: &str = "HG011";
}

/// Classes and codes of SQLSTATE that say nothing about the statement: no connection, a refused login, no such database,
/// no resources, going down, not (yet) the primary.
const AWAY: [&str; 7] = ["08", "28", "3D", "53", "57", "58", "25006"];
/// The server found a mistake of its own. The statement may be right, so it is worth another attempt.
const BROKEN: &str = "XX";
const DISK_FULL: &str = "53100";
/// A transaction that lost against another, or waited too long.
const CONFLICTS: [&str; 3] = ["40", "55P03", "25P03"];

fn begins(code: &str, codes: &[&str]) -> bool {
    codes.iter().any(|one| code.starts_with(one))
}

/// The version that is needed, as a part of a sentence; `version` is empty if nobody knows.
pub fn needed_version(version: &str) -> String {
    match version {
        "" => "a newer version of headgate".to_owned(),
        version => format!("headgate {version} or newer"),
    }
}

/// Whether another attempt may not meet an error of this SQLSTATE again.
pub fn may_pass(code: &str) -> bool {
    begins(code, &AWAY) || begins(code, &CONFLICTS)
}

/// Why the database did not do it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DatabaseError {
    /// It cannot be reached, or is not in a state to answer. Whether the statement was done is unknown.
    #[error("the database cannot be used: {0}")]
    Away(String),
    /// The server has no room. Nothing of it was done.
    #[error("the database has no room: {0}")]
    Full(String),
    /// The transaction lost against another one. Nothing of it was done.
    #[error("the database gave precedence to another transaction: {0}")]
    Conflict(String),
    /// The tables can be used by newer versions only. Nothing was done.
    #[error(
        "the tables of the cluster have format {format}, and this version of headgate uses {known}; install {} on this node",
        needed_version(.version),
        known = crate::FORMAT
    )]
    Newer {
        /// The oldest format that a version must know.
        format: i32,
        /// The version that made it so; empty: nobody knows.
        version: Box<str>,
    },
    /// The server refused. Nothing of it was done.
    #[error("the database refused: {message} (SQLSTATE {code})")]
    Refused {
        /// SQLSTATE; see [`refusal`].
        code: Box<str>,
        /// The server's words.
        message: Box<str>,
    },
}

impl DatabaseError {
    /// It did not answer within this time.
    pub fn silent(time: Duration) -> Self {
        Self::Away(format!("no answer within {} s", time.as_secs()))
    }

    /// Whether the same works later, without anybody's help but the server's.
    pub fn passes(&self) -> bool {
        matches!(self, Self::Away(_) | Self::Full(_) | Self::Conflict(_))
    }

    /// Whether it is this refusal.
    pub fn is(&self, refusal: &str) -> bool {
        matches!(self, Self::Refused { code, .. } if &**code == refusal)
    }
}

impl From<sqlx::Error> for DatabaseError {
    fn from(error: sqlx::Error) -> Self {
        match error {
            sqlx::Error::Database(error) => {
                let code = error.code().unwrap_or_default().into_owned();
                let message = error.message().to_owned();
                match () {
                    () if code == DISK_FULL => Self::Full(message),
                    () if begins(&code, &AWAY) || code.starts_with(BROKEN) => Self::Away(message),
                    () if begins(&code, &CONFLICTS) => Self::Conflict(message),
                    () => Self::Refused {
                        code: code.into(),
                        message: message.into(),
                    },
                }
            }
            sqlx::Error::Io(error) => Self::Away(error.to_string()),
            sqlx::Error::Tls(error) => Self::Away(format!("TLS: {error}")),
            sqlx::Error::PoolTimedOut => Self::Away("no connection was free in time".to_owned()),
            // What it reads can quote.
            sqlx::Error::Configuration(_) => Self::Away("its URL cannot be read".to_owned()),
            error => Self::Refused {
                code: "".into(),
                message: error.to_string().into(),
            },
        }
    }
}
