//! Which entry of the log a file has come to, and the chain of digests.
//!
//! **Invariant**: two copies with the same place have applied the same entries in the same order. A file's place changes in
//! the transaction of what it says.

use rusqlite::{Connection, OptionalExtension as _, params};
use sha2::{Digest as _, Sha256};

use super::OWN_TABLE;

const DIGEST_BYTES: usize = 16;

/// The digest of an entry: of its bytes, its number, and the digest before, so that a copy that differs anywhere
/// finds out at the next entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChainDigest(pub(crate) [u8; DIGEST_BYTES]);

impl ChainDigest {
    /// The bytes that the log or a file has; none: they are no digest.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The last entry that is in a file, or in the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogPlace {
    /// 0: there is none.
    pub n: u64,
    pub digest: ChainDigest,
}

impl LogPlace {
    /// The place behind an entry with this change.
    pub fn after(&self, change: &[u8]) -> Self {
        let n = self.n + 1;
        let mut hash = Sha256::new();
        hash.update(self.digest.0);
        hash.update(n.to_be_bytes());
        hash.update(change);
        let mut digest = [0; DIGEST_BYTES];
        digest.copy_from_slice(&hash.finalize()[..DIGEST_BYTES]);
        Self {
            n,
            digest: ChainDigest(digest),
        }
    }

    /// Where a file is. One that never was a copy is before the first entry.
    ///
    /// # Errors
    /// SQLite's.
    pub fn of(connection: &Connection) -> Result<Self, rusqlite::Error> {
        Ok(Self::stored(connection)?.unwrap_or_default())
    }

    /// The same; none: it never was a copy.
    ///
    /// # Errors
    /// SQLite's.
    pub fn stored(connection: &Connection) -> Result<Option<Self>, rusqlite::Error> {
        if !sqlite::has_table(connection, OWN_TABLE)? {
            return Ok(None);
        }
        let sql = "SELECT n, digest FROM main.replica WHERE one = 1";
        let mut statement = connection.prepare_cached(sql)?;
        let place = statement.query_row([], |row| {
            Ok(Self {
                n: row.get::<_, i64>(0)?.unsigned_abs(),
                digest: ChainDigest(row.get(1)?),
            })
        });
        place.optional()
    }

    /// The file has come here: part of the transaction that brings it here. [`Recorder::attach`](super::Recorder::attach)
    /// has made the table.
    ///
    /// # Errors
    /// SQLite's.
    pub fn store(&self, connection: &Connection) -> Result<(), rusqlite::Error> {
        let sql = "INSERT INTO main.replica (one, n, digest) VALUES (1, ?1, ?2)
             ON CONFLICT (one) DO UPDATE SET n = excluded.n, digest = excluded.digest";
        let values = params![self.n.cast_signed(), self.digest.as_bytes()];
        connection.prepare_cached(sql)?.execute(values)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_of_the_bytes_the_number_and_all_before() {
        let first = LogPlace::default().after(b"a");
        // Worked out with sha256sum.
        let hex: String = first
            .digest
            .as_bytes()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(
            (first.n, hex.as_str()),
            (1, "d22e2bc447924c96c9c5d03aa4873d62")
        );
        let second = first.after(b"b");
        assert_eq!(second.n, 2);
        assert_ne!(second.digest, LogPlace::default().after(b"b").digest);
        assert_ne!(second.digest, LogPlace { n: 7, ..first }.after(b"b").digest);
        let other = LogPlace::default().after(b"x");
        assert_ne!(second.digest, other.after(b"b").digest);
    }
}
