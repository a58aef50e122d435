//! Which row of payloads has which requests, for the readers: see `journal/file/payloads.rs`.
//!
//! **Invariant**: a group whose directory is damaged may have any request between the row before it and its number.

use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use crate::StorageError;
use crate::file::payloads;
use base::order::Seq;

/// The row that may hold the payload of a request, or the first one behind it.
const SELECT_AT: &str =
    "SELECT seq, crc32, CASE WHEN crc32 > 4294967295 THEN request END AS directory
     FROM payloads WHERE seq >= ? ORDER BY seq LIMIT 1";

/// A row of payloads, and the numbers that it has.
pub(super) struct Place {
    key: Seq,
    /// None: it is of one request. Empty: nobody can say which.
    group: Option<Vec<Seq>>,
}

impl Place {
    pub(super) fn of(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        let directory: Option<&[u8]> = row.try_get("directory")?;
        let crc32 = row.try_get("crc32")?;
        let group = directory.map(|directory| {
            let records = payloads::records(crc32, directory).unwrap_or_default();
            records.iter().map(|record| record.seq).collect()
        });
        Ok(Self {
            key: Seq::from_column(row.try_get("seq")?),
            group,
        })
    }

    pub(super) fn seqs(self) -> Vec<Seq> {
        match self.group {
            Some(group) if !group.is_empty() => group,
            _ => vec![self.key],
        }
    }

    pub(super) fn may_have(&self, seq: Seq) -> bool {
        match &self.group {
            Some(group) => group.is_empty() || group.binary_search(&seq).is_ok(),
            None => self.key == seq,
        }
    }
}

pub(super) async fn place_at(
    reads: &sqlx::SqlitePool,
    seq: Seq,
) -> Result<Option<Place>, StorageError> {
    let row = sqlx::query(SELECT_AT)
        .bind(seq.to_column())
        .fetch_optional(reads)
        .await?;
    Ok(row.as_ref().map(Place::of).transpose()?)
}

/// The first number from this one on that has a payload.
pub(in super::super) async fn first_from(
    reads: &sqlx::SqlitePool,
    seq: Seq,
) -> Result<Option<Seq>, StorageError> {
    let place = place_at(reads, seq).await?;
    let seqs = place.map(Place::seqs).unwrap_or_default();
    Ok(seqs.into_iter().find(|one| *one >= seq))
}

/// The requests whose payloads a group with a damaged directory may have. All of them are taken for unreadable, because
/// nobody can say which they were.
pub(super) async fn in_damaged(
    reads: &sqlx::SqlitePool,
    key: Seq,
    directory_bytes: i64,
) -> Result<Vec<(Seq, String, i64)>, StorageError> {
    let records_max = payloads::records_max(usize::try_from(directory_bytes).unwrap_or_default());
    let rows: Vec<(i64, String, i64)> =
        sqlx::query_as(sqlx::AssertSqlSafe(payloads::damaged_range()))
            .bind(key.to_column())
            .bind(i64::try_from(records_max).unwrap_or(i64::MAX))
            .fetch_all(reads)
            .await?;
    let rows = rows.into_iter().rev();
    let rows = rows.map(|(seq, stream, outcome)| (Seq::from_column(seq), stream, outcome));
    Ok(rows.collect())
}
