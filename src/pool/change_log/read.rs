//! Reading what changed of a stream, and what changed last.
//!
//! Keys come from the log, and their numbers and sizes are looked up first: the texts of what does not fit into a page are
//! never read.
//!
//! **Invariant**: a page is of one moment, and has every change of its range, with the newest state of each key.

mod sql;

use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Row as _, SqliteConnection};

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
    fn read(row: &SqliteRow) -> Result<Self, PoolError> {
        Ok(Self {
            key: row.try_get("key")?,
            seq: ChangeSeq::from_column(row.try_get("seq")?),
            fields: row.try_get("fields")?,
            updated_at: row.try_get("updated_at")?,
            request_id: row.try_get("request_id")?,
            overridden: row.try_get("overridden")?,
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
    connection: &'a mut SqliteConnection,
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
    async fn fitting(
        &mut self,
        range: &Range<'_>,
        order: Order,
        limit: PageLimit,
    ) -> Result<(Vec<Sized>, bool), PoolError> {
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
        let query = sqlx::query(AssertSqlSafe(sql))
            .bind(self.stream.to_owned())
            .bind(range.after)
            .bind(range.through)
            .bind(limit.rows);
        let query = match &range.keys {
            RangeKeys::Logged { end } => query.bind(*end),
            RangeKeys::Given(keys) => query.bind(serde_json::json!(keys).to_string()),
            RangeKeys::All => query,
        };
        let found = query.fetch_all(&mut *self.connection).await?;
        let (mut fitting, mut bytes) = (Vec::with_capacity(found.len()), 0);
        for row in &found {
            if bytes >= limit.bytes && !fitting.is_empty() {
                return Ok((fitting, false));
            }
            let key: String = row.try_get("key")?;
            let fields: Option<i64> = row.try_get("bytes")?;
            bytes += fields.map_or(key.len(), |bytes| bytes.try_into().unwrap_or_default());
            let seq = row.try_get("seq")?;
            fitting.push(Sized { key, seq });
        }
        Ok((fitting, found.len() < limit.rows as usize))
    }

    async fn log_page(&mut self, after: i64, keys: u32) -> Result<LogPage, PoolError> {
        let page = self.page(PAGE, after, keys.into()).await?;
        let page = page.ok_or(sqlx::Error::RowNotFound)?;
        Ok(LogPage {
            log_begin: page.try_get("log_begin")?,
            floor: page.try_get("floor")?,
            is_changed: page.try_get("is_changed")?,
            end: page.try_get("page_end")?,
        })
    }

    async fn page(
        &mut self,
        sql: &'static str,
        at: i64,
        keys: i64,
    ) -> Result<Option<SqliteRow>, PoolError> {
        let query = sqlx::query(sql).bind(self.stream.to_owned());
        let query = query.bind(at).bind(keys);
        Ok(query.fetch_optional(&mut *self.connection).await?)
    }

    /// What there is of these, in the order of their numbers.
    async fn rows(&mut self, of: &[Sized]) -> Result<Vec<ChangedRow>, PoolError> {
        let seqs = || of.iter().map(|one| one.seq);
        let (Some(first), Some(last)) = (seqs().min(), seqs().max()) else {
            return Ok(Vec::new());
        };
        let keys: Vec<&str> = of.iter().map(|one| &*one.key).collect();
        let rows = sqlx::query(AssertSqlSafe(rows_sql(self.kind)))
            .bind(self.stream.to_owned())
            .bind(first - 1)
            .bind(last)
            .bind(i64::MAX)
            .bind(serde_json::json!(keys).to_string())
            .fetch_all(&mut *self.connection)
            .await?;
        rows.iter().map(ChangedRow::read).collect()
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
        let mut transaction = self.reads.begin().await?;
        let mut moment = Moment {
            connection: &mut transaction,
            stream,
            kind,
        };
        let mut after = position.to_column();
        loop {
            let page = moment.log_page(after, limit.rows).await?;
            let end = page.end.filter(|_| keys.is_none());
            let through = end.unwrap_or(i64::MAX);
            let range = Range {
                after,
                through,
                keys: keys.map_or(RangeKeys::Logged { end: through }, RangeKeys::Given),
            };
            let (fitting, is_all) = match keys.is_some() || page.is_changed {
                true => moment.fitting(&range, Order::Oldest, limit).await?,
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
            let rows = moment.rows(&fitting).await?;
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

    /// The items of a stream that changed last, below a number, newest first.
    pub(crate) async fn newest_rows(
        &self,
        kind: StateKind,
        stream: &str,
        before: Option<ChangeSeq>,
        limit: PageLimit,
    ) -> Result<Vec<ChangedRow>, PoolError> {
        let through = before.map_or(i64::MAX, |before| before.to_column() - 1);
        let mut transaction = self.reads.begin().await?;
        let mut moment = Moment {
            connection: &mut transaction,
            stream,
            kind,
        };
        let (mut fitting, mut is_enough) = (Vec::new(), false);
        let looked_up = LOOKED_UP * i64::from(limit.rows);
        if let Some(page) = moment.page(PAGE_BACK, through, looked_up).await? {
            let after: i64 = page.try_get("page_begin")?;
            let range = Range {
                after,
                through,
                keys: RangeKeys::Logged {
                    end: page.try_get("page_end")?,
                },
            };
            let is_all;
            (fitting, is_all) = moment.fitting(&range, Order::NewestItems, limit).await?;
            is_enough = !is_all || after == 0;
        }
        if !is_enough {
            // Many of the keys have changed again since, or the log is too short.
            let range = Range {
                after: 0,
                through,
                keys: RangeKeys::All,
            };
            (fitting, _) = moment.fitting(&range, Order::NewestItems, limit).await?;
        }
        let mut rows = moment.rows(&fitting).await?;
        rows.reverse();
        Ok(rows)
    }
}
