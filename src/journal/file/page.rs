//! Pages of the request log.
//!
//! Delivery's reports ask for them. A page goes down the marks of its connector and outcome (`journal/file/segment_index.rs`), and
//! jumps over stretches of other times (`journal/file/segments.rs`). What neither leads to, a text above all, is looked for in
//! steps, and only as far as the page's [`Budget`] reaches.
//!
//! **Invariant**: a page is newest first, and holds every entry that matches from where it begins down to
//! [`LogPage::next`], however it came to end there.

use std::ops::Range;

use rusqlite::{Connection, Error};

use super::File;
use super::log::{COLUMNS, read_row};
use super::segment_index::{self, CLOSED};
use crate::StorageError;
use crate::log::{Filter, LogRow, Outcome};
use crate::page::{HIGHEST, Looked, like};
use base::clock::Unix;
use base::order::Seq;
use sqlite::SqlText;

impl File {
    pub(crate) async fn log_at(
        &self,
        filter: &Filter,
        seqs: &[Seq],
    ) -> Result<Vec<LogRow>, StorageError> {
        let (filter, seqs) = (filter.clone(), seqs.to_vec());
        let read =
            (self.reads).read(move |connection| rows_at(connection, &filter, &seqs, u32::MAX));
        Ok(read.await?)
    }

    pub(crate) async fn log_range(
        &self,
        filter: &Filter,
    ) -> Result<Option<Range<Seq>>, StorageError> {
        let before = filter.before.unwrap_or(HIGHEST);
        if filter.since.is_none() && filter.until.is_none() {
            return Ok(Some(Seq::MIN..before));
        }
        let (since, until) = (
            filter.since.unwrap_or(Unix::MIN),
            filter.until.unwrap_or(Unix::MAX),
        );
        if since > until {
            return Ok(None);
        }
        let sql = format!(
            "SELECT {CLOSED}, min(first_seq), max(last_seq) FROM log_spans
             WHERE first_seq < ?1 AND min_ms <= ?2 AND max_ms >= ?3"
        );
        let values = [before.to_column(), until.to_column(), since.to_column()];
        let spans = (self.reads).row(sql, values, |row| {
            Ok((
                row.get::<_, i64>(0)?,
                row.get::<_, Option<i64>>(1)?,
                row.get::<_, Option<i64>>(2)?,
            ))
        });
        let (closed, first, last) = spans.await?;
        let behind = Seq::from_column(closed) + 1;
        let first = first.map(Seq::from_column);
        if before > behind {
            return Ok(Some(first.unwrap_or(behind)..before));
        }
        let last = last.map(|last| before.min(Seq::from_column(last) + 1));
        Ok(first.zip(last).map(|(first, last)| first..last))
    }

    pub(crate) async fn log_time(&self, seq: Seq) -> Result<Option<Unix>, StorageError> {
        let sql = "SELECT received_ms FROM requests WHERE seq <= ? ORDER BY seq DESC LIMIT 1";
        let found = (self.reads).first(sql, [seq.to_column()], |row| row.get(0));
        Ok(found.await?.map(Unix::from_column))
    }

    /// Looks at so many candidates; at most so many entries are the answer.
    pub(crate) async fn look(
        &self,
        filter: &Filter,
        range: &Range<Seq>,
        candidates: u32,
        limit: u32,
    ) -> Result<Looked, StorageError> {
        let (filter, range) = (filter.clone(), range.clone());
        let read = (self.reads)
            .read(move |connection| look(connection, &filter, &range, candidates, limit));
        Ok(read.await?)
    }
}

