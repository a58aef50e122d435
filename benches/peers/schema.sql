-- The tables of the peers that are written for the bench: a request log and items, as Headgate has them.
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA wal_autocheckpoint = 10000;
CREATE TABLE IF NOT EXISTS requests (
    seq INTEGER PRIMARY KEY,
    request_id TEXT NOT NULL,
    received_ms INTEGER NOT NULL,
    stream TEXT NOT NULL,
    status TEXT NOT NULL,
    http_status INTEGER NOT NULL,
    items INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    key TEXT NOT NULL,
    client TEXT NOT NULL,
    item_key TEXT
);
CREATE UNIQUE INDEX IF NOT EXISTS requests_by_id ON requests (request_id);
CREATE TABLE IF NOT EXISTS items (
    stream TEXT NOT NULL,
    key TEXT NOT NULL,
    fields TEXT NOT NULL,
    seq INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    request_id TEXT NOT NULL,
    PRIMARY KEY (stream, key)
) WITHOUT ROWID;
