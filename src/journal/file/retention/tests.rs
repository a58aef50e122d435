//! Unit tests of `file/retention.rs`.

use rusqlite::Connection;
use uuid::Uuid;

use super::*;
use crate::log::Client;
use crate::{LogEntry, Outcome, Submission};
use base::clock::{Lived, Unix};
use item::ItemsWriter;
use std::time::Duration;

const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);

/// A request that came at `received_at` with one item of about 100 bytes.
fn submission(received_at: Unix) -> Submission {
    let mut items = ItemsWriter::new(1 << 20, 0);
    let fields = format!("{{\"text\":\"{}\"}}", "x".repeat(80));
    items.push("key", &fields).expect("it fits");
    Submission {
        log: LogEntry {
            items: 1,
            bytes: 100,
            client: Client::Unix,
            ..LogEntry::of(
                Uuid::now_v7(),
                received_at,
                "c".into(),
                "s".into(),
                Outcome::Accepted,
            )
        },
        arrived: Lived::now(),
        items: items.into_items(),
        claim: None,
        second: None,
        recheck: None,
    }
}

#[tokio::test]
async fn the_oldest_go_first_by_age_and_by_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal.db");
    let open = || crate::file::tests::open(&path, |_| ());
    let journal = open().await;
    // Whatever the time of day was when they came.
    for received_at in [4_000, 3_000, 2_000, 1_000] {
        let submitted = journal.submit(submission(Unix::from_ms(received_at))).await;
        submitted.expect("it is taken");
    }
    let point = Connection::open(&path).expect("it opens");
    point
        .execute(
            "INSERT INTO timeline (lived_ms, seq) VALUES (?1, 1)",
            [(Lived::now() - MINUTE).to_column()],
        )
        .expect("it writes");
    let kept = |bytes_max, age_max| {
        let retention = Retention { bytes_max, age_max };
        let journal = &journal;
        async move { journal.kept_from(retention).await.expect("it reads").get() }
    };
    assert_eq!(kept(1 << 20, HOUR).await, 0, "all of it");
    assert_eq!(kept(1 << 20, MINUTE).await, 1, "the first is too old");
    assert_eq!(kept(250, HOUR).await, 2, "two fit");
    journal
        .submit(submission(Unix::from_ms(5_000)))
        .await
        .expect("it is taken");
    assert_eq!(kept(250, HOUR).await, 3, "the last two");
    assert_eq!(kept(10, HOUR).await, 5, "none fits");
    assert_eq!(kept(0, HOUR).await, u64::MAX);
    assert_eq!(kept(1 << 20, Duration::ZERO).await, u64::MAX);
    journal.close().await;

    // What was there before is counted too, and what comes then.
    let journal = open().await;
    let retention = Retention {
        bytes_max: 250,
        age_max: HOUR,
    };
    let kept = journal.kept_from(retention).await.expect("it reads");
    assert_eq!(kept.get(), 3, "the last two");
    let submitted = journal.submit(submission(Unix::from_ms(6_000))).await;
    submitted.expect("it is taken");
    let kept = journal.kept_from(retention).await.expect("it reads");
    assert_eq!(kept.get(), 4, "the last two");
    journal.close().await;
}

#[tokio::test]
async fn of_groups_as_many_go_as_must() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal.db");
    let connection = crate::file::payloads::tests::sample(&path).await;
    let all: u64 = connection
        .query_row("SELECT sum(length(items)) FROM payloads", [], |row| {
            row.get::<_, i64>(0).map(i64::unsigned_abs)
        })
        .expect("a number");
    // The rows are those of 1, 2 and 4, of 5, which is the largest, and of four more.
    for (bytes_max, kept_from) in [(all, 0), (all - 1, 4), (70_000, 5), (10, 10)] {
        let journal = crate::file::tests::open(&path, |_| ()).await;
        let retention = Retention {
            bytes_max,
            age_max: Duration::MAX,
        };
        let kept = journal.kept_from(retention).await.expect("it reads");
        assert_eq!(kept.get(), kept_from, "{bytes_max}");
        journal.close().await;
    }
}
