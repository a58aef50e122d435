//! Filling a sink with what the pool has: where it begins, a page of it, and how far it is.
//!
//! Delivery asks. The place of a filling moves with the settlements of the sink; a page that a sink is called with which
//! reaches others lies in `resends` until it is settled, with its fields as they were.
//!
//! **Invariant**: when a filling begins, every row holds what was accepted up to [`Filling::through`], and the cursor of the
//! sink stands there: what was accepted later comes from the journal.

mod begin;

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};
use tokio::sync::SemaphorePermit;

use super::dead_letters::meta;
use super::resends::{Letter, slices_of};
use super::{PageLimit, Pool, PoolError};
use base::clock::{Unix, parse_rfc3339};
use base::order::{ItemPosition, Seq};
pub use begin::Beginning;
use item::batch::{Action, Fill, Slice};
use settings::OnUpdate;
use uuid::Uuid;

/// How a sink was filled the last time, or is being filled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filling {
    /// Its number is 0 if the pool was empty when the sink began: nothing was filled.
    pub fill: Fill,
    /// What the sink was to receive then, in one text.
    pub selection: String,
    /// The rows hold what was accepted up to here, and the journal has the rest.
    pub through: Seq,
    /// The last row that was read, as stream and key; empty before the first.
    pub after: (String, String),
    /// Items that were read for the sink.
    pub read: u64,
    pub began_at: Unix,
    pub is_over: bool,
}

/// What is settled of a filling, with what the sink did.
#[derive(Debug, Clone, Default)]
pub struct FillStep {
    /// The last row that was read.
    pub after: (String, String),
    /// Items that were read for the sink.
    pub read: u64,
    /// Items of a page that is about to be tried: those of the settlement's retry. They are stored with their fields,
    /// so that a crash repeats exactly that page.
    pub page: Vec<Slice>,
    /// There are no rows behind it, and no page waits.
    pub is_over: bool,
}

/// Some rows for a sink.
#[derive(Debug)]
pub struct FillPage {
    /// The items, in the order of acceptance.
    pub slices: Vec<Slice>,
    /// The last row that was looked at; none: there was none.
    pub after: Option<(String, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FillLeft {
    /// Rows that nobody has read yet.
    pub rows: u64,
    /// Items of pages that wait for the sink.
    pub waiting: u64,
}

const FILLING: &str =
    "SELECT number, id, through, selection, stream, key, read, began_ms, ended_ms IS NOT NULL
     FROM fills WHERE sink = ?1";

impl Filling {
    fn read(row: &rusqlite::Row<'_>) -> Result<Self, rusqlite::Error> {
        Ok(Self {
            fill: fill(row.get(0)?, row.get(1)?),
            through: Seq::from_column(row.get(2)?),
            selection: row.get(3)?,
            after: (row.get(4)?, row.get(5)?),
            read: row.get::<_, i64>(6)?.unsigned_abs(),
            began_at: Unix::from_column(row.get(7)?),
            is_over: row.get(8)?,
        })
    }
}

/// Part of [`Pool::settle`]'s transaction.
pub(super) fn advance(
    connection: &Connection,
    sink: &str,
    step: &FillStep,
) -> Result<(), rusqlite::Error> {
    connection
        .prepare_cached(
            "UPDATE fills SET stream = ?2, key = ?3, read = read + ?4, ended_ms = iif(?5, ?6, NULL) WHERE sink = ?1",
        )?
        .execute(params![
            sink,
            step.after.0,
            step.after.1,
            step.read.cast_signed(),
            step.is_over,
            Unix::now().to_column()
        ])?;
    Ok(())
}

/// The items of a page of a filling, which lie in `resends` until the sink has them: under the retry that was stored last, in
/// their order. Part of [`Pool::settle`]'s transaction.
pub(super) fn store_page(connection: &Connection, page: &[Slice]) -> Result<(), rusqlite::Error> {
    let retry_id = connection.last_insert_rowid();
    let mut insert = connection.prepare_cached(
        "INSERT INTO resends (retry_id, seq, request_id, stream, position, key, fields, received_ms, removal, version_text)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?;
    for slice in page {
        let entry = &slice.entry;
        let request_id = entry.request_id.to_string();
        for (position, item) in slice.items() {
            insert.execute(rusqlite::params![
                retry_id,
                entry.seq.to_column(),
                request_id,
                &*entry.stream,
                position.get(),
                item.key,
                item.fields,
                entry.received_at.to_column(),
                item.action == Action::Remove,
                item.version_text(),
            ])?;
        }
    }
    Ok(())
}

impl Pool {
    /// How a sink was filled the last time, or is being filled. Blocks.
    pub fn filling_of(&self, sink: &str) -> Result<Option<Filling>, PoolError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(FILLING)?;
            statement.query_row([sink], Filling::read).optional()
        })
    }

    /// The same from the file.
    pub async fn filling(&self, sink: &str) -> Result<Option<Filling>, PoolError> {
        let filling = (self.reads).first(FILLING, [sink.to_owned()], Filling::read);
        Ok(filling.await?)
    }

