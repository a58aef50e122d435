//! Stretches of the request log: the times and the bytes of so many consecutive entries each.
//!
//! By them a page finds a time without an index over every entry, and the log's size is known without counting it. The
//! writer closes a stretch in the transaction of its last entry; the entries since then are added up in memory.
//!
//! **Invariant**: an entry is in a closed stretch whose times include its own, or behind them all.

use rusqlite::Connection;

use super::log::LogEntry;
use crate::sqlite;

/// Entries of a stretch: each costs the accept path a thousandth of a row.
pub(super) const SPAN_ENTRIES: u32 = 1_000;

/// What an entry takes in the file beside its texts: numbers, ids, its places in the indexes.
const ENTRY_BYTES: u64 = 100;
/// How often the connector's name stands in the file.
const CONNECTORS: u64 = 2;

/// The stretch that is not closed yet.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Spans {
    entries: u32,
    first_seq: u64,
    min_ms: u64,
    max_ms: u64,
    bytes: u64,
}

impl Spans {
    /// Takes up every entry behind the last closed stretch, however many there are.
    pub(super) fn open(connection: &Connection) -> Result<Self, rusqlite::Error> {
        let mut open = Self::default();
        let sql = format!(
            "SELECT seq, received_ms, {ENTRY_BYTES} + {CONNECTORS} * octet_length(connector) + octet_length(stream)
                 + octet_length(key) + octet_length(client) + coalesce(octet_length(item_key), 0)
                 + coalesce(octet_length(idempotency_key), 0) + coalesce(octet_length(errors), 0)
                 + coalesce(octet_length(headers), 0)
             FROM requests WHERE seq > coalesce((SELECT max(last_seq) FROM log_spans), 0) ORDER BY seq"
        );
        sqlite::begin(connection)?;
        let mut entries = connection.prepare(&sql)?;
        let mut entries = entries.query([])?;
        while let Some(row) = entries.next()? {
            let number = |at| row.get::<_, i64>(at).map(i64::unsigned_abs);
            open.add_bytes(connection, number(0)?, number(1)?, number(2)?)?;
        }
        drop(entries);
        sqlite::commit(connection)?;
        Ok(open)
    }

    /// Part of the transaction that writes the entry.
    pub(super) fn add(
        &mut self,
        connection: &Connection,
        seq: u64,
        entry: &LogEntry,
        client: &str,
    ) -> Result<(), rusqlite::Error> {
        let texts = CONNECTORS as usize * entry.connector.len()
            + entry.stream.len()
            + entry.key.len()
            + client.len()
            + entry.byte_len();
        self.add_bytes(
            connection,
            seq,
            entry.received_ms,
            ENTRY_BYTES + texts as u64,
        )
    }

    fn add_bytes(
        &mut self,
        connection: &Connection,
        seq: u64,
        received_ms: u64,
        bytes: u64,
    ) -> Result<(), rusqlite::Error> {
        if self.entries == 0 {
            *self = Self {
                first_seq: seq,
                min_ms: received_ms,
                max_ms: received_ms,
                ..Self::default()
            };
        }
        self.entries += 1;
        self.min_ms = self.min_ms.min(received_ms);
        self.max_ms = self.max_ms.max(received_ms);
        self.bytes += bytes;
        if self.entries < SPAN_ENTRIES {
            return Ok(());
        }
        connection
            .prepare_cached(
                "INSERT INTO log_spans (first_seq, last_seq, min_ms, max_ms, bytes) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(
                [self.first_seq, seq, self.min_ms, self.max_ms, self.bytes].map(u64::cast_signed),
            )?;
        *self = Self::default();
        Ok(())
    }

    /// The position up to which entries must go so that about `bytes_max` bytes are left; 0 if none must.
    pub(super) fn excess(
        &self,
        connection: &Connection,
        bytes_max: u64,
    ) -> Result<u64, rusqlite::Error> {
        let closed: i64 = connection
            .prepare_cached("SELECT coalesce(sum(bytes), 0) FROM log_spans")?
            .query_row([], |row| row.get(0))?;
        let mut bytes = closed.unsigned_abs() + self.bytes;
        let mut excess = 0;
        if bytes <= bytes_max {
            return Ok(excess);
        }
        let mut oldest = connection
            .prepare_cached("SELECT last_seq, bytes FROM log_spans ORDER BY first_seq")?;
        let mut oldest = oldest.query([])?;
        while bytes > bytes_max
            && let Some(row) = oldest.next()?
        {
            excess = row.get::<_, i64>(0)?.unsigned_abs();
            bytes = bytes.saturating_sub(row.get::<_, i64>(1)?.unsigned_abs());
        }
        Ok(excess)
    }
}

/// Forgets the stretches whose entries are gone.
pub(super) fn forget(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection
        .prepare_cached(
            "DELETE FROM log_spans WHERE first_seq < (SELECT min(seq) FROM requests)
                 AND last_seq < (SELECT min(seq) FROM requests)",
        )?
        .execute([])?;
    Ok(())
}
