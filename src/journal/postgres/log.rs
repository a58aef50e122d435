//! The request log in the database.

use std::ops::Range;

use sqlx::postgres::{PgRow, Postgres};
use sqlx::{QueryBuilder, Row};
use uuid::Uuid;

use super::Node;
use super::text::{read, stored};
use crate::log::{Client, Endpoint, Filter, LogEntry, LogRow, Outcome};
use crate::page::{HIGHEST, Looked, like};
use ::postgres::DatabaseError;
use base::clock::Unix;
use base::order::Seq;

const COLUMNS: &str = "SELECT seq, request_id, received_ms, connector, stream, outcome, endpoint, http_status, items, bytes, key, \
     client, item_key, idempotency_key, duplicate_of, errors, headers, sent_again_from, sender FROM requests WHERE ";
/// Clocks of nodes differ by less, and a request that arrived waits less until it is stored.
const TIMES_DIFFER_MAX_MS: i64 = 10 * 60_000;

impl Node {
    pub(crate) async fn log_get(&self, request_id: Uuid) -> Result<Option<LogRow>, DatabaseError> {
        let mut query = QueryBuilder::<Postgres>::new(COLUMNS);
        query.push("request_id = ").push_bind(request_id);
        query.push(" LIMIT 1");
        let row = self.log_reads.first(query.build()).await?;
        row.as_ref().map(read_row).transpose()
    }

    pub(crate) async fn sent_again_as(&self, request_id: Uuid) -> Result<Vec<Uuid>, DatabaseError> {
        let sql =
            "SELECT request_id FROM requests WHERE sent_again_from = $1 ORDER BY seq DESC LIMIT 20";
        let rows = self
            .log_reads
            .all(sqlx::query(sql).bind(request_id))
            .await?;
        let ids = rows.iter().map(|row| row.try_get(0));
        Ok(ids.collect::<Result<_, _>>()?)
    }

    pub(crate) async fn oldest_logged(&self) -> Result<Option<Seq>, DatabaseError> {
        let query = sqlx::query("SELECT seq FROM requests ORDER BY seq LIMIT 1");
        Ok(self.seqs(query).await?.pop())
    }

    pub(crate) async fn newest_logged(&self) -> Result<Seq, DatabaseError> {
        let query = sqlx::query("SELECT seq FROM requests ORDER BY seq DESC LIMIT 1");
        Ok(self.seqs(query).await?.pop().unwrap_or_default())
    }

