//! What a damaged write-ahead log costs, and what of it is mended.

use super::*;

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
