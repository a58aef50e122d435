//! Tables that are made, changed and dropped while a file is recorded.

use super::*;

fn run(sql: &'static str) -> impl FnOnce(&Connection) {
    move |connection| connection.execute_batch(sql).expect(sql)
}

#[test]
fn a_table_that_is_made_comes_with_its_statement_and_all_that_it_has() {
    let mut pair = Pair::new(ReplicaFile::Pool);
    let made = "CREATE TABLE IF NOT EXISTS rebuilt (sink TEXT PRIMARY KEY) WITHOUT ROWID;
         INSERT OR IGNORE INTO rebuilt (sink) VALUES ('a'), ('b');
         CREATE TABLE \"odd \"\" name\" (\"a \"\" b\" TEXT NOT NULL PRIMARY KEY, other UNIQUE);
         CREATE INDEX odd_index ON \"odd \"\" name\" (other);
         INSERT INTO \"odd \"\" name\" VALUES ('x', 1)";
    pair.sync(run(made));
    pair.assert_equal();
    // From the next transaction on its rows are recorded, one by one.
    pair.sync(run(
        "DELETE FROM rebuilt WHERE sink = 'a'; UPDATE \"odd \"\" name\" SET \"a \"\" b\" = 'y'",
    ));
    pair.assert_equal();
    let touched = pair.sync(run("UPDATE \"odd \"\" name\" SET other = 2"));
    assert_eq!(touched.len(), 1);
    pair.assert_equal();
}

#[test]
fn a_table_that_is_made_otherwise_or_dropped_is_so_in_the_copy() {
    let mut pair = Pair::new(ReplicaFile::Catalog);
    pair.sync(run(
        "INSERT INTO streams (name, created_ms) VALUES ('a', 1), ('b', 2)",
    ));
    pair.sync(run(
        "ALTER TABLE streams ADD COLUMN more TEXT NOT NULL DEFAULT 'x';
         CREATE INDEX streams_by_time ON streams (created_ms);
         UPDATE streams SET more = 'y' WHERE name = 'a'",
    ));
    pair.assert_equal();
    pair.sync(run(
        "INSERT INTO streams (name, created_ms) VALUES ('c', 1); DROP INDEX streams_by_time",
    ));
    pair.assert_equal();
    pair.sync(run(
        "ALTER TABLE streams RENAME TO rivers; ALTER TABLE rivers DROP COLUMN life;
         CREATE UNIQUE INDEX rivers_by_more ON rivers (more, name);
         DROP TABLE key_uses",
    ));
    pair.assert_equal();
    pair.sync(run(
        "DROP INDEX rivers_by_more; CREATE INDEX rivers_by_more ON rivers (more)",
    ));
    pair.sync(run("UPDATE rivers SET name = 'd' WHERE name = 'a'"));
    pair.assert_equal();
}

#[test]
fn what_was_made_and_rolled_back_was_never_there() {
    let mut pair = Pair::new(ReplicaFile::Pool);
    for round in 0..3 {
        pair.recorder.prepare(&pair.original).expect("it prepares");
        sqlite::begin(&pair.original).expect("it begins");
        run(
            "CREATE TABLE rebuilt (sink TEXT PRIMARY KEY) WITHOUT ROWID; INSERT INTO rebuilt VALUES ('a')",
        )(&pair.original);
        let taken = pair.recorder.take(&pair.original).expect("it takes");
        assert!(taken.is_some());
        sqlite::roll_back(&pair.original).expect("it rolls back");
        assert_eq!(pair.commit(|_| ()), None, "round {round}");
    }
    pair.sync(run(
        "CREATE TABLE other (a INTEGER PRIMARY KEY); INSERT INTO other VALUES (1)",
    ));
    pair.sync(run("INSERT INTO other VALUES (2)"));
    pair.assert_equal();
}

#[test]
fn views_are_left_to_each_node_and_stop_no_recording() {
    let mut pair = Pair::new(ReplicaFile::Pool);
    let view = "CREATE VIEW stream_a AS SELECT key FROM items";
    assert_eq!(pair.commit(run(view)), None);
    pair.sync(run(
        "DROP VIEW stream_a; INSERT INTO cursors (sink, seq, start) VALUES ('a', 1, 1)",
    ));
    pair.copy.execute_batch(view).expect("a view");
    pair.sync(run(
        "INSERT INTO cursors (sink, seq, start) VALUES ('b', 1, 1)",
    ));
    pair.assert_equal();
}