    /// What is left of a filling of the streams that are `wanted`.
    pub async fn fill_left(
        &self,
        sink: &str,
        filling: &Filling,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<FillLeft, PoolError> {
        if filling.is_over {
            return Ok(FillLeft::default());
        }
        let count = |row: &rusqlite::Row<'_>| Ok(row.get::<_, i64>(0)?.unsigned_abs());
        let (stream, key) = &filling.after;
        let mut rows = 0;
        if wanted(stream) {
            let sql = "SELECT count(*) FROM items WHERE stream = ?1 AND key > ?2";
            let behind = [stream.clone(), key.clone()];
            rows += self.reads.row(sql, behind, count).await?;
        }
        let mut last = stream.clone();
        while let Some(next) = self.stream_after(&last).await? {
            if wanted(&next) {
                rows += self.sizes.of(&next).items;
            }
            last = next;
        }
        let waiting = "SELECT count(*) FROM resends WHERE retry_id IN (SELECT id FROM retries WHERE sink = ?1 AND resent = 2)";
        Ok(FillLeft {
            rows,
            waiting: self.reads.row(waiting, [sink.to_owned()], count).await?,
        })
    }

    /// A turn to read many items, of the few that there are at once: renderers, feeds and sinks that are filled take them.
    /// Otherwise short reads would wait behind long ones.
    pub async fn turn_to_read(&self) -> Option<SemaphorePermit<'_>> {
        self.turns.acquire().await.ok()
    }

    /// The next rows of a filling, of the streams that are `wanted`. Rows that something later has written are passed over:
    /// the journal has that whole. In a stream whose updates merge it has parts only, so they are taken as they are.
    pub async fn fill_page(
        &self,
        filling: &Filling,
        wanted: impl Fn(&str) -> bool,
        limit: PageLimit,
    ) -> Result<FillPage, PoolError> {
        let (Some(_filling), Some(_turn)) = (
            self.fill_turns.acquire().await.ok(),
            self.turn_to_read().await,
        ) else {
            return Err(PoolError::Closed);
        };
        let (mut stream, mut key) = filling.after.clone();
        let mut read = Vec::new();
        let (mut rows, mut bytes) = (0, 0);
        while rows < limit.rows && bytes < limit.bytes {
            if !wanted(&stream) || stream.is_empty() {
                match self.stream_after(&stream).await? {
                    Some(next) => (stream, key) = (next, String::new()),
                    None => break,
                }
                continue;
            }
            let merges = self.lock().on_update.get(&*stream) == Some(&OnUpdate::Merge);
            let found = self.rows_after(&stream, &key, limit.rows - rows).await?;
            let is_last = found.len() < (limit.rows - rows) as usize;
            let mut was_cut = false;
            for row in found {
                was_cut = bytes >= limit.bytes;
                if was_cut {
                    break;
                }
                key.clone_from(&row.letter.key);
                rows += 1;
                bytes += row.letter.fields.len() + key.len();
                if row.letter.seq <= filling.through || merges || row.is_merged {
                    read.push(row.letter);
                }
            }
            if is_last && !was_cut {
                match self.stream_after(&stream).await? {
                    Some(next) => (stream, key) = (next, String::new()),
                    None => break,
                }
            }
        }
        read.sort_by(|a, b| (a.seq, a.position, &a.stream).cmp(&(b.seq, b.position, &b.stream)));
        Ok(FillPage {
            slices: slices_of(&read),
            after: ((&stream, &key) != (&filling.after.0, &filling.after.1))
                .then_some((stream, key)),
        })
    }

    async fn rows_after(&self, stream: &str, key: &str, limit: u32) -> Result<Vec<Row>, PoolError> {
        let sql = "SELECT key, fields, updated_at, request_id, accepted_seq, position, version_text, merged IS NOT NULL AS merged,
                iif(typeof(version) = 'integer', version, NULL) AS thousandths
             FROM items WHERE stream = ?1 AND key > ?2 ORDER BY key LIMIT ?3";
        let name: Arc<str> = stream.into();
        let values = (stream.to_owned(), key.to_owned(), limit);
        let rows = (self.reads).rows(sql, values, move |row| Row::read(row, &name));
        Ok(rows.await?)
    }

    pub(super) async fn stream_after(&self, stream: &str) -> Result<Option<String>, PoolError> {
        let next = "SELECT min(stream) FROM items WHERE stream > ?1";
        let next = self.reads.row(next, [stream.to_owned()], |row| row.get(0));
        Ok(next.await?)
    }
}

/// A row of the pool.
pub(super) struct Row {
    pub(super) letter: Letter,
    /// Its fields are of several requests.
    is_merged: bool,
}

impl Row {
    pub(super) fn read(
        row: &rusqlite::Row<'_>,
        stream: &Arc<str>,
    ) -> Result<Self, rusqlite::Error> {
        let updated_at = row.get_ref("updated_at")?.as_str()?;
        let request_id = row.get_ref("request_id")?.as_str()?;
        Ok(Self {
            is_merged: row.get("merged")?,
            letter: Letter {
                seq: Seq::from_column(row.get("accepted_seq")?),
                request_id: Uuid::try_parse(request_id).unwrap_or_default(),
                stream: Arc::clone(stream),
                received_at: parse_rfc3339(updated_at).unwrap_or(Unix::MIN),
                position: ItemPosition::new(row.get("position")?),
                key: row.get("key")?,
                action: Action::Upsert,
                fields: row.get("fields")?,
                meta: meta(
                    row.get("thousandths")?,
                    row.get_ref("version_text")?.as_str_or_null()?,
                    None,
                ),
            },
        })
    }
}

fn fill(number: u32, id: i64) -> Fill {
    Fill {
        number,
        id: id.cast_unsigned(),
    }
}
