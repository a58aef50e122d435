//! Which tables are recorded: all of them, and how.

use super::*;

/// A row for a table: something in each column.
fn insert(connection: &Connection, name: &str) {
    let sql = "SELECT '\"' || name || '\"', iif(lower(type) = 'integer', '77', '''x''') FROM pragma_table_info(?1)";
    let mut statement = connection.prepare(sql).expect("a statement");
    let rows = statement.query_map([name], |row| Ok((row.get(0)?, row.get(1)?)));
    let columns: Vec<(String, String)> =
        rows.expect("rows").map(|row| row.expect("a row")).collect();
    let (columns, values): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    let (columns, values) = (columns.join(", "), values.join(", "));
    let sql = format!("INSERT INTO \"{name}\" ({columns}) VALUES ({values})");
    connection.execute_batch(&sql).expect(name);
}

#[test]
fn every_table_of_the_formats_is_recorded() {
    for file in ReplicaFile::ALL {
        let mut pair = Pair::new(file);
        let names = table_names(&pair.original);
        assert!(names.len() > 10, "{names:?}");
        for name in &names {
            let insert_one = |connection: &Connection| insert(connection, name);
            let touched: Vec<String> = pair
                .sync(insert_one)
                .into_iter()
                .map(|one| one.name)
                .collect();
            assert_eq!(touched, [name.as_str()], "{name} is not recorded");
        }
        pair.assert_equal();
        // Each row alone, by its key.
        for name in &names {
            let sql = format!("DELETE FROM \"{name}\"");
            let touched =
                pair.sync(|connection| connection.execute_batch(&sql).expect("it deletes"));
            assert_eq!(touched.len(), 1, "{name}");
        }
        pair.assert_equal();
    }
}

/// Each of them costs all its rows at every change.
#[test]
fn only_the_history_is_carried_whole() {
    for (file, expected) in [
        (ReplicaFile::Pool, &["history"][..]),
        (ReplicaFile::Catalog, &[]),
    ] {
        let pair = Pair::new(file);
        let tables = pair.recorder.schema.tables.iter();
        let whole: Vec<&String> = tables
            .filter(|(_, shape)| shape.key == 0)
            .map(|(name, _)| name)
            .collect();
        assert_eq!(whole, expected);
    }
}

#[test]
fn what_is_carried_names_the_scopes_of_its_rows() {
    let mut pair = Pair::new(ReplicaFile::Pool);
    let touched = pair.sync(|connection| {
        let done = connection.execute_batch(
            "INSERT INTO sink_state VALUES ('b', 'x', 'y'), ('a', 'x', 'y'), ('a', 'z', 'y');
             INSERT INTO cursors (sink, seq, start) VALUES ('a', 1, 1);
             UPDATE history SET seq = 9",
        );
        done.expect("it writes");
    });
    let touched: Vec<(String, Vec<String>)> = (touched.into_iter())
        .map(|one| (one.name, one.scopes.into_iter().collect()))
        .collect();
    let expected = [
        ("cursors", vec![]),
        ("history", vec![]),
        ("sink_state", vec!["a", "b"]),
    ];
    assert_eq!(touched.len(), expected.len());
    for ((name, scopes), (expected, values)) in touched.iter().zip(expected) {
        assert_eq!((name.as_str(), scopes.len()), (expected, values.len()));
        assert!(scopes.iter().eq(values));
    }
}

#[test]
fn a_transaction_that_changes_nothing_makes_no_entry() {
    let mut pair = Pair::new(ReplicaFile::Pool);
    assert_eq!(pair.commit(|_| ()), None);
    let in_vain = "UPDATE cursors SET seq = 9; DELETE FROM items; INSERT OR IGNORE INTO history SELECT * FROM history WHERE false";
    assert_eq!(
        pair.commit(|connection| connection.execute_batch(in_vain).expect("it runs")),
        None
    );
    sqlite::begin(&pair.original).expect("it begins");
    insert(&pair.original, "cursors");
    sqlite::roll_back(&pair.original).expect("it rolls back");
    assert_eq!(
        pair.commit(|_| ()),
        None,
        "what was rolled back is forgotten"
    );
}

#[test]
fn numbers_that_are_never_given_twice_go_on_in_the_copy() {
    let mut pair = Pair::new(ReplicaFile::Pool);
    // The row is gone before anybody else has seen it; its number is not given again.
    pair.sync(|connection| {
        insert(connection, "dead_letters");
        connection
            .execute_batch("DELETE FROM dead_letters")
            .expect("it deletes");
    });
    pair.assert_equal();
    let sql = "INSERT INTO dead_letters (sink, seq, request_id, stream, position, key, fields, reason, attempts, at_ms)
         VALUES ('a', 1, '', '', 0, '', '', '', 1, 1)";
    pair.copy.execute_batch(sql).expect("it writes");
    assert_eq!(pair.copy.last_insert_rowid(), 78);
}

/// `AFTER` triggers leave what the statements of the daemon ask SQLite for.
#[test]
fn recording_changes_neither_counts_nor_the_last_id() {
    let pair = Pair::new(ReplicaFile::Pool);
    sqlite::begin(&pair.original).expect("it begins");
    insert(&pair.original, "retries");
    assert_eq!(pair.original.last_insert_rowid(), 77);
    let done = pair
        .original
        .execute("UPDATE retries SET id = 78, sink = 'b'", []);
    assert_eq!(done.expect("it writes"), 1);
    insert(&pair.original, "items");
    let done = pair.original.execute("DELETE FROM items", []);
    assert_eq!(done.expect("it deletes"), 1);
}
