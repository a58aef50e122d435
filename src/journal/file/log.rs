//! The request log in `journal.db`: single entries, and what connectors there are.

use rusqlite::{Error, Row};
use uuid::Uuid;

use super::File;
use super::segment_index::{CLOSED, EVERY};
use super::segments::{self, WITHIN_MS};
use crate::StorageError;
use crate::log::{Client, Endpoint, LogEntry, LogRow, Outcome};
use base::clock::Unix;
use base::order::Seq;

pub(super) const COLUMNS: &str = "SELECT seq, request_id, received_ms, connector, stream, outcome, endpoint, \
     http_status, items, bytes, key, client, item_key, idempotency_key, duplicate_of, errors, headers, sent_again_from, sender FROM requests WHERE ";

impl File {
    pub(crate) async fn log_get(&self, request_id: Uuid) -> Result<Option<LogRow>, StorageError> {
        let id = request_id.into_bytes();
        let values = (id, segments::id_time(&id).to_column());
        Ok(self.reads.first(of_id(), values, read_row).await?)
    }

    pub(crate) async fn sent_again_as(&self, request_id: Uuid) -> Result<Vec<Uuid>, StorageError> {
        let sql = "SELECT r.request_id FROM log_sent_again s JOIN requests r ON r.seq = s.seq
             WHERE s.sent_again_from = ? ORDER BY s.seq DESC LIMIT 20";
        let found = (self.reads).rows(sql, [request_id.into_bytes()], |row| {
            Ok(Uuid::from_slice(row.get_ref(0)?.as_bytes()?).ok())
        });
        Ok(found.await?.into_iter().flatten().collect())
    }

    pub(crate) async fn oldest_logged(&self) -> Result<Option<Seq>, StorageError> {
        let sql = "SELECT min(seq) FROM requests";
        let oldest: Option<i64> = self.reads.row(sql, [], |row| row.get(0)).await?;
        Ok(oldest.map(Seq::from_column))
    }

    pub(crate) async fn log_connectors(&self) -> Result<Vec<String>, StorageError> {
        // A step for each name, however many requests there are.
        let sql = format!(
            "WITH RECURSIVE names (name) AS (
                 SELECT min(connector) FROM log_marks WHERE connector > '{EVERY}'
                 UNION ALL SELECT (SELECT min(connector) FROM log_marks WHERE connector > name)
                     FROM names WHERE name IS NOT NULL
             ) SELECT name FROM names WHERE EXISTS (
                 SELECT 1 FROM log_marks WHERE connector = name AND last_seq >= (SELECT min(seq) FROM requests))
             UNION SELECT connector FROM requests WHERE seq > {CLOSED} AND connector > '{EVERY}'
             ORDER BY 1 LIMIT 1000"
        );
        Ok(self.reads.rows(sql, [], |row| row.get(0)).await?)
    }

    pub(crate) async fn log_has_connector(&self, name: &str) -> Result<bool, StorageError> {
        // Of the oldest stretch some may be gone.
        let sql = format!(
            "SELECT EXISTS (SELECT 1 FROM log_marks WHERE connector = ?1 AND last_seq >= (SELECT min(seq) FROM requests))
                 OR EXISTS (SELECT 1 FROM requests WHERE seq > {CLOSED} AND connector = ?1)"
        );
        let found = (self.reads).row(sql, [name.to_owned()], |row| row.get(0));
        Ok(found.await?)
    }
}

/// Finds an entry by its id and the time in it: among the late ones, in the stretches that the time is in, and in what is
/// behind them all. The log has no index by ID, because every request would pay for it.
pub(super) fn of_id() -> String {
    format!(
        "{COLUMNS} seq IN (
             SELECT seq FROM log_late WHERE request_id = ?1
             UNION ALL SELECT r.seq FROM json_each('{WITHIN_MS:?}') AS width
                 CROSS JOIN log_spans AS s INDEXED BY log_spans_by_id CROSS JOIN requests AS r
                 WHERE s.ids_within_ms = width.value AND s.newest_id_ms BETWEEN ?2 AND ?2 + width.value
                     AND s.oldest_id_ms <= ?2 AND r.seq BETWEEN s.first_seq AND s.last_seq AND r.request_id = ?1
             UNION ALL SELECT seq FROM requests WHERE seq > {CLOSED} AND request_id = ?1
         ) LIMIT 1"
    )
}

pub(super) fn read_row(row: &Row<'_>) -> Result<LogRow, Error> {
    let id = |name: &str| -> Result<Option<Uuid>, Error> {
        let bytes = row.get_ref(name)?.as_bytes_or_null()?;
        Ok(bytes.and_then(|bytes| Uuid::from_slice(bytes).ok()))
    };
    let text = |name: &str| row.get::<_, Option<String>>(name);
    let number = |name: &str| -> Result<u64, Error> {
        let number: i64 = row.get(name)?;
        Ok(number.unsigned_abs())
    };
    Ok(LogRow {
        seq: Seq::from_column(row.get("seq")?),
        duplicate_of: id("duplicate_of")?,
        entry: LogEntry {
            request_id: id("request_id")?.unwrap_or_default(),
            received_at: Unix::from_column(row.get("received_ms")?),
            connector: row.get::<_, String>("connector")?.into(),
            stream: row.get::<_, String>("stream")?.into(),
            outcome: Outcome::from_code(row.get("outcome")?),
            endpoint: Endpoint::from_code(row.get("endpoint")?),
            http_status: u16::try_from(number("http_status")?).unwrap_or_default(),
            items: u32::try_from(number("items")?).unwrap_or(u32::MAX),
            bytes: number("bytes")?,
            key: row.get::<_, String>("key")?.into(),
            client: Client::from_text(row.get_ref("client")?.as_str()?),
            item_key: text("item_key")?.map(Into::into),
            idempotency_key: text("idempotency_key")?.map(Into::into),
            error: text("errors")?.map(Into::into),
            headers: text("headers")?.map(Into::into),
            sent_again_from: id("sent_again_from")?,
            // What cannot be read says nothing.
            sender: text("sender")?.and_then(|json| serde_json::from_str(&json).ok()),
        },
    })
}
