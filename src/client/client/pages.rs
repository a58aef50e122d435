//! Lists of the admin API, which are read in pages.
//!
//! **Invariant**: reading ends even if a server returns the same page again.

use serde::de::DeserializeOwned;

use super::{CallError, Client, Envelope};
use base::text::percent_encoded;

/// Entries per page: dead letters of 1 MB each still fit into a response.
const PAGE_ENTRIES_MAX: usize = 50;

impl Client {
    /// Reads a list until its end or until there are `limit` entries. `filter` is a part of the query,
    /// `&name=value` each.
    pub async fn list<T: DeserializeOwned>(
        &self,
        path: &str,
        filter: &str,
        limit: usize,
    ) -> Result<Vec<T>, CallError> {
        let mut entries: Vec<T> = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = PAGE_ENTRIES_MAX.min(limit - entries.len());
            let found: Envelope<Vec<T>> = self
                .page(&format!("{path}?limit={page}{filter}{cursor}"))
                .await?;
            entries.extend(found.data);
            entries.truncate(limit);
            let next = found.next.filter(|_| entries.len() < limit);
            let Some(next) = next else {
                return Ok(entries);
            };
            let next = format!("&cursor={}", percent_encoded(&next));
            if next == cursor {
                return Err(self.foreign("the server sent the same page again".to_owned()));
            }
            cursor = next;
        }
    }
}
