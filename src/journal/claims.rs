//! The idempotency index: which keys were accepted in the last 24 hours.
//!
//! Only the writer thread uses it, inside its transaction, so two requests with the same key can
//! never both be new. A table for each hour, deleted when every claim in it has expired. A repeat is found in a cache;
//! of a new key a filter for each hour says, from memory, that its table need not be asked.
//!
//! Times are milliseconds that the caller counts; this module knows no clock. An hour that lies ahead is as good as any.
//!
//! **Invariant**: the tables are the truth. The cache holds only claims that are committed, and a filter passes every
//! claim of its table: one that was rolled back may pass too. A table without a whole filter is asked.

mod build;
mod filter;

use std::sync::mpsc::TryRecvError;

use moka::sync::Cache;
use rusqlite::{Connection, OptionalExtension};
use uuid::Uuid;

use super::Claim;
use build::Build;
use filter::Filter;

/// How long a claim holds.
pub(super) const WINDOW_MS: u64 = 24 * HOUR_MS;
const HOUR_MS: u64 = 3_600_000;
const CACHED_CLAIMS_MAX: u64 = 50_000;
/// Claims deleted in one step.
const EXPIRE_STEP: usize = 1_000;

/// A claim that was made before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) request_id: Uuid,
    pub(super) items: u32,
    pub(super) payload: [u8; 8],
    pub(super) at_ms: u64,
}

/// A table: the claims of one hour.
struct Hour {
    number: u64,
    find: String,
    insert: String,
    filter: Filter,
    /// The filter passes every claim of the table, not only those that were made since the start.
    whole: bool,
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
            filter: Filter::default(),
            whole: false,
        }
    }

    /// An hour whose table is made now. It will be about as busy as the one before.
    fn begun(number: u64, claims: usize) -> Self {
        Self {
            filter: Filter::expecting(claims),
            whole: true,
            ..Self::new(number)
        }
    }

    /// Whether every claim in it has expired.
    fn is_over(&self, now_ms: u64) -> bool {
        let end_ms = self.number.saturating_add(1).saturating_mul(HOUR_MS);
        end_ms.saturating_add(WINDOW_MS) <= now_ms
    }

    /// Whether its table must be asked.
    fn may_hold(&self, claim: &Claim) -> bool {
        !self.whole || self.filter.passes(&claim.scope)
    }
}

/// The index. Its methods run inside the writer's transaction.
pub(super) struct Claims {
    cache: Cache<[u8; 16], Held>,
    /// Hours that have a table, oldest first.
    hours: Vec<Hour>,
    /// Makes the filters that were not there at the start.
    build: Option<Build>,
    /// Claims of the open transaction: they enter the cache when it is committed.
    pending: Vec<([u8; 16], Held)>,
}

impl Claims {
    pub(super) fn open(connection: &Connection) -> Result<Self, rusqlite::Error> {
        let numbers = numbers(connection)?;
        // What is live the longest first.
        let newest_first = numbers.iter().rev().copied().collect();
        Ok(Self {
            cache: Cache::builder().max_capacity(CACHED_CLAIMS_MAX).build(),
            hours: numbers.into_iter().map(Hour::new).collect(),
            build: Build::start(connection.path(), newest_first),
            pending: Vec::new(),
        })
    }

