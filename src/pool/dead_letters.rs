//! Dead letters: items that a sink refused for good.
//!
//! Delivery writes them with its settlements; the admin API reads. How they are sent again is in `pool/resends.rs`.
//!
//! **Invariant**: an item that a cursor has passed is in the sink, in `retries` or in `dead_letters`,
//! unless somebody discarded it there.

use std::num::NonZeroU32;
use std::sync::Arc;

use rusqlite::{Connection, Row};

use super::{Pool, PoolError, Selection};
use base::clock::Unix;
use base::order::{ItemPosition, Seq};
use item::batch::Action;
use item::{ItemMeta, Version};

const COLUMNS: &str = "id, seq, request_id, stream, position, key, fields, reason, attempts, at_ms, received_ms, removal, version, version_text, expire_after_seconds";

/// An item that a sink refused for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Row in the table; 0 until it is stored. Newer ones are higher.
    pub id: i64,
    /// Sequence number of the request.
    pub seq: Seq,
    /// The request that it came with.
    pub request_id: String,
    pub stream: Arc<str>,
    /// Its position in the request.
    pub position: ItemPosition,
    pub key: String,
    /// What was asked of the sink.
    pub action: Action,
    /// The flattened item as JSON text; empty if the payload could not be read.
    pub fields: String,
    /// What decides over it beside the order of acceptance. Without its version, a letter that is sent again could
    /// overwrite newer data.
    pub meta: ItemMeta,
    /// Why the sink refused it.
    pub reason: String,
    /// How often it was tried.
    pub attempts: u32,
    /// When it was given up.
    pub at: Unix,
    /// When its request arrived; 1970 if that is not known.
    pub received_at: Unix,
}

/// What a sink has not delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Undelivered {
    /// Batches that wait for their next attempt.
    pub retries: u64,
    /// Items given up.
    pub dead_letters: u64,
}

/// Part of a transaction.
pub(super) fn store_letters(
    connection: &Connection,
    sink: &str,
    letters: &[DeadLetter],
) -> Result<(), rusqlite::Error> {
    for letter in letters {
        connection
            .prepare_cached(
                "INSERT INTO dead_letters (sink, seq, request_id, stream, position, key, fields, reason, attempts, at_ms, received_ms, removal, version_text, expire_after_seconds) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
            )?
            .execute(rusqlite::params![
                sink,
                letter.seq.to_column(),
                letter.request_id,
                &*letter.stream,
                letter.position.get(),
                letter.key,
                letter.fields,
                letter.reason,
                letter.attempts,
                letter.at.to_column(),
                letter.received_at.to_column(),
                letter.action == Action::Remove,
                letter.meta.version.map(|version| version.to_string()),
                letter.meta.expire_after_seconds.map(NonZeroU32::get),
            ])?;
    }
    Ok(())
}

impl Pool {
    /// What a sink has not delivered.
    pub async fn undelivered(&self, sink: &str) -> Result<Undelivered, PoolError> {
        let sql = "SELECT (SELECT count(*) FROM retries WHERE sink = ?1), (SELECT count(*) FROM dead_letters WHERE sink = ?1)";
        let undelivered = |row: &Row<'_>| {
            Ok(Undelivered {
                retries: row.get::<_, i64>(0)?.unsigned_abs(),
                dead_letters: row.get::<_, i64>(1)?.unsigned_abs(),
            })
        };
        Ok((self.reads)
            .row(sql, [sink.to_owned()], undelivered)
            .await?)
    }

    /// A sink's dead letters, newest first, before the row `before`.
    pub async fn dead_letters(
        &self,
        sink: &str,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<DeadLetter>, PoolError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM dead_letters WHERE sink = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3",
        );
        let values = (sink.to_owned(), before.unwrap_or(i64::MAX), limit);
        Ok(self.reads.rows(sql, values, read_letter).await?)
    }

    /// Dead letters of a selection that have an item, in the order of acceptance, behind the one after which they are
    /// asked for, up to the id `newest`. That order keeps an older letter of a key from being sent after a newer one,
    /// which would overwrite it otherwise.
    pub async fn letters_in_order(
        &self,
        sink: &str,
        selection: &Selection,
        newest: i64,
        after: Option<&DeadLetter>,
        limit: u32,
    ) -> Result<Vec<DeadLetter>, PoolError> {
        let condition = selection.condition();
        let condition =
            (condition.replace(":sink", "?1").replace(":newest", "?2")).replace(":chosen", "?3");
        let sql = format!(
            "SELECT {COLUMNS} FROM dead_letters
             WHERE {condition} AND fields <> '' AND (seq, position, id) > (?4, ?5, ?6) ORDER BY seq, position, id LIMIT ?7"
        );
        let values = (
            sink.to_owned(),
            newest,
            selection.chosen(),
            after.map_or(0, |after| after.seq.to_column()),
            after.map_or(0, |after| after.position.get()),
            after.map_or(0, |after| after.id),
            limit,
        );
        Ok(self.reads.rows(sql, values, read_letter).await?)
    }

    /// These are something else by now. Blocks.
    ///
    /// # Errors
    /// SQLite's; nothing happened.
    pub fn forget_letters(&self, ids: &[i64]) -> Result<(), PoolError> {
        self.write(|writer| {
            let sql = "DELETE FROM dead_letters WHERE id = ?1";
            let mut delete = writer.connection.prepare_cached(sql)?;
            ids.iter().try_for_each(|id| delete.execute([id]).map(drop))
        })
    }
}

fn read_letter(row: &Row<'_>) -> Result<DeadLetter, rusqlite::Error> {
    Ok(DeadLetter {
        id: row.get("id")?,
        seq: Seq::from_column(row.get("seq")?),
        request_id: row.get("request_id")?,
        stream: row.get::<_, String>("stream")?.into(),
        position: ItemPosition::new(row.get("position")?),
        key: row.get("key")?,
        action: action(row.get("removal")?),
        fields: row.get("fields")?,
        meta: meta(
            row.get("version")?,
            row.get_ref("version_text")?.as_str_or_null()?,
            row.get("expire_after_seconds")?,
        ),
        reason: row.get("reason")?,
        attempts: row.get("attempts")?,
        at: Unix::from_column(row.get("at_ms")?),
        received_at: Unix::from_column(row.get("received_ms")?),
    })
}

/// What a row says of its item: the version as a text, or of a row of before as thousandths.
pub(super) fn meta(
    thousandths: Option<i64>,
    version_text: Option<&str>,
    expire_after_seconds: Option<u32>,
) -> ItemMeta {
    let before = thousandths.map(Version::from_thousandths);
    ItemMeta {
        version: version_text.and_then(Version::parse).or(before),
        expire_after_seconds: expire_after_seconds.and_then(NonZeroU32::new),
        ..ItemMeta::default()
    }
}

/// What a row asks of a sink.
pub(super) fn action(removal: bool) -> Action {
    match removal {
        true => Action::Remove,
        false => Action::Upsert,
    }
}
