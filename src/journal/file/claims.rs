//! The idempotency index: which keys were accepted in the last 24 hours.
//!
//! Only the writer thread uses it, inside its transaction, so two requests with the same key can never both be new.
//!
//! Keys are digests and come in no order; a B-tree that each is put into writes a page for each. So claims are only ever
//! appended. A new one goes to the end of the table `claim_log`, which is in memory as well. When enough are there they
//! become a *run*: put in order, they are appended to the table `claims`, some with every claim that is made meanwhile,
//! and then leave the log. A run never changes. Its filter, in memory and in the table `claim_runs`, says of a new key
//! that the run need not be asked (`journal/file/claims/filter.rs`). A repeat that was found in a run is in a cache from then
//! on. A run whose claims have all expired is deleted.
//!
//! Times are milliseconds that the caller counts; this module knows no clock. A time that lies ahead is as good as any.
//!
//! **Invariant**: the tables are the truth: what is in memory is committed, or made by the open transaction and forgotten
//! if that is rolled back. A claim leaves the log in the transaction that has its run in `claim_runs`, or later.

mod filter;
mod hours;
mod turn;

use std::collections::HashMap;
use std::time::Duration;

use moka::sync::Cache;
use rusqlite::{Connection, OptionalExtension, Row, Statement};
use uuid::Uuid;

use crate::Claim;
use base::clock::Lived;
use filter::{Filter, Filters, Key};
pub(super) use turn::list_runs;
use turn::{Clearing, Turn};

pub(super) const TABLES: &str = "
CREATE TABLE claim_log (
    id INTEGER PRIMARY KEY,
    scope BLOB NOT NULL,
    request_id BLOB NOT NULL,
    items INTEGER NOT NULL,
    payload BLOB NOT NULL,
    at_ms INTEGER NOT NULL
);
CREATE TABLE claims (
    run INTEGER NOT NULL,
    scope BLOB NOT NULL,
    request_id BLOB NOT NULL,
    items INTEGER NOT NULL,
    payload BLOB NOT NULL,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (run, scope)
) WITHOUT ROWID;
CREATE TABLE claim_runs (
    run INTEGER PRIMARY KEY,
    newest_ms INTEGER NOT NULL,
    log_through INTEGER NOT NULL,
    filter BLOB
);
";

/// How long a claim holds.
pub(super) const WINDOW: Duration = Duration::from_hours(24);
/// Claims of a run. In memory are those that are not in one yet: at most 2 MB in a table of 32,768 places, which would
/// be of twice the size with 28,673.
pub(super) const RUN_CLAIMS: usize = 28_000;
/// They are bounded, because a sender can repeat any number of keys.
const CACHED_CLAIMS_MAX: u64 = 50_000;
/// Claims deleted in one step. Deleting a whole run at once would hold up the requests that wait.
const EXPIRE_STEP: usize = 1_000;

/// Here and below nothing is there that could be replaced, unless the file is damaged; then that is no reason to stop.
const APPEND: &str = "INSERT OR REPLACE INTO claim_log (id, scope, request_id, items, payload, at_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
const FIND: &str =
    "SELECT scope, request_id, items, payload, at_ms FROM claims WHERE run = ?1 AND scope = ?2";
const EXPIRE: &str = "DELETE FROM claims WHERE run = ?1 AND scope <= (
    SELECT max(scope) FROM (SELECT scope FROM claims WHERE run = ?1 ORDER BY scope LIMIT ?2))";

/// A claim that was made before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) request_id: Uuid,
    pub(super) items: u32,
    pub(super) payload: [u8; 8],
    pub(super) at: Lived,
}

impl Held {
    /// From a row that begins with scope, request id, items, payload and time. `None` if that is not what was written:
    /// a damaged claim holds nothing. A start must not fail because of one.
    fn read(row: &Row<'_>) -> Option<(Key, Self)> {
        let held = Self {
            request_id: Uuid::from_bytes(row.get(1).ok()?),
            items: row.get(2).ok()?,
            payload: row.get(3).ok()?,
            at: Lived::from_column(row.get(4).ok()?),
        };
        Some((row.get(0).ok()?, held))
    }

    /// Into a table whose rows begin with a number and go on like that.
    fn write(
        &self,
        statement: &mut Statement<'_>,
        number: i64,
        scope: &Key,
    ) -> Result<(), rusqlite::Error> {
        statement.execute(rusqlite::params![
            number,
            &scope[..],
            &self.request_id.as_bytes()[..],
            self.items,
            &self.payload[..],
            self.at.to_column(),
        ])?;
        Ok(())
    }

