//! Reading what changed of a stream, and what changed last.
//!
//! Keys come from the log, and their numbers and sizes are looked up first: the texts of what does not fit into a page are
//! never read.
//!
//! **Invariant**: a page is of one moment, and has every change of its range, with the newest state of each key.

mod sql;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, Row, params_from_iter};

use crate::{PageLimit, Pool, PoolError};
use base::order::ChangeSeq;
pub(crate) use sql::{Keys, StateKind, rows_sql, sizes_sql};
use sql::{LOOKED_UP, PAGE, PAGE_BACK};

/// What there is of a key.
#[derive(Debug)]
pub(crate) struct ChangedRow {
    pub(crate) key: String,
    pub(crate) seq: ChangeSeq,
    /// None: it is gone.
    pub(crate) fields: Option<String>,
    /// RFC 3339; empty if it is gone.
    pub(crate) updated_at: String,
    /// Empty: no source wrote it.
    pub(crate) request_id: String,
    /// The names of overridden fields, as a JSON array; empty: none.
    pub(crate) overridden: String,
}

impl ChangedRow {
    fn read(row: &Row<'_>) -> Result<Self, rusqlite::Error> {
        Ok(Self {
            key: row.get(0)?,
            seq: ChangeSeq::from_column(row.get(1)?),
            fields: row.get(2)?,
            updated_at: row.get(3)?,
            request_id: row.get(4)?,
            overridden: row.get(5)?,
        })
    }
}

/// Some changes of a stream, in the order of their numbers.
#[derive(Debug)]
pub(crate) struct ChangedRows {
    pub(crate) rows: Vec<ChangedRow>,
    /// Every change of the stream up to here is among them, or was before.
    pub(crate) through: ChangeSeq,
    /// There are changes after `through`.
    pub(crate) more: bool,
    /// Nothing is missing: the log reaches back to the position, and every removal since is known.
    pub(crate) is_whole: bool,
}

/// A key and its number.
struct Sized {
    key: String,
    seq: i64,
}

/// In which order, and of what.
#[derive(Debug, Clone, Copy)]
enum Order {
    Oldest,
    NewestItems,
}

/// A stream at one moment.
struct Moment<'a> {
    connection: &'a Connection,
    stream: &'a str,
    kind: StateKind,
}

/// Numbers above the first and up to the second; and up to which row of the log keys are taken, or which keys.
struct Range<'k> {
    after: i64,
    through: i64,
    keys: RangeKeys<'k>,
}

/// What [`PAGE`] says.
struct LogPage {
    log_begin: i64,
    floor: i64,
    is_changed: bool,
    end: Option<i64>,
}

enum RangeKeys<'k> {
    Logged { end: i64 },
    Given(&'k [String]),
    All,
}

