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

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::types::ToSqlOutput;
use rusqlite::{Connection, ToSql, named_params};
use sqlx::Row;
use uuid::Uuid;

use super::apply::Stored;
use super::dead_letters::{action, meta};
use super::rules::{self, Place};
use super::{Part, Pool, PoolError, Retry, Writer};
use base::clock::{Lived, Unix};
use base::order::{ItemPosition, Seq};
use item::batch::{Action, Entry, Slice};
use item::{ItemMeta, ItemsWriter};
use settings::OnUpdate;

/// Dead letters that are moved or discarded in one transaction, at most: lanes wait for it.
const CHUNK_MAX: usize = 1_000;
/// Of a retry that has not failed yet.
const REASON: &str = "sent again by an operator";

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
    /// The highest id of the sink's dead letters: what fails from now on is above it.
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
    pub(super) fn condition(&self) -> &'static str {
        match self {
            Self::All => "sink = :sink AND id <= :newest AND :chosen IS NULL",
            Self::Ids(_) => {
                "+sink = :sink AND id <= :newest AND id IN (SELECT value FROM json_each(:chosen))"
            }
            Self::Request(_) => "+sink = :sink AND id <= :newest AND request_id = :chosen",
        }
    }

    pub(super) fn chosen(&self) -> Option<String> {
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

/// What a retry that replaces another one takes over of its items. Part of [`Pool::settle`]'s transaction;
/// the new retry is the last row that was inserted.
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
        let row = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(sink.to_owned())
            .bind(newest)
            .bind(selection.chosen())
            .fetch_one(&*self.reads)
            .await?;
        Ok(Found {
            letters: row.try_get::<i64, _>("letters")?.unsigned_abs(),
            unreadable: row.try_get::<i64, _>("unreadable")?.unsigned_abs(),
            newest: row.try_get("newest")?,
        })
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
    /// returns how many. 0: there are no more. Blocks.
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

/// A dead letter that is about to be sent again.
struct Chosen {
    id: i64,
    seq: Seq,
    position: ItemPosition,
    /// What is sent of it.
    fields: String,
}

impl Writer {
    /// What fits into one retry, in order of acceptance; unreadable ones are left.
    fn first_letters(
        &self,
        sink: &str,
        selection: &Selection,
        newest: i64,
        limits: ResendLimits,
        later: LaterChanges<'_>,
    ) -> Result<Vec<Chosen>, rusqlite::Error> {
        let sql = format!(
            "SELECT id, seq, position, stream, key, fields, removal FROM dead_letters
             WHERE {} AND fields <> '' ORDER BY seq, position, id",
            selection.condition()
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut rows = statement
            .query(named_params! { ":sink": sink, ":newest": newest, ":chosen": selection })?;
        let mut chunk = Vec::new();
        let mut bytes = 0;
        while chunk.len() < limits.items_max.clamp(1, CHUNK_MAX)
            && let Some(row) = rows.next()?
        {
            let (stream, key) = (row.get_ref(3)?.as_str()?, row.get_ref(4)?.as_str()?);
            let (fields, removes) = (row.get_ref(5)?.as_str()?, row.get(6)?);
            let place = rules::place(row.get(1)?, row.get(2)?);
            let sent = match later {
                LaterChanges::Overwritten => Some(fields.into()),
                LaterChanges::Stays { unsettled, .. }
                    if unsettled.get(key).is_some_and(|last| *last > place.0) =>
                {
                    None
                }
                LaterChanges::Stays { in_pool, .. } => {
                    self.sent(in_pool, (stream, key), place, removes, fields)?
                }
            };
            let Some(sent) = sent else { continue };
            bytes += sent.len() + key.len();
            if bytes > limits.bytes_max && !chunk.is_empty() {
                break;
            }
            chunk.push(Chosen {
                id: row.get(0)?,
                seq: place.0,
                position: place.1,
                fields: sent.into_owned(),
            });
        }
        Ok(chunk)
    }

    /// What is sent of a dead letter so that what was accepted later stays, as far as the pool knows of it; none: nothing.
    fn sent<'a>(
        &self,
        in_pool: bool,
        (stream, key): (&str, &str),
        place: Place,
        removes: bool,
        fields: &'a str,
    ) -> Result<Option<Cow<'a, str>>, rusqlite::Error> {
        let stored = Stored::of(&self.connection, &self.removals, stream, key)?;
        let state = stored.state();
        let merges = self.on_update.get(stream) == Some(&OnUpdate::Merge);
        Ok(match merges {
            _ if state.place <= place => Some(fields.into()),
            // The pool has it remove what is older and no more; another sink would remove the whole item.
            true if removes => (in_pool && state.item.is_some()).then(|| fields.into()),
            true => rules::unchanged_since(state, place, fields).map(Cow::Owned),
            false => None,
        })
    }
}

/// Places, in order, as runs of consecutive items.
fn parts(places: impl Iterator<Item = Place>) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for (seq, position) in places {
        match parts.last_mut() {
            Some(Part(last, _, end, _)) if *last == seq && *end == position => *end = *end + 1,
            _ => parts.push(Part(seq, position, position + 1, false)),
        }
    }
    parts
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
