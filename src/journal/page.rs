//! Pages of the request log.
//!
//! Delivery's reports ask for them. A page goes down the index that serves its connector and outcome, and jumps over
//! stretches of other times (`journal/spans.rs`). What no index serves, a text above all, is looked for in steps, and
//! only as far as the page's [`Budget`] reaches.
//!
//! **Invariant**: a page is newest first, and holds every entry that matches from where it begins down to
//! [`LogPage::next`], however it came to end there.

use std::ops::Range;
use std::time::{Duration, Instant};

use sqlx::{QueryBuilder, Row, Sqlite};

use super::log::{COLUMNS, Filter, LogRow, Outcome, read_row};
use super::{Journal, StorageError};

/// Entries looked through in the first step, and in every other one.
const FIRST_STEP: u32 = 200;
const STEP: u32 = 1_000;
/// Positions stay far below.
const HIGHEST: u64 = u64::MAX >> 1;

/// How far a page may look for entries that no index leads to.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    entries: u32,
    until: Instant,
}

impl Budget {
    /// Entries looked through for one page, at most.
    pub const ENTRIES_MAX: u32 = 20_000;
    /// Time that a page has for it; a step that was begun is ended.
    pub const TIME_MAX: Duration = Duration::from_millis(15);

    /// The share of a page that is put together from so many.
    pub fn of(parts: u32) -> Self {
        Self {
            entries: Self::ENTRIES_MAX / parts.max(1),
            until: Instant::now() + Self::TIME_MAX / parts.max(1),
        }
    }

    /// So many entries were looked at.
    pub fn spend(&mut self, entries: usize) {
        let entries = u32::try_from(entries).unwrap_or(u32::MAX);
        self.entries = self.entries.saturating_sub(entries);
    }

    /// Whether the page must end.
    pub fn is_spent(&self) -> bool {
        self.entries == 0 || Instant::now() >= self.until
    }
}

/// A page, newest first.
#[derive(Debug, Default)]
pub struct LogPage {
    /// At most as many as were asked for.
    pub rows: Vec<LogRow>,
    /// What comes after these begins below this position; `None` at the end of the log.
    pub next: Option<u64>,
}

impl Journal {
    /// A page of the log.
    pub async fn log_page(
        &self,
        filter: &Filter,
        limit: u32,
        budget: &mut Budget,
    ) -> Result<LogPage, StorageError> {
        let mut page = LogPage::default();
        let mut filter = filter.clone();
        let mut step = FIRST_STEP;
        while let Some(range) = self.log_range(&filter).await? {
            let wanted = limit.saturating_sub(u32::try_from(page.rows.len()).unwrap_or(u32::MAX));
            // Without conditions of their own the entries are those that the index leads to.
            let looked = match filter.has_conditions() {
                true => Some(self.look(&filter, &range, step).await?),
                false => None,
            };
            let lowest = looked.and_then(|(_, lowest)| lowest);
            let rows = self
                .rows(&filter, lowest.unwrap_or(range.start)..range.end, wanted)
                .await?;
            let full = rows.len() >= wanted as usize;
            page.rows.extend(rows);
            if full {
                page.next = page.rows.last().map(|last| last.seq).or(filter.before);
                return Ok(page);
            }
            let (Some((entries, _)), Some(lowest)) = (looked, lowest) else {
                break;
            };
            if entries < step {
                break;
            }
            budget.spend(entries as usize);
            filter.before = Some(lowest);
            step = STEP;
            if budget.is_spent() {
                page.next = filter.before;
                return Ok(page);
            }
        }
        page.next = None;
        Ok(page)
    }

    /// The entries among these positions that match, newest first.
    pub async fn log_at(&self, filter: &Filter, seqs: &[u64]) -> Result<Vec<LogRow>, StorageError> {
        let mut query = filter.query();
        query
            .push("seq IN (SELECT value FROM json_each(")
            .push_bind(list(seqs))
            .push("))");
        filter.push_conditions(&mut query);
        query.push(" ORDER BY seq DESC");
        self.fetch(query).await
    }

    /// Where entries of the filter's times can be, below its cursor: from the first position to before the last.
    /// `None`: nowhere.
    pub async fn log_range(&self, filter: &Filter) -> Result<Option<Range<u64>>, StorageError> {
        let before = filter.before.unwrap_or(HIGHEST);
        if filter.since_ms.is_none() && filter.until_ms.is_none() {
            return Ok(Some(0..before));
        }
        let (since, until) = (
            filter.since_ms.unwrap_or(0),
            filter.until_ms.unwrap_or(u64::MAX),
        );
        if since > until {
            return Ok(None);
        }
        let (closed, first, last): (i64, Option<i64>, Option<i64>) = sqlx::query_as(
            "SELECT coalesce((SELECT max(last_seq) FROM log_spans), 0), min(first_seq), max(last_seq) FROM log_spans
             WHERE first_seq < ?1 AND min_ms <= ?2 AND max_ms >= ?3",
        )
        .bind(signed(before))
        .bind(signed(until))
        .bind(signed(since))
        .fetch_one(self.reads())
        .await?;
        let behind = closed.unsigned_abs() + 1;
        let first = first.map(i64::unsigned_abs);
        if before > behind {
            return Ok(Some(first.unwrap_or(behind)..before));
        }
        let last = last.map(|last| before.min(last.unsigned_abs() + 1));
        Ok(first.zip(last).map(|(first, last)| first..last))
    }

