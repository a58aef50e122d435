//! Lists of the admin API, page by page.
//!
//! **Invariant**: a server that gives the same page again is not asked for ever.

use serde_json::Value;

use super::{CallError, Client};
use base::text::percent_encoded;

/// How many entries are asked for at once: dead letters of 1 MB each still fit into an answer.
const PAGE_ENTRIES_MAX: usize = 50;

impl Client {
    /// Reads a list until its end or until there are `limit` entries. `filter` is a part of the query,
    /// `&name=value` each.
    pub async fn list(
        &self,
        path: &str,
        filter: &str,
        limit: usize,
    ) -> Result<Vec<Value>, CallError> {
        let mut entries: Vec<Value> = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = PAGE_ENTRIES_MAX.min(limit - entries.len());
            let envelope = self
                .get(&format!("{path}?limit={page}{filter}{cursor}"))
                .await?;
            let Value::Array(found) = envelope.data else {
                return Err(self.foreign("a list was expected".to_owned()));
            };
            entries.extend(found);
            entries.truncate(limit);
            let next = envelope.next.filter(|_| entries.len() < limit);
            let Some(next) = next else {
                return Ok(entries);
            };
            let next = format!("&cursor={}", percent_encoded(&next));
            if next == cursor {
                return Err(self.foreign("the same page comes again".to_owned()));
            }
            cursor = next;
        }
    }
}
