//! Sinks that follow the changes of the pool: how far each is, what it was sent, and what is new for it.
//!
//! Delivery asks, and hands in a [`LatestStep`] with a settlement. `fills` has the fillings of these sinks, too.
//!
//! **Invariant**: the table `told` has every key that a sink may know: it is there before the sink receives it, and goes
//! after its removal was taken.

use std::collections::HashSet;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Row as _};
use uuid::Uuid;

use super::change_log::{ChangedRow, Keys, StateKind, sizes_sql};
use super::items::AS_STORED;
use super::resends::{Letter, slices_of};
use super::{Filling, PageLimit, Pool, PoolError, Position};
use base::clock::{Unix, parse_rfc3339};
use base::order::{ChangeSeq, Epoch, ItemPosition, Seq};
use item::ItemMeta;
use item::batch::{Action, Slice};
use select::Record;

pub(super) const TABLES_12: &str = "
CREATE TABLE latest (
    sink TEXT PRIMARY KEY,
    epoch INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    refilled_ms INTEGER,
    why TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE told (
    sink TEXT NOT NULL,
    stream TEXT NOT NULL,
    key TEXT NOT NULL,
    PRIMARY KEY (sink, stream, key)
) WITHOUT ROWID;
";

/// How far a sink is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatestPlace {
    /// It has everything up to here.
    pub position: Position,
    /// When it last began anew with all items, and why; none: it did not since it was made.
    pub refilled: Option<(Unix, String)>,
}

/// What one step of a lane changes of that.
#[derive(Debug, Default)]
pub struct LatestStep {
    /// It has everything up to here.
    pub place: Option<ChangeSeq>,
    /// Stream and key of items that are about to be sent to it.
    pub sent: Vec<(Arc<str>, String)>,
    /// The same of items whose removal it has taken.
    pub gone: Vec<(Arc<str>, String)>,
}

/// What there is of an item.
#[derive(Debug, Clone)]
pub struct LatestItem {
    pub stream: Arc<str>,
    pub key: String,
    /// Number of its last change.
    pub seq: ChangeSeq,
    /// The flat JSON object; none: the item is gone.
    pub fields: Option<String>,
    /// RFC 3339; empty if it is gone.
    pub updated_at: String,
    /// Empty: no source wrote it.
    pub request_id: String,
    /// The sink may know it.
    pub is_sent: bool,
}

/// Some of what is new.
#[derive(Debug)]
pub struct LatestPage {
    /// In the order of their changes.
    pub items: Vec<LatestItem>,
    /// There is nothing else up to here.
    pub through: ChangeSeq,
    /// There is more.
    pub more: bool,
    /// Every removal after the place is still known.
    pub is_whole: bool,
}

/// What a lane asks for.
#[derive(Debug, Clone, Copy)]
pub struct LatestRead<'a> {
    pub sink: &'a str,
    /// With what operators put over it.
    pub shown: bool,
    pub limit: PageLimit,
}

impl LatestRead<'_> {
    fn kind(&self) -> StateKind {
        match self.shown {
            true => StateKind::Shown,
            false => StateKind::Source,
        }
    }
}