    pub(crate) async fn log_connectors(&self) -> Result<Vec<String>, DatabaseError> {
        // A step for each name, however many requests there are.
        let sql = "WITH RECURSIVE names (name) AS (
                 (SELECT connector FROM requests WHERE connector > '' ORDER BY connector LIMIT 1)
                 UNION ALL SELECT (SELECT connector FROM requests WHERE connector > name ORDER BY connector LIMIT 1)
                     FROM names WHERE name IS NOT NULL
             ) SELECT name FROM names WHERE name IS NOT NULL ORDER BY 1 LIMIT 1000";
        let rows = self.log_reads.all(sqlx::query(sql)).await?;
        let names = rows.iter().map(|row| row.try_get(0).map(read));
        Ok(names.collect::<Result<_, _>>()?)
    }

    pub(crate) async fn log_has_connector(&self, name: &str) -> Result<bool, DatabaseError> {
        let query = sqlx::query("SELECT FROM requests WHERE connector = $1 LIMIT 1");
        let row = self.log_reads.first(query.bind(stored(name))).await?;
        Ok(row.is_some())
    }

    pub(crate) async fn log_at(
        &self,
        filter: &Filter,
        seqs: &[Seq],
    ) -> Result<Vec<LogRow>, DatabaseError> {
        let numbers: Vec<i64> = seqs.iter().map(|seq| seq.to_column()).collect();
        let mut query = QueryBuilder::<Postgres>::new(COLUMNS);
        query.push("seq = ANY (").push_bind(numbers).push(")");
        self.fetch_log(filter, query, u32::MAX).await
    }

    pub(crate) async fn log_range(
        &self,
        filter: &Filter,
    ) -> Result<Option<Range<Seq>>, DatabaseError> {
        let before = filter.before.unwrap_or(HIGHEST);
        if filter.since.is_none() && filter.until.is_none() {
            return Ok(Some(Seq::MIN..before));
        }
        let since = filter.since.map_or(i64::MIN, Unix::to_column);
        let until = filter.until.map_or(i64::MAX, Unix::to_column);
        if since > until {
            return Ok(None);
        }
        // Times rise with positions, but for what clocks differ: a search finds about where they are.
        let first = match filter.since {
            Some(_) => {
                self.position(since.saturating_sub(TIMES_DIFFER_MAX_MS))
                    .await?
            }
            None => Seq::MIN,
        };
        let end = match filter.until {
            Some(_) => {
                self.position(until.saturating_add(TIMES_DIFFER_MAX_MS))
                    .await?
            }
            None => HIGHEST,
        };
        Ok(Some(first..before.min(end + 1)))
    }

    pub(crate) async fn log_time(&self, seq: Seq) -> Result<Option<Unix>, DatabaseError> {
        let sql = "SELECT received_ms FROM requests WHERE seq <= $1 ORDER BY seq DESC LIMIT 1";
        let row = self
            .log_reads
            .first(sqlx::query(sql).bind(seq.to_column()))
            .await?;
        let time = row.map(|row| row.try_get(0).map(Unix::from_column));
        Ok(time.transpose()?)
    }

    /// The highest position whose request came at or before then, by halves; 0: none did. By halves, because the log
    /// has no index by time.
    async fn position(&self, at: i64) -> Result<Seq, DatabaseError> {
        let sql = "SELECT coalesce(min(seq), 0), coalesce(max(seq), 0) FROM requests";
        let Some(row) = self.log_reads.first(sqlx::query(sql)).await? else {
            return Ok(Seq::MIN);
        };
        let end = |at| row.try_get::<i64, _>(at);
        let (mut low, mut high) = (end(0)? - 1, end(1)?);
        let sql = "SELECT seq, received_ms FROM requests WHERE seq >= $1 ORDER BY seq LIMIT 1";
        while low < high {
            let middle = low + (high - low + 1) / 2;
            let row = self.log_reads.first(sqlx::query(sql).bind(middle)).await?;
            let Some(row) = row else {
                high = middle - 1;
                continue;
            };
            let number = |at| row.try_get::<i64, _>(at);
            match number(1)? <= at {
                true => low = number(0)?,
                false => high = middle - 1,
            }
        }
        Ok(Seq::from_column(low.max(0)))
    }

    /// Looks at so many candidates; at most so many entries are the answer.
    pub(crate) async fn look(
        &self,
        filter: &Filter,
        range: &Range<Seq>,
        candidates: u32,
        limit: u32,
    ) -> Result<Looked, DatabaseError> {
        let mut query = QueryBuilder::<Postgres>::new(
            "SELECT count(*), min(seq) FROM (SELECT seq FROM requests WHERE seq >= ",
        );
        query.push_bind(range.start.to_column());
        query.push(" AND seq < ").push_bind(range.end.to_column());
        push_marks(filter, &mut query);
        query
            .push(" ORDER BY seq DESC LIMIT ")
            .push_bind(i64::from(candidates));
        query.push(") AS part");
        let Some(row) = self.log_reads.first(query.build()).await? else {
            return Ok(Looked::default());
        };
        let count: i64 = row.try_get(0)?;
        let Some(lowest) = row.try_get::<Option<i64>, _>(1)? else {
            return Ok(Looked::default());
        };
        let mut query = QueryBuilder::<Postgres>::new(COLUMNS);
        query.push("seq >= ").push_bind(lowest);
        query.push(" AND seq < ").push_bind(range.end.to_column());
        Ok(Looked {
            candidates: u32::try_from(count).unwrap_or(u32::MAX),
            lowest: Some(Seq::from_column(lowest)),
            rows: self.fetch_log(filter, query, limit).await?,
        })
    }

    /// The newest of the entries that the query gives and the filter lets pass.
    async fn fetch_log(
        &self,
        filter: &Filter,
        mut query: QueryBuilder<Postgres>,
        limit: u32,
    ) -> Result<Vec<LogRow>, DatabaseError> {
        push_marks(filter, &mut query);
        push_conditions(filter, &mut query);
        query
            .push(" ORDER BY seq DESC LIMIT ")
            .push_bind(i64::from(limit));
        let rows = self.log_reads.all(query.build()).await?;
        rows.iter().map(read_row).collect::<Result<_, _>>()
    }
}

