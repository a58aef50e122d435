//! The log stays within its bounds, and keeps what is needed.
//!
//! Run by `cargo test`. **Invariant**: entries are deleted by the journal's own writer.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::log::Client;
use crate::{Journal, LogEntry, Outcome, ReadRequest, Submission};
use base::clock::{Lived, Unix};
use base::order::Seq;
use item::ItemsWriter;

async fn open(path: &Path, log_retention: Duration, log_retention_bytes: u64) -> Arc<Journal> {
    crate::file::tests::open(path, |options| {
        options.log_retention = log_retention;
        options.log_retention_bytes = log_retention_bytes;
    })
    .await
}

fn entry(outcome: Outcome) -> LogEntry {
    LogEntry {
        items: 1,
        bytes: 10,
        key: "ik_live_a1b2c3d4".into(),
        client: Client::Unix,
        ..LogEntry::of(
            Uuid::now_v7(),
            Unix::now(),
            "shop".into(),
            "orders".into(),
            outcome,
        )
    }
}

async fn submit(journal: &Journal) {
    let mut items = ItemsWriter::new(1 << 20, 0);
    items.push("key", "{}").expect("it fits");
    let submitted = journal.submit(Submission {
        log: entry(Outcome::Accepted),
        arrived: Lived::now(),
        items: items.into_items(),
        claim: None,
        second: None,
        recheck: None,
    });
    submitted.await.expect("it is taken");
}

/// 0 for nothing.
async fn number(journal: &Journal, sql: &'static str) -> i64 {
    let number = journal.file().reads.row(sql, [], |row| row.get(0));
    let number: Option<i64> = number.await.expect("it reads");
    number.unwrap_or_default()
}

/// Waits until the lowest position is as wanted: deleting goes on between groups.
async fn lowest(journal: &Journal, wanted: impl Fn(i64) -> bool) -> i64 {
    until(journal, "SELECT min(seq) FROM requests", wanted).await
}

async fn until(journal: &Journal, sql: &'static str, wanted: impl Fn(i64) -> bool) -> i64 {
    let found = async {
        loop {
            let found = number(journal, sql).await;
            if wanted(found) {
                return found;
            }
            journal.flush().await.expect("it writes");
        }
    };
    let found = tokio::time::timeout(std::time::Duration::from_secs(60), found).await;
    found.expect("the log becomes smaller")
}

