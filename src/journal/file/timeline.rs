//! When the log had come how far, in time lived: what the age of everything in `journal.db` is measured by.
//!
//! The table `clock` has one moment more: how much had been lived, and what the wall clock said, when that was last trusted.
//! What passed since and was not lived, because no daemon ran, is added once the wall clock is trusted again.
//!
//! The writer notes a point now and then; [`prune`](super::prune) and [`retention`](super::retention) ask it what is old enough to go.
//!
//! **Invariant**: points rise in both numbers. What is at or below a point's number is at least as old as the point, so
//! whatever the time of day says, nothing goes early, and what is kept longer is kept so by one interval at most.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension};

use base::clock::{self, Lived, Unix};
use base::order::Seq;

/// A point is noted this often while requests come. What is kept is kept longer by so much at most.
const EVERY: Duration = Duration::from_secs(30);
/// While none come, the last point moves on this often: time goes on, also over a crash. More seldom, because each
/// point is a write.
const IDLE_EVERY: Duration = Duration::from_mins(5);
/// The log says when so much is added that no daemon lived.
const SAID_FROM: Duration = Duration::from_mins(1);

/// The newest point.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeline {
    lived: Lived,
    seq: Seq,
    /// The point before it has the same number: it says since when. So the newer one is moved and not added, otherwise
    /// an idle daemon would fill the table.
    idle: bool,
    /// Since this moment time may have passed that was not lived: the wall clock was not trusted yet. A clock that is
    /// not synchronized could add years.
    away: Option<(Lived, Unix)>,
}

/// Not part of a format: versions that do not know the table leave it alone.
pub(super) const CLOCK: &str = "CREATE TABLE IF NOT EXISTS clock (one INTEGER PRIMARY KEY CHECK (one = 1), lived_ms INTEGER NOT NULL, unix_ms INTEGER NOT NULL)";

impl Timeline {
    /// Has the clock of this process live on from the newest point; a new file begins its life now.
    pub(super) fn open(connection: &Connection, last_seq: Seq) -> Result<Self, rusqlite::Error> {
        let newest = connection
            .query_row(
                "SELECT lived_ms, seq FROM timeline ORDER BY lived_ms DESC LIMIT 1",
                [],
                |row| {
                    Ok(Self {
                        lived: Lived::from_column(row.get(0)?),
                        seq: Seq::from_column(row.get(1)?),
                        idle: false,
                        away: None,
                    })
                },
            )
            .optional()?;
        match newest {
            Some(newest) => {
                clock::live_on_from(newest.lived);
                let away = trusted_last(connection)?;
                Ok(Self { away, ..newest }.caught_up())
            }
            // Whatever is there already is as old as the timeline itself, whose first point is due at once.
            None => Ok(Self {
                lived: Lived::MIN,
                seq: last_seq,
                idle: false,
                away: None,
            }),
        }
    }

    /// Adds what was not lived, if the wall clock is trusted by now.
    fn caught_up(mut self) -> Self {
        if let Some((lived, then)) = self.away
            && let Some(now) = clock::trusted_now()
        {
            let added = clock::catch_up(lived, then, now);
            if added >= SAID_FROM {
                tracing::info!(
                    seconds = added.as_secs(),
                    "the time in which no daemon ran on this data directory is added to its clock"
                );
            }
            self.away = None;
        }
        self
    }

    /// Whether a point should be noted, `seq` being the highest number that was given out.
    pub(super) fn is_due(&self, seq: Seq) -> bool {
        let waits = seq > self.seq || self.away.is_some();
        let every = if waits { EVERY } else { IDLE_EVERY };
        Lived::now() >= self.lived + every
    }

    /// Notes that the log has come to `seq`. Part of the writer's transaction; the answer counts once that is committed.
    pub(super) fn noted(
        mut self,
        connection: &Connection,
        seq: Seq,
    ) -> Result<Self, rusqlite::Error> {
        self = self.caught_up();
        let now = Lived::now();
        if now <= self.lived {
            return Ok(self);
        }
        if let Some(unix) = clock::trusted_now() {
            connection.execute_batch(CLOCK)?;
            connection
                .prepare_cached("INSERT OR REPLACE INTO clock VALUES (1, ?1, ?2)")?
                .execute([now.to_column(), unix.to_column()])?;
        }
        let idle = self.lived > Lived::MIN && seq <= self.seq;
        if idle && self.idle {
            connection
                .prepare_cached("DELETE FROM timeline WHERE lived_ms = ?1")?
                .execute([self.lived.to_column()])?;
        }
        connection
            .prepare_cached("INSERT INTO timeline (lived_ms, seq) VALUES (?1, ?2)")?
            .execute([now.to_column(), seq.to_column()])?;
        self = Self {
            lived: now,
            seq,
            idle,
            away: self.away,
        };
        Ok(self)
    }
}

/// How much had been lived when the wall clock was last trusted, and what it said.
pub(super) fn trusted_last(
    connection: &Connection,
) -> Result<Option<(Lived, Unix)>, rusqlite::Error> {
    if !sqlite::has_table(connection, "clock")? {
        return Ok(None);
    }
    let last = connection.query_row("SELECT lived_ms, unix_ms FROM clock", [], |row| {
        Ok((
            Lived::from_column(row.get(0)?),
            Unix::from_column(row.get(1)?),
        ))
    });
    last.optional()
}

/// The highest number that is at least so old; 0 if none is.
pub(super) const OLDER_THAN: &str = "SELECT coalesce((SELECT seq FROM timeline WHERE lived_ms <= ?1 ORDER BY lived_ms DESC LIMIT 1), 0)";

/// The first point at or behind a number, by which it had come; the newest point if it came after all of them.
pub(super) const REACHED: &str = "SELECT coalesce(
     (SELECT min(lived_ms) FROM timeline WHERE lived_ms >
         coalesce((SELECT lived_ms FROM timeline WHERE seq < ?1 ORDER BY lived_ms DESC LIMIT 1), -1)),
     (SELECT max(lived_ms) FROM timeline))";

/// The moment before which everything is at least so old.
pub(super) fn before(age: Duration) -> i64 {
    (Lived::now() - age).to_column()
}

/// The highest number that is at least so old; 0 if none is.
pub(super) fn older_than(connection: &Connection, age: Duration) -> Result<Seq, rusqlite::Error> {
    connection
        .prepare_cached(OLDER_THAN)?
        .query_row([before(age)], |row| row.get(0).map(Seq::from_column))
}

/// Forgets the points that nobody asks for who asks for nothing older than this.
pub(super) fn forget(connection: &Connection, age: Duration) -> Result<(), rusqlite::Error> {
    connection
        .prepare_cached(
            "DELETE FROM timeline WHERE lived_ms < (SELECT max(lived_ms) FROM timeline WHERE lived_ms <= ?1)",
        )?
        .execute([before(age)])?;
    Ok(())
}