impl LatestItem {
    /// What conditions look at.
    pub fn record(&self) -> Record<'_> {
        Record {
            key: &self.key,
            stream: &self.stream,
            updated_at: &self.updated_at,
            received_at: &self.updated_at,
            request_id: &self.request_id,
            fields: self.fields.as_deref().unwrap_or("{}"),
            ..Record::default()
        }
    }

    /// The item as a sink is handed it: what is there, or that it is to go.
    pub fn slice(&self, action: Action) -> Option<Slice> {
        let fields = self.fields.clone().filter(|_| action == Action::Upsert);
        let letter = Letter {
            seq: Seq::new(self.seq.get()),
            request_id: Uuid::try_parse(&self.request_id).unwrap_or_default(),
            stream: Arc::clone(&self.stream),
            // Of what is gone no time is kept, and each attempt must say the same.
            received_at: parse_rfc3339(&self.updated_at).unwrap_or(Unix::MIN),
            position: ItemPosition::default(),
            key: self.key.clone(),
            action,
            fields: fields.unwrap_or_else(|| "{}".to_owned()),
            meta: ItemMeta::default(),
        };
        slices_of(std::slice::from_ref(&letter)).pop()
    }

    fn read(row: &SqliteRow, stream: &Arc<str>) -> Result<Self, PoolError> {
        Ok(Self {
            stream: Arc::clone(stream),
            key: row.try_get("key")?,
            seq: ChangeSeq::from_column(row.try_get("seq")?),
            fields: row.try_get("fields")?,
            updated_at: row.try_get("updated_at")?,
            request_id: row.try_get("request_id")?,
            is_sent: row.try_get("is_sent")?,
        })
    }

    fn of(row: ChangedRow, stream: &Arc<str>, sent: &HashSet<String>) -> Self {
        Self {
            stream: Arc::clone(stream),
            is_sent: sent.contains(&row.key),
            key: row.key,
            seq: row.seq,
            fields: row.fields,
            updated_at: row.updated_at,
            request_id: row.request_id,
        }
    }

    fn bytes(&self) -> usize {
        self.key.len() + self.fields.as_ref().map_or(0, String::len)
    }
}

/// Part of [`Pool::settle`]'s transaction.
pub(super) fn advance(
    connection: &Connection,
    sink: &str,
    step: &LatestStep,
) -> Result<(), rusqlite::Error> {
    let mut insert = connection
        .prepare_cached("INSERT OR IGNORE INTO told (sink, stream, key) VALUES (?1, ?2, ?3)")?;
    for (stream, key) in &step.sent {
        insert.execute(params![sink, &**stream, key])?;
    }
    let mut forget = connection
        .prepare_cached("DELETE FROM told WHERE sink = ?1 AND stream = ?2 AND key = ?3")?;
    for (stream, key) in &step.gone {
        forget.execute(params![sink, &**stream, key])?;
    }
    if let Some(place) = step.place {
        connection
            .prepare_cached("UPDATE latest SET seq = ?2 WHERE sink = ?1")?
            .execute(params![sink, place.to_column()])?;
    }
    Ok(())
}