    /// When the entry at or below a position arrived: Unix time in milliseconds.
    pub async fn log_time(&self, seq: u64) -> Result<Option<u64>, StorageError> {
        let sql = "SELECT received_ms FROM requests WHERE seq <= ? ORDER BY seq DESC LIMIT 1";
        let found: Option<i64> = sqlx::query_scalar(sql)
            .bind(signed(seq))
            .fetch_optional(self.reads())
            .await?;
        Ok(found.map(i64::unsigned_abs))
    }

    /// How many entries a step looks at, and the position of the last.
    async fn look(
        &self,
        filter: &Filter,
        range: &Range<u64>,
        step: u32,
    ) -> Result<(u32, Option<u64>), StorageError> {
        let mut query = QueryBuilder::<Sqlite>::new("SELECT count(*), min(seq) FROM (");
        filter.push_candidates(&mut query, range);
        query
            .push(" ORDER BY seq DESC LIMIT ")
            .push_bind(step)
            .push(")");
        let row = query.build().fetch_one(self.reads()).await?;
        let lowest: Option<i64> = row.try_get(1)?;
        Ok((row.try_get(0)?, lowest.map(i64::unsigned_abs)))
    }

    /// The newest entries that match and lie there.
    async fn rows(
        &self,
        filter: &Filter,
        range: Range<u64>,
        limit: u32,
    ) -> Result<Vec<LogRow>, StorageError> {
        let mut query = filter.query();
        query.push("seq IN (");
        filter.push_candidates(&mut query, &range);
        if !filter.has_conditions() {
            query.push(" ORDER BY seq DESC LIMIT ").push_bind(limit);
        }
        query.push(")");
        filter.push_conditions(&mut query);
        query.push(" ORDER BY seq DESC LIMIT ").push_bind(limit);
        self.fetch(query).await
    }

    async fn fetch(&self, mut query: QueryBuilder<Sqlite>) -> Result<Vec<LogRow>, StorageError> {
        let rows = query.build().fetch_all(self.reads()).await?;
        rows.iter().map(read_row).collect()
    }
}

impl Filter {
    /// Whether entries are left out that [`Filter::push_candidates`] gives.
    fn has_conditions(&self) -> bool {
        self.text.is_some()
            || self.since_ms.is_some()
            || self.until_ms.is_some()
            || (self.connector.is_none() && self.outcome == Some(Outcome::Accepted))
    }

    fn query(&self) -> QueryBuilder<Sqlite> {
        QueryBuilder::new(COLUMNS)
    }

    /// The positions in the range, as an index has them; ready for `ORDER BY seq`.
    fn push_candidates(&self, query: &mut QueryBuilder<Sqlite>, range: &Range<u64>) {
        let end = |query: &mut QueryBuilder<Sqlite>| {
            query.push(" AND seq >= ").push_bind(signed(range.start));
            query.push(" AND seq < ").push_bind(signed(range.end));
        };
        match (&self.connector, self.outcome) {
            (Some(connector), outcome) => {
                // One after the other in the order of positions: SQLite merges them as they come.
                let all = Outcome::ALL.as_slice();
                let outcomes = outcome.as_ref().map_or(all, std::slice::from_ref);
                for (at, outcome) in outcomes.iter().enumerate() {
                    query.push(if at > 0 { " UNION ALL " } else { "" });
                    query
                        .push("SELECT seq FROM requests INDEXED BY requests_by_connector WHERE connector = ")
                        .push_bind(connector.to_string())
                        .push(" AND outcome = ")
                        .push_bind(outcome.code());
                    end(query);
                }
            }
            (None, Some(outcome)) if outcome != Outcome::Accepted => {
                // The first test lets SQLite use the partial index.
                query
                    .push("SELECT seq FROM requests INDEXED BY requests_by_outcome WHERE outcome <> 0 AND outcome = ")
                    .push_bind(outcome.code());
                end(query);
            }
            (None, _) => {
                query.push("SELECT seq FROM requests WHERE 1");
                end(query);
            }
        }
    }

    /// What the entry itself must say. The unary plus keeps SQLite from looking for another index.
    fn push_conditions(&self, query: &mut QueryBuilder<Sqlite>) {
        if let Some(outcome) = self.outcome {
            query.push(" AND +outcome = ").push_bind(outcome.code());
        }
        if let Some(connector) = &self.connector {
            query
                .push(" AND +connector = ")
                .push_bind(connector.to_string());
        }
        if let Some(since) = self.since_ms {
            query.push(" AND received_ms >= ").push_bind(signed(since));
        }
        if let Some(until) = self.until_ms {
            query.push(" AND received_ms <= ").push_bind(signed(until));
        }
        if let Some(text) = &self.text {
            let pattern = like(text);
            for (at, column) in ["errors", "idempotency_key", "key", "client"]
                .iter()
                .enumerate()
            {
                query.push(if at == 0 { " AND (" } else { " OR " });
                query
                    .push(column)
                    .push(" LIKE ")
                    .push_bind(pattern.clone())
                    .push(" ESCAPE '\\'");
            }
            query.push(")");
        }
    }
}

/// The pattern of a text that may stand anywhere.
fn like(text: &str) -> String {
    let mut pattern = String::from("%");
    for character in text.chars() {
        if matches!(character, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern + "%"
}

/// Positions as a JSON array: the text of the statement stays the same, however many there are.
fn list(seqs: &[u64]) -> String {
    let seqs: Vec<String> = seqs.iter().map(u64::to_string).collect();
    format!("[{}]", seqs.join(","))
}

/// SQLite's integers are signed; positions and times stay far below the limit.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
