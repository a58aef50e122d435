//! Search by a text: items by their keys, requests by ids and texts, and all names.
//!
//! The admin API and the pages call it.
//!
//! **Invariant**: a page reads a limited number of rows, whatever is stored. The pages up to the last `next` search
//! everything, each part once.

mod hit;
mod names;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Operator;
use base::clock::Unix;
use base::order::Seq;
use delivery::ReadError;
pub use hit::{SearchHit, item_page};
use hit::{of_item, of_letter, of_request};
use journal::StorageError;
use journal::log::Filter;
use journal::page::Budget;
use pool::{LetterHits, PageLimit};

/// Maximum bytes of a text. A longer text cannot be an item key.
pub const SEARCH_BYTES_MAX: usize = item::flatten::ITEM_KEY_BYTES_MAX;

/// Maximum streams that a page searches for keys.
const STREAMS_MAX: usize = 200;
/// Maximum bytes of items that are read from a stream.
const ITEM_BYTES_MAX: usize = 1 << 20;

#[derive(Debug, Default)]
pub struct SearchPage {
    pub hits: Vec<SearchHit>,
    /// The beginning of the next page; `None`: everything was searched.
    pub next: Option<SearchCursor>,
    /// Of a page that is not full although there is a next one: requests or dead letters were searched back to here.
    pub stopped_at: Option<Unix>,
    /// Why requests were not searched: the database of the cluster, which has them, does not answer.
    pub unread: Option<ReadError>,
}

/// The beginning of a page. The parts are searched in this order. Dead letters and requests come last, because they are
/// searched without an index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchCursor {
    /// Items with exactly this key, in the streams after this one.
    Key(String),
    /// A request with this id.
    Id,
    /// Names after this place.
    Name(String),
    /// Items whose keys begin with the text: from this stream on, after this key of it.
    Prefix(String, String),
    /// Dead letters below this number.
    Letter(Option<i64>),
    /// Requests below this position.
    Log(Option<u64>),
}

impl std::str::FromStr for SearchCursor {
    type Err = serde_json::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        serde_json::from_str(text)
    }
}

impl std::fmt::Display for SearchCursor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = serde_json::to_string(self).map_err(|_| std::fmt::Error)?;
        formatter.write_str(&text)
    }
}

/// Checks a text; the error is the sentence for the client.
///
/// # Errors
/// It is empty, too long, or has a NUL character.
pub fn check_text(text: &str) -> Result<(), String> {
    match text.len() {
        _ if text.contains('\0') => Err("q must not have a NUL character".to_owned()),
        1..=SEARCH_BYTES_MAX => Ok(()),
        length => Err(format!(
            "q has {length} bytes; expected 1 to {SEARCH_BYTES_MAX}"
        )),
    }
}

impl Operator {
    /// A page of hits, at most `limit`. The text must pass [`check_text`].
    ///
    /// # Errors
    /// The files cannot be read.
    pub async fn search(
        &self,
        text: &str,
        cursor: Option<SearchCursor>,
        limit: u32,
    ) -> Result<SearchPage, ReadError> {
        let mut search = Search {
            operator: self,
            text,
            limit: limit as usize,
            page: SearchPage::default(),
        };
        let mut next = Some(cursor.unwrap_or(SearchCursor::Key(String::new())));
        while let Some(cursor) = next.take() {
            if search.is_full() {
                search.page.next = Some(cursor);
                break;
            }
            next = search.step(cursor).await?;
        }
        Ok(search.page)
    }
}

struct Search<'a> {
    operator: &'a Operator,
    text: &'a str,
    limit: usize,
    page: SearchPage,
}

