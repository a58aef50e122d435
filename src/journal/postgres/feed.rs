//! Entries of all nodes in their order, read into memory for the lanes.
//!
//! The number of a transaction is the order. One that is under way may have a lower number than one that is committed, so
//! nothing is read above the horizon: below it nothing will be committed any more.
//!
//! **Invariant**: what is read is gapless up to [`Feed::through`]. An entry that is placed is placed while nobody reads on.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use tokio::sync::{Notify, watch};

use super::super::Shared;
use super::in_time;
use super::reader::read_entry;
use ::postgres::{Database, DatabaseCall, DatabaseError};
use base::order::Seq;

/// How often it is asked for entries of other nodes.
const EVERY: Duration = Duration::from_millis(25);
/// It is asked so often for so long after a hint. What was hinted may not be readable yet, because an older transaction
/// is still open.
const OFTEN_FOR: Duration = Duration::from_secs(1);
/// After a failure.
const AGAIN_AFTER: Duration = Duration::from_millis(250);
/// A horizon that does not move for so long is held by a transaction of somebody else. From then on only transactions
/// of the cluster count, otherwise any program could stop the sinks.
const HELD_AFTER: Duration = Duration::from_millis(100);
/// Entries and bytes of one look.
const ENTRIES_MAX: i64 = 1_024;
const BYTES_MAX: i64 = 8 << 20;
/// Entries that are counted, at most: further ones are many.
const COUNTED_MAX: usize = 10_000;

const HORIZON: &str =
    "SELECT (pg_snapshot_xmin(pg_current_snapshot())::text::bigint + xid_base) << 12 FROM cluster";
const READ: &str = "SELECT seq, request_id, stream, outcome, received_ms, arrived_ms, crc32, items FROM (
         SELECT *, sum(octet_length(items)) OVER (ORDER BY seq) - octet_length(items) AS before
         FROM (SELECT * FROM payloads WHERE seq > $1 AND seq < $2 ORDER BY seq LIMIT $3) AS next) AS part
     WHERE before < $4 ORDER BY seq";

/// Numbers of entries, for counting what lies behind a cursor.
#[derive(Debug, Default)]
struct Numbers {
    /// The newest that were read, at most [`COUNTED_MAX`].
    read: VecDeque<Seq>,
    /// Committed by this node and not read yet. They count from the receipt on, because a caller may look at once.
    own: BTreeSet<Seq>,
}

/// What is read, and how far.
#[derive(Debug)]
pub(super) struct Feed {
    database: Database,
    shared: Arc<Shared>,
    numbers: Mutex<Numbers>,
    /// Everything below this number that will ever be there was read.
    through: AtomicU64,
    /// Something was committed.
    hint: Notify,
    /// An entry that is placed takes the lock, so that no lane passes its place meanwhile.
    reading: tokio::sync::Mutex<Reading>,
    reachable: AtomicBool,
}

/// The one who reads.
#[derive(Debug)]
struct Reading {
    connection: Option<PgConnection>,
    last: Seq,
    /// The horizon, and since when it stands there.
    horizon: (Seq, Instant),
}

impl Feed {
    pub(super) fn new(database: Database, shared: Arc<Shared>, from: Start) -> Self {
        Self {
            database,
            shared,
            numbers: Mutex::new(Numbers {
                read: from.newest,
                own: BTreeSet::new(),
            }),
            through: AtomicU64::new(from.horizon.get()),
            hint: Notify::new(),
            reading: tokio::sync::Mutex::new(Reading {
                connection: None,
                last: from.last,
                horizon: (from.horizon, Instant::now()),
            }),
            reachable: AtomicBool::new(true),
        }
    }

    /// Lanes may be handed everything below this number.
    pub(super) fn through(&self) -> Seq {
        Seq::new(self.through.load(Ordering::Acquire))
    }

    /// Whether the database answered last.
    pub(super) fn is_reachable(&self) -> bool {
        self.reachable.load(Ordering::Relaxed)
    }

    pub(super) fn set_reachable(&self, reachable: bool) {
        self.reachable.store(reachable, Ordering::Relaxed);
    }

    /// Entries that this node committed: they are counted before anybody has a receipt. Otherwise a caller with a
    /// receipt could find its request neither waiting nor delivered.
    pub(super) fn committed(&self, seqs: impl Iterator<Item = Seq>) {
        let mut newest = Seq::MIN;
        let through = self.through();
        {
            let mut numbers = self.lock();
            for seq in seqs.filter(|seq| *seq >= through) {
                newest = newest.max(seq);
                numbers.own.insert(seq);
            }
        }
        self.shared.newest.send_if_modified(|shown| {
            *shown = newest.max(*shown);
            false
        });
        self.hint.notify_one();
        self.database.hints().give();
    }

    /// How many entries lie after a cursor.
    pub(super) fn lag(&self, cursor: Seq) -> u64 {
        let numbers = self.lock();
        let read = numbers.read.partition_point(|seq| *seq <= cursor);
        let own = numbers
            .own
            .range((cursor + 1).max(self.through())..)
            .count();
        (numbers.read.len() - read + own) as u64
    }