const LOG: &str = "SELECT sum(pgsize) FROM dbstat WHERE name LIKE 'requests%'";
const BOUND: i64 = 700_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_log_that_is_too_large_loses_its_oldest_entries_but_none_that_is_needed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal.db");
    let journal = open(&path, Duration::MAX, u64::MAX).await;
    for n in 0..20_000 {
        match n {
            4_999 => submit(&journal).await,
            _ => journal.record(entry(Outcome::Rejected)),
        }
    }
    journal.flush().await.expect("it is written");
    let taken = number(&journal, "SELECT sum(bytes) FROM log_spans").await;
    let real = number(&journal, LOG).await;
    println!("{taken} for {real}");
    assert!(
        real < taken * 5 / 4 && taken < real * 5 / 4,
        "{taken} for {real}"
    );
    assert!(real > 2 * BOUND);
    journal.close().await;

    // A payload that no sink has had keeps its entry, and all that came later.
    let journal = open(&path, Duration::MAX, BOUND.unsigned_abs()).await;
    assert_eq!(lowest(&journal, |lowest| lowest >= 5_000).await, 5_000);
    journal.close().await;

    let journal = open(&path, Duration::MAX, BOUND.unsigned_abs()).await;
    journal.release(Seq::new(5_000));
    let bound = "SELECT (SELECT sum(bytes) FROM log_spans) <= 700000";
    lowest(&journal, |lowest| lowest > 5_000).await;
    let done = async {
        while number(&journal, bound).await == 0 {
            journal.flush().await.expect("it writes");
        }
    };
    let done = tokio::time::timeout(std::time::Duration::from_secs(60), done).await;
    done.expect("the log fits");
    assert!(number(&journal, LOG).await < BOUND * 5 / 4);
    let left = number(&journal, "SELECT count(*) FROM requests").await;
    assert!(left > 5_000, "not more than must: {left}");
    assert_eq!(
        number(&journal, "SELECT max(seq) FROM requests").await,
        20_000
    );
    let marks =
        "SELECT count(*) FROM log_marks WHERE first_seq NOT IN (SELECT first_seq FROM log_spans)";
    assert_eq!(number(&journal, marks).await, 0);
    let before = "SELECT count(*) FROM log_spans WHERE last_seq < (SELECT min(seq) FROM requests)";
    assert_eq!(number(&journal, before).await, 0);
    journal.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_step_reads_what_it_deletes_however_much_is_due() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal.db");
    let journal = open(&path, Duration::MAX, u64::MAX).await;
    for _ in 0..20_000 {
        journal.record(entry(Outcome::Rejected));
    }
    journal.flush().await.expect("it is written");
    journal.close().await;
    let file = rusqlite::Connection::open(&path).expect("it opens");
    let steps = |through: i64| {
        let mut statement = file.prepare(super::EXPIRE_LOG).expect("a statement");
        let values = [through, 0, super::LOG_STEP, i64::MAX];
        let deleted = statement.execute(values).expect("it deletes");
        assert_eq!(deleted, 500);
        statement.get_status(rusqlite::StatementStatus::VmStep)
    };
    let (few, many) = (steps(600), steps(19_000));
    assert!(many < few + few / 10, "{many} in place of {few}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_newest_entry_stays_however_old_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal.db");
    let journal = open(&path, Duration::MAX, u64::MAX).await;
    for _ in 0..1_500 {
        journal.record(LogEntry {
            received_at: Unix::from_ms(1),
            ..entry(Outcome::Rejected)
        });
    }
    journal.flush().await.expect("it is written");
    journal.close().await;
    let journal = open(&path, Duration::from_millis(1), 1 << 20).await;
    assert_eq!(lowest(&journal, |lowest| lowest == 1_500).await, 1_500);
    journal.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn entries_age_by_time_lived_whatever_the_time_of_day_was() {
    const DAY: Duration = Duration::from_hours(24);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal.db");
    let journal = open(&path, 30 * DAY, u64::MAX).await;
    for n in 0..300 {
        journal.record(LogEntry {
            // Half of them say that they came in 1970, half in the far future.
            received_at: Unix::from_ms(if n % 2 == 0 { 1 } else { u64::MAX >> 2 }),
            ..entry(Outcome::Rejected)
        });
    }
    journal.flush().await.expect("it is written");
    let file = rusqlite::Connection::open(&path).expect("it opens");
    let now = Lived::now();
    for (age, seq) in [(40 * DAY, 50), (31 * DAY, 100), (29 * DAY, 200)] {
        file.execute(
            "INSERT INTO timeline VALUES (?1, ?2)",
            [(now - age).to_column(), seq],
        )
        .expect("it writes");
    }
    journal.close().await;
    let journal = open(&path, 30 * DAY, u64::MAX).await;
    assert_eq!(lowest(&journal, |lowest| lowest > 100).await, 101);
    journal.flush().await.expect("it writes");
    assert_eq!(
        number(&journal, "SELECT count(*) FROM requests").await,
        200,
        "what is younger stays"
    );
    // Nobody asks for what no entry is left of. It goes in a group of its own.
    let points = "SELECT count(*) FROM timeline WHERE seq = 50";
    until(&journal, points, |points| points == 0).await;
    journal.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn time_lived_goes_on_from_where_it_stood() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal.db");
    open(&path, Duration::MAX, u64::MAX).await.close().await;
    let file = rusqlite::Connection::open(&path).expect("it opens");
    let stood: i64 = file
        .query_row("SELECT max(lived_ms) FROM timeline", [], |row| row.get(0))
        .expect("closing noted a point");
    let journal = open(&path, Duration::MAX, u64::MAX).await;
    assert!(Lived::now() >= Lived::from_column(stood));
    submit(&journal).await;
    journal.close().await;
    let later: i64 = file
        .query_row("SELECT max(lived_ms) FROM timeline", [], |row| row.get(0))
        .expect("it reads");
    assert!(later > stood, "{later} after {stood}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn it_is_known_when_an_entry_arrived_whatever_the_time_of_day_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal.db");
    let journal = open(&path, Duration::MAX, u64::MAX).await;
    let hour = Duration::from_hours(1);
    let arrived = Lived::now() - hour;
    let mut items = ItemsWriter::new(1 << 20, 0);
    items.push("key", "{}").expect("it fits");
    let submitted = journal.submit(Submission {
        log: LogEntry {
            received_at: Unix::MIN,
            ..entry(Outcome::Accepted)
        },
        arrived,
        items: items.into_items(),
        claim: None,
        second: None,
        recheck: None,
    });
    submitted.await.expect("it is taken");
    // From memory.
    let taken = journal.read_after(ReadRequest {
        after: Seq::MIN,
        items_max: 10,
        bytes_max: 1 << 20,
        wanted: &|_, _| true,
    });
    let taken = taken.await.expect("it reads").entries;
    let known = journal.arrived(&taken[0]);
    assert_eq!((taken[0].received_at, known), (Unix::MIN, Some(arrived)));
    // The file says the interval, but the process remembers.
    let read = || async {
        journal
            .entry(Seq::new(1))
            .await
            .expect("it reads")
            .expect("it is there")
    };
    let known = journal.arrived(&*read().await);
    assert_eq!(known, Some(arrived));
    journal.close().await;
    // Of what an earlier process accepted the timeline says the interval.
    let file = rusqlite::Connection::open(&path).expect("it opens");
    let points = [(hour * 3, 0), (hour / 2, 1), (hour / 4, 1)];
    file.execute_batch("DELETE FROM timeline")
        .expect("it deletes");
    for (age, seq) in points {
        let row = [(Lived::now() - age).to_column(), seq];
        file.execute("INSERT INTO timeline VALUES (?1, ?2)", row)
            .expect("it writes");
    }
    let first: i64 = file
        .query_row(
            "SELECT lived_ms FROM timeline ORDER BY 1 LIMIT 1 OFFSET 1",
            [],
            |row| row.get(0),
        )
        .expect("it reads");
    let journal = open(&path, Duration::MAX, u64::MAX).await;
    let entry = journal
        .entry(Seq::new(1))
        .await
        .expect("it reads")
        .expect("it is there");
    let known = journal.arrived(&entry);
    assert_eq!(known, Some(Lived::from_column(first)));
    journal.close().await;
}
