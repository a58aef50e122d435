//! Damage of every kind, to every page and every part of a log, and what is left of the files afterwards.
//!
//! Run by `cargo test`. **Invariant**: what was readable before is there afterwards, and what is not is counted.

mod log;
mod rebuilt;

use std::collections::HashSet;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use super::report::TableRepair;
use super::*;
use ::journal::FORMAT;
use sqlite::suspect::mark_of;
use sqlite::{PAGE_BYTES, PAGE_BYTES_BEFORE};

/// Requests of the sample, and items.
const ROWS: i64 = 300;
/// Every so many rows are larger than a page.
const LARGE_EVERY: i64 = 50;

fn size(row: i64) -> usize {
    if row % LARGE_EVERY == 0 { 10_000 } else { 150 }
}

/// Outcome, connector and stream of a request of the sample.
fn named(row: i64) -> (i64, &'static str, &'static str) {
    match row % 7 {
        0 => (4, "c", "s"),
        1 | 2 => (0, "d", "t"),
        3 => (0, "d", "s"),
        _ => (0, "c", "s"),
    }
}

/// What stands beside its payload, as it is written down here.
fn origin(row: i64) -> Vec<u8> {
    let (outcome, connector, stream) = named(row);
    let mut bytes = vec![outcome as u8];
    bytes.extend((row + 5).to_le_bytes());
    bytes.extend([row.to_be_bytes(); 2].concat());
    bytes.extend(connector.bytes());
    bytes.push(0);
    bytes.extend(stream.bytes());
    bytes
}

fn fill(connection: &Connection, file: &str) {
    connection.execute_batch("BEGIN").expect("it begins");
    match file {
        CATALOG => {
            for row in 0..ROWS {
                let sql = "INSERT INTO keys VALUES ('c' || (?1 % 7), 'key' || ?1, ?2, 'ik_live_', 's', NULL, NULL, 5, 'for tests', 0, NULL, NULL)";
                let digest = [row.to_be_bytes(); 4].concat();
                connection
                    .execute(sql, rusqlite::params![row, digest])
                    .expect("a key");
                let sql = "INSERT INTO audit VALUES (?1, 5, 'admin', '127.0.0.1', 'create', 'key', 'key' || ?1, 'c', NULL, ?2, NULL, NULL)";
                let after = "x".repeat(size(row));
                connection
                    .execute(sql, rusqlite::params![row + 1, after])
                    .expect("an entry");
            }
        }
        POOL => {
            for row in 0..ROWS {
                let stream = if row % 2 == 0 { "even" } else { "odd" };
                let fields = format!("{{\"n\":{row},\"text\":\"{}\"}}", "x".repeat(size(row)));
                let sql = "INSERT INTO items (stream, key, fields, seq, created_at, updated_at, request_id, accepted_seq, position) VALUES (?1, 'key' || ?2, ?3, ?2, 't', 't', 'r', ?2, 0)";
                connection
                    .execute(sql, rusqlite::params![stream, row, fields])
                    .expect("an item");
            }
            connection
                .execute_batch(
                    "INSERT INTO cursors (sink, seq, start) VALUES ('pool', 300, 0), ('other', 200, 0);
                     INSERT INTO sink_state VALUES ('pool', 'a', x'01');
                     INSERT INTO dead_letters (id, sink, seq, request_id, stream, position, key, fields, reason, attempts, at_ms)
                         VALUES (7, 'other', 3, 'r', 'odd', 0, 'k', '{}', 'no', 1, 5);
                     DELETE FROM dead_letters;
                     INSERT INTO removed (stream, key, seq, accepted_seq, position) VALUES ('odd', 'gone', 301, 301, 0);
                     UPDATE history SET epoch = 9, seq = 301;",
                )
                .expect("the rest");
        }
        _ => {
            for row in 1..=ROWS {
                let id = [row.to_be_bytes(); 2].concat();
                let (outcome, connector, stream) = named(row);
                let sql = "INSERT INTO requests (seq, request_id, received_ms, connector, stream, outcome, endpoint, http_status,
                     items, bytes, key, client) VALUES (?1, ?2, ?1 + 5, ?3, ?4, ?5, 0, 202, 1, 10, 'ik_live_', '127.0.0.1')";
                connection
                    .execute(sql, rusqlite::params![row, id, connector, stream, outcome])
                    .expect("a request");
                let items = vec![b'x'; size(row)];
                let sql = "INSERT INTO payloads VALUES (?1, ?2, ?3, ?4)";
                let crc = crc32fast::hash(&items);
                connection
                    .execute(sql, rusqlite::params![row, crc, items, origin(row)])
                    .expect("a payload");
                let sql = "INSERT INTO claims VALUES (1, ?1, ?2, 1, x'0102030405060708', 5)";
                connection
                    .execute(sql, rusqlite::params![id, id])
                    .expect("a claim");
                let sql = "INSERT INTO claim_log VALUES (?1, ?2, ?3, 1, x'0102030405060708', 5)";
                connection
                    .execute(sql, rusqlite::params![row, id, id])
                    .expect("a claim");
            }
        }
    }
    connection.execute_batch("COMMIT").expect("it commits");
}

