//! How claims of the log become a run, a few at a time.
//!
//! `journal/file/claims.rs` calls it, inside the writer's transaction.
//!
//! **Invariant**: what [`Turn`] and [`Clearing`] say was done is committed, or done by the open transaction.

use rusqlite::{Connection, params};

use super::filter::{Filter, Filters, Key};
use super::{Held, Run};
use base::clock::Lived;

const MOVE: &str = "INSERT OR REPLACE INTO claims (run, scope, request_id, items, payload, at_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
const END: &str = "INSERT OR REPLACE INTO claim_runs (run, newest_ms, log_through, filter) VALUES (?1, ?2, ?3, ?4)";
const CLEAR: &str = "DELETE FROM claim_log WHERE id <= (
    SELECT max(id) FROM (SELECT id FROM claim_log WHERE id <= ?1 ORDER BY id LIMIT ?2))";

/// A run that is being written.
pub(super) struct Turn {
    /// Counts once the turn is done.
    pub(super) run: Run,
    pub(super) filter: Filter,
    /// The highest number in the log that is of this run.
    pub(super) through: i64,
    /// By their scope. In order, because appending them writes each page of the table once.
    claims: Vec<(Key, Held)>,
    moved: usize,
    moved_before: usize,
    done: bool,
}

impl Turn {
    pub(super) fn new(
        number: i64,
        mut claims: Vec<(Key, Held)>,
        through: i64,
        blocks: usize,
    ) -> Self {
        claims.sort_unstable_by_key(|(scope, _)| *scope);
        let newest = claims.iter().map(|(_, held)| held.at).max();
        let run = Run {
            number,
            newest_at: newest.unwrap_or_default(),
        };
        Self {
            run,
            filter: Filter::of(blocks, claims.iter().map(|(scope, _)| scope)),
            through,
            claims,
            moved: 0,
            moved_before: 0,
            done: false,
        }
    }

    pub(super) fn find(&self, scope: &Key) -> Option<Held> {
        let found = self.claims.binary_search_by_key(scope, |(scope, _)| *scope);
        found.ok().map(|at| self.claims[at].1)
    }

    /// Moves so many claims into the run; after the last it stands in `claim_runs`.
    pub(super) fn move_along(
        &mut self,
        connection: &Connection,
        count: usize,
    ) -> Result<(), rusqlite::Error> {
        let mut statement = connection.prepare_cached(MOVE)?;
        for (scope, held) in self.claims[self.moved..].iter().take(count) {
            held.write(&mut statement, self.run.number, scope)?;
            self.moved += 1;
        }
        if self.moved == self.claims.len() && !self.done {
            connection.execute(
                END,
                params![
                    self.run.number,
                    self.run.newest_at.to_column(),
                    self.through,
                    self.filter.to_bytes(),
                ],
            )?;
            self.done = true;
        }
        Ok(())
    }

    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    pub(super) fn committed(&mut self) {
        self.moved_before = self.moved;
    }

    /// The claims since the last commit are moved again, because the transaction took them back.
    pub(super) fn rolled_back(&mut self) {
        self.moved = self.moved_before;
        self.done = false;
    }
}

/// Entries of the log that are in a run are deleted.
pub(super) struct Clearing {
    /// Up to this number.
    pub(super) through: i64,
    done: bool,
    done_before: bool,
}

impl Clearing {
    /// Goes on where the log begins.
    pub(super) fn open(connection: &Connection) -> Result<Self, rusqlite::Error> {
        let number = |sql| connection.query_row(sql, [], |row| row.get::<_, Option<i64>>(0));
        let through = number("SELECT max(log_through) FROM claim_runs")?.unwrap_or(0);
        let before_first = number("SELECT min(id) FROM claim_log")?.map(|first| first - 1);
        let done = before_first.is_none_or(|before_first| before_first >= through);
        Ok(Self {
            through: before_first.unwrap_or(0).max(through),
            done,
            done_before: done,
        })
    }

    /// From now on entries up to this number go.
    pub(super) fn begin(&mut self, through: i64) {
        self.through = through;
        self.done = false;
        self.done_before = false;
    }

    /// Deletes so many entries.
    pub(super) fn move_along(
        &mut self,
        connection: &Connection,
        count: usize,
    ) -> Result<(), rusqlite::Error> {
        if self.done {
            return Ok(());
        }
        let deleted = connection
            .prepare_cached(CLEAR)?
            .execute(params![self.through, count as i64])?;
        self.done = deleted < count;
        Ok(())
    }

    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    pub(super) fn committed(&mut self) {
        self.done_before = self.done;
    }

    pub(super) fn rolled_back(&mut self) {
        self.done = self.done_before;
    }
}

/// The runs that there are, and their filters, which have so many blocks. A filter that is missing, or is not as it was
/// stored, is made of its claims. A filter that is lost only costs time, because the claims have all that is in it.
pub(super) fn runs(
    connection: &Connection,
    blocks: usize,
) -> Result<(Vec<Run>, Filters), rusqlite::Error> {
    let mut statement =
        connection.prepare("SELECT run, newest_ms, filter FROM claim_runs ORDER BY run")?;
    let mut rows = statement.query([])?;
    let (mut runs, mut filters) = (Vec::new(), Filters::new(blocks));
    while let Some(row) = rows.next()? {
        let number = row.get(0)?;
        let stored = row.get_ref(2)?.as_blob_or_null().ok().flatten();
        let stored = stored.and_then(|bytes| Filter::from_bytes(blocks, bytes));
        match stored {
            Some(filter) => filters.push(&filter),
            None => filters.push(&filter_of(connection, number, blocks)?),
        }
        runs.push(Run {
            number,
            newest_at: Lived::from_column(row.get(1)?),
        });
    }
    Ok((runs, filters))
}

/// After damage: lists the runs that have claims and are not in the list, and takes all that is in the log for claims that
/// are in no run. A claim that is in the log and in a run does no harm, and one that is in neither would be lost.
pub(crate) fn list_runs(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.execute_batch(
        "INSERT INTO claim_runs (run, newest_ms, log_through)
             SELECT run, max(at_ms), 0 FROM claims WHERE run NOT IN (SELECT run FROM claim_runs) GROUP BY run;
         UPDATE claim_runs SET log_through = 0;",
    )
}

fn filter_of(connection: &Connection, run: i64, blocks: usize) -> Result<Filter, rusqlite::Error> {
    let mut statement = connection.prepare_cached("SELECT scope FROM claims WHERE run = ?1")?;
    let keys: Vec<Key> = statement
        .query_map([run], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let filter = Filter::of(blocks, keys.iter());
    connection
        .prepare_cached("UPDATE claim_runs SET filter = ?2 WHERE run = ?1")?
        .execute(params![run, filter.to_bytes()])?;
    Ok(filter)
}