    fn is_live(&self, now: Lived) -> bool {
        self.at + WINDOW > now
    }
}

/// Claims in order that no longer change.
#[derive(Debug, Clone, Copy)]
struct Run {
    number: i64,
    newest_at: Lived,
}

impl Run {
    /// Whether every claim in it has expired.
    fn is_over(&self, now: Lived) -> bool {
        self.newest_at + WINDOW <= now
    }
}

/// Stores claims as a run, of a file that has no log of them. Part of an open transaction.
pub(super) fn append_run(
    connection: &Connection,
    claims: Vec<(Key, Held)>,
) -> Result<(), rusqlite::Error> {
    let sql = "SELECT coalesce(max(run), 0) + 1 FROM claim_runs";
    let number = connection.query_row(sql, [], |row| row.get(0))?;
    let blocks = filter::blocks_for(RUN_CLAIMS);
    Turn::new(number, claims, 0, blocks).move_along(connection, usize::MAX)
}

/// The index. Its methods run inside the writer's transaction.
pub(super) struct Claims {
    /// So many become a run.
    run_claims: usize,
    /// Claims of the log that no run takes yet.
    log: HashMap<Key, Held>,
    /// The highest number that an entry of the log had.
    last_id: i64,
    /// What the open transaction put into `log`, with what was there before. By it a rolled back transaction is taken
    /// out of memory, too.
    made: Vec<(Key, Option<Held>)>,
    turn: Option<Turn>,
    clearing: Clearing,
    /// Claims that may still move along for those that were made. They move in parts, because each transaction would
    /// touch pages of both tables otherwise.
    owed: usize,
    runs: Vec<Run>,
    /// Those of the runs, in the same places.
    filters: Filters,
    /// The highest number that a run had.
    last_run: i64,
    /// Deleted by a transaction that may be rolled back. They return to the list then, otherwise their claims would be
    /// missing until the next start.
    deleted: Vec<(Run, Filter)>,
    /// Found in runs.
    cache: Cache<Key, Held>,
}

impl Claims {
    /// Reads what is not in a run, and the filters.
    pub(super) fn open(connection: &Connection) -> Result<Self, rusqlite::Error> {
        Self::with_runs_of(RUN_CLAIMS, connection)
    }

    fn with_runs_of(run_claims: usize, connection: &Connection) -> Result<Self, rusqlite::Error> {
        // The log has all of a run that was not ended.
        connection.execute(
            "DELETE FROM claims WHERE run > (SELECT coalesce(max(run), 0) FROM claim_runs)",
            [],
        )?;
        hours::adopt(connection, run_claims)?;
        let (runs, filters) = turn::runs(connection, filter::blocks_for(run_claims))?;
        let clearing = Clearing::open(connection)?;
        let mut statement = connection.prepare(
            "SELECT scope, request_id, items, payload, at_ms, id FROM claim_log WHERE id > ?1 ORDER BY id",
        )?;
        let mut rows = statement.query([clearing.through])?;
        let mut log: HashMap<Key, Held> = HashMap::new();
        let mut last_id = clearing.through;
        while let Some(row) = rows.next()? {
            last_id = last_id.max(row.get(5)?);
            let Some((scope, held)) = Held::read(row) else {
                continue;
            };
            let before = log.get(&scope).map_or(Lived::MIN, |before| before.at);
            if before <= held.at {
                log.insert(scope, held);
            }
        }
        Ok(Self {
            run_claims,
            log,
            last_id,
            made: Vec::new(),
            turn: None,
            clearing,
            owed: 0,
            last_run: runs.last().map_or(0, |run| run.number),
            deleted: Vec::new(),
            runs,
            filters,
            cache: Cache::builder().max_capacity(CACHED_CLAIMS_MAX).build(),
        })
    }

    /// The claim that holds this scope, if one was made within the window. Memory is asked first, because most keys are
    /// new and the filters spare them the file.
    pub(super) fn find(
        &self,
        connection: &Connection,
        claim: &Claim,
        now: Lived,
    ) -> Result<Option<Held>, rusqlite::Error> {
        let scope = &claim.scope;
        let turning = || self.turn.as_ref().and_then(|turn| turn.find(scope));
        let known = self.log.get(scope).copied();
        let known = known.or_else(turning).or_else(|| self.cache.get(scope));
        // One that has expired may have been made again.
        if let Some(held) = known.filter(|held| held.is_live(now)) {
            return Ok(Some(held));
        }
        for run in self.to_be_asked(scope, now) {
            let mut statement = connection.prepare_cached(FIND)?;
            let found = statement
                .query_row(rusqlite::params![run.number, &scope[..]], |row| {
                    Ok(Held::read(row))
                })
                .optional()?;
            let live = |(_, held): &(Key, Held)| held.is_live(now);
            if let Some((scope, held)) = found.flatten().filter(live) {
                self.cache.insert(scope, held);
                return Ok(Some(held));
            }
        }
        Ok(None)
    }