impl Pool {
    /// How far a sink is that follows the changes; none: it has not begun. Blocks.
    pub fn latest_of(&self, sink: &str) -> Result<Option<LatestPlace>, PoolError> {
        let sql = "SELECT epoch, seq, refilled_ms, why FROM latest WHERE sink = ?1";
        let read = |row: &rusqlite::Row<'_>| {
            let at: Option<i64> = row.get(2)?;
            let why: String = row.get(3)?;
            Ok(LatestPlace {
                position: Position {
                    epoch: Epoch::from_column(row.get(0)?),
                    seq: ChangeSeq::from_column(row.get(1)?),
                },
                refilled: at.map(|at| (Unix::from_column(at), why)),
            })
        };
        self.read(|connection| {
            let mut statement = connection.prepare_cached(sql)?;
            statement.query_row([sink], read).optional()
        })
    }

    /// Begins a sink with all items, and then with what changes from here on. `why` it does so again. Blocks.
    pub fn begin_latest(&self, sink: &str, selection: &str, why: &str) -> Result<(), PoolError> {
        self.write(|writer| {
            let (connection, seq) = (&writer.connection, writer.seq);
            let known = "SELECT count(*) FROM latest WHERE sink = ?1";
            let known: i64 = connection.query_row(known, [sink], |row| row.get(0))?;
            let now = Unix::now().to_column();
            let refilled = (known > 0).then_some(now);
            connection.execute(
                "INSERT OR REPLACE INTO latest (sink, epoch, seq, refilled_ms, why) VALUES (?1, ?2, ?3, ?4, ?5)",
                params![sink, self.epoch().to_column(), seq.to_column(), refilled, why],
            )?;
            connection.execute(
                "INSERT OR REPLACE INTO fills (sink, number, id, through, selection, stream, key, read, began_ms, ended_ms)
                 VALUES (?1, coalesce((SELECT number FROM fills WHERE sink = ?1), 0) + 1, random(), 0, ?2, '', '', 0, ?3, NULL)",
                params![sink, selection, now],
            )?;
            Ok(())
        })
    }

    /// What changed after a place, of the streams that are `wanted`: of each item the newest.
    pub async fn latest_after(
        &self,
        read: LatestRead<'_>,
        wanted: impl Fn(&str) -> bool,
        place: ChangeSeq,
    ) -> Result<LatestPage, PoolError> {
        // Before the statements begin: they see everything up to here.
        let head = self.changes.head();
        let kind = read.kind();
        let (mut items, mut through) = (Vec::new(), head);
        let (mut last, mut is_whole) = (String::new(), true);
        while let Some(stream) = self.stream_of(read, &last).await? {
            if wanted(&stream) {
                let page = self.changed_rows(kind, &stream, None, place, read.limit);
                let page = page.await?;
                is_whole &= page.is_whole;
                if page.more {
                    through = through.min(page.through);
                }
                let name: Arc<str> = stream.as_str().into();
                let sent = self.known_keys(read.sink, &stream, &page.rows).await?;
                let rows = page.rows.into_iter();
                items.extend(rows.map(|row| LatestItem::of(row, &name, &sent)));
            }
            last = stream;
        }
        items.sort_by_key(|item| item.seq);
        items.retain(|item| item.seq <= through);
        let mut bytes = 0;
        let fits = items
            .iter()
            .take(read.limit.rows as usize)
            .take_while(|item| {
                let fits = bytes < read.limit.bytes;
                bytes += item.bytes();
                fits
            });
        let count = fits.count();
        if count < items.len() {
            items.truncate(count);
            through = items.last().map_or(place, |item| item.seq);
        }
        Ok(LatestPage {
            items,
            through,
            more: through < head,
            is_whole,
        })
    }

    /// The next rows of a filling, and the keys among them that the sink may know: those without an item are gone. The
    /// last key that was looked at; none: there was none.
    pub async fn latest_page(
        &self,
        read: LatestRead<'_>,
        wanted: impl Fn(&str) -> bool,
        filling: &Filling,
        place: ChangeSeq,
    ) -> Result<(Vec<LatestItem>, Option<(String, String)>), PoolError> {
        let Some(_turn) = self.turn_to_read().await else {
            return Err(PoolError::Closed);
        };
        let (mut stream, mut key) = filling.after.clone();
        loop {
            if !stream.is_empty() {
                let items = self.rows_by_key(read, (&stream, &key), place).await?;
                if let Some(last) = items.last() {
                    let after = (stream.clone(), last.key.clone());
                    let is_wanted = wanted(&stream);
                    let items = items.into_iter().map(|item| match is_wanted {
                        true => item,
                        false => LatestItem {
                            fields: None,
                            ..item
                        },
                    });
                    return Ok((items.collect(), Some(after)));
                }
            }
            match self.stream_of(read, &stream).await? {
                Some(next) => (stream, key) = (next, String::new()),
                None => return Ok((Vec::new(), None)),
            }
        }
    }

    /// Those of the keys that the sink may know.
    async fn known_keys(
        &self,
        sink: &str,
        stream: &str,
        rows: &[ChangedRow],
    ) -> Result<HashSet<String>, PoolError> {
        if rows.is_empty() {
            return Ok(HashSet::new());
        }
        let keys: Vec<&str> = rows.iter().map(|row| &*row.key).collect();
        let sql = "SELECT told.key FROM json_each(?3) AS asked CROSS JOIN told
            WHERE told.sink = ?1 AND told.stream = ?2 AND told.key = asked.value";
        let sent: Vec<String> = sqlx::query_scalar(sql)
            .bind(sink.to_owned())
            .bind(stream.to_owned())
            .bind(serde_json::json!(keys).to_string())
            .fetch_all(&*self.reads)
            .await?;
        Ok(sent.into_iter().collect())
    }

    async fn rows_by_key(
        &self,
        read: LatestRead<'_>,
        (stream, key): (&str, &str),
        place: ChangeSeq,
    ) -> Result<Vec<LatestItem>, PoolError> {
        let now = match read.shown {
            false => "SELECT key, fields, updated_at, seq, request_id FROM items WHERE stream = ?1 AND key > ?2".to_owned(),
            true => format!(
                "SELECT key, fields, updated_at, seq, request_id FROM items WHERE stream = ?1 AND key > ?2 AND {AS_STORED}
                 UNION ALL SELECT key, fields, updated_at, seq, request_id FROM shown WHERE stream = ?1 AND key > ?2 AND fields IS NOT NULL"
            ),
        };
        let sent = "SELECT 1 FROM told WHERE sink = ?3 AND stream = ?1 AND told.key = now.key";
        // One statement: of one moment.
        let sql = format!(
            "SELECT key, fields, updated_at, seq, request_id, EXISTS ({sent}) AS is_sent FROM ({now}) AS now
             UNION ALL SELECT key, NULL, '', ?5, '', TRUE FROM told WHERE sink = ?3 AND stream = ?1 AND key > ?2
                AND NOT EXISTS (SELECT 1 FROM ({now}) AS now WHERE now.key = told.key)
             ORDER BY key LIMIT ?4"
        );
        let rows = sqlx::query(AssertSqlSafe(sql))
            .bind(stream.to_owned())
            .bind(key.to_owned())
            .bind(read.sink.to_owned())
            .bind(read.limit.rows)
            .bind(place.to_column())
            .fetch_all(&*self.reads)
            .await?;
        let name: Arc<str> = stream.into();
        let mut bytes = 0;
        let mut items = Vec::with_capacity(rows.len());
        for row in &rows {
            let item = LatestItem::read(row, &name)?;
            if bytes >= read.limit.bytes {
                break;
            }
            bytes += item.bytes();
            items.push(item);
        }
        Ok(items)
    }

    /// The next stream that has items, had some, or has some that the sink may know.
    async fn stream_of(
        &self,
        read: LatestRead<'_>,
        after: &str,
    ) -> Result<Option<String>, PoolError> {
        let sql = "SELECT min(stream) FROM (
                SELECT min(stream) AS stream FROM items WHERE stream > ?1
                UNION ALL SELECT min(stream) FROM removed WHERE stream > ?1
                UNION ALL SELECT min(stream) FROM shown WHERE stream > ?1
                UNION ALL SELECT min(stream) FROM told WHERE sink = ?2 AND stream > ?1)";
        let next = sqlx::query_scalar(sql)
            .bind(after.to_owned())
            .bind(read.sink.to_owned());
        Ok(next.fetch_one(&*self.reads).await?)
    }

    /// How many items changed after a place that concern a sink.
    pub async fn latest_lag(
        &self,
        sink: &str,
        shown: bool,
        wanted: impl Fn(&str) -> bool,
        place: ChangeSeq,
    ) -> Result<u64, PoolError> {
        let limit = PageLimit {
            rows: u32::MAX,
            bytes: usize::MAX,
        };
        let read = LatestRead { sink, shown, limit };
        let sql = format!(
            "SELECT count(*) FROM ({}) AS changed WHERE bytes IS NOT NULL
                 OR EXISTS (SELECT 1 FROM told WHERE sink = ?4 AND stream = ?1 AND told.key = changed.key)",
            sizes_sql(read.kind(), Keys::Logged)
        );
        let (mut lag, mut last) = (0, String::new());
        while let Some(stream) = self.stream_of(read, &last).await? {
            if wanted(&stream) {
                let count = sqlx::query_scalar::<_, i64>(AssertSqlSafe(sql.clone()))
                    .bind(stream.clone())
                    .bind(place.to_column())
                    .bind(i64::MAX)
                    .bind(sink.to_owned())
                    .bind(i64::MAX);
                lag += count.fetch_one(&*self.reads).await?.unsigned_abs();
            }
            last = stream;
        }
        Ok(lag)
    }
}
