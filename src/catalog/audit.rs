//! The audit trail: every change, when, by whom, before and after.
//!
//! **Invariant**: an entry is written in the transaction of its change, and holds no secret. (A request that is sent
//! again is in another file; its entry is written after it.)

use rusqlite::{Connection, params};
use serde_json::Value;

use super::Kind;
use crate::clock;

/// The newest are kept.
const ENTRIES_MAX: i64 = 100_000;

/// Who makes a change.
#[derive(Debug, Clone)]
pub struct Actor {
    /// By what they were admitted.
    pub who: &'static str,
    /// Address, or `unix`.
    pub client: String,
}

/// What is written of a change.
pub(super) struct Change {
    /// `create`, `change`, `delete`, `rotate`, `revoke` or `send_again`.
    pub(super) action: &'static str,
    pub(super) kind: Kind,
    pub(super) name: String,
    /// Of an ingest key, and of a request.
    pub(super) connector: Option<String>,
    pub(super) before: Option<Value>,
    pub(super) after: Option<Value>,
}

/// An entry of the audit trail.
#[derive(Debug, Clone)]
pub struct AuditEntry {
    /// Rises with each change.
    pub id: i64,
    /// Unix time in milliseconds.
    pub at_ms: u64,
    /// By what they were admitted who made the change.
    pub who: String,
    /// Their address, or `unix`.
    pub client: String,
    /// `create`, `change`, `delete`, `rotate`, `revoke` or `send_again`.
    pub action: String,
    /// As [`Kind::as_str`].
    pub kind: String,
    /// Name of what was changed.
    pub name: String,
    /// Connector of an ingest key, or of a request.
    pub connector: Option<String>,
    /// What it was, as JSON; none: it did not exist.
    pub before: Option<String>,
    /// What it is, likewise.
    pub after: Option<String>,
}

pub(super) fn write(
    connection: &Connection,
    actor: &Actor,
    change: &Change,
) -> Result<(), rusqlite::Error> {
    let json = |value: &Option<Value>| value.as_ref().map(Value::to_string);
    connection
        .prepare_cached(
            "INSERT INTO audit (at_ms, who, client, action, kind, name, connector, before, after)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            clock::unix_ms().cast_signed(),
            actor.who,
            actor.client,
            change.action,
            change.kind.as_str(),
            change.name,
            change.connector,
            json(&change.before),
            json(&change.after),
        ])?;
    let oldest = connection.last_insert_rowid() - ENTRIES_MAX;
    connection
        .prepare_cached("DELETE FROM audit WHERE id <= ?1")?
        .execute([oldest])?;
    Ok(())
}

pub(super) fn page(
    connection: &Connection,
    before: Option<i64>,
    limit: u32,
) -> Result<Vec<AuditEntry>, rusqlite::Error> {
    let mut statement = connection.prepare_cached(
        "SELECT id, at_ms, who, client, action, kind, name, connector, before, after
         FROM audit WHERE id < ?1 ORDER BY id DESC LIMIT ?2",
    )?;
    let rows = statement.query_map(params![before.unwrap_or(i64::MAX), limit], |row| {
        Ok(AuditEntry {
            id: row.get(0)?,
            at_ms: row.get::<_, i64>(1)?.unsigned_abs(),
            who: row.get(2)?,
            client: row.get(3)?,
            action: row.get(4)?,
            kind: row.get(5)?,
            name: row.get(6)?,
            connector: row.get(7)?,
            before: row.get(8)?,
            after: row.get(9)?,
        })
    })?;
    rows.collect()
}
