//! The tables of `pool.db`.
//!
//! **Invariant**: `items` is a public interface: people query it. Its columns are only ever added to.
//! A file of an older format is brought to this one in a transaction of its own.

use std::path::Path;

use rusqlite::Connection;

use super::{PoolError, acts, change_log, latest, past_values, sizes};

/// Its name in the data folder.
pub const FILE: &str = "pool.db";
/// Stands in `PRAGMA user_version`.
pub const FORMAT: i64 = 15;

/// `items` keeps its rows apart from its key: a row of 2 KB then stays in one page and is updated in
/// place, which costs two thirds of what it costs inside a key's tree; small rows cost the same.
const TABLES: &str = "
CREATE TABLE items (
    stream TEXT NOT NULL,
    key TEXT NOT NULL,
    fields TEXT NOT NULL,
    seq INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    request_id TEXT NOT NULL,
    accepted_seq INTEGER NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (stream, key)
);
CREATE TABLE views (
    stream TEXT PRIMARY KEY,
    view TEXT NOT NULL COLLATE NOCASE UNIQUE
) WITHOUT ROWID;
CREATE TABLE view_fields (
    stream TEXT NOT NULL,
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (stream, position)
) WITHOUT ROWID;
CREATE TABLE cursors (
    sink TEXT PRIMARY KEY,
    seq INTEGER NOT NULL,
    start INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE progress (
    sink TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (sink, seq)
) WITHOUT ROWID;
CREATE TABLE retries (
    id INTEGER PRIMARY KEY,
    sink TEXT NOT NULL,
    first_seq INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    parts TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    due_ms INTEGER NOT NULL,
    reason TEXT NOT NULL,
    resent INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX retries_by_due ON retries (sink, due_ms);
CREATE TABLE settled_late (
    sink TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (sink, seq)
) WITHOUT ROWID;
";

/// Ids of dead letters are never given twice: somebody may have read one and act on it later. `resends`
/// holds the items of dead letters that are sent again, by the retry that sends them.
const LETTERS: &str = "
CREATE TABLE dead_letters (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    sink TEXT NOT NULL,
    seq INTEGER NOT NULL,
    request_id TEXT NOT NULL,
    stream TEXT NOT NULL,
    position INTEGER NOT NULL,
    key TEXT NOT NULL,
    fields TEXT NOT NULL,
    reason TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    received_ms INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX dead_letters_by_sink ON dead_letters (sink);
CREATE INDEX dead_letters_by_seq ON dead_letters (seq);
CREATE INDEX dead_letters_by_order ON dead_letters (sink, seq, position);
CREATE INDEX dead_letters_by_request ON dead_letters (request_id, seq, position);
CREATE INDEX dead_letters_by_key ON dead_letters (key, seq);
CREATE TABLE resends (
    id INTEGER PRIMARY KEY,
    retry_id INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    request_id TEXT NOT NULL,
    stream TEXT NOT NULL,
    position INTEGER NOT NULL,
    key TEXT NOT NULL,
    fields TEXT NOT NULL,
    received_ms INTEGER NOT NULL
);
CREATE INDEX resends_by_order ON resends (retry_id, seq, position);
CREATE INDEX resends_by_key ON resends (key, seq);
";

/// What renderers need beside the items: the order of changes, what was removed, and the number of the
/// last change. A position in the sequence is `epoch:seq`. And what sinks keep for themselves.
const HISTORY: &str = "
CREATE INDEX items_by_seq ON items (stream, seq);
CREATE TABLE removed (
    stream TEXT NOT NULL,
    key TEXT NOT NULL,
    seq INTEGER NOT NULL,
    accepted_seq INTEGER NOT NULL,
    position INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (stream, key)
) WITHOUT ROWID;
CREATE INDEX removed_by_seq ON removed (stream, seq);
CREATE TABLE history (
    epoch INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    floor INTEGER NOT NULL
);
CREATE TABLE sink_state (
    sink TEXT NOT NULL,
    key TEXT NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (sink, key)
) WITHOUT ROWID;
INSERT INTO history (epoch, seq, floor) VALUES (0, 0, 0);
";

/// Ids of retries are never given twice: somebody may have read one and give it up later. `calls` holds the batch that a
/// sink is called with which reaches others.
const WAITING_4: &str = "
DROP INDEX retries_by_due;
ALTER TABLE retries RENAME TO retries_of_3;
CREATE TABLE retries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    sink TEXT NOT NULL,
    first_seq INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    parts TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    due_ms INTEGER NOT NULL,
    reason TEXT NOT NULL,
    resent INTEGER NOT NULL DEFAULT 0
);
INSERT INTO retries SELECT id, sink, first_seq, last_seq, parts, attempts, due_ms, reason, resent FROM retries_of_3;
DROP TABLE retries_of_3;
CREATE INDEX retries_by_due ON retries (sink, due_ms);
CREATE TABLE calls (
    sink TEXT PRIMARY KEY,
    parts TEXT NOT NULL,
    through INTEGER NOT NULL
) WITHOUT ROWID;
";

/// Format 1 had one number for the order of acceptance and none for the order of changes.
const FROM_1: &str = "
ALTER TABLE items RENAME COLUMN seq TO accepted_seq;
ALTER TABLE items ADD COLUMN seq INTEGER NOT NULL DEFAULT 0;
UPDATE items SET seq = rowid;
";

/// Format 2 could not send dead letters again.
const FROM_2: &str = "
ALTER TABLE retries ADD COLUMN resent INTEGER NOT NULL DEFAULT 0;
DROP INDEX IF EXISTS dead_letters_by_sink;
DROP INDEX IF EXISTS dead_letters_by_seq;
ALTER TABLE dead_letters RENAME TO dead_letters_of_2;
";
const FROM_2_LETTERS: &str = "
INSERT INTO dead_letters
    SELECT id, sink, seq, request_id, stream, position, key, fields, reason, attempts, at_ms, 0
    FROM dead_letters_of_2;
DROP TABLE dead_letters_of_2;
";

/// Format 3 was not flushed at each commit, and noted when numbers may have been taken back: it gets a new epoch.
const FROM_3: &str = "
ALTER TABLE history DROP COLUMN boot;
UPDATE history SET epoch = random() & 9007199254740991;
";

/// What the request log says of sinks since format 4: when a row of `progress` began, and of which requests somebody
/// discarded dead letters.
const DELIVERY_STATUS_4: &str = "
ALTER TABLE progress ADD COLUMN since_ms INTEGER NOT NULL DEFAULT 0;
CREATE TABLE discarded (
    sink TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (sink, seq)
) WITHOUT ROWID;
CREATE INDEX discarded_by_seq ON discarded (seq);
";

/// Removals are requests like others: dead letters and what is sent again may be one. What was removed is remembered by
/// the order of acceptance instead of by a clock; the number 0 marks what is not published to renderers. And items
/// that were merged know which request each field is of, up to format 8.
const REMOVALS_4: &str = "
ALTER TABLE items ADD COLUMN merged TEXT;
ALTER TABLE dead_letters ADD COLUMN removal INTEGER NOT NULL DEFAULT 0;
ALTER TABLE resends ADD COLUMN removal INTEGER NOT NULL DEFAULT 0;
ALTER TABLE removed DROP COLUMN at_ms;
CREATE INDEX removed_told ON removed (seq) WHERE seq > 0;
CREATE INDEX removed_others ON removed (accepted_seq, stream, key) WHERE seq = 0;
CREATE INDEX retries_by_seq ON retries (first_seq) WHERE resent = 0;
";

/// Versions that sources give their items, and when items expire, in time lived. A removal that has a version is
/// remembered for what comes late from outside, too: nobody can tell for how long, so the newest are kept. `stale` says
/// of which requests items changed nothing because a higher version was there.
const VERSIONS_5: &str = "
ALTER TABLE items ADD COLUMN version INTEGER;
ALTER TABLE items ADD COLUMN expires_ms INTEGER;
CREATE INDEX items_that_expire ON items (expires_ms) WHERE expires_ms IS NOT NULL;
ALTER TABLE removed ADD COLUMN version INTEGER;
DROP INDEX removed_others;
CREATE INDEX removed_others ON removed (accepted_seq, stream, key) WHERE seq = 0 AND version IS NULL;
CREATE INDEX removed_versions ON removed (accepted_seq, seq, version) WHERE seq = 0 AND version IS NOT NULL;
CREATE TABLE stale (
    sink TEXT NOT NULL,
    seq INTEGER NOT NULL,
    items INTEGER NOT NULL,
    PRIMARY KEY (sink, seq)
) WITHOUT ROWID;
CREATE INDEX stale_by_seq ON stale (seq);
";

/// Dead letters, and what is sent again of them, keep their version and expiry.
const LETTERS_6: &str = "
ALTER TABLE dead_letters ADD COLUMN version INTEGER;
ALTER TABLE dead_letters ADD COLUMN expire_after_seconds INTEGER;
ALTER TABLE resends ADD COLUMN version INTEGER;
ALTER TABLE resends ADD COLUMN expire_after_seconds INTEGER;
";

/// When the sink had what is behind its cursor, and since when that stands there: what moves with every commit is in one
/// row, and one page.
const CURSORS_8: &str = "
ALTER TABLE cursors ADD COLUMN at_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE cursors ADD COLUMN since_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE progress DROP COLUMN since_ms;
";

/// Versions of 128 bits with their text, what removals have reached in items that came back and the place of the last of
/// them, and what the log says of operations that were left behind. Versions of before stay as they are, as numbers
/// (`version_column.rs`); fields that were merged before have what their item had (`rules/fields.rs`).
const RULES_9: &str = "
ALTER TABLE items ADD COLUMN version_text TEXT;
ALTER TABLE items ADD COLUMN floor BLOB;
ALTER TABLE items ADD COLUMN removed_seq INTEGER NOT NULL DEFAULT 0;
ALTER TABLE items ADD COLUMN removed_position INTEGER NOT NULL DEFAULT 0;
ALTER TABLE removed ADD COLUMN version_text TEXT;
DROP INDEX removed_versions;
CREATE INDEX removed_versions ON removed (stream, accepted_seq) WHERE seq = 0 AND version IS NOT NULL;
ALTER TABLE dead_letters ADD COLUMN version_text TEXT;
ALTER TABLE resends ADD COLUMN version_text TEXT;
ALTER TABLE stale ADD COLUMN partly INTEGER NOT NULL DEFAULT 0;
CREATE TABLE stale_items (
    sink TEXT NOT NULL,
    seq INTEGER NOT NULL,
    position INTEGER NOT NULL,
    key TEXT NOT NULL,
    version TEXT NOT NULL,
    reached TEXT NOT NULL,
    taken TEXT,
    PRIMARY KEY (sink, seq, position)
) WITHOUT ROWID;
CREATE INDEX stale_items_by_seq ON stale_items (seq);
";

/// How sinks are filled with what the pool has: up to which entry the rows hold what was accepted, and the last row that was
/// read. A page that waits is a retry, and its items lie in `resends`.
const FILLS_10: &str = "
CREATE TABLE fills (
    sink TEXT PRIMARY KEY,
    number INTEGER NOT NULL,
    id INTEGER NOT NULL,
    through INTEGER NOT NULL,
    selection TEXT NOT NULL,
    stream TEXT NOT NULL,
    key TEXT NOT NULL,
    read INTEGER NOT NULL,
    began_ms INTEGER NOT NULL,
    ended_ms INTEGER
) WITHOUT ROWID;
";

/// How often the items of a retry were tried in batches before this one, and the sinks that have taken nothing since their
/// last batch failed.
const TRIED_14: &str = "
ALTER TABLE retries ADD COLUMN earlier INTEGER NOT NULL DEFAULT 0;
CREATE TABLE failing (
    sink TEXT PRIMARY KEY,
    reason TEXT NOT NULL
) WITHOUT ROWID;
";

pub(super) fn open_writer(path: &Path) -> Result<Connection, PoolError> {
    let connection = sqlite::open_writer(path, sqlite::Synchronous::Full)?;
    // Kilobytes. Twice as much costs memory for hours of writing, and saves nothing measurable with 100,000 keys.
    connection.pragma_update(None, "cache_size", -8_000)?;
    let from_14 = change_log::from_14();
    let from_13 = format!("{TRIED_14} {from_14}");
    let from_12 = format!("{} {from_13}", past_values::TABLES_13);
    let from_11 = format!("{} {from_12}", latest::TABLES_12);
    let from_10 = format!("{} {from_11}", acts::TABLES_11);
    let from_9 = format!("{FILLS_10} {from_10}");
    let from_8 = format!("{RULES_9} {from_9}");
    let from_7 = format!("{CURSORS_8} {from_8}");
    let from_6 = format!("{} {from_7}", sizes::from_6());
    let today =
        format!("{WAITING_4} {DELIVERY_STATUS_4} {REMOVALS_4} {VERSIONS_5} {LETTERS_6} {from_6}");
    let from = [
        &*format!("{TABLES} {LETTERS} {HISTORY} {today}"),
        &format!(
            "{FROM_1} {HISTORY}
             UPDATE history SET seq = (SELECT coalesce(max(seq), 0) FROM items);
             {FROM_2} {LETTERS} {FROM_2_LETTERS} {today}"
        ),
        &format!("{FROM_2} {LETTERS} {FROM_2_LETTERS} {FROM_3} {today}"),
        &format!("{FROM_3} {today}"),
        &format!("{VERSIONS_5} {LETTERS_6} {from_6}"),
        &format!("{LETTERS_6} {from_6}"),
        &from_6,
        &from_7,
        &from_8,
        &from_9,
        &from_10,
        &from_11,
        &from_12,
        &from_13,
        &from_14,
    ];
    sqlite::upgrade(&connection, FORMAT, &from)?;
    Ok(connection)
}
