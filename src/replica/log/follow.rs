//! What the log has behind a place.
//!
//! **Invariant**: head and entries are of one moment. An answer is bounded whatever the log has.

use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::{Log, column, unexpected};
use crate::{ChainDigest, LogEntry, LogPlace};
use postgres::{DatabaseCall, DatabaseError};

/// The longest wait for entries is so many times that for other answers, because one large entry may take longer over
/// a slow line.
const WAITS_MAX: u32 = 16;
const HEAD: &str = "SELECT head, digest, catalog, seq, format, low_water, base, owner, fence, beat, version FROM log_head";
/// The head, as [`HEAD`] has it, and entries behind `$1`: at most 500, and 8 MiB unless the first is larger.
const FOLLOW: &str = "SELECT h.head, h.digest, h.catalog, h.seq, h.format, h.low_water, h.base, h.owner, h.fence, h.beat,
        h.version, e.n, e.digest, e.change
    FROM log_head h LEFT JOIN LATERAL (
        SELECT b.n, b.digest, b.change FROM (
            SELECT f.n, f.digest, f.change, sum(octet_length(f.change)) OVER (ORDER BY f.n) AS bytes,
                row_number() OVER (ORDER BY f.n) AS place
            FROM (SELECT l.n, l.digest, l.change FROM log l WHERE l.n > $1 ORDER BY l.n LIMIT 500) f
        ) b WHERE b.place = 1 OR b.bytes <= 8388608
    ) e ON true ORDER BY e.n";

/// Where the log is, and who runs the sinks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogHead {
    /// Its newest entry.
    pub place: LogPlace,
    /// Its newest entry that changed `catalog.db`.
    pub catalog: u64,
    /// Number of the newest change of the pool.
    pub seq: u64,
    /// What a node must know to apply what comes behind the newest entry.
    pub format: i32,
    /// The version that raised it; empty: nobody knows.
    pub version: String,
    /// Up to here every sink has the accepted requests.
    pub low_water: u64,
    /// The newest entry of which there is a whole copy.
    pub base: u64,
    /// The node that runs the sinks.
    pub owner: Option<Uuid>,
    /// The number of its claim.
    pub fence: i64,
    /// Rises while it lives.
    pub beat: i64,
}

/// Some entries behind a place.
#[derive(Debug)]
pub struct FollowedEntries {
    pub head: LogHead,
    /// In their order, each behind the one before.
    pub entries: Vec<FollowedEntry>,
    /// They follow on the place, or it is the head. If not, the copy is of no use: the log keeps no longer what it lacks, or
    /// it has another entry than the log.
    pub fits: bool,
}

/// An entry as it was read.
#[derive(Debug)]
pub struct FollowedEntry {
    pub place: LogPlace,
    pub change: Vec<u8>,
}

impl FollowedEntry {
    /// To be applied.
    pub fn entry(&self) -> LogEntry<'_> {
        LogEntry {
            place: self.place,
            change: &self.change,
        }
    }
}

impl Log {
    /// Where the log is.
    ///
    /// # Errors
    /// The database's.
    pub async fn head(&mut self) -> Result<LogHead, DatabaseError> {
        let rows = self.ask(DatabaseCall::Claim, sqlx::query(HEAD)).await?;
        Ok(head(&rows)?.0)
    }

    /// What the log has behind a place. The wait is longer after each answer that did not come, otherwise a large entry
    /// would be read in vain for ever.
    ///
    /// # Errors
    /// The database's.
    pub async fn follow(&mut self, after: LogPlace) -> Result<FollowedEntries, DatabaseError> {
        // One large entry may take longer than any other answer, on a slow line: a node must not begin it again for ever.
        self.connected().await?;
        let query = sqlx::query(FOLLOW).bind(after.n.cast_signed());
        let answer_max = self.answer_max.saturating_mul(self.follow_waits);
        let rows = self
            .ask_within(answer_max, DatabaseCall::Follow, query)
            .await;
        self.follow_waits = match &rows {
            Err(DatabaseError::Away(_)) => (2 * self.follow_waits).min(WAITS_MAX),
            _ => 1,
        };
        let rows = rows?;
        let (head, first) = head(&rows)?;
        let mut entries = Vec::new();
        if column::<Option<i64>>(first, 11)?.is_some() {
            for row in &rows {
                entries.push(FollowedEntry {
                    place: place(row, 11)?,
                    change: column(row, 13)?,
                });
            }
        }
        let mut next = after.n;
        let follow_on = entries.iter().all(|entry| {
            next += 1;
            entry.place.n == next
        });
        let fits = follow_on && (!entries.is_empty() || head.place == after);
        Ok(FollowedEntries {
            head,
            entries,
            fits,
        })
    }
}

/// The head, which every row has, and the first row.
fn head(rows: &[PgRow]) -> Result<(LogHead, &PgRow), DatabaseError> {
    let row = rows.first();
    let row = row.ok_or_else(|| unexpected("the log has no head"))?;
    let head = LogHead {
        place: place(row, 0)?,
        catalog: number(row, 2)?,
        seq: number(row, 3)?,
        format: column(row, 4)?,
        low_water: number(row, 5)?,
        base: number(row, 6)?,
        owner: column(row, 7)?,
        fence: column(row, 8)?,
        beat: column(row, 9)?,
        version: column(row, 10)?,
    };
    Ok((head, row))
}

/// A number and a digest, in two columns.
fn place(row: &PgRow, at: usize) -> Result<LogPlace, DatabaseError> {
    let digest = ChainDigest::from_bytes(column(row, at + 1)?);
    Ok(LogPlace {
        n: number(row, at)?,
        digest: digest.ok_or_else(|| unexpected("a digest of the log is none"))?,
    })
}

fn number(row: &PgRow, at: usize) -> Result<u64, DatabaseError> {
    Ok(column::<i64>(row, at)?.unsigned_abs())
}
