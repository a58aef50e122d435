//! Damage of every kind, to every page and every part of a log, and what is left of the files afterwards.
//!
//! Run by `cargo test`. **Invariant**: what was readable before is there afterwards, and what is not is counted.

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

/// What delivery needs of a request.
const NEEDED: &str = "SELECT seq || ' ' || hex(request_id) || ' ' || received_ms || ' ' || connector || ' ' || stream || ' ' ||
     outcome || ' ' || http_status FROM requests";

#[test]
fn a_journal_knows_what_it_lost_and_gives_no_number_twice() {
    let (_folder, path) = sample(JOURNAL);
    let whole = std::fs::read(&path).expect("the file");
    let needed = rows(&path, NEEDED);
    assert_eq!(needed.len(), ROWS as usize);
    let mut restored = 0;
    let mut lost = 0;
    for page in 2..whole.len() / PAGE_BYTES {
        let (folder, repair) = after(JOURNAL, &whole, |bytes| {
            bytes[page * PAGE_BYTES..][..PAGE_BYTES].fill(0);
        });
        let new = Connection::open(folder.path().join(JOURNAL)).expect("it opens");
        let number = |sql: &str| {
            new.query_row(sql, [], |row| row.get::<_, i64>(0))
                .expect("a number")
        };
        let accepted = number("SELECT count(*) FROM requests");
        assert_eq!(
            accepted, ROWS,
            "page {page}: every entry is there or restored: {repair:?}"
        );
        assert_eq!(
            number("SELECT count(*) FROM payloads") + number("SELECT count(*) FROM quarantine"),
            ROWS,
            "page {page}: {repair:?}"
        );
        let kept = rows(&folder.path().join(JOURNAL), NEEDED);
        assert_eq!(kept, needed, "page {page}: what delivery needs of each");
        restored += i32::from(
            repair
                .notes
                .iter()
                .any(|note| note.contains("are restored")),
        );
        lost += i32::from(repair.notes.iter().any(|note| note.contains("are lost")));
        let damaged = |it: &TableRepair| {
            ["requests", "payloads", "quarantine"].contains(&&*it.table) && it.unreadable_pages > 0
        };
        if repair.tables.iter().any(damaged) {
            assert!(
                number("SELECT max(through) FROM skipped") > ROWS + 1_000,
                "page {page}"
            );
        }
    }
    assert!(restored > 3, "{restored}");
    assert!(lost > 3, "{lost}");
}

/// The sample as format 5 had it.
const FORMAT_5: &str = include_str!("../../tests/fixtures/journal-format-5.sql");

#[test]
fn a_journal_of_format_5_is_restored_of_its_indexes_and_goes_on() {
    let (_folder, path) = sample(JOURNAL);
    let old = Connection::open(&path).expect("it opens");
    // Indexes tell the stream of a connector that has one only.
    old.execute_batch(&format!(
        "UPDATE requests SET stream = connector, outcome = 0; {FORMAT_5} VACUUM;"
    ))
    .expect("an older format");
    drop(old);
    let whole = std::fs::read(&path).expect("the file");
    let sql = "SELECT seq || ' ' || hex(request_id) || ' ' || stream FROM requests";
    let needed = rows(&path, sql);
    let page_bytes = image::page_bytes(&path).expect("it is read");
    let (mut restored, mut refused) = (0, 0);
    for page in 2..whole.len() / page_bytes {
        let mut damaged = whole.clone();
        damaged[page * page_bytes..][..page_bytes].fill(0);
        // Nobody knows of the damage when this version starts for the first time.
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(JOURNAL);
        std::fs::write(&path, &damaged).expect("room");
        let is_opened = (kind(JOURNAL).make)(&path).is_ok();
        refused += i32::from(!is_opened);
        let format = if is_opened { FORMAT } else { 5 };
        let met = std::fs::read(&path).expect("the file");
        // Where SQLite has `user_version`.
        let found = met[60..64]
            .iter()
            .fold(0, |found, byte| found << 8 | i64::from(*byte));
        assert_eq!(found, format, "page {page}");
        for bytes in [damaged, met] {
            let (folder, repair) = after(JOURNAL, &bytes, |_| ());
            let path = folder.path().join(JOURNAL);
            (kind(JOURNAL).make)(&path).expect("it is brought to this format");
            assert_eq!(rows(&path, sql), needed, "page {page}: {repair:?}");
            let kept = rows(
                &path,
                "SELECT '' || seq FROM payloads UNION SELECT '' || seq FROM quarantine",
            );
            assert_eq!(kept.len(), needed.len(), "page {page}: {repair:?}");
            restored += i32::from(repair.sentence().contains("are restored"));
        }
    }
    assert!(restored > 3, "{restored}");
    assert!(refused > 3, "{refused}");
}

