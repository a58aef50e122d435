//! The acts that were made: for undo, for the audit log, and for who built on which.
//!
//! **Invariant**: an act is written with what it changed, in one transaction. The audit log is another file: acts are copied
//! there afterwards, once.

use std::sync::Arc;

use rusqlite::{Row, params};
use serde_json::Value;

use super::{Acting, Author};
use crate::change_set::ChangeSet;
use crate::{Pool, PoolError};
use base::clock::Unix;
use base::order::ChangeSeq;

/// Acts of an operator in a stream that can be undone. What undo needs of each is kept, so the list is bounded.
const LISTED_MAX: i64 = 100;
/// Bytes of what was kept, in a stream, for the undo of takes and resumes.
const KEPT_BYTES_MAX: i64 = 64 << 20;
/// Acts of a stream that are known at all.
const KNOWN_MAX: i64 = 10_000;

/// What stands in the column `state`.
pub(super) const LISTED: i64 = 0;
/// It is not on the list any more.
pub(super) const OFF: i64 = 1;
/// It is as if it had not been made.
pub(super) const UNDONE: i64 = 2;

pub(super) struct Change {
    pub(super) n: ChangeSeq,
    pub(super) before: Value,
    pub(super) after: Value,
    /// For undo.
    pub(super) scope: Option<String>,
}

/// An act that is to be audited.
#[derive(Debug, Clone)]
pub struct Record {
    pub n: ChangeSeq,
    pub request_id: String,
    pub stream: String,
    pub verb: String,
    pub who: String,
    pub client: String,
    pub at: Unix,
    pub before: Value,
    pub after: Value,
}