    /// The claim that holds this scope, if one was made within the window.
    pub(super) fn find(
        &mut self,
        connection: &Connection,
        claim: &Claim,
        now_ms: u64,
    ) -> Result<Option<Held>, rusqlite::Error> {
        self.take_filters();
        let live = |held: &Held| held.at_ms.saturating_add(WINDOW_MS) > now_ms;
        if let Some(held) = self.cache.get(&claim.scope).filter(live) {
            return Ok(Some(held));
        }
        for hour in self.to_be_asked(claim, now_ms) {
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

    /// The hours whose tables may hold the claim, newest first.
    fn to_be_asked(&self, claim: &Claim, now_ms: u64) -> impl Iterator<Item = &Hour> {
        let live = self.hours.iter().rev();
        let live = live.take_while(move |hour| !hour.is_over(now_ms));
        live.filter(|hour| hour.may_hold(claim))
    }

    /// Takes the filters that were made meanwhile.
    fn take_filters(&mut self) {
        while let Some(build) = &self.build {
            match build.take() {
                Ok((number, filter)) => self.take_filter(number, filter),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => self.build = None,
            }
        }
    }

    fn take_filter(&mut self, number: u64, filter: Filter) {
        // It may have expired.
        let hour = self.hours.iter_mut().find(|hour| hour.number == number);
        if let Some(hour) = hour {
            hour.filter.take_in(filter);
            hour.whole = true;
        }
    }

    /// Makes a claim.
    pub(super) fn insert(
        &mut self,
        connection: &Connection,
        claim: &Claim,
        held: Held,
    ) -> Result<(), rusqlite::Error> {
        let number = held.at_ms / HOUR_MS;
        let position = self.hours.partition_point(|hour| hour.number < number);
        if self
            .hours
            .get(position)
            .is_none_or(|hour| hour.number != number)
        {
            connection.execute_batch(&format!(
                "CREATE TABLE claims_{number} (
                     scope BLOB PRIMARY KEY, request_id BLOB NOT NULL, items INTEGER NOT NULL,
                     payload BLOB NOT NULL, at_ms INTEGER NOT NULL
                 ) WITHOUT ROWID"
            ))?;
            let before = self.hours[..position].last();
            let claims = before.map_or(0, |hour| hour.filter.len());
            self.hours.insert(position, Hour::begun(number, claims));
        }
        let hour = &mut self.hours[position];
        hour.filter.insert(&claim.scope);
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

    /// The transaction was rolled back: tables that it made are gone again, and those that it deleted are back.
    pub(super) fn rolled_back(&mut self, connection: &Connection) -> Result<(), rusqlite::Error> {
        self.pending.clear();
        let numbers = numbers(connection)?;
        self.hours.retain(|hour| numbers.contains(&hour.number));
        for number in numbers {
            let position = self.hours.partition_point(|hour| hour.number < number);
            if self
                .hours
                .get(position)
                .is_none_or(|hour| hour.number != number)
            {
                self.hours.insert(position, Hour::new(number));
            }
        }
        Ok(())
    }

    /// Deletes some of the claims of an hour in which every claim has expired; true if there may be more. A table is
    /// dropped when it is empty: a whole one at once would hold up requests.
    pub(super) fn expire(
        &mut self,
        connection: &Connection,
        now_ms: u64,
    ) -> Result<bool, rusqlite::Error> {
        let oldest = self.hours.first().filter(|hour| hour.is_over(now_ms));
        let Some(Hour { number, .. }) = oldest else {
            return Ok(false);
        };
        let deleted = connection
            .prepare_cached(&format!(
                "DELETE FROM claims_{number} WHERE scope <= (
                     SELECT max(scope) FROM (SELECT scope FROM claims_{number} ORDER BY scope LIMIT {EXPIRE_STEP}))"
            ))?
            .execute([])?;
        if deleted < EXPIRE_STEP {
            connection.execute_batch(&format!("DROP TABLE claims_{number}"))?;
            self.hours.remove(0);
        }
        Ok(true)
    }
}

/// The hours that have a table, oldest first.
fn numbers(connection: &Connection) -> Result<Vec<u64>, rusqlite::Error> {
    let mut statement = connection.prepare(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'claims\\_%' ESCAPE '\\'",
    )?;
    let names = statement.query_map([], |row| row.get::<_, String>(0))?;
    let mut numbers = Vec::new();
    for name in names {
        if let Some(number) = name?
            .strip_prefix("claims_")
            .and_then(|number| number.parse().ok())
        {
            numbers.push(number);
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests;