    /// Reads on until it is stopped.
    pub(super) async fn run(&self, mut stop: watch::Receiver<bool>) {
        let hints = self.database.hints();
        let (mut hinted, mut hinted_at) = (hints.heard(), Instant::now());
        loop {
            hinted.borrow_and_update();
            let read = {
                let mut reading = self.reading.lock().await;
                let read = self.read_on(&mut reading).await;
                let age = reading.horizon.1.elapsed().as_secs_f64();
                self.shared.metrics.horizon_age.set(age);
                read
            };
            let pause = match &read {
                // What was hinted at may still be above the horizon.
                Ok(()) if hinted_at.elapsed() < OFTEN_FOR => EVERY,
                Ok(()) => hints.pause(EVERY),
                Err(_) => AGAIN_AFTER,
            };
            tokio::select! {
                () = self.hint.notified(), if read.is_ok() => hinted_at = Instant::now(),
                Ok(()) = hinted.changed(), if read.is_ok() => hinted_at = Instant::now(),
                () = tokio::time::sleep(pause) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    /// Reads everything below the horizon of now.
    async fn read_on(&self, reading: &mut Reading) -> Result<(), DatabaseError> {
        let read = in_time(self.read_to_horizon(reading)).await;
        if let Err(error) = &read {
            if matches!(error, DatabaseError::Away(_)) {
                reading.connection = None;
            }
            if self.reachable.swap(false, Ordering::Relaxed) {
                tracing::warn!(%error, "cannot read accepted requests; sinks wait until the database answers");
            }
        } else if !self.reachable.swap(true, Ordering::Relaxed) {
            tracing::info!("the database answers again");
        }
        read
    }

    async fn read_to_horizon(&self, reading: &mut Reading) -> Result<(), DatabaseError> {
        let connection = match &mut reading.connection {
            Some(connection) => connection,
            none => none.insert(self.database.connect().await?),
        };
        let timer = self.database.timer(DatabaseCall::Horizon);
        let mut horizon = number(connection, HORIZON).await?;
        if horizon <= reading.horizon.0 && reading.horizon.1.elapsed() >= HELD_AFTER {
            horizon = horizon.max(number(connection, "SELECT horizon()").await?);
        }
        drop(timer);
        if horizon > reading.horizon.0 {
            reading.horizon = (horizon, Instant::now());
        }
        let horizon = reading.horizon.0;
        loop {
            let timer = self.database.timer(DatabaseCall::Read);
            let rows = sqlx::query(READ)
                .bind(reading.last.to_column())
                .bind(horizon.to_column())
                .bind(ENTRIES_MAX)
                .bind(BYTES_MAX)
                .fetch_all(&mut *connection)
                .await?;
            drop(timer);
            let Some(last) = rows.last() else {
                break;
            };
            reading.last = Seq::from_column(last.try_get("seq")?);
            self.publish(&rows)?;
        }
        self.through.fetch_max(horizon.get(), Ordering::Release);
        Ok(())
    }

    /// Hands entries to the lanes.
    fn publish(&self, rows: &[PgRow]) -> Result<(), DatabaseError> {
        let mut read = Vec::with_capacity(rows.len());
        for row in rows {
            let seq = Seq::from_column(row.try_get("seq")?);
            read.push((seq, read_entry(row)));
        }
        let Some((last, _)) = read.last() else {
            return Ok(());
        };
        let last = *last;
        {
            let mut numbers = self.lock();
            numbers.read.extend(read.iter().map(|(seq, _)| *seq));
            numbers.own = numbers.own.split_off(&(last + 1));
            let over = numbers.read.len().saturating_sub(COUNTED_MAX);
            numbers.read.drain(..over);
        }
        {
            let mut recent = self.shared.lock_recent();
            for (seq, entry) in read {
                match entry {
                    Ok(entry) => recent.push(entry),
                    // Lanes meet it in the database, and put it aside.
                    Err(_) => recent.forget_all_through(seq),
                }
            }
        }
        self.through.fetch_max(last.get() + 1, Ordering::Release);
        self.shared
            .newest
            .send_modify(|shown| *shown = last.max(*shown));
        Ok(())
    }

    /// Reads everything that is below the horizon of now, and has nobody read on until `place` is done: it is given the
    /// place just below the horizon, behind everything that was read. Otherwise a lane could pass the place before its
    /// entry is there.
    pub(super) async fn while_nobody_reads<T>(
        &self,
        place: impl AsyncFnOnce(Seq) -> T,
    ) -> Result<T, DatabaseError> {
        let mut reading = self.reading.lock().await;
        self.read_on(&mut reading).await?;
        let done = place(reading.horizon.0 - 1).await;
        drop(reading);
        self.hint.notify_one();
        Ok(done)
    }

    fn lock(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where reading begins.
#[derive(Debug)]
pub(super) struct Start {
    /// The newest entry.
    pub(super) last: Seq,
    horizon: Seq,
    newest: VecDeque<Seq>,
}

impl Start {
    /// At what is there: lanes read that from the database. Memory begins empty, so that a start does not read all that
    /// waits.
    pub(super) async fn at_newest(connection: &mut PgConnection) -> Result<Self, DatabaseError> {
        let horizon = number(connection, HORIZON).await?;
        let sql = "SELECT seq FROM payloads WHERE seq < $1 ORDER BY seq DESC LIMIT $2";
        let newest: Vec<i64> = sqlx::query_scalar(sql)
            .bind(horizon.to_column())
            .bind(COUNTED_MAX as i64)
            .fetch_all(connection)
            .await?;
        let newest: VecDeque<Seq> = (newest.into_iter().rev()).map(Seq::from_column).collect();
        Ok(Self {
            last: newest.back().copied().unwrap_or_default(),
            horizon,
            newest,
        })
    }
}

async fn number(connection: &mut PgConnection, sql: &'static str) -> Result<Seq, DatabaseError> {
    let number: i64 = sqlx::query_scalar(sql).fetch_one(connection).await?;
    Ok(Seq::from_column(number))
}
