//! The audit log as a chain: each entry carries a SHA-256 over its content and the digest of the entry before it.
//!
//! What is covered is the JSON array `[previous, id, at_ms, who, client, action, kind, name, connector, before, after]`
//! without spaces: `previous` as hexadecimal digits, `before` and `after` as the texts that are stored, null where there
//! is nothing. Before the first entry stand 64 zeros. Entries from before there was a chain were chained when their file
//! was brought to format 5.
//!
//! Whoever can write the file can make a whole chain anew, or cut its end: only a digest that was noted elsewhere shows
//! that.
//!
//! **Invariant**: an entry that was changed, taken out or moved is found by the digests alone. The oldest entry that is
//! kept has the digest of the one that was deleted before it.

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::json;
use thiserror::Error;

use super::{AuditEntry, COLUMNS, ENTRIES_MAX, entry};
use crate::KeyHash;
use base::clock::Unix;

/// Entries that are read at a time. The chaining of an older file holds only these in memory instead of the whole log.
const READ: u32 = 1_000;

/// A digest in the chain, and whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainHead {
    pub id: i64,
    pub at: Unix,
    /// What to note elsewhere.
    pub digest: KeyHash,
}

/// The first entry that does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainMismatch {
    pub id: i64,
    /// When it says that it was written. None: it cannot be read.
    pub at: Option<Unix>,
    /// What does not fit, in a sentence.
    pub reason: String,
}

/// What became of reading the whole trail.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    /// Entries that fit, up to the first that does not.
    pub entries: u64,
    pub oldest: Option<ChainHead>,
    pub newest: Option<ChainHead>,
    pub mismatch: Option<ChainMismatch>,
    /// Whether the digest that was asked for is among them. None: none was asked for. A chain that was written again
    /// from its beginning lacks it.
    pub expected: Option<bool>,
}

impl Verified {
    pub fn is_good(&self) -> bool {
        self.mismatch.is_none() && self.expected != Some(false)
    }
}

/// Why the audit log of a file cannot be verified.
#[derive(Debug, Error)]
pub enum AuditLogError {
    /// It was written by another version, whose chain would otherwise look like changed entries.
    #[error(
        "the file has format {found}, whose audit log has no hash chain, or another one; this version reads format {known}"
    )]
    Format {
        found: i64,
        /// The format of this version.
        known: i64,
    },
    #[error(transparent)]
    File(#[from] rusqlite::Error),
}

/// What stands before the first entry. It is a fixed value, so that the first entry is checked as all others.
fn beginning() -> KeyHash {
    KeyHash::from_bytes([0; 32])
}

fn digest(previous: KeyHash, entry: &AuditEntry) -> KeyHash {
    let covered = json!([
        previous.to_string(),
        entry.id,
        entry.at.ms(),
        entry.who,
        entry.client,
        entry.action,
        entry.kind,
        entry.name,
        entry.connector,
        entry.before,
        entry.after,
    ]);
    KeyHash::of(&covered.to_string())
}

/// Gives an entry that was just written its place in the chain. The previous digest is read from the file instead of
/// memory, so that it is the one that the same transaction sees.
pub(super) fn link(connection: &Connection, entry: &AuditEntry) -> Result<(), rusqlite::Error> {
    let before = connection
        .prepare_cached("SELECT digest FROM audit WHERE id < ?1 ORDER BY id DESC LIMIT 1")?
        .query_row([entry.id], |row| Ok(hash(row, 0)))
        .optional()?;
    let previous = before.flatten().unwrap_or_else(beginning);
    connection
        .prepare_cached("UPDATE audit SET previous = ?2, digest = ?3 WHERE id = ?1")?
        .execute(params![
            entry.id,
            previous.as_bytes(),
            digest(previous, entry).as_bytes(),
        ])?;
    Ok(())
}

/// Chains the entries of an older format, all or none. The newest entry alone is checked first, so that opening a file
/// does not read the whole log.
pub(crate) fn complete(database: &Connection) -> Result<(), rusqlite::Error> {
    let newest = database
        .query_row(
            "SELECT digest IS NULL FROM audit ORDER BY id DESC LIMIT 1",
            [],
            |row| row.get::<_, bool>(0),
        )
        .optional()?;
    if newest != Some(true) {
        return Ok(());
    }
    let sql = format!(
        "SELECT {COLUMNS} FROM audit WHERE id > ?1 AND digest IS NULL ORDER BY id LIMIT {READ}"
    );
    let mut after = i64::MIN;
    sqlite::begin(database)?;
    loop {
        let mut statement = database.prepare_cached(&sql)?;
        let entries: Result<Vec<_>, _> = statement.query_map([after], entry)?.collect();
        let entries = entries?;
        let Some(last) = entries.last() else {
            return sqlite::commit(database);
        };
        after = last.id;
        for entry in &entries {
            link(database, entry)?;
        }
    }
}