#[test]
fn a_pool_begins_a_new_history_and_has_its_sinks_look_back() {
    let (_folder, path) = sample(POOL);
    let root: i64 = Connection::open(&path)
        .and_then(|pool| {
            let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'items'";
            pool.query_row(sql, [], |row| row.get(0))
        })
        .expect("a root");
    let whole = std::fs::read(&path).expect("the file");
    let root = usize::try_from(root).expect("a page") - 1;
    let (folder, repair) = after(POOL, &whole, |bytes| {
        bytes[root * PAGE_BYTES..][..PAGE_BYTES].fill(0);
    });
    assert!(
        repair.incomplete_streams.is_empty(),
        "the leaves are found without it: {repair:?}"
    );
    let pool = Connection::open(folder.path().join(POOL)).expect("it opens");
    let sinks: String = pool
        .query_row("SELECT group_concat(sink) FROM rebuilt", [], |row| {
            row.get(0)
        })
        .expect("sinks");
    assert_eq!(sinks, "other,pool");
    let epoch: i64 = pool
        .query_row("SELECT epoch FROM history", [], |row| row.get(0))
        .expect("one row");
    assert_ne!(epoch, 9);
    let next: i64 = pool
        .query_row(
            "SELECT seq FROM sqlite_sequence WHERE name = 'dead_letters'",
            [],
            |row| row.get(0),
        )
        .expect("one row");
    assert_eq!(next, 7, "ids of dead letters are not given twice");
}

/// A file with all its rows in its write-ahead log, as a killed process leaves it: the file, the log.
fn killed(file: &str) -> (Vec<u8>, Vec<u8>) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(file);
    (kind(file).make)(&path).expect("an empty file");
    let connection = Connection::open(&path).expect("it opens");
    connection
        .pragma_update(None, "wal_autocheckpoint", 0)
        .expect("a setting");
    for row in 0..20 {
        let sql = "INSERT INTO items (stream, key, fields, seq, created_at, updated_at, request_id, accepted_seq, position) VALUES ('s', 'key' || ?1, ?2, ?1, 't', 't', 'r', ?1, 0)";
        let fields = format!("{{\"text\":\"{}\"}}", "x".repeat(1_500));
        connection
            .execute(sql, rusqlite::params![row, fields])
            .expect("an item");
    }
    let log = std::fs::read(beside(&path, "-wal")).expect("a log");
    (std::fs::read(&path).expect("a file"), log)
}

fn after_in_log(main: &[u8], log: &[u8]) -> (tempfile::TempDir, Vec<Repair>) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(POOL);
    std::fs::write(&path, main).expect("a file");
    std::fs::write(beside(&path, "-wal"), log).expect("a log");
    let repairs = at_start(folder.path()).expect("it can be repaired");
    let verdict = check(folder.path(), POOL, true).expect("it can be read");
    assert_eq!(verdict, Verdict::Sound, "{repairs:?}");
    (folder, repairs)
}

