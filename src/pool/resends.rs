//! Dead letters that are sent again, and dead letters that are discarded.
//!
//! Operators choose them over the admin API. A chunk that is sent again becomes one retry, whose items
//! lie here instead of in the journal; delivery tries and settles it like any other.
//!
//! The items of a page of a filling (`fills.rs`) lie here as well, under the retry that is the page.
//!
//! **Invariant**: an item leaves `dead_letters` for `resends` in the transaction that makes its retry, and
//! leaves `resends` in the settlement that delivers it, hands it to the next retry, or makes it a dead
//! letter again.

mod chosen;
mod selection;

use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, named_params};
use uuid::Uuid;

use super::dead_letters::{action, meta};
use super::{Part, Pool, PoolError, Retry};
use base::clock::{Lived, Unix};
use base::order::{ItemPosition, Seq};
use chosen::parts;
use item::batch::{Action, Entry, Slice};
use item::{ItemMeta, ItemsWriter};
pub use selection::{Found, LaterChanges, ResendLimits, Selection};

/// Dead letters that are moved or discarded in one transaction, at most: lanes wait for it.
const CHUNK_MAX: usize = 1_000;
/// Of a retry that has not failed yet.
const REASON: &str = "sent again by an operator";

/// What a retry that replaces another one takes over of its items. Part of [`Pool::settle`]'s transaction;
/// the new retry is the last row that was inserted. They are moved and not copied, so that an item is never in two
/// retries.
pub(super) fn hand_over(
    connection: &Connection,
    from: i64,
    to: &Retry,
) -> Result<(), rusqlite::Error> {
    let retry_id = connection.last_insert_rowid();
    let mut statement = connection.prepare_cached(
        "UPDATE resends SET retry_id = ?1 WHERE retry_id = ?2 AND seq = ?3 AND position >= ?4 AND position < ?5",
    )?;
    for Part(seq, start, end, _) in to.parts.iter().copied() {
        statement.execute(rusqlite::params![
            retry_id,
            from,
            seq.to_column(),
            start.get(),
            end.get()
        ])?;
    }
    Ok(())
}

/// Forgets what no other retry took over: it was delivered or is a dead letter. Part of [`Pool::settle`]'s
/// transaction.
pub(super) fn finish(connection: &Connection, retry_id: i64) -> Result<(), rusqlite::Error> {
    connection
        .prepare_cached("DELETE FROM resends WHERE retry_id = ?1")?
        .execute([retry_id])?;
    Ok(())
}

/// One row of `resends`.
pub(super) struct Letter {
    pub(super) seq: Seq,
    pub(super) request_id: Uuid,
    pub(super) stream: Arc<str>,
    pub(super) received_at: Unix,
    pub(super) position: ItemPosition,
    pub(super) key: String,
    pub(super) action: Action,
    pub(super) fields: String,
    pub(super) meta: ItemMeta,
}

/// Items in order of acceptance, those that came together in one slice.
pub(super) fn slices_of(letters: &[Letter]) -> Vec<Slice> {
    let come_together = |a: &Letter, b: &Letter| {
        a.seq == b.seq && a.position + 1 == b.position && a.stream == b.stream
    };
    letters.chunk_by(come_together).filter_map(slice).collect()
}

impl Pool {
    /// Counts dead letters of a sink.
    pub async fn find_letters(
        &self,
        sink: &str,
        selection: &Selection,
    ) -> Result<Found, PoolError> {
        self.find_letters_to(sink, selection, i64::MAX).await
    }

