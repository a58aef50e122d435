//! The idempotency index: which keys were accepted in the last 24 hours.
//!
//! Only the writer thread uses it, inside its transaction, so two requests with the same key can
//! never both be new. A table for each hour, dropped whole when every claim in it has expired; a
//! cache in front saves looking through 25 tables for a repeat.
//!
//! **Invariant**: the tables are the truth. The cache holds only claims that are committed.

use moka::sync::Cache;
use rusqlite::{Connection, OptionalExtension};
use uuid::Uuid;

use super::Claim;

/// How long a claim holds.
pub(super) const WINDOW_MS: u64 = 24 * HOUR_MS;
const HOUR_MS: u64 = 3_600_000;
const CACHED_CLAIMS_MAX: u64 = 50_000;

/// A claim that was made before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) request_id: Uuid,
    pub(super) items: u32,
    pub(super) payload: [u8; 8],
    pub(super) at_ms: u64,
}

/// A table: the claims of one hour since 1970.
struct Hour {
    number: u64,
    find: String,
    insert: String,
}

impl Hour {
    fn new(number: u64) -> Self {
        Self {
            number,
            find: format!(
                "SELECT request_id, items, payload, at_ms FROM claims_{number} WHERE scope = ?1"
            ),
            insert: format!(
                "INSERT OR REPLACE INTO claims_{number} (scope, request_id, items, payload, at_ms) VALUES (?1, ?2, ?3, ?4, ?5)"
            ),
        }
    }

    /// Whether every claim in it has expired.
    fn is_over(&self, now_ms: u64) -> bool {
        (self.number + 1) * HOUR_MS + WINDOW_MS <= now_ms
    }
}

/// The index. Its methods run inside the writer's transaction.
pub(super) struct Claims {
    cache: Cache<[u8; 16], Held>,
    /// Hours that have a table, oldest first.
    hours: Vec<Hour>,
    /// Claims of the open transaction: they enter the cache when it is committed.
    pending: Vec<([u8; 16], Held)>,
}

impl Claims {
    pub(super) fn open(connection: &Connection) -> Result<Self, rusqlite::Error> {
        let mut statement = connection.prepare(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'claims\\_%' ESCAPE '\\'",
        )?;
        let names = statement.query_map([], |row| row.get::<_, String>(0))?;
        let mut hours = Vec::new();
        for name in names {
            if let Some(hour) = name?
                .strip_prefix("claims_")
                .and_then(|hour| hour.parse().ok())
            {
                hours.push(Hour::new(hour));
            }
        }
        hours.sort_unstable_by_key(|hour| hour.number);
        Ok(Self {
            cache: Cache::builder().max_capacity(CACHED_CLAIMS_MAX).build(),
            hours,
            pending: Vec::new(),
        })
    }

    /// The claim that holds this scope, if one was made within the window.
    pub(super) fn find(
        &self,
        connection: &Connection,
        claim: &Claim,
        now_ms: u64,
    ) -> Result<Option<Held>, rusqlite::Error> {
        let live = |held: &Held| held.at_ms + WINDOW_MS > now_ms;
        if let Some(held) = self.cache.get(&claim.scope).filter(live) {
            return Ok(Some(held));
        }
        for hour in self.hours.iter().rev() {
            if hour.is_over(now_ms) {
                break;
            }
            let mut statement = connection.prepare_cached(&hour.find)?;
            let held = statement
                .query_row([&claim.scope[..]], |row| {
                    Ok(Held {
                        request_id: Uuid::from_bytes(row.get(0)?),
                        items: row.get(1)?,
                        payload: row.get(2)?,
                        at_ms: row.get::<_, i64>(3)?.unsigned_abs(),
                    })
                })
                .optional()?;
            if let Some(held) = held.filter(live) {
                return Ok(Some(held));
            }
        }
        Ok(None)
    }

    /// Makes a claim.
    pub(super) fn insert(
        &mut self,
        connection: &Connection,
        claim: &Claim,
        held: Held,
    ) -> Result<(), rusqlite::Error> {
        let number = held.at_ms / HOUR_MS;
        let hour = match self.hours.iter().position(|hour| hour.number == number) {
            Some(position) => &self.hours[position],
            None => {
                connection.execute_batch(&format!(
                    "CREATE TABLE IF NOT EXISTS claims_{number} (
                         scope BLOB PRIMARY KEY, request_id BLOB NOT NULL, items INTEGER NOT NULL,
                         payload BLOB NOT NULL, at_ms INTEGER NOT NULL
                     ) WITHOUT ROWID"
                ))?;
                let position = self.hours.partition_point(|hour| hour.number < number);
                self.hours.insert(position, Hour::new(number));
                &self.hours[position]
            }
        };
        connection
            .prepare_cached(&hour.insert)?
            .execute(rusqlite::params![
                &claim.scope[..],
                &held.request_id.as_bytes()[..],
                held.items,
                &held.payload[..],
                held.at_ms.cast_signed(),
            ])?;
        self.pending.push((claim.scope, held));
        Ok(())
    }

    /// The transaction is committed.
    pub(super) fn committed(&mut self) {
        for (scope, held) in self.pending.drain(..) {
            self.cache.insert(scope, held);
        }
    }

    /// The transaction was rolled back: tables that it made are gone again.
    pub(super) fn rolled_back(&mut self, connection: &Connection) -> Result<(), rusqlite::Error> {
        self.pending.clear();
        self.hours = Self::open(connection)?.hours;
        Ok(())
    }

    /// Drops the tables in which every claim has expired.
    pub(super) fn expire(
        &mut self,
        connection: &Connection,
        now_ms: u64,
    ) -> Result<(), rusqlite::Error> {
        while let Some(hour) = self.hours.first().filter(|hour| hour.is_over(now_ms)) {
            connection.execute_batch(&format!("DROP TABLE IF EXISTS claims_{}", hour.number))?;
            self.hours.remove(0);
        }
        Ok(())
    }
}
