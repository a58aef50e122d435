//! Pages of the audit log, and which entries stand on them.
//!
//! **Invariant**: a page is newest first, and its last entry leads to exactly those after it.

use rusqlite::{Connection, params};

use super::{AuditEntry, COLUMNS, OLD_ACTIONS, current_action, entry};
use base::clock::Unix;

/// Which entries of the audit log are wanted: those to which everything applies that is given.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Entries before the one with this id. A page begins at an id instead of a count of entries, so that new entries
    /// move none of those behind.
    pub before: Option<i64>,
    /// What was done, one of [`ACTIONS`](super::ACTIONS) or of [`OLD_ACTIONS`]: both names of an action find the same.
    /// Entries of both versions are found so.
    pub action: Option<String>,
    /// To what kind of thing, as [`ResourceKind::as_str`](crate::ResourceKind::as_str).
    pub kind: Option<String>,
    /// Name of what was changed, or of the connector that it belongs to.
    pub name: Option<String>,
    /// Who made the change, as entries have it or the name at its end: `token night-shift`, `night-shift`. The name
    /// alone is found too, because a person knows the name of a token and not how entries write it.
    pub who: Option<String>,
    /// At this time or later.
    pub since: Option<Unix>,
    /// At this time or before it, likewise.
    pub until: Option<Unix>,
}

/// At most `limit` entries.
pub(crate) fn page(
    connection: &Connection,
    filter: &Filter,
    limit: u32,
) -> Result<Vec<AuditEntry>, rusqlite::Error> {
    let action = filter.action.as_deref().map(current_action);
    let old = OLD_ACTIONS.iter().find(|(_, name)| Some(*name) == action);
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM audit
         WHERE id < ?1
           AND (?2 IS NULL OR action IN (?2, ?9))
           AND (?3 IS NULL OR kind = ?3)
           AND (?4 IS NULL OR name = ?4 OR connector = ?4)
           AND (?5 IS NULL OR who = ?5 OR substr(who, -length(?5) - 1) = ' ' || ?5)
           AND (?6 IS NULL OR at_ms >= ?6)
           AND (?7 IS NULL OR at_ms <= ?7)
         ORDER BY id DESC LIMIT ?8"
    ))?;
    let rows = statement.query_map(
        params![
            filter.before.unwrap_or(i64::MAX),
            action,
            filter.kind,
            filter.name,
            filter.who,
            filter.since.map(Unix::to_column),
            filter.until.map(Unix::to_column),
            limit,
            old.map(|(old, _)| old),
        ],
        entry,
    )?;
    rows.collect()
}