#[test]
fn tables_whose_rows_nothing_names_for_certain_are_carried_whole() {
    let mut pair = Pair::new(ReplicaFile::Catalog);
    pair.sync(run(
        "CREATE TABLE folded (a TEXT NOT NULL COLLATE NOCASE PRIMARY KEY);
         CREATE TABLE missing (a TEXT PRIMARY KEY, b);
         CREATE TABLE keyless (a, b);
         CREATE TABLE wide (a, b, c, d, e, PRIMARY KEY (a, b, c, d, e)) WITHOUT ROWID;
         CREATE TABLE numbered (a INT NOT NULL PRIMARY KEY, b);
         CREATE TABLE computed (a INTEGER PRIMARY KEY, b, c AS (b + 1))",
    ));
    pair.sync(run(
        "INSERT INTO folded VALUES ('a'), ('b'); INSERT INTO missing VALUES (NULL, 1), (NULL, 1), ('x', 2);
         INSERT INTO keyless VALUES (1, 1), (1, 1); INSERT INTO wide VALUES (1, 2, 3, 4, 5);
         INSERT INTO numbered VALUES (1, 1), ('1x', 2); INSERT INTO computed VALUES (1, 1), (2, 2)",
    ));
    pair.assert_equal();
    pair.sync(run(
        "UPDATE folded SET a = upper(a); UPDATE missing SET b = 3 WHERE a IS NULL; DELETE FROM keyless WHERE rowid = 1;
         UPDATE wide SET e = 6; UPDATE numbered SET a = a || 1 WHERE b = 1; UPDATE computed SET a = 3, b = 7 WHERE a = 1",
    ));
    pair.assert_equal();
    let key = |name: &str| pair.recorder.schema.tables[name].key;
    let keys = [
        "folded", "missing", "keyless", "wide", "numbered", "computed",
    ]
    .map(key);
    assert_eq!(keys, [0, 0, 0, 0, 1, 1]);
}

#[test]
fn values_that_are_unique_beside_the_key_may_change_places() {
    let mut pair = Pair::new(ReplicaFile::Pool);
    pair.sync(run("INSERT INTO views VALUES ('a', 'x'), ('b', 'y')"));
    pair.sync(run(
        "UPDATE views SET view = 'z' WHERE stream = 'a'; UPDATE views SET view = 'x' WHERE stream = 'b';
         UPDATE views SET view = 'y' WHERE stream = 'a'",
    ));
    pair.assert_equal();
}

#[test]
fn a_copy_that_does_not_fit_takes_nothing_of_an_entry() {
    let changes: [&'static str; 5] = [
        "ALTER TABLE cursors ADD COLUMN more TEXT NOT NULL DEFAULT 'x'",
        "ALTER TABLE cursors DROP COLUMN since_ms",
        "DROP TABLE cursors",
        "INSERT INTO views VALUES ('other', 'X')",
        "PRAGMA user_version = 99",
    ];
    for change in changes {
        let mut pair = Pair::new(ReplicaFile::Pool);
        pair.copy.execute_batch(change).expect(change);
        let before = content(&pair.copy);
        let entry = pair.commit(run(
            "INSERT INTO cursors (sink, seq, start) VALUES ('a', 1, 1); INSERT INTO views VALUES ('a', 'x')",
        ));
        let refused = pair.follow(&entry.expect("an entry"));
        assert!(
            matches!(refused, Err(ApplyError::DoesNotFit(_))),
            "{change}: {refused:?}"
        );
        assert_eq!(content(&pair.copy), before);
    }
    let mut pair = Pair::new(ReplicaFile::Pool);
    pair.original
        .execute_batch("PRAGMA user_version = 99")
        .expect("a format");
    let entry = pair.commit(run("INSERT INTO views VALUES ('a', 'x')"));
    let refused = pair.follow(&entry.expect("an entry"));
    assert!(matches!(refused, Err(ApplyError::Newer(_))), "{refused:?}");
}