/// What an index leads to.
fn push_marks(filter: &Filter, query: &mut QueryBuilder<Postgres>) {
    if let Some(outcome) = filter.outcome {
        let code = i16::try_from(outcome.code()).unwrap_or_default();
        query.push(" AND outcome = ").push_bind(code);
        if outcome != Outcome::Accepted {
            // So that the planner sees that the index of what was not accepted will do.
            query.push(" AND outcome <> 0");
        }
    }
    if let Some(connector) = &filter.connector {
        query
            .push(" AND connector = ")
            .push_bind(stored(connector).into_owned());
    }
}

/// What the entry itself must say.
fn push_conditions(filter: &Filter, query: &mut QueryBuilder<Postgres>) {
    if let Some(since) = filter.since {
        query
            .push(" AND received_ms >= ")
            .push_bind(since.to_column());
    }
    if let Some(until) = filter.until {
        query
            .push(" AND received_ms <= ")
            .push_bind(until.to_column());
    }
    if let Some(text) = &filter.text {
        let pattern = like(&stored(text));
        let columns = ["errors", "idempotency_key", "key", "client", "delivery"];
        for (at, column) in columns.iter().enumerate() {
            query.push(if at == 0 { " AND (" } else { " OR " });
            query
                .push(column)
                .push(" ILIKE ")
                .push_bind(pattern.clone());
        }
        query.push(")");
    }
}

fn read_row(row: &PgRow) -> Result<LogRow, DatabaseError> {
    let text = |name: &str| -> Result<String, sqlx::Error> { row.try_get(name).map(read) };
    let optional = |name: &str| -> Result<Option<String>, sqlx::Error> {
        let text: Option<String> = row.try_get(name)?;
        Ok(text.map(read))
    };
    let small = |name: &str| row.try_get::<i16, _>(name);
    let parse = || -> Result<LogRow, sqlx::Error> {
        Ok(LogRow {
            seq: Seq::from_column(row.try_get("seq")?),
            duplicate_of: row.try_get("duplicate_of")?,
            entry: LogEntry {
                request_id: row.try_get("request_id")?,
                received_at: Unix::from_column(row.try_get("received_ms")?),
                connector: text("connector")?.into(),
                stream: text("stream")?.into(),
                outcome: Outcome::from_code(i64::from(small("outcome")?)),
                endpoint: Endpoint::from_code(i64::from(small("endpoint")?)),
                http_status: small("http_status")?.unsigned_abs(),
                items: row.try_get::<i32, _>("items")?.unsigned_abs(),
                bytes: row.try_get::<i64, _>("bytes")?.unsigned_abs(),
                key: text("key")?.into(),
                client: Client::from_text(&text("client")?),
                item_key: optional("item_key")?.map(Into::into),
                idempotency_key: optional("idempotency_key")?.map(Into::into),
                error: optional("errors")?.map(Into::into),
                headers: optional("headers")?.map(Into::into),
                sent_again_from: row.try_get("sent_again_from")?,
                // What cannot be read says nothing.
                sender: optional("sender")?.and_then(|json| serde_json::from_str(&json).ok()),
            },
        })
    };
    Ok(parse()?)
}