    /// The same up to the id `newest`.
    pub async fn find_letters_to(
        &self,
        sink: &str,
        selection: &Selection,
        newest: i64,
    ) -> Result<Found, PoolError> {
        let sql = format!(
            "SELECT count(*) AS letters, count(*) FILTER (WHERE fields = '') AS unreadable,
                    (SELECT coalesce(max(id), 0) FROM dead_letters) AS newest
             FROM dead_letters WHERE {}",
            selection
                .condition()
                .replace(":sink", "?1")
                .replace(":newest", "?2")
                .replace(":chosen", "?3")
        );
        let found = |row: &rusqlite::Row<'_>| {
            Ok(Found {
                letters: row.get::<_, i64>(0)?.unsigned_abs(),
                unreadable: row.get::<_, i64>(1)?.unsigned_abs(),
                newest: row.get(2)?,
            })
        };
        let values = (sink.to_owned(), newest, selection.chosen());
        Ok(self.reads.row(sql, values, found).await?)
    }

    /// Makes a retry, due now, of the first dead letters of a selection, up to the id `newest`; returns how
    /// many that are. 0: there are no more that can be sent. What is newer [stays](LaterChanges::Stays) where it is to: those of
    /// items that something accepted later changed or removed are left. In a stream whose updates merge, the fields that
    /// nothing later has written or removed are sent all the same. Blocks.
    ///
    /// # Errors
    /// SQLite's; nothing happened.
    pub fn send_again(
        &self,
        sink: &str,
        selection: &Selection,
        newest: i64,
        limits: ResendLimits,
        later: LaterChanges<'_>,
    ) -> Result<u64, PoolError> {
        self.write(|writer| {
            let chunk = writer.first_letters(sink, selection, newest, limits, later)?;
            let (Some(first), Some(last)) = (chunk.first(), chunk.last()) else {
                return Ok(0);
            };
            let connection = &writer.connection;
            let places = chunk.iter().map(|letter| (letter.seq, letter.position));
            connection.execute(
                "INSERT INTO retries (sink, first_seq, last_seq, parts, attempts, due_ms, reason, resent)
                 VALUES (?1, ?2, ?3, ?4, 0, ?5, ?6, 1)",
                rusqlite::params![
                    sink,
                    first.seq.to_column(),
                    last.seq.to_column(),
                    serde_json::to_string(&parts(places)).unwrap_or_default(),
                    Lived::now().to_column(),
                    REASON,
                ],
            )?;
            let retry_id = connection.last_insert_rowid();
            let mut copy = connection.prepare_cached(
                "INSERT INTO resends (retry_id, seq, request_id, stream, position, key, fields, received_ms, removal, version, version_text, expire_after_seconds)
                 SELECT ?1, seq, request_id, stream, position, key, ?3, received_ms, removal, version, version_text, expire_after_seconds FROM dead_letters WHERE id = ?2",
            )?;
            let mut delete = connection.prepare_cached("DELETE FROM dead_letters WHERE id = ?1")?;
            for letter in &chunk {
                copy.execute(rusqlite::params![retry_id, letter.id, letter.fields])?;
                delete.execute([letter.id])?;
            }
            Ok(chunk.len() as u64)
        })
    }

    /// Discards some dead letters of a selection, up to the id `newest`, and remembers of which requests they were;
    /// returns how many. 0: there are no more. Blocks. The log would say otherwise that the sink has the request.
    ///
    /// # Errors
    /// SQLite's; nothing happened.
    pub fn discard_letters(
        &self,
        sink: &str,
        selection: &Selection,
        newest: i64,
    ) -> Result<u64, PoolError> {
        let sql = format!(
            "DELETE FROM dead_letters WHERE id IN (SELECT id FROM dead_letters WHERE {} LIMIT {CHUNK_MAX}) RETURNING seq",
            selection.condition()
        );
        self.write(|writer| {
            let connection = &writer.connection;
            let mut delete = connection.prepare_cached(&sql)?;
            let chosen = named_params! { ":sink": sink, ":newest": newest, ":chosen": selection };
            let seqs = delete.query_map(chosen, |row| row.get::<_, i64>(0))?;
            let mut seqs = seqs.collect::<Result<Vec<_>, _>>()?;
            let discarded = seqs.len() as u64;
            seqs.sort_unstable();
            seqs.dedup();
            let mut remember = connection.prepare_cached(
                "INSERT OR REPLACE INTO discarded (sink, seq, at_ms) VALUES (?1, ?2, ?3)",
            )?;
            let now = Unix::now().to_column();
            for seq in seqs {
                remember.execute(rusqlite::params![sink, seq, now])?;
            }
            Ok(discarded)
        })
    }

    /// The items of a retry that lie here, in order of acceptance. Blocks.
    pub fn resent(&self, retry_id: i64) -> Result<Vec<Slice>, PoolError> {
        let writer = self.lock();
        let mut statement = writer.connection.prepare_cached(
            "SELECT seq, request_id, stream, received_ms, position, key, fields, removal, version, version_text, expire_after_seconds FROM resends
             WHERE retry_id = ?1 ORDER BY seq, position, id",
        )?;
        let rows = statement.query_map([retry_id], |row| {
            let request_id = row.get_ref(1)?.as_str().unwrap_or_default();
            Ok(Letter {
                seq: Seq::from_column(row.get(0)?),
                request_id: Uuid::try_parse(request_id).unwrap_or_default(),
                stream: row.get_ref(2)?.as_str().unwrap_or_default().into(),
                received_at: Unix::from_column(row.get(3)?),
                position: ItemPosition::new(row.get(4)?),
                key: row.get(5)?,
                fields: row.get(6)?,
                action: action(row.get(7)?),
                meta: meta(row.get(8)?, row.get_ref(9)?.as_str_or_null()?, row.get(10)?),
            })
        })?;
        let letters = rows.collect::<Result<Vec<_>, _>>()?;
        Ok(slices_of(&letters))
    }
}

/// Consecutive items of one request.
fn slice(letters: &[Letter]) -> Option<Slice> {
    let first = letters.first()?;
    let bytes = letters.iter().map(|one| one.key.len() + one.fields.len());
    let mut writer = ItemsWriter::new(usize::MAX, bytes.sum());
    for letter in letters {
        writer
            .push_with(&letter.key, &letter.fields, letter.action, letter.meta)
            .expect("a retry is far smaller than what lengths of 32 bits can say");
    }
    let entry = Entry {
        seq: first.seq,
        request_id: first.request_id,
        stream: Arc::clone(&first.stream),
        received_at: match first.received_at {
            Unix::MIN => received_at(first.request_id),
            known => known,
        },
        arrived: None,
        items: writer.into_items(),
    };
    Some(Slice {
        base: first.position,
        ..Slice::whole(Arc::new(entry))
    })
}

/// Dead letters of older files do not say it, but ids of requests are made when they arrive.
fn received_at(request_id: Uuid) -> Unix {
    let time = request_id.get_timestamp().map(|time| time.to_unix());
    time.map_or(Unix::MIN, |(seconds, nanos)| {
        Unix::MIN + Duration::new(seconds, nanos)
    })
}
