//! How many rows there are, and a digest of them: what was moved is compared by it.
//!
//! **Invariant**: equal rows in the same order have the same tally, in whichever engine they are stored. A row that differs in
//! one byte has another.

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use rusqlite::types::ValueRef;
use sha2::{Digest as _, Sha256};

use super::OWN_TABLE;
use super::tables::quoted;

const DIGEST_BYTES: usize = 32;

/// Rows, and the SHA-256 of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    pub rows: u64,
    pub digest: [u8; DIGEST_BYTES],
}

/// A tally that is being made.
#[derive(Debug, Clone, Default)]
pub struct TallyCounter {
    rows: u64,
    hash: Sha256,
}

/// A part of what was moved: what the source has of it, and what the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MovedPart {
    pub name: &'static str,
    pub source: Tally,
    pub target: Tally,
}

impl MovedPart {
    /// Whether the target has what the source has.
    pub fn is_equal(&self) -> bool {
        self.source == self.target
    }
}

impl Tally {
    /// The rows of all tables of a file that nobody writes, but for where it is in a log: a moved copy has another
    /// place, or none.
    ///
    /// # Errors
    /// SQLite's.
    pub fn of_file(path: &Path) -> Result<Self, rusqlite::Error> {
        let connection = sqlite::open_reader(path, &Arc::default())?;
        let mut counter = TallyCounter::default();
        for table in tables(&connection)? {
            counter.add_table(&connection, &table)?;
        }
        Ok(counter.end())
    }

    /// The digest in hexadecimal digits.
    pub fn hex(&self) -> String {
        base::text::hex(&self.digest)
    }

    /// From what was stored of it; none: it is no digest.
    pub fn stored(rows: u64, digest: &[u8]) -> Option<Self> {
        let digest = digest.try_into().ok()?;
        Some(Self { rows, digest })
    }
}

impl TallyCounter {
    /// Counts a row with these values.
    pub fn add<'a>(&mut self, values: impl IntoIterator<Item = ValueRef<'a>>) {
        self.rows += 1;
        for value in values {
            self.value(value);
        }
        self.hash.update(b"\n");
    }

    /// What kind a value is stands before it, and its length before bytes, so that no two different rows are the same
    /// bytes.
    fn value(&mut self, value: ValueRef<'_>) {
        let (kind, bytes): (u8, &[u8]) = match value {
            ValueRef::Null => (0, &[]),
            ValueRef::Integer(number) => {
                self.hash.update([1]);
                self.hash.update(number.to_be_bytes());
                return;
            }
            ValueRef::Real(number) => {
                self.hash.update([2]);
                self.hash.update(number.to_bits().to_be_bytes());
                return;
            }
            ValueRef::Text(bytes) => (3, bytes),
            ValueRef::Blob(bytes) => (4, bytes),
        };
        self.hash.update([kind]);
        self.hash.update((bytes.len() as u64).to_be_bytes());
        self.hash.update(bytes);
    }

    /// Counts the rows of a table in the order in which they are stored, which a copy keeps. No index is used, because
    /// its order may differ from that of the rows.
    fn add_table(&mut self, connection: &Connection, name: &str) -> Result<(), rusqlite::Error> {
        self.hash.update(name);
        let sql = format!("SELECT * FROM {} NOT INDEXED", quoted(name));
        let mut statement = connection.prepare(&sql)?;
        let columns = statement.column_count();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            self.rows += 1;
            for column in 0..columns {
                self.value(row.get_ref(column)?);
            }
        }
        Ok(())
    }

    /// The tally of what was counted.
    pub fn end(self) -> Tally {
        Tally {
            rows: self.rows,
            digest: self.hash.finalize().into(),
        }
    }
}

/// The tables of a file, by name. What the planner of SQLite knows of them is none of it. The planner's figures are
/// left out, because each file gathers its own.
fn tables(connection: &Connection) -> Result<Vec<String>, rusqlite::Error> {
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> ?1
         AND (name NOT LIKE 'sqlite~_%' ESCAPE '~' OR name = 'sqlite_sequence') ORDER BY name";
    let mut statement = connection.prepare(sql)?;
    let names = statement.query_map([OWN_TABLE], |row| row.get(0))?;
    names.collect()
}

/// Whether a file is the copy of a node: it says where it is in the log of a cluster.
///
/// # Errors
/// SQLite's.
pub fn is_copy(path: &Path) -> Result<bool, rusqlite::Error> {
    sqlite::has_table(&sqlite::open_reader(path, &Arc::default())?, OWN_TABLE)
}

#[cfg(test)]
mod tests;
