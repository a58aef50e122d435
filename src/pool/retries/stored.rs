//! A retry as it is stored.
//!
//! **Invariant**: what was stored is read as the same batches; what cannot be read has none.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension};

use super::{Part, Retry};
use base::clock::Lived;
use base::order::Seq;
use item::batch::BatchOrigin;

/// Adds a retry, or its items to the row that it names; the id of the row.
pub(super) fn store_retry(
    connection: &Connection,
    sink: &str,
    retry: &Retry,
) -> Result<i64, rusqlite::Error> {
    let seq = |part: Option<&Part>| part.map_or(0, |Part(seq, ..)| seq.to_column());
    let (first, last) = (seq(retry.parts.first()), seq(retry.parts.last()));
    let parts = serde_json::to_string(&retry.parts).unwrap_or_default();
    if retry.id != 0 {
        let added = connection
            .prepare_cached(
                "UPDATE retries SET parts = substr(parts, 1, length(parts) - 1) || ',' || substr(?3, 2), last_seq = ?4
                 WHERE id = ?1 AND sink = ?2 AND attempts = 0 AND resent = 0",
            )?
            .execute(rusqlite::params![retry.id, sink, parts, last])?;
        if added > 0 {
            return Ok(retry.id);
        }
    }
    connection
        .prepare_cached(
            "INSERT INTO retries (sink, first_seq, last_seq, parts, attempts, due_ms, reason, resent, earlier) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(rusqlite::params![
            sink,
            first,
            last,
            parts,
            retry.attempts,
            retry.due_at.to_column(),
            retry.reason,
            retry.origin.to_column(),
            retry.earlier,
        ])?;
    Ok(connection.last_insert_rowid())
}

pub(super) fn retry_of(
    connection: &Connection,
    sink: &str,
    id: i64,
) -> Result<Option<Retry>, rusqlite::Error> {
    let sql = "SELECT id, first_seq, last_seq, parts, attempts, due_ms, reason, resent, earlier FROM retries WHERE sink = ?1 AND id = ?2";
    connection
        .prepare_cached(sql)?
        .query_row(rusqlite::params![sink, id], read_retry)
        .optional()
}

/// A row with the columns `id`, `first_seq`, `last_seq`, `parts`, `attempts`, `due_ms`, `reason`, `resent`, `earlier`.
fn read_retry(row: &rusqlite::Row<'_>) -> Result<Retry, rusqlite::Error> {
    let number = |at| row.get(at).map(Seq::from_column);
    let text = |at| -> Result<&[u8], rusqlite::Error> {
        Ok(match row.get_ref(at)? {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes,
            _ => &[],
        })
    };
    Ok(Retry {
        id: row.get(0)?,
        seqs: (number(1)?, number(2)?),
        parts: parts_of(text(3)?),
        attempts: row.get(4)?,
        due_at: Lived::from_column(row.get(5)?),
        reason: String::from_utf8_lossy(text(6)?).into_owned(),
        origin: BatchOrigin::from_column(row.get(7)?),
        earlier: row.get(8)?,
    })
}

/// The lists of several batches as they are stored; of one, its list.
pub(super) fn batches_text(batches: &[Vec<Part>]) -> String {
    let text = match batches {
        [parts] => serde_json::to_string(parts),
        _ => serde_json::to_string(batches),
    };
    text.unwrap_or_default()
}

/// The same read back; empty if one of them is damaged.
pub(super) fn batches_of(text: &[u8]) -> Vec<Vec<Part>> {
    let parts = parts_of(text);
    if !parts.is_empty() {
        return vec![parts];
    }
    let batches: Vec<Vec<Part>> = serde_json::from_slice(text).unwrap_or_default();
    match batches.iter().all(|parts| are_whole(parts)) {
        true => batches,
        false => Vec::new(),
    }
}

/// The list of a batch's items as it is stored; empty if it is damaged.
pub(crate) fn parts_of(text: &[u8]) -> Vec<Part> {
    let parts: Vec<Part> = serde_json::from_slice(text).unwrap_or_default();
    match are_whole(&parts) {
        true => parts,
        false => Vec::new(),
    }
}

fn are_whole(parts: &[Part]) -> bool {
    !parts.is_empty() && parts.iter().all(|Part(_, start, end, _)| start < end)
}
