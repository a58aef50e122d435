//! What a daemon has stored, as any SQLite client reads it beside the daemon, and as nobody but a test changes it.
//!
//! **Invariant**: what only reads cannot write.

use std::path::Path;

use rusqlite::types::FromSql;
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

use crate::app::Content;
use crate::setup::Setup;
use crate::wait::PROCESS_DEADLINE;

/// A row of the table `items`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) key: String,
    pub(crate) fields: String,
    pub(crate) seq: i64,
    pub(crate) created_at: String,
    pub(crate) updated_at: String,
    pub(crate) request_id: String,
}

impl Setup {
    /// The pool, to be read.
    pub(crate) fn pool(&self) -> Connection {
        read_only(&self.data_dir().join("pool.db"))
    }

    /// The journal, to be read. Of a node: a copy of its table `requests` as it is now.
    pub(crate) fn journal(&self) -> Connection {
        match self.database() {
            None => read_only(&self.data_dir().join("journal.db")),
            Some((url, schema)) => requests_of(url, schema),
        }
    }

    /// Changes a file of the data folder behind the daemon's back.
    /// How many rows the last statement changed.
    pub(crate) fn tamper(&self, file: &str, sql: &str) -> u64 {
        let database = Connection::open(self.data_dir().join(file)).expect("a database");
        database
            .busy_timeout(PROCESS_DEADLINE)
            .expect("a setting of SQLite");
        database.execute_batch(sql).expect("a change");
        database.changes()
    }

    /// The rows of a stream in the pool, by key.
    pub(crate) fn rows(&self, stream: &str) -> Vec<Item> {
        let pool = self.pool();
        let sql = "SELECT key, fields, seq, created_at, updated_at, request_id FROM items \
                   WHERE stream = ?1 ORDER BY key";
        let mut statement = pool.prepare(sql).expect("the table items");
        let rows = statement.query_map([stream], |row| {
            Ok(Item {
                key: row.get(0)?,
                fields: row.get(1)?,
                seq: row.get(2)?,
                created_at: row.get(3)?,
                updated_at: row.get(4)?,
                request_id: row.get(5)?,
            })
        });
        rows.expect("the table can be read")
            .collect::<Result<_, _>>()
            .expect("every row can be read")
    }

    /// Key, fields and request id of the items of a stream in the pool, by key.
    pub(crate) fn items(&self, stream: &str) -> Vec<(String, Value, String)> {
        let rows = self.rows(stream).into_iter();
        rows.map(|row| (row.key, json(&row.fields), row.request_id))
            .collect()
    }

    /// What one who follows these streams holds.
    pub(crate) fn content(&self, streams: &[&str]) -> Content {
        let of = |stream: &&str| {
            let rows = self.rows(stream).into_iter().map(|row| {
                let item = serde_json::json!({
                    "key": row.key, "fields": json(&row.fields), "updated_at": row.updated_at, "seq": row.seq
                });
                (row.key, item)
            });
            ((*stream).to_owned(), rows.collect())
        };
        streams.iter().map(of).collect()
    }
}

/// Opens a database as a reader beside the daemon.
pub(crate) fn read_only(path: &Path) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let connection = Connection::open_with_flags(path, flags).expect("a database");
    connection
        .busy_timeout(PROCESS_DEADLINE)
        .expect("a setting of SQLite");
    connection
}

/// The one value that a query finds.
#[track_caller]
pub(crate) fn one<T: FromSql>(database: &Connection, sql: &str) -> T {
    let found = database.query_row(sql, [], |row| row.get(0));
    found.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

fn json(fields: &str) -> Value {
    serde_json::from_str(fields).expect("fields are JSON")
}

/// The request log of a cluster, as the file of a daemon alone has it.
fn requests_of(url: &str, schema: &str) -> Connection {
    let sql = format!(
        "SELECT coalesce(json_agg(r), '[]') FROM (SELECT seq, request_id, connector, stream, outcome, endpoint, http_status,
             items, idempotency_key FROM {schema}.requests ORDER BY seq) r"
    );
    let rows = postgres_server::query_at(url, &sql);
    let copy = Connection::open_in_memory().expect("memory");
    let made = copy.execute_batch(
        "CREATE TABLE requests (seq INTEGER PRIMARY KEY, request_id BLOB, connector TEXT, stream TEXT, outcome INTEGER,
             endpoint INTEGER, http_status INTEGER, items INTEGER, idempotency_key TEXT)",
    );
    made.expect("a table");
    let sql = "INSERT INTO requests SELECT value ->> 'seq', unhex(value ->> 'request_id', '-'), value ->> 'connector',
            value ->> 'stream', value ->> 'outcome', value ->> 'endpoint', value ->> 'http_status', value ->> 'items',
            value ->> 'idempotency_key' FROM json_each(?1)";
    copy.execute(sql, [rows]).expect("rows");
    copy
}
