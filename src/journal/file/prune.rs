//! What the writer deletes between groups: payloads that every sink has, bodies of refused requests, expired claims
//! and log entries, and the space that they leave.
//!
//! **Invariant**: a slice of this work is short, so that the next group never waits long for it.

use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::claims::Claims;
use super::rejected_bodies::Bodies;
use super::segments::{self, Segments};
use super::timeline::{self, Timeline};
use super::{payloads, quarantine};
use crate::Shared;
use base::clock::Lived;
use base::order::Seq;

/// A slice ends after this time, at the next step. Requests that arrive meanwhile wait for its end.
const SLICE: Duration = Duration::from_millis(5);
/// Numbers whose payloads are deleted in one step; a slice is as many steps as fit.
const PAYLOADS_STEP: u64 = 256;
/// A busy writer deletes payloads when so many wait. Fewer would cost a transaction of their own for little.
const PAYLOADS_WAITING: u64 = 1_024;
/// Log entries deleted in one step, and how long a slice of such steps is: whoever waits for a receipt meanwhile waits
/// for its commit besides.
const LOG_STEP: i64 = 500;
const LOG_SLICE: Duration = Duration::from_millis(2);
/// After a slice of entries or space the writer has so many times its length for other work: deleting
/// keeps up with whatever comes in, and requests seldom meet it.
const PAUSE_FACTOR: u32 = 4;
/// Bytes of free pages that are kept for the next payloads. Otherwise the file would shrink and grow again with each
/// burst.
const FREE_BYTES_KEPT: i64 = 16 << 20;
const EXPIRE_EVERY: Duration = Duration::from_secs(10);

/// The round of deleting log entries that is under way.
#[derive(Debug, Clone, Copy)]
struct Round {
    /// Entries up to here go because the log is too large.
    excess: Seq,
    /// When its next slice may begin.
    resume_at: Instant,
}

/// What a slice works on.
pub(super) struct Work<'a> {
    pub(super) connection: &'a Connection,
    pub(super) claims: &'a mut Claims,
    pub(super) spans: &'a Segments,
    pub(super) bodies: &'a mut Bodies,
    pub(super) timeline: &'a mut Timeline,
    pub(super) shared: &'a Shared,
    /// The highest number that was given out.
    pub(super) last_seq: Seq,
    /// No request waits. Then payloads are deleted at once, because nobody is held up.
    pub(super) idle: bool,
}

#[derive(Debug)]
pub(super) struct Pruner {
    log_retention: Duration,
    log_retention_bytes: u64,
    /// Payloads up to here are deleted; unknown at the start. It is forgotten when a transaction is rolled back,
    /// because the payloads may still be there.
    pruned_to: Option<Seq>,
    /// When claims, log and free space were last looked at.
    expired_at: Option<Instant>,
    round: Option<Round>,
}

impl Pruner {
    pub(super) fn new(log_retention: Duration, log_retention_bytes: u64) -> Self {
        Self {
            log_retention,
            log_retention_bytes,
            pruned_to: None,
            expired_at: None,
            round: None,
        }
    }

    /// How long an idle writer waits for the next slice, if more is known to be due.
    pub(super) fn pause(&self) -> Option<Duration> {
        self.round
            .map(|round| round.resume_at.saturating_duration_since(Instant::now()))
    }

    /// One slice, in a transaction of its own. Does nothing when nothing is due.
    pub(super) fn run(&mut self, work: Work<'_>) -> Result<(), rusqlite::Error> {
        let Work {
            connection,
            claims,
            spans,
            bodies,
            timeline,
            shared,
            last_seq,
            idle,
        } = work;
        let target = shared.released();
        let pruned_to = match self.pruned_to {
            Some(pruned_to) => pruned_to,
            None => *self.pruned_to.insert(before_first_payload(connection)?),
        };
        let waiting = target - pruned_to;
        let started = Instant::now();
        let expire = match self.round {
            Some(round) => round.resume_at <= started,
            None => self
                .expired_at
                .is_none_or(|expired_at| expired_at.elapsed() >= EXPIRE_EVERY),
        };
        let bodies_are_over = bodies.are_over(connection)?;
        let point_is_due = timeline.is_due(last_seq);
        if !expire
            && !bodies_are_over
            && !point_is_due
            && (waiting == 0 || (!idle && waiting < PAYLOADS_WAITING))
        {
            return Ok(());
        }
        sqlite::begin(connection)?;
        let noted = match point_is_due {
            true => timeline.noted(connection, last_seq)?,
            false => *timeline,
        };
        let pruned_to = delete_payloads(connection, pruned_to, target, started)?;
        // Whether expiry has more to do; payloads have their own measure.
        let mut more = false;
        if expire || bodies_are_over {
            more = bodies.give_up(connection)?;
            while more && started.elapsed() < SLICE {
                more = bodies.give_up(connection)?;
            }
        }
        if expire {
            more |= self.expire(connection, claims, spans, target, started)?;
        }
        sqlite::commit(connection)?;
        *timeline = noted;
        if expire && !more {
            more = give_space_back(connection, FREE_BYTES_KEPT, started)?;
        }
        self.pruned_to = Some(pruned_to);
        if let Some(round) = &mut self.round
            && expire
        {
            let now = Instant::now();
            round.resume_at = now + (now - started) * PAUSE_FACTOR;
            if !more {
                self.round = None;
                self.expired_at = Some(now);
            }
        }
        Ok(())
    }

