//! The journal in a PostgreSQL server of the tests' own. Run by `cargo test`.

mod admitted;
mod doubt;
mod generations;
mod minutes;
mod moving;
mod stories;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use postgres_server::{Postgres, cluster_at};
use uuid::Uuid;

use super::*;
use crate::log::{Endpoint, Filter, LogEntry, Outcome, Sender};
use crate::page::Budget;
use crate::{
    Claim, Condition, JournalError, Named, ReadRequest, Receipt, RejectedBody, Retention,
    Submission, Taken,
};
use base::clock::{Lived, Unix};
use item::batch::Action;
use item::{ItemMeta, ItemsWriter};

/// A node on the server at this address.
async fn open(url: &str) -> Arc<Journal> {
    open_with(url, Duration::from_secs(60)).await
}

async fn open_with(url: &str, commit_wait: Duration) -> Arc<Journal> {
    open_in(cluster_at(url, "headgate"), commit_wait).await
}

async fn open_in(database: Database, commit_wait: Duration) -> Arc<Journal> {
    let options = PostgresOptions {
        database,
        node: Uuid::now_v7(),
        log: None,
        commit_wait,
        pending_bytes_max: 64 << 20,
        seq_floor: Seq::MIN,
        log_retention: Duration::from_hours(24 * 30),
        log_retention_bytes: u64::MAX,
    };
    let opened = Journal::open_postgres(options, Arc::new(Metrics::new())).await;
    opened.expect("it opens")
}

fn submission(keys: &[&str], claim: Option<&str>) -> Submission {
    let mut items = ItemsWriter::new(1 << 20, 64);
    for key in keys {
        let pushed = items.push_with(key, "{}", Action::Upsert, ItemMeta::default());
        pushed.expect("it fits");
    }
    let entry = LogEntry::of(
        Uuid::now_v7(),
        Unix::now(),
        "shop".into(),
        "orders".into(),
        Outcome::Accepted,
    );
    Submission {
        log: LogEntry {
            items: u32::try_from(keys.len()).expect("few"),
            idempotency_key: claim.map(Into::into),
            ..entry
        },
        arrived: Lived::now(),
        items: items.into_items().accepted(false),
        claim: claim.map(|text| claim_of(text, 0)),
        second: None,
        recheck: None,
    }
}

fn claim_of(text: &str, payload: u64) -> Claim {
    let mut scope = [0; 16];
    scope[..text.len()].copy_from_slice(text.as_bytes());
    Claim {
        scope,
        payload: payload.to_be_bytes(),
    }
}

/// What is kept of a rejected request of which only the body is known.
fn rejected(body: Bytes) -> RejectedBody {
    RejectedBody {
        body,
        stream: "orders".into(),
        content_type: None,
        item_key: None,
        idempotency_key: None,
        test: false,
        headers: None,
    }
}

async fn submit(journal: &Journal, keys: &[&str], claim: Option<&str>) -> Receipt {
    let submitted = journal.submit(submission(keys, claim)).await;
    submitted.expect("it is stored")
}

/// Everything after a cursor, from memory or from the database.
async fn all_after(journal: &Journal, after: Seq) -> Taken {
    let request = ReadRequest {
        after,
        items_max: 1_000,
        bytes_max: 1 << 20,
        wanted: &|_, _| true,
    };
    journal.read_after(request).await.expect("it reads")
}

