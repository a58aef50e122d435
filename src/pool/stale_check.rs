//! What of an old request the pool has newer: what must not be overwritten if the request is sent again.
//!
//! `ingest` asks before it sends an accepted request again.
//!
//! **Invariant**: an item counts as newer only if sending it again would change it: the same values again do no harm.

use std::collections::{HashMap, HashSet};

use rusqlite::Row;

use super::{Pool, PoolError};
use item::batch::Entry;

/// Keys that one statement looks up.
const KEYS_MAX: usize = 2_000;

impl Pool {
    /// The keys of an accepted request's items of which the pool holds something else that was accepted later, or that
    /// were removed since. `merges`: updates of the stream leave fields that they do not name. The same value again
    /// counts as nothing newer, because sending it changes nothing.
    pub async fn newer_than(
        &self,
        entry: &Entry,
        merges: bool,
    ) -> Result<HashSet<String>, PoolError> {
        // Of items with one key the last one counts.
        let last: HashMap<&str, &str> = entry
            .items
            .iter()
            .map(|item| (item.key, item.fields))
            .collect();
        let keys: Vec<&str> = last.keys().copied().collect();
        let mut newer = HashSet::new();
        for keys in keys.chunks(KEYS_MAX) {
            let sql = "SELECT asked.value AS key, items.fields AS fields FROM json_each(?3) AS asked
                     JOIN items ON items.stream = ?1 AND items.key = asked.value WHERE items.accepted_seq > ?2
                 UNION ALL SELECT asked.value, NULL FROM json_each(?3) AS asked
                     JOIN removed ON removed.stream = ?1 AND removed.key = asked.value
                     WHERE removed.accepted_seq >= ?2
                     AND NOT EXISTS (SELECT 1 FROM items WHERE items.stream = ?1 AND items.key = asked.value)";
            let keys = serde_json::json!(keys).to_string();
            let values = (entry.stream.to_string(), entry.seq.to_column(), keys);
            let held = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
            let rows: Vec<(String, Option<String>)> = self.reads.rows(sql, values, held).await?;
            for (key, held) in rows {
                let ours = last.get(&*key).copied().unwrap_or_default();
                let same = held.is_some_and(|held| match merges {
                    false => held == ours,
                    true => item::merge(&held, ours) == held,
                });
                if !same {
                    newer.insert(key);
                }
            }
        }
        Ok(newer)
    }
}
