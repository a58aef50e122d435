//! The audit trail: every change and everything that cannot be undone, when, by whom, before and after.
//!
//! **Invariant**: an entry is written in the transaction of its change, and holds no secret. (What is done to another
//! file, dead letters above all, has its entry after it: [`super::Catalog::note`].)

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
#[derive(Debug, Clone)]
pub struct Change {
    /// What was done, a verb: `create`, `change`, `delete`, `rotate`, `revoke`, `send_again`, `retry`, `discard`, `sign_in`,
    /// `sign_in_refused`, `sign_out`.
    pub action: &'static str,
    /// To what kind of thing.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// The connector of an ingest key, or of a request.
    pub connector: Option<String>,
    /// What it was, or what is gone.
    pub before: Option<Value>,
    /// What it is, or what was done in numbers.
    pub after: Option<Value>,
}

impl Change {
    /// What was done to something that is not in the catalog, and what came of it.
    pub fn done(action: &'static str, kind: Kind, name: impl Into<String>, after: Value) -> Self {
        Self {
            action,
            kind,
            name: name.into(),
            connector: None,
            before: None,
            after: Some(after),
        }
    }
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
    /// As [`Change::action`].
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
