//! Sinks that follow the changes of the pool: how far each is, what it was sent, and what is new for it.
//!
//! Delivery asks, and hands in a [`LatestStep`] with a settlement. `fills` has the fillings of these sinks, too.
//!
//! **Invariant**: the table `told` has every key that a sink may know: it is there before the sink receives it, and goes
//! after its removal was taken.

mod lookup;
mod row;

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};

use super::change_log::{Keys, StateKind, sizes_sql};
use super::{Filling, PageLimit, Pool, PoolError, Position};
use base::clock::Unix;
use base::order::{ChangeSeq, Epoch};
pub use row::LatestItem;

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
    /// Stream and key of items that are about to be sent to it. Before the call, because a crash after it would leave
    /// an item that nobody removes.
    pub sent: Vec<(Arc<str>, String)>,
    /// The same of items whose removal it has taken. After the call, because a removal that was lost must be sent
    /// again.
    pub gone: Vec<(Arc<str>, String)>,
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
    /// Every removal after the place is still known. If not, the sink is filled again.
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
                let (stream, sink) = (stream.clone(), sink.to_owned());
                let values = (stream, place.to_column(), i64::MAX, sink, i64::MAX);
                let count = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
                let count = self.reads.row(sql.clone(), values, count);
                lag += count.await?.unsigned_abs();
            }
            last = stream;
        }
        Ok(lag)
    }
}
