//! Items that a sink never gets: what wrote them had left the journal when the sink began.
//!
//! Delivery asks when somebody wants to know.
//!
//! **Invariant**: a row counts if any of its fields is of an entry from before the sink's first, whatever was merged since.

use std::sync::Arc;

use rusqlite::OptionalExtension as _;

use super::fills::{FillPage, Filling, Row};
use super::resends::slices_of;
use super::{Pool, PoolError};
use base::order::Seq;

/// Rows of a page.
const ROWS: u32 = 5_000;

impl Pool {
    /// The entry before the first that a sink began with; none: it is not known, or was filled with what the pool had.
    pub async fn began_after(&self, sink: &str) -> Result<Option<Seq>, PoolError> {
        let sql = "SELECT start FROM cursors WHERE sink = ?1
             AND NOT EXISTS (SELECT 1 FROM fills WHERE fills.sink = ?1 AND number > 0)";
        let start = |row: &rusqlite::Row<'_>| row.get(0).map(Seq::from_column);
        Ok(self.reads.first(sql, [sink.to_owned()], start).await?)
    }

    /// Whether a sink began with this filling, so that it was handed nothing before. Blocks.
    ///
    /// # Errors
    /// The data pool cannot be read.
    pub fn begins_with(&self, sink: &str, filling: &Filling) -> Result<bool, PoolError> {
        if filling.fill.number != 1 {
            return Ok(false);
        }
        let sql = "SELECT start = ?2 FROM cursors WHERE sink = ?1";
        let writer = self.lock();
        let mut statement = writer.connection.prepare_cached(sql)?;
        let started = statement.query_row(
            rusqlite::params![sink, filling.through.to_column()],
            |row| row.get(0),
        );
        Ok(started.optional()?.unwrap_or(false))
    }

    /// Some rows that an entry up to `before` wrote, behind the stream and key of `after`, of the streams that are `wanted`.
    pub async fn missing_page(
        &self,
        before: Seq,
        after: &(String, String),
        wanted: impl Fn(&str) -> bool,
    ) -> Result<FillPage, PoolError> {
        let _turn = self.turn_to_read().await;
        let (mut stream, mut key) = after.clone();
        while stream.is_empty() || !wanted(&stream) {
            let Some(next) = self.stream_after(&stream).await? else {
                let (slices, after) = (Vec::new(), None);
                return Ok(FillPage { slices, after });
            };
            (stream, key) = (next, String::new());
        }
        let sql = "SELECT key, fields, updated_at, request_id, accepted_seq, position, version_text, merged IS NOT NULL AS merged,
                iif(typeof(version) = 'integer', version, NULL) AS thousandths
             FROM items WHERE stream = ?1 AND key > ?2 AND (accepted_seq <= ?3 OR (merged IS NOT NULL AND EXISTS
                (SELECT 1 FROM json_each(merged) WHERE json_extract(value, '$.place[0]') <= ?3)))
             ORDER BY key LIMIT ?4";
        let values = (stream.clone(), key, before.to_column(), ROWS);
        let name: Arc<str> = stream.as_str().into();
        let read = self.reads.rows(sql, values, move |row| {
            Row::read(row, &name).map(|row| row.letter)
        });
        let read = read.await?;
        let after = match read.last() {
            Some(last) => Some((stream, last.key.clone())),
            // On with the stream behind it.
            None => (self.stream_after(&stream).await?).map(|next| (next, String::new())),
        };
        let slices = slices_of(&read);
        Ok(FillPage { slices, after })
    }
}