impl Moment<'_> {
    /// What of the range fits into a page, and whether that is all.
    fn fitting(
        &self,
        range: &Range<'_>,
        order: Order,
        limit: PageLimit,
    ) -> Result<(Vec<Sized>, bool), rusqlite::Error> {
        let keys = match &range.keys {
            RangeKeys::Logged { .. } => Keys::Logged,
            RangeKeys::Given(_) => Keys::Given,
            RangeKeys::All => Keys::All,
        };
        let end = match order {
            Order::Oldest => "ORDER BY seq",
            Order::NewestItems => "WHERE bytes IS NOT NULL ORDER BY seq DESC",
        };
        let sizes = sizes_sql(self.kind, keys);
        let sql = format!("SELECT key, seq, bytes FROM ({sizes}) {end} LIMIT ?4");
        let mut values: Vec<Value> = vec![
            self.stream.to_owned().into(),
            range.after.into(),
            range.through.into(),
            limit.rows.into(),
        ];
        match &range.keys {
            RangeKeys::Logged { end } => values.push((*end).into()),
            RangeKeys::Given(keys) => values.push(serde_json::json!(keys).to_string().into()),
            RangeKeys::All => {}
        }
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut found = statement.query(params_from_iter(values))?;
        let (mut fitting, mut bytes) = (Vec::new(), 0);
        while let Some(row) = found.next()? {
            if bytes >= limit.bytes && !fitting.is_empty() {
                return Ok((fitting, false));
            }
            let key: String = row.get(0)?;
            let fields: Option<i64> = row.get(2)?;
            bytes += fields.map_or(key.len(), |bytes| bytes.try_into().unwrap_or_default());
            let seq = row.get(1)?;
            fitting.push(Sized { key, seq });
        }
        let is_all = fitting.len() < limit.rows as usize;
        Ok((fitting, is_all))
    }

    fn log_page(&self, after: i64, keys: u32) -> Result<LogPage, rusqlite::Error> {
        let mut statement = self.connection.prepare_cached(PAGE)?;
        statement.query_row((self.stream, after, keys), |page| {
            Ok(LogPage {
                log_begin: page.get("log_begin")?,
                floor: page.get("floor")?,
                is_changed: page.get("is_changed")?,
                end: page.get("page_end")?,
            })
        })
    }

    /// Where [`PAGE_BACK`] ends and begins; none: the log is empty.
    fn page_back(&self, through: i64, keys: i64) -> Result<Option<(i64, i64)>, rusqlite::Error> {
        let mut statement = self.connection.prepare_cached(PAGE_BACK)?;
        let page = statement.query_row((self.stream, through, keys), |page| {
            Ok((page.get("page_end")?, page.get("page_begin")?))
        });
        page.optional()
    }

    /// What there is of these, in the order of their numbers.
    fn rows(&self, of: &[Sized]) -> Result<Vec<ChangedRow>, rusqlite::Error> {
        let seqs = || of.iter().map(|one| one.seq);
        let (Some(first), Some(last)) = (seqs().min(), seqs().max()) else {
            return Ok(Vec::new());
        };
        let keys: Vec<&str> = of.iter().map(|one| &*one.key).collect();
        let keys = serde_json::json!(keys).to_string();
        let mut statement = self.connection.prepare_cached(&rows_sql(self.kind))?;
        let values = (self.stream, first - 1, last, i64::MAX, keys);
        statement.query_map(values, ChangedRow::read)?.collect()
    }

    /// What changed after a position, or of these keys; `head` is the last number there was before.
    fn changed(
        &self,
        keys: Option<&[String]>,
        position: ChangeSeq,
        head: ChangeSeq,
        limit: PageLimit,
    ) -> Result<ChangedRows, rusqlite::Error> {
        let mut after = position.to_column();
        loop {
            let page = self.log_page(after, limit.rows)?;
            let end = page.end.filter(|_| keys.is_none());
            let through = end.unwrap_or(i64::MAX);
            let range = Range {
                after,
                through,
                keys: keys.map_or(RangeKeys::Logged { end: through }, RangeKeys::Given),
            };
            let (fitting, is_all) = match keys.is_some() || page.is_changed {
                true => self.fitting(&range, Order::Oldest, limit)?,
                false => (Vec::new(), true),
            };
            if let Some(end) = end
                && is_all
                && fitting.is_empty()
            {
                // All of these keys have changed again since.
                after = end;
                continue;
            }
            let rows = self.rows(&fitting)?;
            let last = rows.last().map_or(position, |row| row.seq);
            return Ok(ChangedRows {
                rows,
                through: match (is_all, end) {
                    (false, _) => last,
                    (true, Some(end)) => ChangeSeq::from_column(end),
                    (true, None) => last.max(head),
                },
                more: !is_all || end.is_some(),
                is_whole: position.to_column() >= page.floor
                    && (keys.is_some() || position.to_column() >= page.log_begin),
            });
        }
    }

    /// The items that changed last, up to a number, newest first.
    fn newest(&self, through: i64, limit: PageLimit) -> Result<Vec<ChangedRow>, rusqlite::Error> {
        let (mut fitting, mut is_enough) = (Vec::new(), false);
        let looked_up = LOOKED_UP * i64::from(limit.rows);
        if let Some((end, after)) = self.page_back(through, looked_up)? {
            let range = Range {
                after,
                through,
                keys: RangeKeys::Logged { end },
            };
            let is_all;
            (fitting, is_all) = self.fitting(&range, Order::NewestItems, limit)?;
            is_enough = !is_all || after == 0;
        }
        if !is_enough {
            // Many of the keys have changed again since, or the log is too short.
            let range = Range {
                after: 0,
                through,
                keys: RangeKeys::All,
            };
            (fitting, _) = self.fitting(&range, Order::NewestItems, limit)?;
        }
        let mut rows = self.rows(&fitting)?;
        rows.reverse();
        Ok(rows)
    }
}

impl Pool {
    /// What changed of a stream after a position, or of these keys. The last number is read before the rows, so that no
    /// change of the range is missed.
    pub(crate) async fn changed_rows(
        &self,
        kind: StateKind,
        stream: &str,
        keys: Option<&[String]>,
        position: ChangeSeq,
        limit: PageLimit,
    ) -> Result<ChangedRows, PoolError> {
        // Before the statements begin: they see everything up to here.
        let head = self.changes.head();
        let keys = keys.map(<[String]>::to_vec);
        let page = self.moment(kind, stream, move |moment| {
            moment.changed(keys.as_deref(), position, head, limit)
        });
        page.await
    }

    /// The items of a stream that changed last, below a number, newest first.
    pub(crate) async fn newest_rows(
        &self,
        kind: StateKind,
        stream: &str,
        before: Option<ChangeSeq>,
        limit: PageLimit,
    ) -> Result<Vec<ChangedRow>, PoolError> {
        let through = before.map_or(i64::MAX, |before| before.to_column() - 1);
        let rows = self.moment(kind, stream, move |moment| moment.newest(through, limit));
        rows.await
    }

    async fn moment<T: Send + 'static>(
        &self,
        kind: StateKind,
        stream: &str,
        read: impl FnOnce(&Moment<'_>) -> Result<T, rusqlite::Error> + Send + 'static,
    ) -> Result<T, PoolError> {
        let stream = stream.to_owned();
        let read = self.reads.read(move |connection| {
            let connection = &*connection.unchecked_transaction()?;
            let stream = &*stream;
            read(&Moment {
                connection,
                stream,
                kind,
            })
        });
        Ok(read.await?)
    }
}