#[test]
fn an_entry_follows_on_the_one_before_it_and_no_other() {
    let mut pair = Pair::new(ReplicaFile::Pool);
    let insert = |sink: &'static str| {
        move |connection: &Connection| {
            let sql = "INSERT INTO cursors (sink, seq, start) VALUES (?1, 1, 1)";
            connection.execute(sql, [sink]).expect("it writes");
        }
    };
    let first = pair.commit(insert("a")).expect("an entry");
    let second = pair.commit(insert("b")).expect("an entry");
    let place = LogPlace::default().after(&first);
    sqlite::begin(&pair.copy).expect("it begins");
    let apply = |n, digest, change| {
        let place = LogPlace { n, digest };
        let entry = LogEntry { place, change };
        pair.copy_recorder
            .apply(&pair.copy, LogPlace::default(), &entry)
            .map(|applied| applied.place)
    };
    let next = place.after(&second);
    for (n, digest, change, is_other) in [
        (2, next.digest, &second, false),
        (1, next.digest, &second, true),
        (1, place.digest, &second, true),
        (0, place.digest, &first, false),
    ] {
        let refused = apply(n, digest, change).expect_err("it does not fit");
        let is_expected = match refused {
            ApplyError::OtherEntry(_) => is_other,
            ApplyError::DoesNotFit(_) => !is_other,
            _ => false,
        };
        assert!(is_expected, "{n}: {refused:?}");
    }
    assert_eq!(apply(1, place.digest, &first).expect("it fits"), place);
}

#[test]
fn an_entry_that_does_not_concern_a_file_moves_its_place_in_memory_only() {
    let mut pair = Pair::new(ReplicaFile::Catalog);
    let mut pool = Pair::new(ReplicaFile::Pool);
    let change = pool
        .commit(run("INSERT INTO views VALUES ('a', 'x')"))
        .expect("an entry");
    let entry_place = LogPlace::default().after(&change);
    let entry = LogEntry {
        place: entry_place,
        change: &change,
    };
    let applied = pair
        .copy_recorder
        .apply(&pair.copy, LogPlace::default(), &entry)
        .expect("it fits");
    assert_eq!((applied.place, applied.tables), (entry_place, Vec::new()));
    assert_eq!(
        LogPlace::of(&pair.copy).expect("it reads"),
        LogPlace::default()
    );
    entry_place.store(&pair.copy).expect("it stores");
    assert_eq!(LogPlace::of(&pair.copy).expect("it reads"), entry_place);
    pair.copy_place = entry_place;
    pair.place = entry_place;
    entry_place.store(&pair.original).expect("it stores");
    pair.sync(run(
        "INSERT INTO streams (name, created_ms) VALUES ('a', 1)",
    ));
    pair.assert_equal();
}

#[test]
fn a_copy_records_what_it_writes_itself_and_not_what_it_follows() {
    let mut pair = Pair::new(ReplicaFile::Pool);
    pair.sync(run("INSERT INTO views VALUES ('a', 'x')"));
    sqlite::begin(&pair.copy).expect("it begins");
    assert_eq!(pair.copy_recorder.take(&pair.copy).expect("it takes"), None);
    run("INSERT INTO views VALUES ('b', 'y')")(&pair.copy);
    assert!(
        pair.copy_recorder
            .take(&pair.copy)
            .expect("it takes")
            .is_some()
    );
}

#[test]
fn a_recorder_is_attached_to_a_file_again() {
    let mut pair = Pair::new(ReplicaFile::Pool);
    pair.sync(run("INSERT INTO views VALUES ('a', 'x')"));
    pair.recorder = Recorder::attach(&pair.original, ReplicaFile::Pool).expect("it attaches");
    let path: PathBuf = pair.folder.path().join("original.db");
    assert_eq!(LogPlace::of(&pair.original).expect("it reads"), pair.place);
    pair.original = open(&path);
    pair.recorder = Recorder::attach(&pair.original, ReplicaFile::Pool).expect("it attaches");
    pair.sync(run("INSERT INTO views VALUES ('b', 'y')"));
    pair.assert_equal();
}
