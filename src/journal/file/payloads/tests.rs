//! Groups of payloads: written, read, quarantined, pruned and moved.
//!
//! Run by `cargo test`. **Invariant**: what is asked of each payload does not depend on which row it is in.

use std::path::Path;
use std::time::Duration;

use rusqlite::types::Value;
use uuid::Uuid;

use super::*;
use crate::file::copy;
use crate::file::moving::FileRows;
use crate::file::tests::open;
use crate::moving::Part;
use crate::{Journal, ReadRequest, Taken};
use base::clock::{Lived, Unix};
use item::ItemsWriter;

/// Requests of the sample: rejected ones have no payload, the fifth is larger than a group, the seventh removes.
const REJECTED: [u64; 2] = [3, 9];
const LARGE: u64 = 5;
const REMOVAL: u64 = 7;
const LAST: u64 = 10;

fn accepted() -> impl Iterator<Item = u64> + Clone {
    (1..=LAST).filter(|seq| !REJECTED.contains(seq))
}

fn entry(seq: u64) -> LogEntry {
    let stream = if seq.is_multiple_of(2) { "even" } else { "odd" };
    let outcome = match seq {
        REMOVAL => Outcome::Removed,
        seq if REJECTED.contains(&seq) => Outcome::Rejected,
        _ => Outcome::Accepted,
    };
    let id = Uuid::from_u128(u128::from(seq));
    LogEntry::of(
        id,
        Unix::from_ms(seq * 100),
        "c".into(),
        stream.into(),
        outcome,
    )
}

fn items(seq: u64) -> Items {
    let mut items = ItemsWriter::new(1 << 20, 0);
    let size = if seq == LARGE { 70_000 } else { 20 };
    let fields = format!("{{\"n\":\"{}\"}}", "x".repeat(size));
    items.push(&format!("key{seq}"), &fields).expect("it fits");
    items.into_items()
}

/// Makes a journal whose requests came in one transaction. Its rows are: 1, 2 and 4; 5; and 6, 7, 8 and 10.
pub(in crate::file) async fn sample(path: &Path) -> Connection {
    open(path, |_| ()).await.close().await;
    let connection = Connection::open(path).expect("it opens");
    connection.execute_batch("BEGIN").expect("it begins");
    {
        let mut statement = Joined::statement(&connection).expect("a statement");
        let mut joined = Joined::default();
        for seq in 1..=LAST {
            let log = entry(seq);
            let sql = "INSERT INTO requests (seq, request_id, received_ms, connector, stream, outcome, endpoint, http_status,
                items, bytes, key, client) VALUES (?1, ?2, ?3, 'c', ?4, ?5, 0, ?6, 1, 0, '', 'unix')";
            let status = if REJECTED.contains(&seq) { 400 } else { 202 };
            let id = &log.request_id.as_bytes()[..];
            let row = params![
                seq.cast_signed(),
                id,
                log.received_at.to_column(),
                &*log.stream,
                log.outcome.code(),
                status
            ];
            connection.execute(sql, row).expect("a request");
            if !REJECTED.contains(&seq) {
                let added = joined.add(&mut statement, Seq::new(seq), &log, &items(seq));
                added.expect("it is added");
            }
        }
        joined.write(&mut statement).expect("it is written");
    }
    connection.execute_batch("COMMIT").expect("it commits");
    assert_eq!(keys(&connection), [4, 5, 10]);
    connection
}

fn keys(connection: &Connection) -> Vec<i64> {
    let mut statement = connection
        .prepare("SELECT seq FROM payloads ORDER BY seq")
        .expect("the table");
    let keys = statement.query_map([], |row| row.get(0)).expect("rows");
    keys.map(|key| key.expect("a row")).collect()
}

fn number(connection: &Connection, sql: &str) -> i64 {
    connection
        .query_row(sql, [], |row| row.get(0))
        .expect("a number")
}

async fn take(journal: &Journal, after: u64, bytes_max: usize) -> Taken {
    let request = ReadRequest {
        after: Seq::new(after),
        items_max: 1_000,
        bytes_max,
        wanted: &|_, _| true,
    };
    journal.read_after(request).await.expect("it reads")
}

fn seqs(taken: &Taken) -> Vec<u64> {
    taken.entries.iter().map(|entry| entry.seq.get()).collect()
}

