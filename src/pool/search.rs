//! Streams by the key of an item, and dead letters by their texts.
//!
//! `operate` searches with it.
//!
//! **Invariant**: a call reads a bounded number of rows, which an index leads to, however much the file holds.

use super::{Pool, PoolError};
use base::clock::Unix;

/// A dead letter with a text that was searched for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LetterHit {
    pub sink: String,
    pub stream: String,
    /// The key of its item.
    pub key: String,
    pub reason: String,
    /// When the sink gave up.
    pub at: Unix,
}

/// The hits among some of the dead letters, newest first.
#[derive(Debug, Default)]
pub struct LetterHits {
    pub hits: Vec<LetterHit>,
    /// The dead letters below this number, of this time, were not read; `None`: there are none.
    pub next: Option<(i64, Unix)>,
}

impl LetterHits {
    /// Dead letters that one call reads, because no index leads to a text within a reason.
    pub const READ_MAX: u32 = 200;
}

impl Pool {
    /// The streams among these that have an item with this key, in their order. One lookup for each stream, because the
    /// index begins with the stream.
    ///
    /// # Errors
    /// SQLite's.
    pub async fn streams_with_key(
        &self,
        streams: &[&str],
        key: &str,
    ) -> Result<Vec<String>, PoolError> {
        let sql = "SELECT value FROM json_each(?1) WHERE
             CASE WHEN EXISTS (SELECT 1 FROM shown WHERE stream = value AND key = ?2)
             THEN EXISTS (SELECT 1 FROM shown WHERE stream = value AND key = ?2 AND fields IS NOT NULL)
             ELSE EXISTS (SELECT 1 FROM items WHERE stream = value AND key = ?2) END";
        let streams = serde_json::Value::from(streams).to_string();
        let found = (self.reads).rows(sql, [streams, key.to_owned()], |row| row.get(0));
        Ok(found.await?)
    }

    /// The dead letters below the number `before` that are of an item with this key, or have this text in their reason in
    /// any case of the letters A to Z: at most `limit` of those that it reads.
    ///
    /// # Errors
    /// SQLite's.
    pub async fn letters_with_text(
        &self,
        text: &str,
        before: Option<i64>,
        limit: usize,
    ) -> Result<LetterHits, PoolError> {
        let sql = "SELECT id, sink, stream, key, reason, at_ms, key = ?2 OR instr(lower(reason), lower(?2)) > 0 AS is_hit
             FROM dead_letters WHERE id < ?1 ORDER BY id DESC LIMIT ?3";
        let (before, text) = (before.unwrap_or(i64::MAX), text.to_owned());
        let read = self.reads.read(move |connection| {
            let mut statement = connection.prepare_cached(sql)?;
            let mut rows = statement.query((before, text, LetterHits::READ_MAX))?;
            let (mut found, mut number) = (LetterHits::default(), 0);
            while let Some(row) = rows.next()? {
                number += 1;
                let at = Unix::from_column(row.get("at_ms")?);
                if row.get("is_hit")? {
                    found.hits.push(LetterHit {
                        sink: row.get("sink")?,
                        stream: row.get("stream")?,
                        key: row.get("key")?,
                        reason: row.get("reason")?,
                        at,
                    });
                }
                if found.hits.len() >= limit || number == LetterHits::READ_MAX {
                    found.next = Some((row.get("id")?, at));
                    break;
                }
            }
            Ok::<_, PoolError>(found)
        });
        read.await
    }
}