fn look(
    connection: &Connection,
    filter: &Filter,
    range: &Range<Seq>,
    candidates: u32,
    limit: u32,
) -> Result<Looked, Error> {
    if let Some((connector, outcomes)) = filter.marked() {
        let many = candidates as usize;
        let seqs = segment_index::find(connection, connector, outcomes, range, true, many)?;
        return Ok(Looked {
            candidates: u32::try_from(seqs.len()).unwrap_or(u32::MAX),
            lowest: seqs.last().copied(),
            rows: rows_at(connection, filter, &seqs, limit)?,
        });
    }
    let (start, end) = (range.start.to_column(), range.end.to_column());
    let mut statement = connection.prepare_cached(
        "SELECT count(*), min(seq) FROM (
             SELECT seq FROM requests WHERE seq >= ?1 AND seq < ?2 ORDER BY seq DESC LIMIT ?3)",
    )?;
    let (candidates, lowest) = statement.query_row((start, end, candidates), |row| {
        Ok((row.get(0)?, row.get::<_, Option<i64>>(1)?))
    })?;
    let Some(lowest) = lowest else {
        return Ok(Looked::default());
    };
    let mut query = SqlText::new(COLUMNS);
    query.push("seq >= ").push_value(lowest);
    query.push(" AND seq < ").push_value(end);
    Ok(Looked {
        candidates,
        lowest: Some(Seq::from_column(lowest)),
        rows: fetch(connection, filter, query, limit)?,
    })
}

fn rows_at(
    connection: &Connection,
    filter: &Filter,
    seqs: &[Seq],
    limit: u32,
) -> Result<Vec<LogRow>, Error> {
    let mut query = SqlText::new(COLUMNS);
    query
        .push("seq IN (SELECT value FROM json_each(")
        .push_value(list(seqs))
        .push("))");
    fetch(connection, filter, query, limit)
}

/// The newest of the entries that the query gives and the filter lets pass.
fn fetch(
    connection: &Connection,
    filter: &Filter,
    mut query: SqlText,
    limit: u32,
) -> Result<Vec<LogRow>, Error> {
    filter.push_conditions(&mut query);
    query.push(" ORDER BY seq DESC LIMIT ").push_value(limit);
    query.rows(connection, read_row)
}

impl Filter {
    /// Whose marks lead to the candidates; none: they are all entries. Accepted ones of all connectors have no marks,
    /// because these would name nearly every entry.
    fn marked(&self) -> Option<(Option<&str>, &[Outcome])> {
        let outcomes = self.outcome.as_ref().map(std::slice::from_ref);
        match (&self.connector, self.outcome) {
            (Some(connector), _) => Some((Some(connector), outcomes.unwrap_or(&Outcome::ALL))),
            (None, None | Some(Outcome::Accepted)) => None,
            (None, Some(_)) => outcomes.map(|outcomes| (None, outcomes)),
        }
    }

    /// What the entry itself must say.
    fn push_conditions(&self, query: &mut SqlText) {
        if let Some(outcome) = self.outcome {
            query.push(" AND outcome = ").push_value(outcome.code());
        }
        if let Some(connector) = &self.connector {
            query
                .push(" AND connector = ")
                .push_value(connector.to_string());
        }
        if let Some(since) = self.since {
            query
                .push(" AND received_ms >= ")
                .push_value(since.to_column());
        }
        if let Some(until) = self.until {
            query
                .push(" AND received_ms <= ")
                .push_value(until.to_column());
        }
        if let Some(text) = &self.text {
            let pattern = like(text);
            let delivery = "json_extract(sender, '$.delivery')";
            let columns = ["errors", "idempotency_key", "key", "client", delivery];
            for (at, column) in columns.iter().enumerate() {
                query.push(if at == 0 { " AND (" } else { " OR " });
                query
                    .push(column)
                    .push(" LIKE ")
                    .push_value(pattern.clone())
                    .push(" ESCAPE '\\'");
            }
            query.push(")");
        }
    }
}

/// Positions as a JSON array: the text of the statement stays the same, however many there are. Otherwise each count of
/// positions would be another statement to prepare.
fn list(seqs: &[Seq]) -> String {
    let seqs: Vec<String> = seqs.iter().map(Seq::to_string).collect();
    format!("[{}]", seqs.join(","))
}

#[cfg(test)]
pub(crate) mod tests;