fn kind(file: &str) -> &'static Kind {
    FILES.iter().find(|kind| kind.name == file).expect("a file")
}

/// A data folder with one file, all of it in place.
fn sample(file: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(file);
    (kind(file).make)(&path).expect("an empty file");
    fill(&Connection::open(&path).expect("it opens"), file);
    (folder, path)
}

const LARGEST: [(&str, &str, &str); 3] = [
    (CATALOG, "audit", "SELECT name || after FROM audit"),
    (
        POOL,
        "items",
        "SELECT stream || key || fields || accepted_seq FROM items",
    ),
    (
        JOURNAL,
        "payloads",
        "SELECT seq || hex(items) FROM payloads",
    ),
];

fn rows(path: &Path, sql: &str) -> HashSet<String> {
    let connection = Connection::open(path).expect("it opens");
    let mut statement = connection.prepare(sql).expect("a table");
    let rows = statement.query_map([], |row| row.get(0)).expect("rows");
    rows.map(|row| row.expect("a row")).collect()
}

/// Runs a repair over a copy of the file that `damage` was done to, and checks what is always true afterwards.
fn after(
    file: &'static str,
    whole: &[u8],
    damage: impl FnOnce(&mut Vec<u8>),
) -> (tempfile::TempDir, Repair) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(file);
    let mut bytes = whole.to_vec();
    damage(&mut bytes);
    std::fs::write(&path, &bytes).expect("a file");
    if file == JOURNAL {
        // A sink that has had nothing.
        let pool = folder.path().join(POOL);
        (kind(POOL).make)(&pool).expect("an empty file");
        let pool = Connection::open(pool).expect("it opens");
        pool.execute_batch("INSERT INTO cursors (sink, seq, start) VALUES ('late', 0, 0)")
            .expect("a cursor");
    }
    let repair = rebuild_file(folder.path(), kind(file), "a test").expect("it can be repaired");
    let verdict = check(folder.path(), file, true).expect("it can be read");
    assert_eq!(verdict, Verdict::Sound);
    let aside = folder.path().join(&repair.set_aside[0]);
    assert_eq!(std::fs::read(aside).expect("it is kept"), bytes);
    assert_eq!(report::problems(folder.path()).len(), 1);
    (folder, repair)
}

