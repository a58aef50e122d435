//! Which dead letters are sent again, and within which limits.
//!
//! **Invariant**: a selection is one condition on the table of dead letters, whoever asks.

use std::collections::HashMap;

use rusqlite::ToSql;
use rusqlite::types::ToSqlOutput;

use base::order::Seq;

/// Which dead letters of a sink.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Selection {
    /// Every one.
    All,
    /// Those with these ids.
    Ids(Vec<i64>),
    /// Those of this request.
    Request(String),
}

/// What a selection comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Found {
    /// Dead letters.
    pub letters: u64,
    /// Among them those without an item, because the payload could not be read.
    pub unreadable: u64,
    /// The highest id of the sink's dead letters: what fails from now on is above it. An operator decides about what
    /// was there, so what fails later is left.
    pub newest: i64,
}

/// How much one retry may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResendLimits {
    /// Items, at most.
    pub items_max: usize,
    /// Bytes of keys and fields, at most; one item may be larger.
    pub bytes_max: usize,
}

/// What becomes of something that was accepted later than a dead letter, and has changed the same.
#[derive(Debug, Clone, Copy)]
pub enum LaterChanges<'a> {
    /// The dead letter overwrites it.
    Overwritten,
    /// It stays.
    Stays {
        /// Whether the sink writes the pool, which places what comes late.
        in_pool: bool,
        /// Keys of what the pool does not have yet, each with the last entry that names it.
        unsettled: &'a HashMap<String, Seq>,
    },
}

impl Selection {
    /// The condition in SQL, with `:sink`, `:newest` and `:chosen`. The plus signs keep indexes by sink out of
    /// it where there are better ones.
    pub(crate) fn condition(&self) -> &'static str {
        match self {
            Self::All => "sink = :sink AND id <= :newest AND :chosen IS NULL",
            Self::Ids(_) => {
                "+sink = :sink AND id <= :newest AND id IN (SELECT value FROM json_each(:chosen))"
            }
            Self::Request(_) => "+sink = :sink AND id <= :newest AND request_id = :chosen",
        }
    }

    pub(crate) fn chosen(&self) -> Option<String> {
        match self {
            Self::All => None,
            Self::Ids(ids) => Some(serde_json::json!(ids).to_string()),
            Self::Request(id) => Some(id.clone()),
        }
    }
}

impl ToSql for Selection {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>, rusqlite::Error> {
        Ok(ToSqlOutput::Owned(self.chosen().into()))
    }
}