    /// The runs that may hold a claim that has not expired.
    fn to_be_asked(&self, scope: &Key, now: Lived) -> impl Iterator<Item = &Run> + use<'_> {
        let passing = self.filters.passing(scope).map(|at| &self.runs[at]);
        passing.filter(move |run| !run.is_over(now))
    }

    /// Makes a claim.
    pub(super) fn insert(
        &mut self,
        connection: &Connection,
        claim: &Claim,
        held: Held,
    ) -> Result<(), rusqlite::Error> {
        self.last_id += 1;
        let mut append = connection.prepare_cached(APPEND)?;
        held.write(&mut append, self.last_id, &claim.scope)?;
        let before = self.log.insert(claim.scope, held);
        self.made.push((claim.scope, before));
        self.move_along(connection)
    }

    /// Has older claims move along, faster than new ones are made. Otherwise the log would grow while a run is written.
    fn move_along(&mut self, connection: &Connection) -> Result<(), rusqlite::Error> {
        /// For each that is made.
        const PACE: usize = 4;
        /// Together, so that few transactions touch the pages of both.
        const PARTS: usize = 256;
        self.owed += PACE;
        if self.owed < self.run_claims / PARTS {
            return Ok(());
        }
        let count = std::mem::take(&mut self.owed);
        match &mut self.turn {
            Some(turn) => turn.move_along(connection, count),
            None => self.clearing.move_along(connection, count),
        }
    }

    /// The transaction is committed.
    pub(super) fn committed(&mut self, now: Lived) {
        self.made.clear();
        self.deleted.clear();
        self.clearing.committed();
        self.turn = match self.turn.take() {
            Some(turn) if turn.is_done() => {
                self.clearing.begin(turn.through);
                self.add(turn.run, &turn.filter);
                None
            }
            Some(mut turn) => {
                turn.committed();
                Some(turn)
            }
            None if self.is_long() && self.clearing.is_done() => {
                self.last_run += 1;
                let live = std::mem::take(&mut self.log).into_iter();
                let live = live.filter(|(_, held)| held.is_live(now));
                let blocks = self.filters.blocks();
                Some(Turn::new(
                    self.last_run,
                    live.collect(),
                    self.last_id,
                    blocks,
                ))
            }
            None => None,
        };
    }

    /// Whether the log has as many entries as become a run. A key that was used again after a day has two.
    fn is_long(&self) -> bool {
        let entries = self.last_id.saturating_sub(self.clearing.through);
        usize::try_from(entries).is_ok_and(|entries| entries >= self.run_claims)
    }

    /// The transaction was rolled back.
    pub(super) fn rolled_back(&mut self) {
        for (scope, before) in self.made.drain(..).rev() {
            match before {
                Some(held) => self.log.insert(scope, held),
                None => self.log.remove(&scope),
            };
        }
        for (run, filter) in std::mem::take(&mut self.deleted) {
            self.add(run, &filter);
        }
        self.clearing.rolled_back();
        if let Some(turn) = &mut self.turn {
            turn.rolled_back();
        }
    }

    fn add(&mut self, run: Run, filter: &Filter) {
        self.runs.push(run);
        self.filters.push(filter);
    }

    /// Deletes some of the claims of a run in which every claim has expired; true if there may be more.
    pub(super) fn expire(
        &mut self,
        connection: &Connection,
        now: Lived,
    ) -> Result<bool, rusqlite::Error> {
        let Some(over) = self.runs.iter().position(|run| run.is_over(now)) else {
            return Ok(false);
        };
        let number = self.runs[over].number;
        let deleted = connection
            .prepare_cached(EXPIRE)?
            .execute([number, EXPIRE_STEP as i64])?;
        if deleted < EXPIRE_STEP {
            connection.execute("DELETE FROM claim_runs WHERE run = ?1", [number])?;
            let run = self.runs.swap_remove(over);
            self.deleted.push((run, self.filters.swap_remove(over)));
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
