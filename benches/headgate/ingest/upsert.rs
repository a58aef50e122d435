//! The floor of the pool: the same rows, written into SQLite by one prepared statement and nothing else.
//!
//! Called by the rounds of the array shapes, between those of the daemon.
//!
//! **Invariant:** only the transactions are timed; making the rows is not. One transaction holds the rows of one
//! 1 MB array, and the table, journal mode, synchronous level and checkpoint size are those of the pool.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};

use super::payload::{ARRAY_ITEMS, Keys, Revisions, Rows, Shape};
use crate::Result;
use crate::process::own_thread_micros;

/// Pages of the write-ahead log between two checkpoints.
const CHECKPOINT_PAGES: u32 = 10_000;

const UPSERT: &str = "INSERT INTO items (stream, key, fields, seq, created_at, updated_at, request_id) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6) \
     ON CONFLICT (stream, key) DO UPDATE SET fields = excluded.fields, seq = excluded.seq, \
     updated_at = excluded.updated_at, request_id = excluded.request_id \
     WHERE excluded.seq > items.seq";

/// What one round of upserts reached.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(crate) struct UpsertRound {
    /// Rows in a second of transaction time.
    pub(crate) items_per_second: f64,
    /// CPU time of the writing thread for each row, where the kernel counts it.
    pub(crate) cpu_micros_per_item: Option<f64>,
}

/// A file with the pool's table.
pub(crate) struct PlainPool {
    connection: Connection,
    seq: i64,
}

impl PlainPool {
    /// Makes the file and fills it with every key of every array shape.
    pub(crate) fn create(path: &Path, revisions: &Revisions) -> Result<Self> {
        let connection = Connection::open(path)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "normal")?;
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        connection.execute_batch(
            "CREATE TABLE items (stream TEXT NOT NULL, key TEXT NOT NULL, fields TEXT NOT NULL, seq INTEGER NOT NULL, \
             created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, request_id TEXT NOT NULL, \
             PRIMARY KEY (stream, key)) WITHOUT ROWID",
        )?;
        let mut pool = Self { connection, seq: 0 };
        for shape in [Shape::Recurring, Shape::Random] {
            let mut rows = Rows::new(shape, Keys::every(shape), revisions);
            for _ in 0..shape.keys() / ARRAY_ITEMS as u64 {
                pool.write(shape, &rows.next_array())?;
            }
        }
        Ok(pool)
    }

    /// Writes arrays of `shape` for `duration`.
    pub(crate) fn round(
        &mut self,
        shape: Shape,
        duration: Duration,
        revisions: &Revisions,
    ) -> Result<UpsertRound> {
        let mut rows = Rows::new(shape, Keys::of(shape, 0), revisions);
        let begun = Instant::now();
        let (mut items, mut time, mut cpu) = (0_usize, Duration::ZERO, Some(0.0));
        while begun.elapsed() < duration {
            let array = rows.next_array();
            let (cpu_before, before) = (own_thread_micros(), Instant::now());
            self.write(shape, &array)?;
            time += before.elapsed();
            cpu = cpu
                .zip(own_thread_micros().zip(cpu_before))
                .map(|(sum, (after, before))| sum + after - before);
            items += array.len();
        }
        Ok(UpsertRound {
            items_per_second: items as f64 / time.as_secs_f64(),
            cpu_micros_per_item: cpu.map(|cpu| cpu / items as f64),
        })
    }

    fn write(&mut self, shape: Shape, rows: &[(String, String)]) -> Result<()> {
        let transaction = self.connection.transaction()?;
        {
            let mut statement = transaction.prepare_cached(UPSERT)?;
            for (key, fields) in rows {
                self.seq += 1;
                let request_id = "01920000-0000-7000-8000-000000000000";
                statement.execute(params![
                    shape.name(),
                    key,
                    fields,
                    self.seq,
                    1_760_000_000_000_i64,
                    request_id
                ])?;
            }
        }
        Ok(transaction.commit()?)
    }
}
