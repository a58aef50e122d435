//! The tables of `catalog.db`, and what each of its formats has added.
//!
//! **Invariant**: a file of every older format is brought to the newest one when it is opened.

use std::path::Path;

use rusqlite::Connection as Database;

use super::FORMAT;
use crate::CatalogError;
use crate::audit::chain;

/// Format 1. Keys name their connectors and streams by name: either may be declared, or gone.
const TABLES: &str = "
CREATE TABLE streams (
    name TEXT PRIMARY KEY,
    on_update TEXT NOT NULL,
    stale_after_seconds INTEGER,
    created_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE connectors (
    name TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    item_key TEXT,
    requests_per_second INTEGER,
    burst INTEGER,
    created_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE keys (
    connector TEXT NOT NULL,
    name TEXT NOT NULL,
    sha256 BLOB NOT NULL UNIQUE,
    prefix TEXT NOT NULL,
    stream TEXT NOT NULL,
    expires_ms INTEGER,
    revoked_ms INTEGER,
    created_ms INTEGER NOT NULL,
    PRIMARY KEY (connector, name)
) WITHOUT ROWID;
CREATE TABLE read_keys (
    name TEXT PRIMARY KEY,
    sha256 BLOB NOT NULL UNIQUE,
    prefix TEXT NOT NULL,
    streams TEXT NOT NULL,
    allow_in_url INTEGER NOT NULL,
    expires_ms INTEGER,
    revoked_ms INTEGER,
    created_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms INTEGER NOT NULL,
    who TEXT NOT NULL,
    client TEXT NOT NULL,
    action TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    connector TEXT,
    before TEXT,
    after TEXT
);
";

/// Format 1 did not know when keys were used.
const KEY_USES_2: &str = "
CREATE TABLE key_uses (
    sha256 BLOB PRIMARY KEY,
    used_ms INTEGER NOT NULL
) WITHOUT ROWID;
";

/// Whether keys of a connector may remove items: by default as their kind says.
const MAY_DELETE_2: &str = "
ALTER TABLE connectors ADD COLUMN may_delete INTEGER;
";

/// Settings of streams and connectors as they are declared, in one column, and descriptions. A new option then needs no
/// new format.
const SETTINGS_3: &str = "
ALTER TABLE streams ADD COLUMN settings TEXT;
UPDATE streams SET settings = json_object('name', name, 'on_update', on_update,
    'stale_after_seconds', stale_after_seconds);
ALTER TABLE streams DROP COLUMN on_update;
ALTER TABLE streams DROP COLUMN stale_after_seconds;
ALTER TABLE connectors ADD COLUMN settings TEXT;
UPDATE connectors SET settings = json_object('name', name, 'kind', kind, 'item_key', item_key,
    'may_delete', json(CASE may_delete WHEN 0 THEN 'false' WHEN 1 THEN 'true' ELSE 'null' END),
    'requests_per_second', requests_per_second, 'burst', burst);
ALTER TABLE connectors DROP COLUMN kind;
ALTER TABLE connectors DROP COLUMN item_key;
ALTER TABLE connectors DROP COLUMN may_delete;
ALTER TABLE connectors DROP COLUMN requests_per_second;
ALTER TABLE connectors DROP COLUMN burst;
ALTER TABLE keys ADD COLUMN description TEXT;
ALTER TABLE read_keys ADD COLUMN description TEXT;
";

/// Keys that may stand in a URL, and secrets that tools sign with: these are kept as they are. A digest cannot verify a
/// signature.
const SIGNING_4: &str = "
ALTER TABLE keys ADD COLUMN allow_in_url INTEGER NOT NULL DEFAULT 0;
ALTER TABLE keys ADD COLUMN verify TEXT;
";

/// From where keys are taken.
const NETWORKS_5: &str = "
ALTER TABLE keys ADD COLUMN networks TEXT;
ALTER TABLE read_keys ADD COLUMN networks TEXT;
";

/// The audit log is a chain; entries that are there are chained when the file is opened.
const AUDIT_CHAIN_5: &str = "
ALTER TABLE audit ADD COLUMN previous BLOB;
ALTER TABLE audit ADD COLUMN digest BLOB;
";

/// How often read keys may poll.
const POLLS_6: &str = "
ALTER TABLE read_keys ADD COLUMN requests_per_second INTEGER;
";

/// Pages of which origins may read with a key.
const ORIGINS_7: &str = "
ALTER TABLE read_keys ADD COLUMN origins TEXT;
";

/// How many streams of the same name were deleted before a stream. Keys of a deleted stream must not count for a new
/// one of its name.
const LIVES_8: &str = "
ALTER TABLE streams ADD COLUMN life INTEGER NOT NULL DEFAULT 0;
";

/// Sinks that were made at run time, with their sections; and which sinks somebody paused, declared ones too, which have
/// no section here. A pause is kept here, because the daemon does not write its configuration.
const SINKS_9: &str = "
CREATE TABLE sinks (
    name TEXT PRIMARY KEY,
    section TEXT,
    created_ms INTEGER,
    deleting INTEGER NOT NULL DEFAULT 0,
    paused_by TEXT,
    paused_ms INTEGER
) WITHOUT ROWID;
";

/// What read keys see.
const LIMITS_10: &str = "
ALTER TABLE read_keys ADD COLUMN conditions TEXT;
ALTER TABLE read_keys ADD COLUMN fields TEXT;
";

/// Read keys that may act.
const OPERATE_11: &str = "
ALTER TABLE read_keys ADD COLUMN operate INTEGER NOT NULL DEFAULT 0;
";

/// What screens should show, and which of them should always be there.
const SCREENS_12: &str = "
ALTER TABLE read_keys ADD COLUMN page TEXT;
ALTER TABLE read_keys ADD COLUMN expect INTEGER NOT NULL DEFAULT 0;
ALTER TABLE read_keys ADD COLUMN away_after_seconds INTEGER NOT NULL DEFAULT 60;
";

/// The tables of an older format.
#[cfg(test)]
pub(crate) fn of_format(format: u32) -> String {
    match format {
        1 => TABLES.to_owned(),
        2 => format!("{TABLES} {KEY_USES_2} {MAY_DELETE_2}"),
        3 => format!("{TABLES} {KEY_USES_2} {MAY_DELETE_2} {SETTINGS_3}"),
        4 => format!("{TABLES} {KEY_USES_2} {MAY_DELETE_2} {SETTINGS_3} {SIGNING_4}"),
        _ => format!(
            "{TABLES} {KEY_USES_2} {MAY_DELETE_2} {SETTINGS_3} {SIGNING_4} {NETWORKS_5} {AUDIT_CHAIN_5}"
        ),
    }
}

/// Every commit is flushed, because an answered revocation must survive a power cut.
pub(crate) fn open(path: &Path) -> Result<Database, CatalogError> {
    let database = sqlite::open_writer(path, sqlite::Synchronous::Full)?;
    let eleven = format!("{OPERATE_11} {SCREENS_12}");
    let ten = format!("{LIMITS_10} {eleven}");
    let eight = format!("{LIVES_8} {SINKS_9} {ten}");
    let five = format!("{NETWORKS_5} {AUDIT_CHAIN_5} {POLLS_6} {ORIGINS_7} {eight}");
    let from = [
        &*format!("{TABLES} {KEY_USES_2} {MAY_DELETE_2} {SETTINGS_3} {SIGNING_4} {five}"),
        &format!("{KEY_USES_2} {MAY_DELETE_2} {SETTINGS_3} {SIGNING_4} {five}"),
        &format!("{SETTINGS_3} {SIGNING_4} {five}"),
        &format!("{SIGNING_4} {five}"),
        &five,
        &format!("{POLLS_6} {ORIGINS_7} {eight}"),
        &format!("{ORIGINS_7} {eight}"),
        &eight,
        &format!("{SINKS_9} {ten}"),
        &ten,
        &eleven,
        SCREENS_12,
    ];
    sqlite::upgrade(&database, FORMAT, &from)?;
    chain::complete(&database)?;
    Ok(database)
}
