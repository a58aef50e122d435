//! What a sink has been handed and not taken: the batch that it is called with, and the batches that are tried again.
//!
//! Delivery writes the first before it calls a sink that reaches others, so that exactly this batch comes again after a
//! crash. The admin API lists the others and gives them up.
//!
//! **Invariant**: a batch leaves `retries` in the settlement of its attempt, or as dead letters with all its items; never
//! both. A batch stays in `calls` until the cursor that it moves is stored.

mod stored;

use rusqlite::{Connection, OptionalExtension, Row};

use super::dead_letters::{DeadLetter, store_letters};
use super::{Pool, PoolError, Settlement, delivery_status, fills, resends};
use base::clock::{Lived, Unix};
use base::order::{ItemPosition, Seq};
use item::batch::BatchOrigin;
pub(super) use stored::parts_of;
use stored::{batches_of, batches_text, retry_of, store_retry};

/// Some consecutive items of one request: sequence number, first position, one past the last; and whether they left what
/// the sink receives, so that they are handed on as removals, whatever the sink receives by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Part(
    pub Seq,
    pub ItemPosition,
    pub ItemPosition,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")] pub bool,
);

/// A batch that is to be tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// Row in the table; 0 until it is stored. Never given to another; what replaces it after an attempt keeps it, the
    /// first one of several. Among what a settlement stores: the row that its items are added to, if nobody has tried
    /// that, or 0.
    pub id: i64,
    /// The sequence numbers of its first and its last request, once it is stored.
    pub seqs: (Seq, Seq),
    /// Its items, in order of acceptance; empty if the list of them cannot be read.
    pub parts: Vec<Part>,
    /// Where its items lie; the journal may have let go of those that the pool has.
    pub origin: BatchOrigin,
    /// How often it was tried; 0: it waits behind another one that holds its keys, or was sent again.
    pub attempts: u32,
    /// How often its items were tried before, in batches of which others were taken, and while the sink was paused.
    pub earlier: u32,
    /// When it is due.
    pub due_at: Lived,
    /// Why it failed the last time.
    pub reason: String,
}

impl Retry {
    /// Whether its items were dead letters that somebody sent again.
    pub fn is_sent_again(&self) -> bool {
        self.origin == BatchOrigin::Letters
    }

    /// How often its items were tried.
    pub fn tried(&self) -> u32 {
        self.earlier.saturating_add(self.attempts)
    }
}

/// What a sink is called with for the first time: a batch, or several at once that have no key in common. It is stored,
/// because a receiver knows a repeat only by the same items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The items of each batch, in order of acceptance.
    pub batches: Vec<Vec<Part>>,
    /// Where the cursor stands after them.
    pub through: Seq,
}

/// A retry as it stands in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    pub retry: Retry,
    /// Number of its items; `None` if the list of them cannot be read.
    pub items: Option<u64>,
}

impl Waiting {
    fn read(row: &Row<'_>) -> Result<Self, rusqlite::Error> {
        let bytes = |name: &str| {
            row.get_ref(name)
                .map(|value| value.as_bytes().unwrap_or_default())
        };
        let retry = Retry {
            id: row.get("id")?,
            seqs: (
                Seq::from_column(row.get("first_seq")?),
                Seq::from_column(row.get("last_seq")?),
            ),
            parts: parts_of(bytes("parts")?),
            origin: BatchOrigin::from_column(row.get("resent")?),
            attempts: row.get("attempts")?,
            earlier: row.get("earlier")?,
            due_at: Lived::from_column(row.get("due_ms")?),
            reason: String::from_utf8_lossy(bytes("reason")?).into_owned(),
        };
        let lens = retry.parts.iter();
        let lens = lens.map(|Part(_, start, end, _)| u64::from(*end - *start));
        let listed = (!retry.parts.is_empty()).then(|| lens.sum());
        let kept: Option<i64> = row.get("items")?;
        Ok(Self {
            items: kept.map(i64::unsigned_abs).or(listed),
            retry,
        })
    }
}

/// Part of [`Pool::settle`]'s transaction.
pub(super) fn note_call(
    connection: &Connection,
    sink: &str,
    call: &Call,
) -> Result<(), rusqlite::Error> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO calls (sink, parts, through) VALUES (?1, ?2, ?3)")?
        .execute(rusqlite::params![
            sink,
            batches_text(&call.batches),
            call.through.to_column(),
        ])?;
    Ok(())
}

/// Part of [`Pool::settle`]'s transaction: the cursor has passed the batch.
pub(super) fn end_call(connection: &Connection, sink: &str) -> Result<(), rusqlite::Error> {
    connection
        .prepare_cached("DELETE FROM calls WHERE sink = ?1")?
        .execute([sink])?;
    Ok(())
}

/// Whether a retry is still there: an operator may have given it up while it was tried. Otherwise an item could be
/// delivered and be a dead letter, too.
pub(super) fn waits(connection: &Connection, retry: &Retry) -> Result<bool, rusqlite::Error> {
    connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM retries WHERE id = ?1)")?
        .query_row([retry.id], |row| row.get(0))
}