impl Search<'_> {
    fn left(&self) -> usize {
        self.limit.saturating_sub(self.page.hits.len())
    }

    fn is_full(&self) -> bool {
        self.left() == 0
    }

    /// Ends the page here.
    fn end(&mut self, next: SearchCursor) -> Option<SearchCursor> {
        self.page.next = Some(next);
        None
    }

    /// Searches one part, or some of it; returns where to continue.
    async fn step(&mut self, cursor: SearchCursor) -> Result<Option<SearchCursor>, ReadError> {
        match cursor {
            SearchCursor::Key(after) => self.items_with_key(&after).await,
            SearchCursor::Id => self.request().await,
            SearchCursor::Name(after) => Ok(self.names(&after)),
            SearchCursor::Prefix(stream, after) => self.items_with_prefix(stream, after).await,
            SearchCursor::Letter(before) => self.dead_letters(before).await,
            SearchCursor::Log(before) => self.log(before).await,
        }
    }

    /// The names of the streams with items, from this one on.
    fn streams(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
        let sizes = self.operator.pool.sizes();
        let streams = self.operator.catalog.streams();
        let names = streams.iter().map(|stream| &*stream.name);
        let names = names.filter(|name| is_wanted(name) && sizes.of(name).items > 0);
        names.map(str::to_owned).collect()
    }

    async fn items_with_key(&mut self, after: &str) -> Result<Option<SearchCursor>, ReadError> {
        let streams = self.streams(|name| name > after);
        let some = &streams[..streams.len().min(STREAMS_MAX)];
        let names: Vec<&str> = some.iter().map(String::as_str).collect();
        let pool = &self.operator.pool;
        for stream in pool.streams_with_key(&names, self.text).await? {
            if self.is_full() {
                break;
            }
            if let Some(item) = pool.item(&stream, self.text).await? {
                self.page.hits.push(of_item(&stream, &item));
            }
            if self.is_full() {
                return Ok(self.end(SearchCursor::Key(stream)));
            }
        }
        Ok(match some.last().filter(|_| streams.len() > STREAMS_MAX) {
            Some(last) => self.end(SearchCursor::Key(last.clone())),
            None => Some(SearchCursor::Id),
        })
    }

    async fn request(&mut self) -> Result<Option<SearchCursor>, ReadError> {
        if let Ok(id) = Uuid::try_parse(self.text) {
            let found = self.operator.requests.find(id).await;
            if let Some(report) = self.unless_away(found)? {
                self.page.hits.push(of_request(&report));
            }
        }
        Ok(Some(SearchCursor::Name(String::new())))
    }

    /// What was read of the request log; nothing while the database of the cluster does not answer.
    fn unless_away<T: Default>(&mut self, read: Result<T, ReadError>) -> Result<T, ReadError> {
        match read {
            Err(ReadError::Journal(StorageError::Database(error))) if error.passes() => {
                self.page.unread = Some(StorageError::Database(error).into());
                Ok(T::default())
            }
            read => read,
        }
    }

    fn names(&mut self, after: &str) -> Option<SearchCursor> {
        let found = names::found(self.operator, self.text);
        for (place, hit) in found {
            if *place <= *after {
                continue;
            }
            self.page.hits.push(hit);
            if self.is_full() {
                return self.end(SearchCursor::Name(place));
            }
        }
        Some(SearchCursor::Prefix(String::new(), String::new()))
    }

    async fn items_with_prefix(
        &mut self,
        stream: String,
        mut after: String,
    ) -> Result<Option<SearchCursor>, ReadError> {
        let streams = self.streams(|name| *name >= *stream);
        for (number, name) in streams.into_iter().enumerate() {
            if name != stream {
                after.clear();
            }
            if number >= STREAMS_MAX {
                return Ok(self.end(SearchCursor::Prefix(name, after)));
            }
            let limit = PageLimit {
                rows: u32::try_from(self.left()).unwrap_or(u32::MAX),
                bytes: ITEM_BYTES_MAX,
            };
            let pool = &self.operator.pool;
            let items = pool.items_with_prefix(&name, self.text, Some(&after), limit);
            let items = items.await?;
            let hits = items.iter().map(|item| of_item(&name, item));
            self.page.hits.extend(hits);
            let bytes: usize = items.iter().map(|item| item.fields.len()).sum();
            if let Some(last) = items.last()
                && (self.is_full() || bytes >= ITEM_BYTES_MAX)
            {
                return Ok(self.end(SearchCursor::Prefix(name, last.key.clone())));
            }
        }
        Ok(Some(SearchCursor::Letter(None)))
    }

    async fn dead_letters(
        &mut self,
        before: Option<i64>,
    ) -> Result<Option<SearchCursor>, ReadError> {
        let (mut before, mut budget) = (before, Budget::of(1));
        loop {
            let pool = &self.operator.pool;
            let found = pool
                .letters_with_text(self.text, before, self.left())
                .await?;
            self.page.hits.extend(found.hits.iter().map(of_letter));
            let Some((next, at)) = found.next else {
                return Ok(Some(SearchCursor::Log(None)));
            };
            budget.spend(LetterHits::READ_MAX as usize);
            if self.is_full() || budget.is_spent() {
                self.page.stopped_at = Some(at).filter(|_| !self.is_full());
                return Ok(self.end(SearchCursor::Letter(Some(next))));
            }
            before = Some(next);
        }
    }

    async fn log(&mut self, before: Option<u64>) -> Result<Option<SearchCursor>, ReadError> {
        let requests = &self.operator.requests;
        // What has an id of a request was found by that.
        let by_id = Uuid::try_parse(self.text).ok();
        let filter = Filter {
            before: before.map(Seq::new),
            text: Some(self.text.to_owned()),
            ..Filter::default()
        };
        let limit = u32::try_from(self.left()).unwrap_or(u32::MAX);
        let found = requests.page(&filter, &[], limit).await;
        let found = self.unless_away(found)?;
        let others = found.reports.iter();
        let others = others.filter(|report| Some(report.row.entry.request_id) != by_id);
        self.page.hits.extend(others.map(of_request));
        if let Some(next) = found.next {
            self.page.stopped_at = found.looked_back_to;
            return Ok(self.end(SearchCursor::Log(Some(next.get()))));
        }
        Ok(None)
    }
}
