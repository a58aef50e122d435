//! Rows of the pool, with whether a sink may know them.
//!
//! **Invariant**: what the sink may know and is gone is among them.

use std::collections::HashSet;
use std::sync::Arc;

use super::LatestRead;
use super::row::LatestItem;
use crate::change_log::ChangedRow;
use crate::items::AS_STORED;
use crate::{Pool, PoolError};
use base::order::ChangeSeq;

impl Pool {
    /// Those of the keys that the sink may know.
    pub(super) async fn known_keys(
        &self,
        sink: &str,
        stream: &str,
        rows: &[ChangedRow],
    ) -> Result<HashSet<String>, PoolError> {
        if rows.is_empty() {
            return Ok(HashSet::new());
        }
        let keys: Vec<&str> = rows.iter().map(|row| &*row.key).collect();
        let sql = "SELECT told.key FROM json_each(?3) AS asked CROSS JOIN told
            WHERE told.sink = ?1 AND told.stream = ?2 AND told.key = asked.value";
        let keys = serde_json::json!(keys).to_string();
        let values = [sink.to_owned(), stream.to_owned(), keys];
        let sent: Vec<String> = self.reads.rows(sql, values, |row| row.get(0)).await?;
        Ok(sent.into_iter().collect())
    }

    pub(super) async fn rows_by_key(
        &self,
        read: LatestRead<'_>,
        (stream, key): (&str, &str),
        place: ChangeSeq,
    ) -> Result<Vec<LatestItem>, PoolError> {
        let now = match read.shown {
            false => "SELECT key, fields, updated_at, seq, request_id FROM items WHERE stream = ?1 AND key > ?2".to_owned(),
            true => format!(
                "SELECT key, fields, updated_at, seq, request_id FROM items WHERE stream = ?1 AND key > ?2 AND {AS_STORED}
                 UNION ALL SELECT key, fields, updated_at, seq, request_id FROM shown WHERE stream = ?1 AND key > ?2 AND fields IS NOT NULL"
            ),
        };
        let sent = "SELECT 1 FROM told WHERE sink = ?3 AND stream = ?1 AND told.key = now.key";
        // One statement: of one moment.
        let sql = format!(
            "SELECT key, fields, updated_at, seq, request_id, EXISTS ({sent}) AS is_sent FROM ({now}) AS now
             UNION ALL SELECT key, NULL, '', ?5, '', TRUE FROM told WHERE sink = ?3 AND stream = ?1 AND key > ?2
                AND NOT EXISTS (SELECT 1 FROM ({now}) AS now WHERE now.key = told.key)
             ORDER BY key LIMIT ?4"
        );
        let limit = read.limit;
        let values = (
            stream.to_owned(),
            key.to_owned(),
            read.sink.to_owned(),
            limit.rows,
            place.to_column(),
        );
        let name: Arc<str> = stream.into();
        let items = self.reads.read(move |connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            let mut rows = statement.query(values)?;
            let (mut items, mut bytes) = (Vec::new(), 0);
            while bytes < limit.bytes
                && let Some(row) = rows.next()?
            {
                let item = LatestItem::read(row, &name)?;
                bytes += item.bytes();
                items.push(item);
            }
            Ok(items)
        });
        items.await
    }

    /// The next stream that has items, had some, or has some that the sink may know.
    pub(super) async fn stream_of(
        &self,
        read: LatestRead<'_>,
        after: &str,
    ) -> Result<Option<String>, PoolError> {
        let sql = "SELECT min(stream) FROM (
                SELECT min(stream) AS stream FROM items WHERE stream > ?1
                UNION ALL SELECT min(stream) FROM removed WHERE stream > ?1
                UNION ALL SELECT min(stream) FROM shown WHERE stream > ?1
                UNION ALL SELECT min(stream) FROM told WHERE sink = ?2 AND stream > ?1)";
        let values = [after.to_owned(), read.sink.to_owned()];
        Ok(self.reads.row(sql, values, |row| row.get(0)).await?)
    }
}