#[test]
fn any_page_of_any_file_may_be_gone() {
    for (file, table, sql) in LARGEST {
        let (_folder, path) = sample(file);
        let original = rows(&path, sql);
        let whole = std::fs::read(&path).expect("the file");
        let pages = whole.len() / PAGE_BYTES;
        assert!(pages > 30, "{file}: {pages} pages");
        for page in 0..pages {
            let (folder, repair) = after(file, &whole, |bytes| {
                bytes[page * PAGE_BYTES..][..PAGE_BYTES].fill(0);
            });
            let kept = rows(&folder.path().join(file), sql);
            let missing = original.difference(&kept).count();
            assert!(kept.is_subset(&original), "{file} page {page}");
            let told = repair
                .tables
                .iter()
                .find(|it| it.table == table)
                .expect("the table");
            assert_eq!(
                told.kept as usize,
                kept.len(),
                "{file} page {page}: {told:?}"
            );
            assert!(
                missing <= 30,
                "{file} page {page}: {missing} rows for one page"
            );
            match told.lost {
                Some(lost) => assert_eq!(lost as usize, missing, "{file} page {page}: {told:?}"),
                None => assert!(told.unreadable_pages > 0, "{file} page {page}: {told:?}"),
            }
            if missing > 0 && file == POOL {
                assert!(!repair.incomplete_streams.is_empty(), "page {page}");
                let lost = repair.incomplete_streams.iter().map(|one| one.lost);
                let lost: Option<u64> = lost.sum();
                assert!(
                    lost.is_none_or(|lost| lost as usize == missing),
                    "page {page}"
                );
            }
        }
    }
}

#[test]
fn a_file_of_before_has_larger_pages_and_is_mended_as_well() {
    for (file, _, sql) in LARGEST {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(file);
        let connection = Connection::open(&path).expect("it opens");
        connection
            .execute_batch(&format!(
                "PRAGMA page_size = {PAGE_BYTES_BEFORE}; PRAGMA journal_mode = wal;"
            ))
            .expect("an empty file");
        drop(connection);
        (kind(file).make)(&path).expect("tables");
        fill(&Connection::open(&path).expect("it opens"), file);
        let original = rows(&path, sql);
        let whole = std::fs::read(&path).expect("the file");
        assert_eq!(image::page_bytes(&path).ok(), Some(PAGE_BYTES_BEFORE));
        // The first page says how large pages are, or nobody does; another is one of many.
        for page in [0, 9] {
            let mut damaged = whole.clone();
            damaged[page * PAGE_BYTES_BEFORE..][..PAGE_BYTES_BEFORE].fill(0);
            std::fs::write(&path, &damaged).expect("a file");
            assert_eq!(image::page_bytes(&path).ok(), Some(PAGE_BYTES_BEFORE));
            let (folder, _) = after(file, &damaged, |_| ());
            let kept = rows(&folder.path().join(file), sql);
            let missing = original.difference(&kept).count();
            assert!(missing <= 30, "{file} page {page}: {missing} rows");
        }
    }
}

#[test]
fn any_bit_of_any_page_may_be_wrong() {
    let mut random: u64 = 7;
    for (file, _, sql) in LARGEST {
        let (_folder, path) = sample(file);
        let original = rows(&path, sql);
        let whole = std::fs::read(&path).expect("the file");
        for page in (0..whole.len() / PAGE_BYTES).step_by(3) {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(99);
            // The beginning of a page is where most depends on each bit.
            let bit = (random >> 33) as usize % if page % 2 == 0 { 96 } else { PAGE_BYTES * 8 };
            let (folder, _) = after(file, &whole, |bytes| {
                bytes[page * PAGE_BYTES + bit / 8] ^= 1 << (bit % 8);
            });
            let kept = rows(&folder.path().join(file), sql);
            let missing = original.difference(&kept).count();
            assert!(
                missing <= 30,
                "{file} page {page} bit {bit}: {missing} rows"
            );
        }
    }
}