#[test]
fn one_bit_of_a_log_is_mended_exactly_or_costs_what_its_page_held() {
    let (main, log) = killed(POOL);
    let (folder, repairs) = after_in_log(&main, &log);
    assert!(repairs.is_empty(), "nothing is wrong: {repairs:?}");
    let original = rows(&folder.path().join(POOL), LARGEST[1].2);
    assert_eq!(original.len(), 20);
    let header = (0..32).map(|at| at * 8 + at % 8);
    // The whole header of the second frame, and bits all over.
    let frame = (32 + 4_120..32 + 4_120 + 24).map(|at| at * 8 + at % 8);
    let all_over = (0..log.len() * 8).step_by(31_337);
    let (mut mended, mut all) = (0, 0);
    for bit in header.chain(frame).chain(all_over) {
        let mut log = log.clone();
        log[bit / 8] ^= 1 << (bit % 8);
        let (folder, repairs) = after_in_log(&main, &log);
        let kept = rows(&folder.path().join(POOL), LARGEST[1].2);
        let repair = repairs.first().expect("it is told");
        all += 1;
        if repair.tables.is_empty() {
            assert_eq!(kept, original, "bit {bit}: {repairs:?}");
            mended += 1;
        } else {
            // The checksum says that something is wrong, and not which of several bits it is.
            assert!(kept.len() + 3 >= 20, "bit {bit}: {repairs:?}");
        }
        let aside = repairs.iter().flat_map(|repair| &repair.set_aside);
        let mut aside = aside.map(|name| std::fs::read(folder.path().join(name)));
        assert!(
            aside.any(|copy| copy.expect("it is kept") == log),
            "bit {bit}: {repairs:?}"
        );
    }
    assert!(mended * 2 > all, "{mended} of {all}");
}

#[test]
fn a_page_of_a_log_that_is_gone_takes_its_own_rows_only() {
    let (main, log) = killed(POOL);
    let pages = log.len() / PAGE_BYTES;
    let mut worst = 0;
    for page in 0..pages {
        let mut log = log.clone();
        log[page * PAGE_BYTES..][..PAGE_BYTES].fill(0);
        let (folder, repairs) = after_in_log(&main, &log);
        let missing = 20 - rows(&folder.path().join(POOL), LARGEST[1].2).len();
        assert!(
            missing <= 3,
            "page {page} of {pages}: {missing} {repairs:?}"
        );
        assert!(
            missing == 0 || !repairs.is_empty(),
            "page {page}: nothing is said of {missing} rows"
        );
        worst = worst.max(missing);
    }
    assert!(worst > 0, "nothing was damaged at all");
}

#[test]
fn sinks_look_back_for_what_a_hole_in_a_log_hides() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(POOL);
    (kind(POOL).make)(&path).expect("an empty file");
    let pool = Connection::open(&path).expect("it opens");
    pool.pragma_update(None, "wal_autocheckpoint", 0)
        .expect("a setting");
    pool.execute(
        "INSERT INTO cursors (sink, seq, start) VALUES ('pool', 0, 0)",
        [],
    )
    .expect("a cursor");
    // Every page has an older version in the log, and what follows the newest one is flushed.
    for value in 0..3 {
        for key in 0..40 {
            let sql = "INSERT OR REPLACE INTO items (stream, key, fields, seq, created_at, updated_at, request_id, accepted_seq, position) VALUES ('s', 'key' || ?1, ?2, ?3, 't', 't', 'r', ?3, 0)";
            let fields = format!("{{\"n\":{value},\"text\":\"{}\"}}", "x".repeat(900));
            pool.execute(sql, rusqlite::params![key, fields, value * 40 + key])
                .expect("an item");
        }
    }
    let main = std::fs::read(&path).expect("a file");
    let log = std::fs::read(beside(&path, "-wal")).expect("a log");
    let original = rows(&path, LARGEST[1].2);
    let mut hidden = 0;
    for page in (0..log.len() / PAGE_BYTES).step_by(2) {
        let mut log = log.clone();
        log[page * PAGE_BYTES..][..PAGE_BYTES].fill(0);
        let (folder, repairs) = after_in_log(&main, &log);
        let path = folder.path().join(POOL);
        let salvaged = repairs.iter().any(|repair| !repair.tables.is_empty());
        // Otherwise the file is as it was before that page, the cursor with it.
        if !salvaged || rows(&path, LARGEST[1].2) == original {
            continue;
        }
        hidden += 1;
        let again = rows(&path, "SELECT sink FROM rebuilt");
        assert!(again.contains("pool"), "page {page}: {repairs:?}");
    }
    assert!(hidden > 3, "{hidden}");
}

#[test]
fn a_log_that_ends_early_is_no_damage() {
    let (main, log) = killed(POOL);
    for end in (0..log.len()).step_by(1_999) {
        let (_folder, repairs) = after_in_log(&main, &log[..end]);
        assert!(repairs.is_empty(), "{end}: {repairs:?}");
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