/// Part of [`Pool::settle`]'s transaction: the retries that it makes, and the one that it ends. Under which ids they stand.
pub(super) fn store_retries(
    connection: &Connection,
    settlement: &Settlement,
    now: Unix,
) -> Result<Vec<i64>, rusqlite::Error> {
    let sink = &*settlement.sink;
    let mut ids = Vec::with_capacity(settlement.retries.len());
    for retry in &settlement.retries {
        ids.push(store_retry(connection, sink, retry)?);
        if let Some(done) = &settlement.retry_done
            && retry.origin != BatchOrigin::Journal
        {
            resends::hand_over(connection, done.id, retry)?;
        }
        if let (None, Some(step)) = (&settlement.retry_done, &settlement.fill)
            && retry.origin == BatchOrigin::Fill
        {
            fills::store_page(connection, &step.page)?;
        }
    }
    // Only now: the retries that replace it take over its items, and the first of them its id.
    if let Some(done) = &settlement.retry_done {
        connection.execute("DELETE FROM retries WHERE id = ?1", [done.id])?;
        if done.origin != BatchOrigin::Journal {
            resends::finish(connection, done.id)?;
        }
        if let Some(id) = ids.first_mut() {
            connection.execute("UPDATE retries SET id = ?2 WHERE id = ?1", [*id, done.id])?;
            connection.execute(
                "UPDATE resends SET retry_id = ?2 WHERE retry_id = ?1",
                [*id, done.id],
            )?;
            *id = done.id;
        }
        if done.origin != BatchOrigin::Fill {
            delivery_status::note_late(connection, sink, &done.parts, now)?;
        }
    }
    Ok(ids)
}

impl Pool {
    /// Makes every retry of a sink due now; returns how many there are. Blocks.
    pub fn retry_now(&self, sink: &str) -> Result<u64, PoolError> {
        self.write(|writer| {
            let retries = writer.connection.execute(
                "UPDATE retries SET due_ms = min(due_ms, ?2) WHERE sink = ?1",
                rusqlite::params![sink, Lived::now().to_column()],
            )?;
            Ok(retries as u64)
        })
    }

    /// The batch that the sink was called with when the daemon, or the settling of it, ended. Blocks.
    pub fn call(&self, sink: &str) -> Result<Option<Call>, PoolError> {
        let writer = self.lock();
        let sql = "SELECT parts, through FROM calls JOIN cursors USING (sink) WHERE sink = ?1 AND through > seq";
        let found = writer
            .connection
            .prepare_cached(sql)?
            .query_row([sink], |row| {
                let text = row.get_ref(0)?.as_bytes().unwrap_or_default();
                Ok(Call {
                    batches: batches_of(text),
                    through: Seq::from_column(row.get(1)?),
                })
            })
            .optional()?;
        // Its items are behind no cursor: a batch whose list cannot be read is cut anew.
        Ok(found.filter(|call| !call.batches.is_empty()))
    }

    /// A retry of a sink as it stands in the file; `None` if it is not there any more. Blocks.
    pub fn retry(&self, sink: &str, id: i64) -> Result<Option<Retry>, PoolError> {
        Ok(retry_of(&self.lock().connection, sink, id)?)
    }

    /// Retries of a sink with ids above `after`, by id.
    pub async fn waiting(
        &self,
        sink: &str,
        after: i64,
        limit: u32,
    ) -> Result<Vec<Waiting>, PoolError> {
        let sql = "SELECT id, first_seq, last_seq, parts, attempts, earlier, due_ms, reason, resent,
                    iif(resent, (SELECT count(*) FROM resends WHERE retry_id = retries.id), NULL) AS items
             FROM retries WHERE sink = ?1 AND id > ?2 ORDER BY id LIMIT ?3";
        let values = (sink.to_owned(), after, limit);
        Ok(self.reads.rows(sql, values, Waiting::read).await?)
    }

    /// The first request of which something waits in a retry of a sink.
    pub async fn first_retried(&self, sink: &str) -> Result<Option<Seq>, PoolError> {
        let sql = "SELECT min(first_seq) FROM retries WHERE sink = ?1 AND resent < 2";
        let first = self.reads.row(sql, [sink.to_owned()], |row| row.get(0));
        let first: Option<i64> = first.await?;
        Ok(first.map(Seq::from_column))
    }

    /// The highest id of a sink's retries, 0 for none.
    pub async fn newest_retry(&self, sink: &str) -> Result<i64, PoolError> {
        let sql = "SELECT coalesce(max(id), 0) FROM retries WHERE sink = ?1";
        let newest = self.reads.row(sql, [sink.to_owned()], |row| row.get(0));
        Ok(newest.await?)
    }

    /// Makes dead letters of a retry: these, or of one that was made of dead letters its own again, with this reason.
    /// `None` if it is not there any more as it was read. Blocks.
    ///
    /// # Errors
    /// SQLite's; nothing happened.
    pub fn give_up(
        &self,
        sink: &str,
        retry: &Retry,
        letters: &[DeadLetter],
        reason: &str,
    ) -> Result<Option<u64>, PoolError> {
        self.write(|writer| {
            let connection = &writer.connection;
            let now = retry_of(connection, sink, retry.id)?;
            // It may have become due meanwhile, but must hold the same items.
            let same = |now: &Retry| now.parts == retry.parts && now.origin == retry.origin;
            if !now.is_some_and(|now| same(&now)) {
                return Ok(None);
            }
            let mut items = letters.len() as u64;
            store_letters(connection, sink, letters)?;
            if retry.origin != BatchOrigin::Journal {
                let sql = "INSERT INTO dead_letters (sink, seq, request_id, stream, position, key, fields, reason, attempts, at_ms, received_ms, removal, version, version_text, expire_after_seconds)
                     SELECT ?1, seq, request_id, stream, position, key, fields, ?2, ?3, ?4, received_ms, removal, version, version_text, expire_after_seconds FROM resends
                     WHERE retry_id = ?5 ORDER BY seq, position, id";
                let now = Unix::now().to_column();
                items += connection.execute(
                    sql,
                    rusqlite::params![sink, reason, retry.tried(), now, retry.id],
                )? as u64;
                resends::finish(connection, retry.id)?;
            }
            connection.execute("DELETE FROM retries WHERE id = ?1", [retry.id])?;
            Ok(Some(items))
        })
    }
}