    /// A slice of what is too old or too much; true if there may be more.
    fn expire(
        &mut self,
        connection: &Connection,
        claims: &mut Claims,
        spans: &Segments,
        released: Seq,
        started: Instant,
    ) -> Result<bool, rusqlite::Error> {
        let now = Lived::now();
        let mut more_claims = claims.expire(connection, now)?;
        while more_claims && started.elapsed() < SLICE {
            more_claims = claims.expire(connection, now)?;
        }
        let excess = match self.round {
            Some(round) => round.excess,
            None => spans.excess(connection, self.log_retention_bytes)?,
        };
        let aged = timeline::older_than(connection, self.log_retention)?;
        let due = Due {
            through: excess.max(aged),
            released,
        };
        let mut more_log = expire_log(connection, due)?;
        while more_log && started.elapsed() < LOG_SLICE {
            more_log = expire_log(connection, due)?;
        }
        segments::forget(connection)?;
        timeline::forget(connection, self.log_retention)?;
        quarantine::give_up(connection, released)?;
        self.round = Some(Round {
            excess,
            resume_at: started,
        });
        Ok(more_claims || more_log)
    }

    /// The writer rolled a transaction back: what was thought to be deleted may be there.
    pub(super) fn rolled_back(&mut self) {
        self.pruned_to = None;
        // A full disk: not again at once.
        self.round = None;
        self.expired_at = Some(Instant::now());
    }
}

/// Which log entries go.
#[derive(Debug, Clone, Copy)]
struct Due {
    /// Up to this position: they are too old, or too many.
    through: Seq,
    /// Every sink has the requests up to here.
    released: Seq,
}

/// The sequence number before the first payload; with none, payloads begin above everything.
fn before_first_payload(connection: &Connection) -> Result<Seq, rusqlite::Error> {
    let first: Option<i64> =
        connection.query_row("SELECT min(seq) FROM payloads", [], |row| row.get(0))?;
    Ok(first.map_or(Seq::MIN, |first| Seq::from_column(first) - 1))
}

/// Deletes payloads up to the target while the slice lasts; returns up to where.
fn delete_payloads(
    connection: &Connection,
    from: Seq,
    target: Seq,
    started: Instant,
) -> Result<Seq, rusqlite::Error> {
    let mut pruned_to = from;
    while pruned_to < target && started.elapsed() < SLICE {
        let next = next_payloads(connection, pruned_to, target)?;
        connection
            .prepare_cached("DELETE FROM payloads WHERE seq > ?1 AND seq <= ?2")?
            .execute([pruned_to.to_column(), next.to_column()])?;
        pruned_to = next;
    }
    Ok(pruned_to)
}

/// The end of the next step: so many numbers from the first payload on, or the target. Gaps cost nothing.
fn next_payloads(
    connection: &Connection,
    pruned_to: Seq,
    target: Seq,
) -> Result<Seq, rusqlite::Error> {
    let first: Option<i64> = connection
        .prepare_cached("SELECT min(seq) FROM payloads WHERE seq > ?1")?
        .query_row([pruned_to.to_column()], |row| row.get(0))?;
    let end = first.map(|first| Seq::from_column(first) + (PAYLOADS_STEP - 1));
    Ok(end.map_or(target, |end| end.min(target)))
}

/// Deletes the oldest log entries that are due; true if there may be more. Entries of payloads that are
/// still needed stay, quarantined or not, and so does the newest: it carries the highest sequence number
/// over a restart.
///
/// The statement has one bound, the least of all. Of several, SQLite ends the scan at one and compares each row with the
/// others: a step would read all entries that are due.
fn expire_log(connection: &Connection, due: Due) -> Result<bool, rusqlite::Error> {
    let waiting = payloads::first(connection, due.released)?.unwrap_or(Seq::MAX);
    let deleted = connection.prepare_cached(EXPIRE_LOG)?.execute([
        due.through.to_column(),
        due.released.to_column(),
        LOG_STEP,
        waiting.to_column(),
    ])?;
    Ok(i64::try_from(deleted).unwrap_or(0) >= LOG_STEP)
}

const EXPIRE_LOG: &str = "DELETE FROM requests WHERE seq <= min(
    ?1,
    (SELECT max(seq) FROM (SELECT seq FROM requests ORDER BY seq LIMIT ?3)),
    (SELECT max(seq) FROM requests) - 1,
    ?4 - 1,
    coalesce((SELECT min(seq) FROM quarantine WHERE seq > ?2) - 1, 9223372036854775807))";

/// Returns free pages to the file system, beyond these bytes for the next payloads; true if there are
/// more. Runs outside a transaction.
pub(super) fn give_space_back(
    connection: &Connection,
    bytes_kept: i64,
    started: Instant,
) -> Result<bool, rusqlite::Error> {
    let number = |pragma: &str| -> Result<i64, rusqlite::Error> {
        connection.pragma_query_value(None, pragma, |row| row.get(0))
    };
    let kept = bytes_kept / number("page_size")?.max(1);
    let pages = number("freelist_count")? - kept;
    if pages <= 0 {
        return Ok(false);
    }
    let mut statement = connection.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
    let mut rows = statement.query([])?;
    // One row for each page that is moved; what is done when the time is over is kept.
    while rows.next()?.is_some() {
        if started.elapsed() >= SLICE {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests;
