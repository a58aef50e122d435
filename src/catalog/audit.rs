//! The audit log: every change and everything that cannot be undone, when, by whom, before and after.
//!
//! **Invariant**: an entry is written in the transaction of its change, and holds no secret. (What is done to another
//! file has its entry after it: dead letters by [`super::Catalog::note`], acts on items by [`super::Catalog::copy_acts`].)

pub(super) mod acts;
pub(super) mod chain;
mod page;

use std::sync::Arc;

use rusqlite::{Connection, Row, params};
use serde_json::Value;

use super::{KeyHash, ResourceKind};
use base::clock::Unix;
pub use page::Filter;
pub(super) use page::page;

/// The newest are kept. The log would otherwise grow as long as the file is used.
const ENTRIES_MAX: i64 = 100_000;
/// As [`entry`] reads them. They are named once, so that all readers of entries use the same positions.
const COLUMNS: &str =
    "id, at_ms, who, client, action, kind, name, connector, before, after, digest";

/// Every verb of [`Change::action`]. They are listed, so that a filter with a misspelled action is refused instead of
/// finding nothing.
pub const ACTIONS: [&str; 33] = [
    "add",
    "change",
    "claim",
    "create",
    "delete",
    "discard",
    "end_retries",
    "expire",
    "forget",
    "hold",
    "override",
    "pause",
    "put",
    "refill",
    "release",
    "reload",
    "remove",
    "replace",
    "resend",
    "resume",
    "retry",
    "revoke",
    "role_refused",
    "rollback",
    "rotate",
    "sign_in",
    "sign_in_refused",
    "sign_out",
    "take",
    "take-secret",
    "trigger",
    "try",
    "undo",
];

/// What entries of version 0.1 call an action, and its name among [`ACTIONS`]. Entries are never rewritten, because their
/// digests cover the action.
pub const OLD_ACTIONS: [(&str, &str); 2] = [("give_up", "end_retries"), ("send_again", "resend")];

/// What a filter can ask for: each of [`ACTIONS`], then those of [`OLD_ACTIONS`]. Those of version 0.1 are among them,
/// because scripts may still ask for them.
pub fn action_names() -> Vec<&'static str> {
    let old = OLD_ACTIONS.iter().map(|(old, _)| *old);
    ACTIONS.into_iter().chain(old).collect()
}

/// The name of an action among [`ACTIONS`], also of one with its name of version 0.1.
pub fn current_action(name: &str) -> &str {
    let current = OLD_ACTIONS.iter().find(|(old, _)| *old == name);
    current.map_or(name, |(_, current)| current)
}

#[derive(Debug, Clone)]
pub struct Actor {
    /// By what they were admitted.
    pub who: Arc<str>,
    /// Address, or `unix`.
    pub client: String,
}

/// What is written of a change.
#[derive(Debug, Clone)]
pub struct Change {
    /// What was done, a verb: one of [`ACTIONS`].
    pub action: &'static str,
    /// To what kind of thing.
    pub kind: ResourceKind,
    pub name: String,
    /// The connector of an ingest key, or of a request.
    pub connector: Option<String>,
    /// What it was, or what is gone. The log is the only place that still has it.
    pub before: Option<Value>,
    /// What it is, or what was done in numbers.
    pub after: Option<Value>,
}

impl Change {
    /// What was done to something that is not in the catalog, and what came of it. It has no `before`, because the
    /// catalog does not know what that was.
    pub fn done(
        action: &'static str,
        kind: ResourceKind,
        name: impl Into<String>,
        after: Value,
    ) -> Self {
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

/// An entry of the audit log.
#[derive(Debug, Clone)]
pub struct AuditEntry {
    /// Rises with each change.
    pub id: i64,
    pub at: Unix,
    /// By what they were admitted who made the change.
    pub who: String,
    /// Their address, or `unix`.
    pub client: String,
    /// As [`Change::action`].
    pub action: String,
    /// As [`ResourceKind::as_str`].
    pub kind: String,
    /// Name of what was changed.
    pub name: String,
    /// Connector of an ingest key, or of a request.
    pub connector: Option<String>,
    /// What it was, as JSON; none: it did not exist.
    pub before: Option<String>,
    pub after: Option<String>,
    /// Its digest in the chain; none: somebody took it away.
    pub digest: Option<KeyHash>,
}

pub(super) fn write(
    connection: &Connection,
    actor: &Actor,
    change: &Change,
) -> Result<(), rusqlite::Error> {
    let action = current_action(change.action);
    debug_assert!(ACTIONS.contains(&action), "{action}");
    let json = |value: &Option<Value>| value.as_ref().map(Value::to_string);
    let at = Unix::now();
    let mut entry = AuditEntry {
        id: 0,
        at,
        who: actor.who.to_string(),
        client: actor.client.clone(),
        action: change.action.to_owned(),
        kind: change.kind.as_str().to_owned(),
        name: change.name.clone(),
        connector: change.connector.clone(),
        before: json(&change.before),
        after: json(&change.after),
        digest: None,
    };
    connection
        .prepare_cached(
            "INSERT INTO audit (at_ms, who, client, action, kind, name, connector, before, after)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            at.to_column(),
            entry.who,
            entry.client,
            entry.action,
            entry.kind,
            entry.name,
            entry.connector,
            entry.before,
            entry.after,
        ])?;
    entry.id = connection.last_insert_rowid();
    chain::link(connection, &entry)?;
    connection
        .prepare_cached("DELETE FROM audit WHERE id <= ?1")?
        .execute([entry.id - ENTRIES_MAX])?;
    Ok(())
}

/// Reads [`COLUMNS`].
fn entry(row: &Row<'_>) -> Result<AuditEntry, rusqlite::Error> {
    Ok(AuditEntry {
        id: row.get(0)?,
        at: Unix::from_column(row.get(1)?),
        who: row.get(2)?,
        client: row.get(3)?,
        action: row.get(4)?,
        kind: row.get(5)?,
        name: row.get(6)?,
        connector: row.get(7)?,
        before: row.get(8)?,
        after: row.get(9)?,
        digest: chain::hash(row, 10),
    })
}
