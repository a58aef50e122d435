//! Bodies of refused requests, kept for a while: the request can be looked at, and run again after its connector was
//! mended.
//!
//! The writer keeps them with the log entry, and gives them up between groups.
//!
//! **Invariant**: what is kept is bounded by bytes and age. The oldest go first of the connector that has most: one whose
//! requests are all refused does not push out what is kept of others. Sinks never see it.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::{Connection, Row, params};

use super::{File, timeline};
use crate::{LogEntry, RejectedBody, Retention, Shared, StorageError};
use base::order::Seq;

/// Bodies given up in one step. A body can be large, so a few at a time keep the writer's slice short.
const STEP: i64 = 16;

/// The oldest bodies, with their connectors. Of an entry of the log that is gone the connector is not known.
const AGED: &str = "SELECT bodies.seq, coalesce(requests.connector, ''), bodies.bytes FROM bodies
     LEFT JOIN requests ON requests.seq = bodies.seq WHERE bodies.seq <= ?1 ORDER BY bodies.seq LIMIT ?2";
/// The same of one connector.
const OF_CONNECTOR: &str =
    "SELECT bodies.seq, coalesce(requests.connector, ''), bodies.bytes FROM bodies
     LEFT JOIN requests ON requests.seq = bodies.seq WHERE coalesce(requests.connector, '') = ?1
     ORDER BY bodies.seq LIMIT ?2";

/// What the writer knows of them.
#[derive(Debug)]
pub(super) struct Bodies {
    shared: Arc<Shared>,
    /// Bytes of those of each connector; unknown at the start. They are counted again after a rolled back transaction,
    /// because what it added is gone.
    held: Option<HashMap<Box<str>, u64>>,
}

impl Bodies {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, held: None }
    }

    /// Keeps one, inside the writer's transaction, if it is to be kept.
    pub(super) fn keep(
        &mut self,
        connection: &Connection,
        seq: Seq,
        log: &LogEntry,
        kept: &RejectedBody,
    ) -> Result<(), rusqlite::Error> {
        if !self.shared.keeps(kept) {
            return Ok(());
        }
        let bytes = kept.byte_len() as u64;
        self.held(connection)?;
        connection
            .prepare_cached(
                "INSERT INTO bodies (seq, received_ms, bytes, test, stream, content_type, item_key, idempotency_key, body, headers)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            )?
            .execute(params![
                seq.to_column(),
                log.received_at.to_column(),
                bytes.cast_signed(),
                kept.test,
                &*kept.stream,
                kept.content_type.as_deref(),
                kept.item_key.as_deref(),
                kept.idempotency_key.as_deref(),
                &kept.body[..],
                (kept.headers.as_ref()).and_then(|pairs| serde_json::to_string(pairs).ok()),
            ])?;
        *(self.held(connection)?)
            .entry((&*log.connector).into())
            .or_default() += bytes;
        Ok(())
    }

    /// Whether there are more bytes than there may be.
    pub(super) fn are_over(&mut self, connection: &Connection) -> Result<bool, rusqlite::Error> {
        let bytes: u64 = self.held(connection)?.values().sum();
        let over = |retention: Retention| bytes > retention.bytes_max;
        Ok(bytes > 0 && self.shared.bodies().is_some_and(over))
    }

    /// Gives up some that are too old, or of the connector that has most if they are too many; true if there may be more
    /// to give up.
    pub(super) fn give_up(&mut self, connection: &Connection) -> Result<bool, rusqlite::Error> {
        let Some(retention) = self.shared.bodies() else {
            return Ok(false);
        };
        let aged = timeline::older_than(connection, retention.age_max)?;
        let mut gone = oldest(connection, AGED, aged.to_column())?;
        let held = self.held(connection)?;
        let mut all: u64 = held.values().sum();
        let is_over = all > retention.bytes_max;
        let most = held.iter().max_by_key(|(_, bytes)| **bytes);
        if let Some((connector, _)) = most.filter(|_| gone.is_empty() && is_over) {
            gone = oldest(connection, OF_CONNECTOR, &**connector)?;
            gone.retain(|(_, _, bytes)| {
                let goes = all > retention.bytes_max;
                all = all.saturating_sub(if goes { *bytes } else { 0 });
                goes
            });
        }
        let mut delete = connection.prepare_cached("DELETE FROM bodies WHERE seq = ?1")?;
        for (seq, connector, bytes) in &gone {
            delete.execute([seq])?;
            if let Some(held) = held.get_mut(&**connector) {
                *held = held.saturating_sub(*bytes);
            }
        }
        held.retain(|_, bytes| *bytes > 0);
        Ok(!gone.is_empty())
    }

    /// The writer rolled a transaction back.
    pub(super) fn rolled_back(&mut self) {
        self.held = None;
    }

    fn held(
        &mut self,
        connection: &Connection,
    ) -> Result<&mut HashMap<Box<str>, u64>, rusqlite::Error> {
        if self.held.is_none() {
            let sql = "SELECT coalesce(requests.connector, ''), sum(bodies.bytes) FROM bodies
                 LEFT JOIN requests ON requests.seq = bodies.seq GROUP BY 1";
            let mut all = connection.prepare_cached(sql)?;
            let rows = all.query_map([], |row| {
                Ok((
                    row.get::<_, String>(0)?.into(),
                    row.get::<_, i64>(1)?.unsigned_abs(),
                ))
            })?;
            self.held = Some(rows.collect::<Result<_, _>>()?);
        }
        Ok(self.held.get_or_insert_default())
    }
}

/// Some of the oldest: number, connector, bytes.
fn oldest(
    connection: &Connection,
    sql: &str,
    of: impl rusqlite::ToSql,
) -> Result<Vec<(i64, Box<str>, u64)>, rusqlite::Error> {
    let mut oldest = connection.prepare_cached(sql)?;
    let rows = oldest.query_map(params![of, STEP], |row| {
        let connector: String = row.get(1)?;
        let bytes: i64 = row.get(2)?;
        Ok((row.get(0)?, connector.into(), bytes.unsigned_abs()))
    })?;
    rows.collect()
}

impl File {
    pub(crate) async fn refused_body(
        &self,
        seq: Seq,
    ) -> Result<Option<RejectedBody>, StorageError> {
        let sql = "SELECT test, stream, content_type, item_key, idempotency_key, body, headers FROM bodies WHERE seq = ?";
        let body = (self.reads).first(sql, [seq.to_column()], read_body);
        Ok(body.await?)
    }
}

fn read_body(row: &Row<'_>) -> Result<RejectedBody, rusqlite::Error> {
    let value = |name: &str| -> Result<Option<Box<[u8]>>, rusqlite::Error> {
        Ok(row.get_ref(name)?.as_bytes_or_null()?.map(Box::from))
    };
    Ok(RejectedBody {
        body: row.get_ref("body")?.as_bytes()?.to_vec().into(),
        stream: row.get::<_, String>("stream")?.into(),
        headers: (row.get::<_, Option<String>>("headers")?)
            .and_then(|json| serde_json::from_str(&json).ok()),
        content_type: value("content_type")?,
        item_key: value("item_key")?,
        idempotency_key: value("idempotency_key")?,
        test: row.get("test")?,
    })
}