#[test]
fn columns_have_the_names_of_this_version_again() {
    let columns = |path: &Path, table: &str| -> Vec<String> {
        let connection = Connection::open(path).expect("it opens");
        let sql = "SELECT name FROM pragma_table_xinfo(?1) ORDER BY cid";
        let mut statement = connection.prepare(sql).expect("a statement");
        let names = statement.query_map([table], |row| row.get(0));
        let names = names.expect("rows").map(|name| name.expect("a name"));
        names.collect()
    };
    for (file, _, _) in LARGEST {
        let (_folder, path) = sample(file);
        let tables: Vec<(String, String)> = {
            let connection = Connection::open(&path).expect("it opens");
            (kind(file).make_later)(&connection).expect("tables");
            let sql = "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
            let mut statement = connection.prepare(sql).expect("a statement");
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
            rows.expect("rows").map(|row| row.expect("a row")).collect()
        };
        let whole = std::fs::read(&path).expect("the file");
        for (table, sql) in tables {
            let begin = sql.find('(').expect("columns");
            let name = sql[begin..].find(|letter: char| letter.is_ascii_lowercase());
            let name = begin + name.expect("a name");
            let found = whole
                .windows(name + 1)
                .position(|text| *text == sql.as_bytes()[..=name]);
            // It may go on in another page.
            let Some(at) = found else {
                continue;
            };
            let (folder, _) = after(file, &whole, |bytes| bytes[at + name] ^= 1);
            let repaired = columns(&folder.path().join(file), &table);
            assert_eq!(repaired, columns(&path, &table), "{file} {table}");
        }
    }
}

#[test]
fn a_repair_that_was_cut_off_goes_on_where_it_was() {
    let (_folder, path) = sample(POOL);
    let whole = std::fs::read(&path).expect("the file");
    let (folder, repair) = after(POOL, &whole, |_| {});
    let new = std::fs::read(folder.path().join(POOL)).expect("the new file");
    let stamp = repair.set_aside[0]
        .trim_start_matches("pool.db.damaged-")
        .to_owned();
    for step in 0..3 {
        let folder = tempfile::tempdir().expect("a folder");
        let place = |name: &str| folder.path().join(name);
        std::fs::write(place(&format!("pool.db.salvaged-{stamp}")), &new).expect("a file");
        std::fs::write(place("pool.db.salvaging"), b"half").expect("a file");
        let aside = format!("pool.db.damaged-{stamp}");
        std::fs::write(place(if step > 0 { &aside } else { POOL }), &whole).expect("a file");
        let log = if step > 1 {
            format!("{aside}-wal")
        } else {
            "pool.db-wal".to_owned()
        };
        std::fs::write(place(&log), b"a log").expect("a file");
        let repairs = at_start(folder.path()).expect("it goes on");
        assert!(repairs.is_empty());
        assert_eq!(
            std::fs::read(place(POOL)).expect("a file"),
            new,
            "step {step}"
        );
        assert_eq!(
            std::fs::read(place(&aside)).expect("a file"),
            whole,
            "step {step}"
        );
        assert_eq!(
            std::fs::read(place(&format!("{aside}-wal"))).expect("a file"),
            b"a log"
        );
        assert!(!place("pool.db.salvaging").exists());
        assert!(!place("pool.db-wal").exists());
    }
}

#[test]
fn a_mark_without_damage_is_removed_once_and_believed_the_second_time() {
    let (folder, path) = sample(JOURNAL);
    sqlite::suspect::mark(&path, "a lane met it");
    assert!(at_start(folder.path()).expect("it starts").is_empty());
    assert!(!mark_of(&path).exists());
    sqlite::suspect::mark(&path, "a lane met it");
    let repairs = at_start(folder.path()).expect("it starts");
    assert_eq!(repairs.len(), 1);
    assert_eq!(repairs[0].reason, "a lane met it");
    assert!(!mark_of(&path).exists());
    assert!(at_start(folder.path()).expect("it starts").is_empty());
}

#[test]
fn a_damaged_page_is_found_by_its_mark() {
    let (folder, path) = sample(JOURNAL);
    let file = OpenOptions::new().write(true).open(&path).expect("a file");
    file.write_all_at(&[0; PAGE_BYTES], 20 * PAGE_BYTES as u64)
        .expect("it is written");
    assert!(
        at_start(folder.path()).expect("it starts").is_empty(),
        "nobody looks at it"
    );
    sqlite::suspect::mark(&path, "a lane met it");
    assert_eq!(at_start(folder.path()).expect("it starts").len(), 1);
    assert_eq!(
        check(folder.path(), JOURNAL, true).expect("it can be read"),
        Verdict::Sound
    );
}
