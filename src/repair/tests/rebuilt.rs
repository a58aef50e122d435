//! What a journal and a pool that were rebuilt know of what they lost.

use super::*;

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

/// Payloads of the sample that become a group.
const GROUPED: std::ops::RangeInclusive<i64> = 101..=132;

/// Stores some payloads of the sample as one row, as it is written down here.
fn join(connection: &Connection) {
    let (mut directory, mut all) = (vec![0xff], Vec::new());
    for row in GROUPED {
        let items = vec![b'x'; 150];
        directory.extend(row.to_le_bytes());
        directory.extend(crc32fast::hash(&items).to_le_bytes());
        directory.extend((items.len() as u32).to_le_bytes());
        directory.extend((origin(row).len() as u16).to_le_bytes());
        directory.extend(origin(row));
        all.extend(items);
    }
    let range = [*GROUPED.start(), *GROUPED.end()];
    connection
        .execute("DELETE FROM payloads WHERE seq BETWEEN ?1 AND ?2", range)
        .expect("they go");
    let crc32 = i64::from(crc32fast::hash(&directory)) | 1 << 32;
    let row = rusqlite::params![GROUPED.end(), crc32, all, directory];
    connection
        .execute("INSERT INTO payloads VALUES (?1, ?2, ?3, ?4)", row)
        .expect("a group");
}

#[test]
fn of_a_group_each_payload_is_restored_or_lost() {
    let (_folder, path) = sample(JOURNAL);
    let each = "SELECT seq || ' ' || crc32 || hex(items) || hex(request) FROM payloads";
    let original = rows(&path, each);
    let connection = Connection::open(&path).expect("it opens");
    join(&connection);
    drop(connection);
    let needed = rows(&path, NEEDED);
    let whole = std::fs::read(&path).expect("the file");
    let mut lost_at_once = 0;
    for page in 2..whole.len() / PAGE_BYTES {
        let (folder, repair) = after(JOURNAL, &whole, |bytes| {
            bytes[page * PAGE_BYTES..][..PAGE_BYTES].fill(0);
        });
        let path = folder.path().join(JOURNAL);
        let kept = rows(&path, each);
        assert!(kept.is_subset(&original), "page {page}");
        let table = repair.tables.iter().find(|it| it.table == "payloads");
        assert_eq!(
            table.expect("the table").kept as usize,
            kept.len(),
            "page {page}"
        );
        let aside = rows(&path, "SELECT '' || seq FROM quarantine");
        assert_eq!(
            kept.len() + aside.len(),
            ROWS as usize,
            "page {page}: {repair:?}"
        );
        assert_eq!(rows(&path, NEEDED), needed, "page {page}");
        lost_at_once = lost_at_once.max(aside.len());
    }
    // A page of the group takes all of it, and its neighbors if it begins there.
    let grouped = GROUPED.count();
    assert!(
        (grouped..grouped + 30).contains(&lost_at_once),
        "{lost_at_once}"
    );
}

/// The sample as format 5 had it.
const FORMAT_5: &str = include_str!("../../../tests/fixtures/journal-format-5.sql");

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