/// A column that holds a digest; none: there is nothing that could be one. A value of another type is a mismatch of the
/// chain instead of an error of the file, because somebody may have written it.
pub(super) fn hash(row: &Row<'_>, column: usize) -> Option<KeyHash> {
    let bytes = row.get_ref(column).ok()?.as_blob().ok()?;
    Some(KeyHash::from_bytes(bytes.try_into().ok()?))
}

/// Reads a trail from its beginning, some entries at a time.
#[derive(Debug)]
pub(crate) struct Verifier {
    wanted: Option<KeyHash>,
    found: Verified,
}

impl Verifier {
    /// Looks also for the digest `wanted`.
    pub(crate) fn new(wanted: Option<KeyHash>) -> Self {
        let found = Verified {
            expected: wanted.map(|_| false),
            ..Verified::default()
        };
        Self { wanted, found }
    }

    /// Reads on; false at the end, or behind an entry that does not fit. It ends at the first mismatch, because every
    /// digest after it would differ as well.
    pub(crate) fn read_on(&mut self, connection: &Connection) -> Result<bool, rusqlite::Error> {
        let sql =
            format!("SELECT {COLUMNS}, previous FROM audit WHERE id > ?1 ORDER BY id LIMIT {READ}");
        let mut statement = connection.prepare_cached(&sql)?;
        let after = self.found.newest.map_or(i64::MIN, |newest| newest.id);
        let mut rows = statement.query([after])?;
        let mut read = 0;
        while let Some(row) = rows.next()? {
            read += 1;
            if let Err(mismatch) = self.take(row) {
                self.found.mismatch = Some(mismatch);
                return Ok(false);
            }
        }
        Ok(read == READ)
    }

    fn take(&mut self, row: &Row<'_>) -> Result<(), ChainMismatch> {
        let id = row.get(0).unwrap_or_default();
        let at = row.get::<_, i64>(1).ok();
        let at = at.filter(|at| *at >= 0).map(Unix::from_column);
        let mismatch = |reason: String| ChainMismatch { id, at, reason };
        let unread = || mismatch("it cannot be read".to_owned());
        let entry = entry(row).ok().filter(|_| at.is_some());
        let entry = entry.ok_or_else(unread)?;
        let own = entry.digest;
        let own = own.ok_or_else(|| mismatch("it has no digest".to_owned()))?;
        let previous = hash(row, PREVIOUS);
        let previous = previous
            .ok_or_else(|| mismatch("it has no digest of the previous entry".to_owned()))?;
        let is_next = match self.found.newest {
            Some(last) => {
                if last.id + 1 != id {
                    let missing = match (last.id + 1, id - 1) {
                        (first, last) if first == last => format!("the entry {first} is"),
                        (first, last) => format!("the entries {first} to {last} are"),
                    };
                    return Err(mismatch(format!("{missing} missing before it")));
                }
                previous == last.digest
            }
            None => (id == 1) == (previous == beginning()),
        };
        if !is_next {
            let reason = "the previous entry was changed or replaced";
            return Err(mismatch(reason.to_owned()));
        }
        if digest(previous, &entry) != own {
            let reason = "its content was changed";
            return Err(mismatch(reason.to_owned()));
        }
        if self.wanted.is_some() && (self.wanted == Some(own) || self.wanted == Some(previous)) {
            self.found.expected = Some(true);
        }
        let mark = ChainHead {
            id,
            at: entry.at,
            digest: own,
        };
        self.found.entries += 1;
        self.found.oldest.get_or_insert(mark);
        self.found.newest = Some(mark);
        Ok(())
    }

    /// Entries missing at the beginning are found by their count, because only those before the newest are ever
    /// deleted.
    pub(crate) fn end(mut self) -> Verified {
        let (Some(oldest), Some(newest)) = (self.found.oldest, self.found.newest) else {
            return self.found;
        };
        let kept = newest.id - oldest.id + 1;
        if self.found.mismatch.is_none() && oldest.id > 1 && kept < ENTRIES_MAX {
            self.found.mismatch = Some(ChainMismatch {
                id: oldest.id,
                at: Some(oldest.at),
                reason: format!(
                    "the entries before it are missing, though only those before the newest {ENTRIES_MAX} are ever deleted"
                ),
            });
        }
        self.found
    }
}

/// Where [`Verifier::read_on`] reads the digest of the entry before.
const PREVIOUS: usize = 11;