#[test]
fn a_directory_with_a_wrong_bit_is_not_used() {
    let connection = Connection::open_in_memory().expect("a database");
    let table =
        "CREATE TABLE payloads (seq INTEGER PRIMARY KEY, crc32 INTEGER, items BLOB, request BLOB)";
    connection.execute_batch(table).expect("a table");
    let mut statement = Joined::statement(&connection).expect("a statement");
    let mut joined = Joined::default();
    for seq in [1, 2, 4] {
        let added = joined.add(&mut statement, Seq::new(seq), &entry(seq), &items(seq));
        added.expect("it is added");
    }
    joined.write(&mut statement).expect("it is written");
    let (crc32, mut directory): (i64, Vec<u8>) = connection
        .query_row("SELECT crc32, request FROM payloads", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .expect("one row");
    let found = records(crc32, &directory).expect("it is whole");
    let found: Vec<u64> = found.iter().map(|record| record.seq.get()).collect();
    assert_eq!(found, [1, 2, 4]);
    assert!(records_max(directory.len()) >= 3);
    for bit in 0..directory.len() * 8 {
        directory[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(records(crc32, &directory), None, "{bit}");
        assert!(was_group(Some(&directory)), "{bit}");
        directory[bit / 8] ^= 1 << (bit % 8);
    }
    assert_eq!(records(crc32, &directory[..directory.len() - 1]), None);
}

#[tokio::test]
async fn a_group_is_read_like_rows_of_one_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal.db");
    let connection = sample(&path).await;
    let all: Vec<u64> = accepted().collect();
    let journal = open(&path, |_| ()).await;
    let taken = take(&journal, 0, 1 << 20).await;
    assert_eq!((seqs(&taken), taken.through), (all.clone(), Seq::new(LAST)));
    for one in &taken.entries {
        let (seq, log) = (one.seq.get(), entry(one.seq.get()));
        assert_eq!(
            (one.request_id, one.received_at),
            (log.request_id, log.received_at),
            "{seq}"
        );
        assert_eq!(*one.stream, *log.stream, "{seq}");
        // The encoding says of each item that it is a removal.
        let is_same = one.items.as_bytes() == items(seq).as_bytes();
        assert_eq!(is_same, seq != REMOVAL, "{seq}");
        assert_eq!(one.items.removals(), usize::from(seq == REMOVAL), "{seq}");
    }
    // Batches end within a group, and go on there.
    let (mut after, mut found) = (0, Vec::new());
    while after < LAST {
        let taken = take(&journal, after, 60).await;
        assert!(taken.through.get() > after && !taken.entries.is_empty());
        found.extend(seqs(&taken));
        after = taken.through.get();
    }
    assert_eq!(found, all);
    let even = ReadRequest {
        after: Seq::new(2),
        items_max: 1_000,
        bytes_max: 1 << 20,
        wanted: &|stream, _| stream == "even",
    };
    let taken = journal.read_after(even).await.expect("it reads");
    assert_eq!(
        (seqs(&taken), taken.through),
        (vec![4, 6, 8, 10], Seq::new(LAST))
    );

    let asked = [8, 3, 1, 10].map(Seq::new);
    let many = journal.read_many(&asked).await.expect("it reads");
    let many: Vec<u64> = many.iter().map(|entry| entry.seq.get()).collect();
    assert_eq!(many, [1, 8, 10]);
    for seq in 1..=LAST + 1 {
        let one = journal.entry(Seq::new(seq)).await.expect("it reads");
        assert_eq!(one.is_some(), all.contains(&seq), "{seq}");
        let released = journal.has_released_after(Seq::new(seq - 1)).await;
        assert!(!released.expect("it reads"), "{seq}");
    }
    let removals = journal.removals_after(Seq::MIN).await.expect("it reads");
    let (removals, through) = removals.expect("there is one");
    assert_eq!(
        (removals.len(), removals[0].seq, through),
        (1, Seq::new(REMOVAL), Seq::new(LAST))
    );
    assert!(
        journal
            .removals_after(through)
            .await
            .expect("it reads")
            .is_none()
    );
    assert_eq!(
        journal.oldest_kept().await.expect("it reads"),
        Some(Seq::new(1))
    );
    for (after, oldest) in [(0, 1), (2, 4), (6, 7), (8, 10)] {
        let oldest_at = journal.file().oldest_after(Seq::new(after)).await;
        let (at, _) = oldest_at.expect("it reads").expect("there is one");
        assert_eq!(at, Unix::from_ms(oldest * 100), "{after}");
    }
    let bytes: usize = accepted().map(|seq| items(seq).byte_len()).sum();
    let waiting = journal.file().payload_bytes_after(Seq::MIN).await;
    assert_eq!(waiting.expect("it reads"), bytes as u64);
    let state = copy::copy_state(&connection, Seq::MIN).expect("it reads");
    assert_eq!(state.missing, None);
    journal.close().await;

    let rows = FileRows::open(&path).expect("it opens");
    let rows = rows
        .after(Part::Payloads, &Value::Integer(-1))
        .expect("it reads");
    let moved = rows.iter().map(|row| match (&row[0], &row[6]) {
        (Value::Integer(seq), Value::Blob(bytes)) => {
            let seq = seq.unsigned_abs();
            assert_eq!(bytes[..], items(seq).as_bytes()[..], "{seq}");
            seq
        }
        other => panic!("{other:?}"),
    });
    let moved = moved.collect::<Vec<_>>();
    assert_eq!(moved, all);
    assert_eq!(separate(&connection), Ok(5));
    assert_eq!(
        keys(&connection),
        accepted().map(u64::cast_signed).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn a_wrong_bit_of_a_payload_sets_aside_this_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal.db");
    let connection = sample(&path).await;
    let at = items(6).byte_len() + items(7).byte_len();
    // The last bytes of the payload of 7.
    let damage = format!(
        "UPDATE payloads SET items = CAST(substr(items, 1, {at} - 3) || 'zzz' || substr(items, {at} + 1) AS BLOB) WHERE seq = 10"
    );
    connection.execute_batch(&damage).expect("it is damaged");
    let journal = open(&path, |_| ()).await;
    let taken = take(&journal, 0, 1 << 20).await;
    assert_eq!(seqs(&taken), [1, 2, 4, 5, 6, 8, 10]);
    let [(corrupt, reason)] = &taken.corrupt[..] else {
        panic!("{taken:?}")
    };
    assert!(reason.contains("checksum"), "{reason}");
    journal
        .quarantine(*corrupt, reason.clone())
        .expect("it is taken");
    // The first and the last of a group can go as well.
    for seq in [10, 1] {
        journal
            .quarantine(Seq::new(seq), "for a test".into())
            .expect("it is taken");
    }
    journal.flush().await.expect("it is written");
    assert_eq!(keys(&connection), [4, 5, 8]);
    let kept = "SELECT sum(seq) FROM quarantine WHERE items IS NOT NULL AND length(request) = 26 + length('c') + length('even') - (seq % 2)";
    assert_eq!(number(&connection, kept), 18);
    let taken = take(&journal, 0, 1 << 20).await;
    assert_eq!(
        (seqs(&taken), taken.through),
        (vec![2, 4, 5, 6, 8], Seq::new(LAST))
    );
    let set_aside: Vec<u64> = taken.quarantined.iter().map(|(seq, _)| seq.get()).collect();
    assert_eq!(set_aside, [1, 7, 10]);
    // Those within a group do not hide what comes before them.
    let taken = take(&journal, 5, 1).await;
    assert_eq!((seqs(&taken), taken.through), (vec![6], Seq::new(7)));
    // One is left: its row is one of one request.
    for seq in [6, 2] {
        journal
            .quarantine(Seq::new(seq), "for a test".into())
            .expect("it is taken");
    }
    journal.flush().await.expect("it is written");
    assert_eq!(
        number(
            &connection,
            "SELECT count(*) FROM payloads WHERE crc32 <= 4294967295"
        ),
        3
    );
    assert_eq!(seqs(&take(&journal, 0, 1 << 20).await), [4, 5, 8]);
    let state = copy::copy_state(&connection, Seq::MIN).expect("it reads");
    assert_eq!(state.missing, None);
    journal.close().await;
}

#[tokio::test]
async fn a_damaged_directory_sets_aside_its_group() {
    for damage in [
        "request = CAST(substr(request, 1, 30) || 'z' || substr(request, 32) AS BLOB)",
        "crc32 = crc32 + 1",
        "crc32 = crc32 & 4294967295",
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("journal.db");
        let connection = sample(&path).await;
        let sql = format!("UPDATE payloads SET {damage} WHERE seq = 10");
        connection.execute_batch(&sql).expect("it is damaged");
        let hidden = damage.ends_with("4294967295");
        let journal = open(&path, |_| ()).await;
        assert!(
            !journal
                .has_released_after(Seq::new(5))
                .await
                .expect("it reads")
                || hidden
        );
        let taken = take(&journal, 0, 1 << 20).await;
        assert_eq!(
            (seqs(&taken), taken.through),
            (vec![1, 2, 4, 5], Seq::new(LAST)),
            "{damage}"
        );
        let corrupt: Vec<u64> = taken.corrupt.iter().map(|(seq, _)| seq.get()).collect();
        // What does not say that it is a group is looked at as the last of them.
        let expected: &[u64] = if hidden { &[10] } else { &[6, 7, 8, 10] };
        assert_eq!(corrupt, expected, "{damage}");
        for (seq, reason) in taken.corrupt {
            assert!(reason.contains("stored together"), "{reason}");
            journal.quarantine(seq, reason).expect("it is taken");
        }
        journal.flush().await.expect("it is written");
        assert_eq!(keys(&connection), [4, 5]);
        assert_eq!(
            number(&connection, "SELECT sum(seq) FROM quarantine"),
            6 + 7 + 8 + 10
        );
        assert_eq!(
            number(
                &connection,
                "SELECT seq FROM quarantine WHERE items IS NOT NULL"
            ),
            10
        );
        let taken = take(&journal, 5, 1 << 20).await;
        assert_eq!(
            (seqs(&taken), taken.quarantined.len()),
            (vec![], 4),
            "{damage}"
        );
        journal.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_group_goes_when_all_of_it_is_released() {
    const DAY: Duration = Duration::from_hours(24);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal.db");
    let connection = sample(&path).await;
    let journal = open(&path, |_| ()).await;
    journal.release(Seq::new(8));
    until(&journal, &connection, "SELECT min(seq) = 10 FROM payloads").await;
    assert_eq!(seqs(&take(&journal, 8, 1 << 20).await), [10]);
    journal.close().await;
    // Entries of what is in the group stay with it, however old they are.
    let aged = (Lived::now() - 40 * DAY).to_column();
    let sql = "INSERT INTO timeline VALUES (?1, 10)";
    connection.execute(sql, [aged]).expect("it writes");
    let journal = open(&path, |options| options.log_retention = 30 * DAY).await;
    until(&journal, &connection, "SELECT min(seq) >= 6 FROM requests").await;
    assert_eq!(number(&connection, "SELECT min(seq) FROM requests"), 6);
    journal.release(Seq::new(LAST));
    until(&journal, &connection, "SELECT count(*) = 0 FROM payloads").await;
    journal.close().await;
}

/// Waits until something holds: deleting goes on between groups.
async fn until(journal: &Journal, connection: &Connection, sql: &str) {
    let holds = async {
        while number(connection, sql) == 0 {
            journal.flush().await.expect("it writes");
        }
    };
    let holds = tokio::time::timeout(Duration::from_secs(60), holds).await;
    holds.expect(sql);
}

#[tokio::test]
async fn requests_of_one_transaction_are_stored_and_delivered() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal.db");
    let journal = open(&path, |_| ()).await;
    let submitted = accepted().cycle().take(400).map(|seq| {
        let submission = crate::Submission {
            log: entry(seq),
            arrived: Lived::now(),
            items: items(seq),
            claim: None,
            second: None,
            recheck: None,
        };
        journal.submit(submission)
    });
    for receipt in futures_util::future::join_all(submitted).await {
        receipt.expect("it is taken");
    }
    journal.close().await;
    let connection = Connection::open(&path).expect("it opens");
    println!("{} rows", keys(&connection).len());
    let largest =
        "SELECT max(length(items) + length(request)) FROM payloads WHERE crc32 > 4294967295";
    let largest: Option<i64> = connection
        .query_row(largest, [], |row| row.get(0))
        .expect("a number");
    assert!(largest.is_none_or(|largest| largest <= GROUP_BYTES_MAX.cast_signed() as i64));
    let journal = open(&path, |_| ()).await;
    let taken = take(&journal, 0, 1 << 30).await;
    assert_eq!(seqs(&taken), (1..=400).collect::<Vec<_>>());
    assert!(taken.corrupt.is_empty());
    journal.close().await;
}
