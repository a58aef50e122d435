//! Reading what changed of a stream, and what changed last.
//!
//! Keys come from the log, and their numbers and sizes are looked up first: the texts of what does not fit into a page are
//! never read.
//!
//! **Invariant**: a page is of one moment, and has every change of its range, with the newest state of each key.

use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Row as _, SqliteConnection};

use crate::items::{AS_STORED, GONE};
use crate::{PageLimit, Pool, PoolError};
use base::order::ChangeSeq;

/// Removals of items that are not back: an update that overwrites without a look leaves the row of the removal, and only
/// the item is the newest.
const NOT_BACK: &str =
    "NOT EXISTS (SELECT 1 FROM items WHERE items.stream = ?1 AND items.key = removed.key)";
/// Keys of the log that are looked up for each row of a page of the newest items: some were overwritten since.
const LOOKED_UP: i64 = 4;
/// Where the log of a stream begins, up to where removals may be forgotten, whether anything changed after the number `?2`,
/// and the row that ends a page of about `?3` keys behind it.
const PAGE: &str = "SELECT
    coalesce((SELECT previous FROM change_log WHERE stream = ?1 ORDER BY seq LIMIT 1), 0) AS log_begin,
    (SELECT floor FROM history) AS floor,
    EXISTS (SELECT 1 FROM change_log WHERE stream = ?1 AND seq > ?2) AS is_changed,
    (SELECT seq FROM change_log WHERE stream = ?1 AND seq > ?2 AND total >= ?3 + (
        SELECT total - json_array_length(keys) FROM change_log WHERE stream = ?1 AND seq > ?2 ORDER BY seq LIMIT 1)
     ORDER BY seq LIMIT 1) AS page_end";
/// The row that covers the number `?2`, or the last one, and where about `?3` keys of it and of those before begin; no row
/// of an empty log.
const PAGE_BACK: &str = "WITH covering AS (
        SELECT * FROM (SELECT seq, total FROM change_log WHERE stream = ?1 AND seq >= ?2 ORDER BY seq LIMIT 1)
        UNION ALL SELECT * FROM (SELECT seq, total FROM change_log WHERE stream = ?1 ORDER BY seq DESC LIMIT 1)
        LIMIT 1)
    SELECT covering.seq AS page_end, coalesce(
        (SELECT seq FROM change_log WHERE stream = ?1 AND seq <= covering.seq AND total <= covering.total - ?3 ORDER BY seq DESC LIMIT 1),
        (SELECT previous FROM change_log WHERE stream = ?1 ORDER BY seq LIMIT 1)) AS page_begin
    FROM covering";

/// Whose word counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StateKind {
    /// What sources say.
    Source,
    /// What is shown: with what operators put over it.
    Shown,
}

/// Which keys are looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keys {
    /// Those of the rows of the log behind `?2`, up to the row `?5`.
    Logged,
    /// Those of the JSON array `?5`.
    Given,
    /// All: the whole stream is read.
    All,
}

impl Keys {
    fn wanted(self) -> &'static str {
        match self {
            Self::Logged => {
                "WITH wanted (key) AS MATERIALIZED (
                     SELECT DISTINCT one.value FROM change_log, json_each(change_log.keys) AS one
                     WHERE change_log.stream = ?1 AND change_log.seq > ?2 AND change_log.seq <= ?5)"
            }
            // The join has each key looked up. With `key IN` SQLite reads the whole stream.
            Self::Given => {
                "WITH wanted (key) AS MATERIALIZED (SELECT DISTINCT value FROM json_each(?5))"
            }
            Self::All => "",
        }
    }

    /// The rows of a table with these keys whose numbers are above `?2` and not above `?3`.
    fn of(self, table: &str) -> String {
        let range = format!("{table}.stream = ?1 AND {table}.seq > ?2 AND {table}.seq <= ?3");
        match self {
            Self::All => format!("{table} WHERE {range}"),
            _ => format!("wanted CROSS JOIN {table} WHERE {table}.key = wanted.key AND {range}"),
        }
    }
}

/// `columns` of items and removals: of the tables `items`, `removed` and `shown`.
fn union(kind: StateKind, keys: Keys, columns: [&str; 3]) -> String {
    let [of_items, of_removed, of_shown] = columns;
    let (items, removed) = (keys.of("items"), keys.of("removed"));
    match kind {
        StateKind::Source => format!(
            "SELECT {of_items} FROM {items}
             UNION ALL SELECT {of_removed} FROM {removed} AND {NOT_BACK}"
        ),
        StateKind::Shown => format!(
            "SELECT {of_items} FROM {items} AND {AS_STORED}
             UNION ALL SELECT {of_removed} FROM {removed} AND {GONE} AND {NOT_BACK}
             UNION ALL SELECT {of_shown} FROM {}",
            keys.of("shown")
        ),
    }
}

/// Keys, numbers and the bytes of the fields, none of a removal. Parentheses may be put around it.
pub(crate) fn sizes_sql(kind: StateKind, keys: Keys) -> String {
    let columns = [
        "items.key, items.seq, octet_length(items.fields) AS bytes",
        "removed.key, removed.seq, NULL",
        "shown.key, shown.seq, octet_length(shown.fields)",
    ];
    format!("{} {}", keys.wanted(), union(kind, keys, columns))
}

/// All that is told of a key.
pub(crate) fn rows_sql(kind: StateKind) -> String {
    let columns = [
        "items.key, items.seq AS seq, items.fields, items.updated_at, items.request_id, '' AS overridden",
        "removed.key, removed.seq, NULL, '', '', ''",
        "shown.key, shown.seq, shown.fields, shown.updated_at, shown.request_id, shown.overridden",
    ];
    let keys = Keys::Given;
    format!(
        "{} {} ORDER BY seq LIMIT ?4",
        keys.wanted(),
        union(kind, keys, columns)
    )
}

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
    /// What changed of a stream after a position, or of these keys.
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
