//! Fills the files of a stopped daemon with a long request log.
//!
//! **Invariant:** the tables are those that the daemon made; the rows are like those that it writes.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use uuid::Uuid;

use base::clock::{Unix, millis};

use crate::Result;

/// What the log covers.
const DAYS: Duration = Duration::from_hours(20 * 24);
/// Requests that the sink has not had yet, and requests with dead letters.
const WAITING: u64 = 1_000;
const FAILED: u64 = 3_000;

/// What was filled in.
pub(crate) struct Filled {
    pub(crate) entries: u64,
    /// When the entry in the middle and the last one arrived.
    pub(crate) middle_at: Unix,
    pub(crate) last_at: Unix,
    /// A request of the connector `big`.
    pub(crate) id: String,
    pub(crate) random: Random,
}

/// Numbers that are the same in every run.
#[derive(Clone, Copy)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// `big` has 60 % of the entries, `broken` 10 % of which the newer half is refused, `rare` ten, the others share the
/// rest. A request arrives up to 2 s before it is logged.
pub(crate) fn fill(data: &Path, entries: u64) -> Result<Filled> {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let last_at = Unix::now();
    let at = |seq: u64| last_at - DAYS + Duration::from_millis(millis(DAYS) * seq / entries);
    let others: Vec<String> = (0..20).map(|number| format!("source-{number}")).collect();
    let mut middle = String::new();
    let mut journal = Connection::open(data.join("journal.db"))?;
    journal.execute_batch(
        "PRAGMA synchronous = OFF; PRAGMA cache_size = -200000; PRAGMA wal_autocheckpoint = 20000",
    )?;
    let insert = "INSERT INTO requests (seq, request_id, received_ms, connector, stream, outcome, endpoint, http_status, items, \
         bytes, key, client, item_key, idempotency_key, errors) VALUES (?1, ?2, ?3, ?4, 'orders', ?5, 0, ?6, 1, 188, \
         'ik_live_a1b2c3d4', ?7, 'order.id', ?8, ?9)";
    let mut seq = 0;
    while seq < entries {
        let transaction = journal.transaction()?;
        let mut statement = transaction.prepare_cached(insert)?;
        for _ in 0..50_000.min(entries - seq) {
            seq += 1;
            let received_at = at(seq) - Duration::from_millis(random.below(2_000));
            let share = random.below(100);
            let connector = match share {
                _ if seq % (entries / 10).max(1) == 7 => "rare",
                0..60 => "big",
                60..70 => "broken",
                _ => &others[random.below(20) as usize],
            };
            let outcome = match connector {
                "broken" if seq > entries / 2 => 1,
                _ if seq % (entries / 10).max(1) == 8 => 3,
                _ => match random.below(200) {
                    0 | 1 => 1,
                    2 => 2,
                    _ => 0,
                },
            };
            let error = (outcome == 1).then(|| match random.below(3) {
                0 => format!(
                    "item {} has no field \"order.id\", which X-Item-Key names",
                    random.below(100)
                ),
                _ => format!(
                    "line {} column {}: a value was expected",
                    random.below(50),
                    random.below(200)
                ),
            });
            let mut id = [0_u8; 16];
            id[..6].copy_from_slice(&received_at.ms().to_be_bytes()[2..]);
            id[6..8].copy_from_slice(&(0x7000 | random.below(0x1000) as u16).to_be_bytes());
            id[8..].copy_from_slice(&(random.below(1 << 62) | 1 << 63).to_be_bytes());
            if connector == "big" && seq <= entries / 2 {
                middle = Uuid::from_bytes(id).to_string();
            }
            let key =
                (random.below(10) == 0).then(|| format!("order-{:016x}", random.below(u64::MAX)));
            statement.execute(rusqlite::params![
                seq.cast_signed(),
                &id[..],
                received_at.to_column(),
                connector,
                outcome,
                if outcome == 1 { 400 } else { 202 },
                format!("127.0.0.{}", random.below(250)),
                key,
                error,
            ])?;
        }
        drop(statement);
        transaction.commit()?;
    }
    journal.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    pool(data, entries, &journal)?;
    Ok(Filled {
        entries,
        middle_at: at(entries / 2),
        last_at,
        id: middle,
        random,
    })
}

/// One sink has had everything, and gave up on some; one that does not start has not had the newest.
fn pool(data: &Path, entries: u64, journal: &Connection) -> Result<()> {
    let pool = Connection::open(data.join("pool.db"))?;
    let passed = entries.saturating_sub(WAITING);
    for (sink, cursor) in [("pool", entries), ("stuck", passed)] {
        pool.execute(
            "INSERT OR REPLACE INTO cursors (sink, seq, start) VALUES (?1, ?2, 0)",
            rusqlite::params![sink, cursor.cast_signed()],
        )?;
    }
    let every = (passed / FAILED).max(1);
    let mut failed = journal.prepare(
        "SELECT seq FROM requests WHERE connector = 'big' AND outcome = 0 AND seq > ?1 ORDER BY seq LIMIT 1",
    )?;
    pool.execute_batch("BEGIN")?;
    for number in 0..FAILED {
        let after = (number * every).cast_signed();
        let seq: i64 = failed.query_row([after], |row| row.get(0))?;
        for position in 0..3 {
            pool.execute(
                "INSERT INTO dead_letters (sink, seq, request_id, stream, position, key, fields, reason, attempts, at_ms)
                 VALUES ('pool', ?1, '', 'orders', ?2, 'k', '{}', 'refused', 1, 0)",
                [seq, position],
            )?;
        }
    }
    for number in 0..entries / 100 {
        pool.execute(
            "INSERT OR REPLACE INTO progress (sink, seq, at_ms) VALUES ('pool', ?1, ?2)",
            [(number * 100).cast_signed(), Unix::now().to_column()],
        )?;
    }
    pool.execute_batch("COMMIT")?;
    Ok(())
}
