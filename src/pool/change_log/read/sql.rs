//! The statements that read what changed.
//!
//! **Invariant**: each reads the keys that it was given from the tables of one kind of state.

use crate::items::{AS_STORED, GONE};

/// Removals of items that are not back: an update that overwrites without a look leaves the row of the removal, and only
/// the item is the newest.
const NOT_BACK: &str =
    "NOT EXISTS (SELECT 1 FROM items WHERE items.stream = ?1 AND items.key = removed.key)";
/// Keys of the log that are looked up for each row of a page of the newest items: some were overwritten since.
pub(super) const LOOKED_UP: i64 = 4;
/// Where the log of a stream begins, up to where removals may be forgotten, whether anything changed after the number `?2`,
/// and the row that ends a page of about `?3` keys behind it.
pub(super) const PAGE: &str = "SELECT
    coalesce((SELECT previous FROM change_log WHERE stream = ?1 ORDER BY seq LIMIT 1), 0) AS log_begin,
    (SELECT floor FROM history) AS floor,
    EXISTS (SELECT 1 FROM change_log WHERE stream = ?1 AND seq > ?2) AS is_changed,
    (SELECT seq FROM change_log WHERE stream = ?1 AND seq > ?2 AND total >= ?3 + (
        SELECT total - json_array_length(keys) FROM change_log WHERE stream = ?1 AND seq > ?2 ORDER BY seq LIMIT 1)
     ORDER BY seq LIMIT 1) AS page_end";
/// The row that covers the number `?2`, or the last one, and where about `?3` keys of it and of those before begin; no row
/// of an empty log.
pub(super) const PAGE_BACK: &str = "WITH covering AS (
        SELECT * FROM (SELECT seq, total FROM change_log WHERE stream = ?1 AND seq >= ?2 ORDER BY seq LIMIT 1)
        UNION ALL SELECT * FROM (SELECT seq, total FROM change_log WHERE stream = ?1 ORDER BY seq DESC LIMIT 1)
        LIMIT 1)
    SELECT covering.seq AS page_end, coalesce(
        (SELECT seq FROM change_log WHERE stream = ?1 AND seq <= covering.seq AND total <= covering.total - ?3 ORDER BY seq DESC LIMIT 1),
        (SELECT previous FROM change_log WHERE stream = ?1 ORDER BY seq LIMIT 1)) AS page_begin
    FROM covering";

/// Whose word counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StateKind {
    /// What sources say.
    Source,
    /// What is shown: with what operators put over it.
    Shown,
}

/// Which keys are looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keys {
    /// Those of the rows of the log behind `?2`, up to the row `?5`.
    Logged,
    /// Those of the JSON array `?5`.
    Given,
    /// All: the whole stream is read.
    All,
}

impl Keys {
    fn wanted(self) -> &'static str {
        match self {
            Self::Logged => {
                "WITH wanted (key) AS MATERIALIZED (
                     SELECT DISTINCT one.value FROM change_log, json_each(change_log.keys) AS one
                     WHERE change_log.stream = ?1 AND change_log.seq > ?2 AND change_log.seq <= ?5)"
            }
            // The join has each key looked up. With `key IN` SQLite reads the whole stream.
            Self::Given => {
                "WITH wanted (key) AS MATERIALIZED (SELECT DISTINCT value FROM json_each(?5))"
            }
            Self::All => "",
        }
    }

    /// The rows of a table with these keys whose numbers are above `?2` and not above `?3`.
    fn of(self, table: &str) -> String {
        let range = format!("{table}.stream = ?1 AND {table}.seq > ?2 AND {table}.seq <= ?3");
        match self {
            Self::All => format!("{table} WHERE {range}"),
            _ => format!("wanted CROSS JOIN {table} WHERE {table}.key = wanted.key AND {range}"),
        }
    }
}

/// `columns` of items and removals: of the tables `items`, `removed` and `shown`.
fn union(kind: StateKind, keys: Keys, columns: [&str; 3]) -> String {
    let [of_items, of_removed, of_shown] = columns;
    let (items, removed) = (keys.of("items"), keys.of("removed"));
    match kind {
        StateKind::Source => format!(
            "SELECT {of_items} FROM {items}
             UNION ALL SELECT {of_removed} FROM {removed} AND {NOT_BACK}"
        ),
        StateKind::Shown => format!(
            "SELECT {of_items} FROM {items} AND {AS_STORED}
             UNION ALL SELECT {of_removed} FROM {removed} AND {GONE} AND {NOT_BACK}
             UNION ALL SELECT {of_shown} FROM {}",
            keys.of("shown")
        ),
    }
}

/// Keys, numbers and the bytes of the fields, none of a removal. Parentheses may be put around it.
pub(crate) fn sizes_sql(kind: StateKind, keys: Keys) -> String {
    let columns = [
        "items.key, items.seq, octet_length(items.fields) AS bytes",
        "removed.key, removed.seq, NULL",
        "shown.key, shown.seq, octet_length(shown.fields)",
    ];
    format!("{} {}", keys.wanted(), union(kind, keys, columns))
}

/// All that is told of a key.
pub(crate) fn rows_sql(kind: StateKind) -> String {
    let columns = [
        "items.key, items.seq AS seq, items.fields, items.updated_at, items.request_id, '' AS overridden",
        "removed.key, removed.seq, NULL, '', '', ''",
        "shown.key, shown.seq, shown.fields, shown.updated_at, shown.request_id, shown.overridden",
    ];
    let keys = Keys::Given;
    format!(
        "{} {} ORDER BY seq LIMIT ?4",
        keys.wanted(),
        union(kind, keys, columns)
    )
}
