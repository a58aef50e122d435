//! The tables of acts in `pool.db`.
//!
//! **Invariant**: their columns are only ever added to.

/// Acts of operators (`acts.rs`): the acts, the writes of overridden fields, holds, what is kept of keys that changed while
/// they were held, the same for undo, and what is shown where that is not the row of `items`.
pub(crate) const TABLES_11: &str = "
CREATE TABLE acts (
    n INTEGER PRIMARY KEY,
    request_id TEXT NOT NULL,
    stream TEXT NOT NULL,
    verb TEXT NOT NULL,
    operator TEXT NOT NULL,
    by_name TEXT NOT NULL,
    client TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    before TEXT,
    after TEXT,
    scope TEXT,
    state INTEGER NOT NULL,
    told INTEGER NOT NULL
);
CREATE INDEX acts_by_stream ON acts (stream, n);
CREATE INDEX acts_to_undo ON acts (stream, operator, n) WHERE state = 0;
CREATE INDEX acts_to_tell ON acts (n) WHERE told = 0;
CREATE TABLE act_answers (
    stream TEXT NOT NULL,
    operator TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    digest BLOB NOT NULL,
    request_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    answer TEXT NOT NULL,
    lived_ms INTEGER NOT NULL,
    PRIMARY KEY (stream, operator, idempotency_key)
);
CREATE INDEX act_answers_by_age ON act_answers (lived_ms);
CREATE TABLE writes (
    stream TEXT NOT NULL,
    key TEXT NOT NULL,
    field TEXT NOT NULL,
    n INTEGER NOT NULL,
    op INTEGER NOT NULL,
    value TEXT NOT NULL,
    step TEXT NOT NULL,
    start TEXT NOT NULL,
    operator TEXT NOT NULL,
    by_name TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    until_lived INTEGER,
    until_wall INTEGER,
    keeps_until INTEGER NOT NULL,
    ended INTEGER NOT NULL DEFAULT 0,
    hidden INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (stream, key, field, n)
) WITHOUT ROWID;
CREATE INDEX writes_by_act ON writes (n);
CREATE INDEX writes_hidden ON writes (hidden) WHERE hidden > 0;
CREATE INDEX writes_until_lived ON writes (until_lived) WHERE until_lived IS NOT NULL AND ended = 0;
CREATE INDEX writes_until_wall ON writes (until_wall) WHERE until_wall IS NOT NULL AND ended = 0;
CREATE TABLE holds (
    stream TEXT NOT NULL,
    key TEXT NOT NULL,
    n INTEGER NOT NULL,
    since_ms INTEGER NOT NULL,
    by_name TEXT NOT NULL,
    until_lived INTEGER,
    until_wall INTEGER,
    PRIMARY KEY (stream, key)
) WITHOUT ROWID;
CREATE TABLE kept (
    stream TEXT NOT NULL,
    key TEXT NOT NULL,
    fields TEXT,
    updated_at TEXT NOT NULL,
    request_id TEXT NOT NULL,
    removal INTEGER NOT NULL,
    PRIMARY KEY (stream, key)
);
CREATE TABLE kept_of (
    stream TEXT NOT NULL,
    n INTEGER NOT NULL,
    key TEXT NOT NULL,
    fields TEXT,
    updated_at TEXT NOT NULL,
    request_id TEXT NOT NULL,
    removal INTEGER NOT NULL,
    PRIMARY KEY (stream, n, key)
);
CREATE INDEX kept_of_keys ON kept_of (stream, key);
CREATE TABLE shown (
    stream TEXT NOT NULL,
    key TEXT NOT NULL,
    seq INTEGER NOT NULL,
    fields TEXT,
    updated_at TEXT NOT NULL,
    request_id TEXT NOT NULL,
    overridden TEXT NOT NULL,
    PRIMARY KEY (stream, key)
);
CREATE INDEX shown_by_seq ON shown (stream, seq);
CREATE INDEX shown_overridden ON shown (stream, key) WHERE overridden <> '';
";