impl Acting<'_> {
    pub(super) fn record(
        &mut self,
        stream: &Arc<str>,
        verb: &str,
        by: &Author,
        change: &Change,
    ) -> Result<(), rusqlite::Error> {
        let is_listed = !matches!(verb, "undo") && &*by.operator != super::HEADGATE;
        let text = |value: &Value| (!value.is_null()).then(|| value.to_string());
        self.connection
            .prepare_cached(
                "INSERT INTO acts (n, request_id, stream, verb, operator, by_name, client, at_ms, before, after, scope, state, told)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, 0)",
            )?
            .execute(params![
                change.n.to_column(),
                by.request_id.to_string(),
                &**stream,
                verb,
                &*by.operator,
                &*by.name,
                by.client,
                Unix::now().to_column(),
                text(&change.before),
                text(&change.after),
                change.scope,
                match is_listed {
                    true => LISTED,
                    false => OFF,
                },
            ])?;
        Ok(())
    }

    /// Takes what is too much off the list of an operator, and off what is known of a stream.
    pub(super) fn limit_list(
        &mut self,
        stream: &Arc<str>,
        operator: &str,
    ) -> Result<(), rusqlite::Error> {
        let over: Vec<i64> = self.numbers(
            "SELECT n FROM acts WHERE stream = ?1 AND operator = ?2 AND state = 0 ORDER BY n DESC LIMIT -1 OFFSET ?3",
            params![&**stream, operator, LISTED_MAX],
        )?;
        let many: Vec<i64> = self.numbers(
            "SELECT n FROM acts WHERE stream = ?1 ORDER BY n DESC LIMIT -1 OFFSET ?2",
            params![&**stream, KNOWN_MAX],
        )?;
        for n in over.into_iter().chain(many) {
            self.end_undo(stream, ChangeSeq::from_column(n), OFF)?;
        }
        while self.kept_bytes(stream)? > KEPT_BYTES_MAX {
            let oldest = self.numbers(
                "SELECT min(n) FROM kept_of WHERE stream = ?1",
                params![&**stream],
            )?;
            let Some(oldest) = oldest.first() else { break };
            self.end_undo(stream, ChangeSeq::from_column(*oldest), OFF)?;
        }
        self.forget_audited(stream)
    }

    fn kept_bytes(&self, stream: &str) -> Result<i64, rusqlite::Error> {
        self.connection
            .prepare_cached(
                "SELECT coalesce(sum(octet_length(fields)), 0) FROM kept_of WHERE stream = ?1",
            )?
            .query_row([stream], |row| row.get(0))
    }

    fn numbers(
        &self,
        sql: &str,
        values: impl rusqlite::Params,
    ) -> Result<Vec<i64>, rusqlite::Error> {
        let mut select = self.connection.prepare_cached(sql)?;
        let rows = select.query_map(values, |row| row.get::<_, Option<i64>>(0))?;
        rows.filter_map(Result::transpose).collect()
    }

    /// An act cannot be undone any more: what was kept for that goes.
    pub(super) fn end_undo(
        &mut self,
        stream: &Arc<str>,
        n: ChangeSeq,
        state: i64,
    ) -> Result<(), rusqlite::Error> {
        let of_act = params![&**stream, n.to_column()];
        let keys: Vec<String> = {
            let mut select = self
                .connection
                .prepare_cached("SELECT DISTINCT key FROM writes WHERE n = ?2 AND stream = ?1")?;
            let keys = select.query_map(of_act, |row| row.get(0))?;
            keys.collect::<Result<_, _>>()?
        };
        for sql in [
            "DELETE FROM kept_of WHERE stream = ?1 AND n = ?2",
            "DELETE FROM writes WHERE stream = ?1 AND hidden = ?2",
        ] {
            self.connection.prepare_cached(sql)?.execute(of_act)?;
        }
        self.connection
            .prepare_cached("UPDATE acts SET state = ?3 WHERE stream = ?1 AND n = ?2")?
            .execute(params![&**stream, n.to_column(), state])?;
        for key in keys {
            self.compact(stream, &key)?;
        }
        Ok(())
    }

    /// Acts that nobody can undo and that are audited say only that they were made, while older ones can be undone.
    fn forget_audited(&mut self, stream: &str) -> Result<(), rusqlite::Error> {
        self.connection
            .prepare_cached("UPDATE acts SET before = NULL, after = NULL WHERE stream = ?1 AND told AND (before IS NOT NULL OR after IS NOT NULL)")?
            .execute([stream])?;
        self.connection
            .prepare_cached(
                "DELETE FROM acts WHERE stream = ?1 AND state > 0 AND told
                 AND n < (SELECT coalesce(min(n), 9223372036854775807) FROM acts WHERE stream = ?1 AND state = 0)",
            )?
            .execute([stream])?;
        Ok(())
    }

    /// Everything that acts have left of a stream goes; what is shown is what its source says.
    pub(super) fn forget(
        &mut self,
        stream: &Arc<str>,
        pass: &mut ChangeSet<'_>,
    ) -> Result<(), rusqlite::Error> {
        let keys: Vec<String> = {
            let mut select = self
                .connection
                .prepare_cached("SELECT key FROM shown WHERE stream = ?1")?;
            let keys = select.query_map([&**stream], |row| row.get(0))?;
            keys.collect::<Result<_, _>>()?
        };
        for table in ["writes", "holds", "kept", "kept_of", "act_answers"] {
            let sql = format!("DELETE FROM {table} WHERE stream = ?1");
            self.connection.execute(&sql, [&**stream])?;
        }
        // What is not in the audit log yet stays until it is.
        self.connection
            .execute("DELETE FROM acts WHERE stream = ?1 AND told", [&**stream])?;
        self.connection.execute(
            "UPDATE acts SET state = ?2 WHERE stream = ?1",
            params![&**stream, OFF],
        )?;
        for key in keys {
            self.show(stream, &key, pass)?;
        }
        Ok(())
    }
}

impl Pool {
    /// Acts that are not audited yet, oldest first. Blocks.
    pub fn unaudited(&self, limit: u32) -> Result<Vec<Record>, PoolError> {
        let sql = "SELECT n, request_id, stream, verb, by_name, client, at_ms, before, after FROM acts WHERE told = 0 ORDER BY n LIMIT ?1";
        let json = |text: Option<String>| {
            let value = text.and_then(|text| serde_json::from_str(&text).ok());
            value.unwrap_or(Value::Null)
        };
        let record = |row: &Row<'_>| {
            Ok(Record {
                n: ChangeSeq::from_column(row.get(0)?),
                request_id: row.get(1)?,
                stream: row.get(2)?,
                verb: row.get(3)?,
                who: row.get(4)?,
                client: row.get(5)?,
                at: Unix::from_column(row.get(6)?),
                before: json(row.get(7)?),
                after: json(row.get(8)?),
            })
        };
        self.read(|connection| {
            let mut select = connection.prepare_cached(sql)?;
            select.query_map([limit], record)?.collect()
        })
    }

    /// These are audited. Blocks.
    pub fn audited(&self, through: ChangeSeq) -> Result<(), PoolError> {
        self.write(|writer| {
            let sql = "UPDATE acts SET told = 1 WHERE told = 0 AND n <= ?1";
            writer
                .connection
                .prepare_cached(sql)?
                .execute([through.to_column()])?;
            Ok(())
        })
    }
}
