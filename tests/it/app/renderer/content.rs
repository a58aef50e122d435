//! What renderers hold, and what they should hold.
//!
//! **Invariant**: the pool is read as any SQLite client reads it.

use std::collections::BTreeMap;

use serde_json::Value;

/// What a renderer holds: the items of each stream by key, as they came.
pub(crate) type Content = BTreeMap<String, BTreeMap<String, Value>>;

/// What a pool holds of these streams, as renderers see it.
pub(crate) fn content_of(pool: &rusqlite::Connection, streams: &[&str]) -> Content {
    let sql = "SELECT key, fields, updated_at, seq FROM items WHERE stream = ?1";
    let mut statement = pool.prepare(sql).expect("the table items");
    let mut content = Content::new();
    for stream in streams {
        let rows = statement.query_map([stream], |row| {
            let fields: String = row.get(1)?;
            let fields: Value = serde_json::from_str(&fields).expect("fields are JSON");
            let key: String = row.get(0)?;
            let updated_at: String = row.get(2)?;
            let seq: i64 = row.get(3)?;
            let item = serde_json::json!({"key": key, "fields": fields, "updated_at": updated_at, "seq": seq});
            Ok((key, item))
        });
        let rows = rows.expect("rows").map(|row| row.expect("a row"));
        content.insert((*stream).to_owned(), rows.collect());
    }
    content
}

/// What two contents differ in, in a line.
pub(super) fn difference(found: &Content, expected: &Content) -> String {
    let mut all: Vec<String> = Vec::new();
    for (stream, items) in expected {
        let none = BTreeMap::new();
        let held = found.get(stream).unwrap_or(&none);
        for (key, item) in items {
            if held.get(key) != Some(item) {
                all.push(format!("{stream}/{key} is {:?}, not {item}", held.get(key)));
            }
        }
        let more = held.iter().filter(|(key, _)| !items.contains_key(*key));
        all.extend(more.map(|(key, item)| format!("{stream}/{key} is still there: {item}")));
    }
    for stream in found
        .keys()
        .filter(|stream| !expected.contains_key(*stream))
    {
        all.push(format!("{stream} is not expected"));
    }
    let count = all.len();
    all.truncate(5);
    format!("{count} differences: {}", all.join("; "))
}
