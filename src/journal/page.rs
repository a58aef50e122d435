//! Pages of the request log.
//!
//! Delivery's reports ask for them. What neither positions nor marks lead to, a text above all, is looked for in steps, and
//! only as far as the page's [`Budget`] reaches.
//!
//! **Invariant**: a page is newest first, and holds every entry that matches from where it begins down to
//! [`LogPage::next`], however it came to end there.

use std::ops::Range;
use std::time::{Duration, Instant};

use super::log::{Filter, LogRow, Outcome};
use super::postgres::asked;
use super::{Engine, Journal, StorageError};
use base::clock::Unix;
use base::order::Seq;

/// Entries looked through in the first step, and in every other one. The first is small, because a page may need no
/// more.
const FIRST_STEP: u32 = 200;
const STEP: u32 = 1_000;
/// Positions stay far below.
pub(crate) const HIGHEST: Seq = Seq::new(u64::MAX >> 1);

/// How far a page may look for entries that nothing leads to.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    pub(crate) entries: u32,
    pub(crate) until: Instant,
}

impl Budget {
    /// Entries looked through for one page, at most.
    pub const ENTRIES_MAX: u32 = 20_000;
    /// Time that a page has for it; a step that was begun is ended. Connections for reading are few, so no page may
    /// hold one for long.
    pub const TIME_MAX: Duration = Duration::from_millis(15);

    /// The share of a page that is put together from so many. Otherwise a page of many parts would take many times as
    /// long.
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
    pub next: Option<Seq>,
}

/// What a step came to.
#[derive(Default)]
pub(crate) struct Looked {
    /// How many there were, and the position of the last.
    pub(crate) candidates: u32,
    pub(crate) lowest: Option<Seq>,
    /// Those that match.
    pub(crate) rows: Vec<LogRow>,
}

impl Filter {
    /// Whether candidates are left out.
    fn has_conditions(&self) -> bool {
        self.text.is_some()
            || self.since.is_some()
            || self.until.is_some()
            || (self.connector.is_none() && self.outcome == Some(Outcome::Accepted))
    }
}

/// The pattern of a text that may stand anywhere.
pub(crate) fn like(text: &str) -> String {
    let mut pattern = String::from("%");
    for character in text.chars() {
        if matches!(character, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern + "%"
}

impl Journal {
    /// A page of the entries that match, at most `limit` of them.
    ///
    /// # Errors
    /// SQLite's, or the database's.
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
            // Without conditions of their own the entries are the candidates.
            let conditions = filter.has_conditions();
            let looked_at = if conditions { step } else { wanted };
            let looked = self.look(&filter, &range, looked_at, wanted).await?;
            let full = looked.rows.len() >= wanted as usize;
            page.rows.extend(looked.rows);
            if full {
                page.next = page.rows.last().map(|last| last.seq).or(filter.before);
                return Ok(page);
            }
            let Some(lowest) = looked.lowest.filter(|_| looked.candidates >= looked_at) else {
                break;
            };
            filter.before = Some(lowest);
            if conditions {
                budget.spend(looked.candidates as usize);
                step = STEP;
            }
            if budget.is_spent() {
                page.next = filter.before;
                return Ok(page);
            }
        }
        page.next = None;
        Ok(page)
    }

    /// Looks at so many candidates; at most so many entries are the answer.
    async fn look(
        &self,
        filter: &Filter,
        range: &Range<Seq>,
        candidates: u32,
        limit: u32,
    ) -> Result<Looked, StorageError> {
        match &self.engine {
            Engine::File(file) => file.look(filter, range, candidates, limit).await,
            Engine::Postgres(database) => {
                asked(database.look(filter, range, candidates, limit)).await
            }
        }
    }

    /// The entries among these positions that match, newest first.
    pub async fn log_at(&self, filter: &Filter, seqs: &[Seq]) -> Result<Vec<LogRow>, StorageError> {
        match &self.engine {
            Engine::File(file) => file.log_at(filter, seqs).await,
            Engine::Postgres(database) => asked(database.log_at(filter, seqs)).await,
        }
    }

    /// Where entries of the filter's times can be, below its cursor: from the first position to before the last.
    /// `None`: nowhere.
    pub async fn log_range(&self, filter: &Filter) -> Result<Option<Range<Seq>>, StorageError> {
        match &self.engine {
            Engine::File(file) => file.log_range(filter).await,
            Engine::Postgres(database) => asked(database.log_range(filter)).await,
        }
    }

    /// When the entry at or below a position arrived.
    pub async fn log_time(&self, seq: Seq) -> Result<Option<Unix>, StorageError> {
        match &self.engine {
            Engine::File(file) => file.log_time(seq).await,
            Engine::Postgres(database) => asked(database.log_time(seq)).await,
        }
    }
}