/// The keys of everything after a cursor, once there are so many.
async fn keys_after(journal: &Journal, after: Seq, count: usize) -> Vec<String> {
    let mut newest = journal.newest();
    loop {
        let mut keys = Vec::new();
        let mut cursor = after;
        loop {
            let taken = all_after(journal, cursor).await;
            if taken.through == cursor {
                break;
            }
            cursor = taken.through;
            for entry in &taken.entries {
                keys.extend(entry.items.iter().map(|item| item.key.to_owned()));
            }
        }
        if keys.len() >= count {
            return keys;
        }
        newest.changed().await.expect("it is open");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_stored_logged_and_handed_on_once() {
    let Some(server) = Postgres::start("a_request_is_stored_logged_and_handed_on_once") else {
        return;
    };
    let journal = open(&server.url()).await;
    let first = submit(&journal, &["a", "b"], Some("one")).await;
    assert!(!first.replayed && first.items == 2);
    assert_eq!(
        journal.lag(Seq::MIN),
        1,
        "counted before anybody has read it"
    );
    let again = submit(&journal, &["a", "b"], Some("one")).await;
    let expected = Receipt {
        replayed: true,
        ..first
    };
    assert_eq!(again, expected);
    let mut other = submission(&["c"], Some("one"));
    other.claim = Some(claim_of("one", 7));
    let differs = journal.submit(other).await.expect("it is answered");
    assert_eq!(differs, expected);
    // Either claim makes a repeat.
    let mut second = submission(&["d"], Some("two"));
    second.second = Some(claim_of("one", 0));
    assert_eq!(
        journal.submit(second).await.expect("it is answered"),
        expected
    );
    assert_eq!(
        journal.has_claim([Some(claim_of("one", 0)), None]).await,
        Ok(true)
    );
    assert_eq!(
        journal.has_claim([Some(claim_of("six", 0)), None]).await,
        Ok(false)
    );
    let third = submit(&journal, &["e"], None).await;
    assert_eq!(keys_after(&journal, Seq::MIN, 3).await, ["a", "b", "e"]);
    assert_eq!(journal.lag(Seq::MIN), 2);

    let mut budget = Budget::of(1);
    let page = journal.log_page(&Filter::default(), 100, &mut budget).await;
    let page = page.expect("a page");
    let outcomes: Vec<_> = page.rows.iter().map(|row| row.entry.outcome).collect();
    let repeat = Outcome::Duplicate;
    assert_eq!(
        outcomes,
        [Outcome::Accepted, repeat, repeat, repeat, Outcome::Accepted]
    );
    let firsts = page.rows.iter().filter_map(|row| row.duplicate_of);
    assert_eq!(firsts.collect::<Vec<_>>(), [first.request_id; 3]);
    let odd: Vec<bool> = page
        .rows
        .iter()
        .map(|row| row.entry.error.is_some())
        .collect();
    assert_eq!(odd, [false, false, true, false, false]);
    let row = journal.log_get(third.request_id).await.expect("it reads");
    let row = row.expect("it is there");
    assert_eq!((row.entry.items, row.entry.http_status), (1, 202));
    assert_eq!(journal.newest_logged().await.expect("it reads"), row.seq);
    journal.close().await;

    // Another life reads it from the database.
    let journal = open(&server.url()).await;
    assert_eq!(journal.lag(Seq::MIN), 2);
    assert_eq!(keys_after(&journal, Seq::MIN, 3).await, ["a", "b", "e"]);
    assert!(submit(&journal, &["a"], Some("one")).await.replayed);
    let entry = journal.entry(row.seq).await.expect("it reads");
    assert_eq!(entry.expect("it is there").request_id, third.request_id);
    journal.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_have_one_order_and_one_winner_for_each_key() {
    const REQUESTS: usize = 400;
    let Some(server) = Postgres::start("two_nodes_have_one_order_and_one_winner_for_each_key")
    else {
        return;
    };
    let nodes = [open(&server.url()).await, open(&server.url()).await];
    let (url, gone) = (server.url(), Arc::clone(&nodes[0]));
    drop(gone);
    let mut callers = Vec::new();
    for caller in 0..8_usize {
        let node = Arc::clone(&nodes[caller % 2]);
        callers.push(async move {
            let mut won = Vec::new();
            for at in 0..REQUESTS {
                // Half of them are sent to both nodes.
                let name = format!("{}-{at}", if at % 2 == 0 { caller / 2 } else { caller });
                let receipt = submit(&node, &[&name], Some(&name)).await;
                if !receipt.replayed {
                    won.push(name);
                }
            }
            won
        });
    }
    let won = futures_util::future::join_all(callers).await;
    let mut won: Vec<String> = won.into_iter().flatten().collect();
    let count = won.len();
    assert_eq!(count, 8 * REQUESTS / 2 + 4 * REQUESTS / 2);
    let [one, other] = [
        keys_after(&nodes[0], Seq::MIN, count).await,
        keys_after(&nodes[1], Seq::MIN, count).await,
    ];
    assert!(one == other, "both read the same in one order");
    let mut read = one.clone();
    read.sort();
    won.sort();
    assert!(read == won, "every key once");
    for node in &nodes {
        node.close().await;
    }
    let late = open(&url).await;
    assert!(
        keys_after(&late, Seq::MIN, count).await == one,
        "and so does who comes later"
    );
    late.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_a_request_may_say_is_read_back_and_found() {
    let Some(server) = Postgres::start("everything_that_a_request_may_say_is_read_back_and_found")
    else {
        return;
    };
    let journal = open(&server.url()).await;
    let said = LogEntry {
        outcome: Outcome::Rejected,
        endpoint: Endpoint::Webhook,
        http_status: 400,
        bytes: 77,
        key: "ik_live_ab".into(),
        client: crate::log::Client::Unix,
        item_key: Some("id".into()),
        idempotency_key: Some("a key\0with NUL".into()),
        error: Some("item 0 has no field \"i\0d\" 100 %".into()),
        headers: Some("x-a: 1\nx-b".into()),
        sent_again_from: Some(Uuid::now_v7()),
        sender: Some(Box::new(Sender {
            scheme: Some("hmac".into()),
            event: Some("e\0vent".into()),
            delivery: Some("Delivery-7".into()),
        })),
        ..LogEntry::of(
            Uuid::now_v7(),
            Unix::now(),
            "shop".into(),
            "orders".into(),
            Outcome::Rejected,
        )
    };
    let body = RejectedBody {
        body: Bytes::from_static(b"{\0}"),
        stream: "orders".into(),
        content_type: Some(b"text/\xff".as_slice().into()),
        item_key: None,
        idempotency_key: Some(b"k".as_slice().into()),
        test: true,
        headers: Some(vec![("x\0".to_owned(), "y".to_owned())]),
    };
    journal.keep_bodies(Retention {
        bytes_max: 1 << 20,
        age_max: Duration::from_hours(1),
    });
    journal.record_refused(said.clone(), Some(body.clone()));
    submit(&journal, &["a"], None).await;
    let row = journal.log_get(said.request_id).await.expect("it reads");
    let row = row.expect("it is there");
    assert_eq!(format!("{:?}", row.entry), format!("{said:?}"));
    let kept = journal.refused_body(row.seq).await.expect("it reads");
    assert_eq!(kept, Some(body));
    let found = async |filter: Filter| {
        let mut budget = Budget::of(1);
        let page = journal.log_page(&filter, 10, &mut budget).await;
        page.expect("a page").rows.len()
    };
    let text = |text: &str| Filter {
        text: Some(text.to_owned()),
        ..Filter::default()
    };
    for (filter, count) in [
        (Filter::default(), 2),
        (text("DELIVERY-7"), 1),
        (text("with nul"), 1),
        (text("key with"), 0),
        (text("key\0WITH"), 1),
        (text("100 %"), 1),
        (text("100_%"), 0),
        (text("k.live"), 0),
        (text("ik_live"), 1),
        (
            Filter {
                outcome: Some(Outcome::Rejected),
                connector: Some("shop".into()),
                ..Filter::default()
            },
            1,
        ),
        (
            Filter {
                connector: Some("other".into()),
                ..Filter::default()
            },
            0,
        ),
        (
            Filter {
                since: Some(Unix::now() - Duration::from_secs(60)),
                until: Some(Unix::now()),
                ..Filter::default()
            },
            2,
        ),
        (
            Filter {
                until: Some(Unix::now() - Duration::from_hours(2)),
                ..Filter::default()
            },
            0,
        ),
    ] {
        assert_eq!(found(filter.clone()).await, count, "{filter:?}");
    }
    assert_eq!(journal.log_connectors().await.expect("it reads"), ["shop"]);
    assert!(journal.log_has_connector("shop").await.expect("it reads"));
    assert!(!journal.log_has_connector("none").await.expect("it reads"));
    let every = Seq::MIN..Seq::new(1 << 62);
    let (minutes, more) = journal
        .log_minutes(every, Unix::MIN)
        .await
        .expect("it reads");
    let sums = minutes.iter().fold((0, 0, 0), |sums, minute| {
        (
            sums.0 + minute.requests,
            sums.1 + minute.errors,
            sums.2 + minute.items,
        )
    });
    assert_eq!((sums, more), ((2, 1, 1), None));
    assert!(journal.log_bytes().await.expect("it reads") > 0);
    assert!(
        journal
            .payload_bytes_after(Seq::MIN)
            .await
            .expect("it reads")
            > 0
    );
    let oldest = journal.oldest_after(Seq::MIN).await.expect("it reads");
    assert!(oldest.expect("one").1.expect("known") < Duration::from_secs(600));
    journal.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_decided_from_what_is_settled_goes_before_what_is_under_way() {
    let Some(server) =
        Postgres::start("what_is_decided_from_what_is_settled_goes_before_what_is_under_way")
    else {
        return;
    };
    let journal = open(&server.url()).await;
    let Engine::Postgres(node) = &journal.engine else {
        unreachable!("it was opened so");
    };
    server.query(&format!(
        "UPDATE headgate.log_head SET owner = '{}', fence = 1",
        node.id
    ));
    submit(&journal, &["a"], None).await;
    keys_after(&journal, Seq::MIN, 1).await;
    let settled = *journal.newest().borrow();
    submit(&journal, &["b"], None).await;
    let remove = async |keys: &[&str]| {
        let condition = Condition {
            settled,
            named: Named::LeftOut,
        };
        journal.submit_if(submission(keys, None), condition).await
    };
    assert_eq!(remove(&["b"]).await, Err(JournalError::Unsettled));
    let placed = remove(&["a", "b"]).await.expect("it is stored");
    assert_eq!(placed.items, 1);
    submit(&journal, &["c"], None).await;
    assert_eq!(
        keys_after(&journal, Seq::MIN, 4).await,
        ["a", "b", "a", "c"]
    );
    journal.close().await;
}
