//! A journal that moves between both engines is the same in each: a random history in a file, moved into a database, gone on
//! there, and moved back.

use std::collections::BTreeMap;
use std::path::Path;

use super::*;
use crate::file::page::tests::Random;
use crate::moving::{JournalAtRest, move_out};
use ::postgres::{MoveIn, MoveOut, MovedRows, Target};

const CLAIMS: u64 = 40;

/// What people and lanes see of a journal.
#[derive(Debug, PartialEq)]
struct Seen {
    /// Each log entry, with its number and the body of a refused request.
    log: Vec<String>,
    /// Each request that waits: its number, what it says, and its checksum.
    waiting: Vec<(Seq, String)>,
    /// Payloads that were quarantined, with the reason.
    aside: Vec<(Seq, String)>,
    held: Vec<bool>,
}

async fn seen(journal: &Journal) -> Seen {
    let mut log = Vec::new();
    let mut filter = Filter::default();
    loop {
        let mut budget = Budget::of(1);
        let page = journal.log_page(&filter, 500, &mut budget).await;
        let page = page.expect("a page");
        for row in page.rows {
            let body = journal.refused_body(row.seq).await.expect("it reads");
            let of_id = journal.log_get(row.entry.request_id).await;
            assert_eq!(of_id.expect("it reads").expect("found").seq, row.seq);
            log.push(format!("{row:?} {body:?}"));
        }
        match page.next {
            Some(next) => filter.before = Some(next),
            None => break,
        }
    }
    let (mut waiting, mut aside) = (Vec::new(), Vec::new());
    let mut cursor = Seq::MIN;
    loop {
        let taken = all_after(journal, cursor).await;
        if taken.through == cursor {
            break;
        }
        cursor = taken.through;
        for entry in &taken.entries {
            let items: Vec<String> = entry.items.iter().map(|item| item.key.to_owned()).collect();
            let what = (&entry.stream, entry.request_id, entry.received_at, items);
            waiting.push((entry.seq, format!("{what:?}")));
        }
        aside.extend(taken.quarantined);
        assert_eq!(taken.corrupt, []);
    }
    let mut held = Vec::new();
    for claim in 0..CLAIMS {
        let claim = claim_of(&format!("c{claim}"), 0);
        let found = journal.has_claim([Some(claim), None]).await;
        held.push(found.expect("it is answered"));
    }
    Seen {
        log,
        waiting,
        aside,
        held,
    }
}

fn text<T: From<&'static str>>(random: &mut Random) -> Option<T> {
    let texts = [
        "",
        "plain",
        "größe",
        "with\0NUL",
        "a\u{10FFFF}b",
        "{\"json\": 1}",
    ];
    match random.below(2) {
        0 => None,
        _ => Some(texts[random.below(texts.len() as u64) as usize].into()),
    }
}

fn entry_of(random: &mut Random, outcome: Outcome) -> LogEntry {
    let sender = Sender {
        scheme: text(random),
        event: text(random),
        delivery: text(random),
    };
    LogEntry {
        bytes: random.below(1 << 40),
        key: "ik_live_ab".into(),
        client: crate::log::Client::Unix,
        item_key: text(random),
        idempotency_key: text(random),
        error: text(random),
        headers: text(random),
        sent_again_from: (random.below(4) == 0).then(Uuid::now_v7),
        sender: (random.below(3) == 0).then(|| Box::new(sender)),
        endpoint: Endpoint::Webhook,
        ..LogEntry::of(
            Uuid::now_v7(),
            Unix::from_ms(random.below(1 << 41)),
            ["shop", "till"][random.below(2) as usize].into(),
            ["orders", "scores"][random.below(2) as usize].into(),
            outcome,
        )
    }
}

/// Does something; the payload of a claim is always the same.
async fn something(journal: &Journal, random: &mut Random) {
    let keys: Vec<String> = (0..1 + random.below(3))
        .map(|key| format!("k{key}"))
        .collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    match random.below(10) {
        0..6 => {
            let mut new = submission(&keys, None);
            let outcome = match random.below(8) {
                0 => Outcome::Removed,
                1 => Outcome::Test,
                _ => Outcome::Accepted,
            };
            let items = new.log.items;
            new.log = entry_of(random, outcome);
            new.log.items = items;
            let claim = |random: &mut Random| {
                (random.below(2) == 0).then(|| claim_of(&format!("c{}", random.below(CLAIMS)), 0))
            };
            (new.claim, new.second) = (claim(random), claim(random));
            if new.claim == new.second {
                new.second = None;
            }
            journal.submit(new).await.expect("it is stored");
        }
        6 => {
            let all = all_after(journal, Seq::MIN).await;
            if let Some(entry) = all.entries.first() {
                let aside = journal.quarantine(entry.seq, "broken\0".to_owned());
                aside.expect("it is taken");
            }
        }
        _ => {
            let body = RejectedBody {
                body: Bytes::from(vec![0xff; random.below(200) as usize]),
                stream: "orders".into(),
                content_type: Some(b"text/\xff".as_slice().into()),
                item_key: None,
                idempotency_key: Some(b"k".as_slice().into()),
                test: random.below(2) == 0,
                headers: (random.below(2) == 0).then(|| vec![("x\0".to_owned(), "y".to_owned())]),
            };
            let body = (random.below(2) == 0).then_some(body);
            journal.record_refused(entry_of(random, Outcome::Rejected), body);
        }
    }
}

async fn history(journal: &Journal, random: &mut Random, steps: u64) {
    journal.keep_bodies(Retention {
        bytes_max: 1 << 30,
        age_max: Duration::from_hours(1),
    });
    for _ in 0..steps {
        something(journal, random).await;
    }
    journal.flush().await.expect("it is stored");
}

async fn open_file(path: &Path) -> Arc<Journal> {
    crate::file::tests::open(path, |_| ()).await
}

/// Moves the file into the schema; the tallies of all parts are equal.
async fn fill(server: &Postgres, path: &Path) {
    let journal = JournalAtRest::open(path).expect("it opens");
    let database = server.cluster("headgate").await;
    let begun = MoveIn::begin(&database).await.expect("it is asked");
    let Target::Empty(mut target) = begun else {
        panic!("{begun:?}");
    };
    let moved = journal.move_in(&mut target, &mut |_| ()).await;
    let moved = moved.expect("it is moved");
    assert!(moved.iter().all(|part| part.is_equal()), "{moved:?}");
    let rows = moved.iter().map(|part| MovedRows {
        part: part.name.to_owned(),
        rows: part.source.rows,
        digest: part.source.digest.to_vec(),
    });
    let rows: Vec<MovedRows> = rows.collect();
    target.commit(&rows, (0, 0)).await.expect("it is committed");
    let begun = MoveIn::begin(&database).await.expect("it is asked");
    assert!(matches!(begun, Target::Filled(stored) if stored.len() == rows.len()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_random_history_is_the_same_in_both_engines_and_goes_on_in_each() {
    let Some(server) = Postgres::start("a_random_history_is_the_same_in_both_engines") else {
        return;
    };
    let seed = Unix::now().ms();
    println!("seed {seed}");
    let mut random = Random(seed | 1);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal.db");
    let journal = open_file(&path).await;
    history(&journal, &mut random, 300).await;
    journal.close().await;
    let journal = open_file(&path).await;
    let before = seen(&journal).await;
    let newest = journal.newest_logged().await.expect("it reads");
    assert!(!before.waiting.is_empty() && !before.aside.is_empty());
    assert!(before.held.contains(&true) && before.log.len() > 100);
    journal.close().await;

    fill(&server, &path).await;
    let database = open(&server.url()).await;
    assert_eq!(seen(&database).await, before);
    assert_eq!(database.lag(Seq::MIN), before.waiting.len() as u64);
    // What comes now comes behind it, and what was claimed is a repeat.
    let claimed = before.held.iter().position(|held| *held).expect("one");
    let repeat = submit(&database, &["x"], Some(&format!("c{claimed}"))).await;
    assert!(repeat.replayed);
    history(&database, &mut random, 100).await;
    let first_new = submit(&database, &["y"], None).await;
    keys_after(&database, newest, 1).await;
    let row = database
        .log_get(first_new.request_id)
        .await
        .expect("it reads");
    let row = row.expect("it is there");
    assert!(row.seq > newest + (1 << 39));
    // A transaction of another test may hold back what is read.
    while all_after(&database, newest).await.through < row.seq {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let newest_waits = *database.newest().borrow();
    let gone_on = seen(&database).await;
    let in_database = database.newest_logged().await.expect("it reads");
    database.close().await;

    // The schema looks begun by the digest alone; nobody made copies here.
    server.query(r"UPDATE headgate.log_head SET digest = '\x01'");
    let cluster = cluster_at(&server.url(), "headgate");
    let source = MoveOut::begin(&cluster).await.expect("it is asked");
    let mut source = source.expect("a cluster");
    let back = folder.path().join("back.db");
    let moved = move_out(&mut source, &back, &mut |_| ())
        .await
        .expect("it is moved");
    source.end().await;
    assert!(moved.iter().all(|part| part.is_equal()), "{moved:?}");
    let journal = open_file(&back).await;
    assert_eq!(seen(&journal).await, gone_on);
    assert_eq!(
        journal.lag(newest_waits),
        0,
        "numbers that nobody has are no lag"
    );
    let lag = journal.lag(Seq::MIN);
    assert!(lag < 10 * gone_on.log.len() as u64, "{lag}");
    assert!(
        submit(&journal, &["z"], Some(&format!("c{claimed}")))
            .await
            .replayed
    );
    submit(&journal, &["z"], None).await;
    let newest = journal.newest_logged().await.expect("it reads");
    assert!(newest > in_database + (1 << 39));
    journal.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn time_goes_on_from_where_it_was_and_what_has_run_out_stays_behind() {
    let Some(server) = Postgres::start("time_goes_on_from_where_it_was") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal.db");
    let journal = open_file(&path).await;
    for claim in ["old", "new", "both"] {
        assert!(!submit(&journal, &["a"], Some(claim)).await.replayed);
    }
    journal.close().await;
    let day = 24 * 3_600_000_i64;
    let connection = rusqlite::Connection::open(&path).expect("it opens");
    // Of a life of 30 days; one of the keys was used again after two.
    let aged = format!(
        "INSERT INTO claim_log SELECT 100, scope, randomblob(16), items, payload, at_ms FROM claim_log WHERE id = 3;
         UPDATE claim_log SET at_ms = at_ms - 2 * {day} WHERE id IN (1, 3);
         INSERT INTO timeline SELECT min(lived_ms) - 30 * {day} + 12 * 3600000 * value, 0 FROM timeline, json_each('[0, 10, 20, 30, 40, 50]')
             GROUP BY value;
         DROP TABLE IF EXISTS clock;"
    );
    connection.execute_batch(&aged).expect("it is aged");
    let (oldest, lived): (i64, i64) = connection
        .query_row(
            "SELECT min(lived_ms), max(lived_ms) FROM timeline",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .expect("times");
    drop(connection);
    fill(&server, &path).await;
    let stored: BTreeMap<String, String> = (server
        .query("SELECT encode(substring(uuid_send(scope) FOR 4), 'escape'), lived_ms FROM headgate.claims")
        .lines())
        .map(|line| line.split_once('|').expect("two columns"))
        .map(|(scope, lived)| (scope.trim_end_matches("\\000").to_owned(), lived.to_owned()))
        .collect();
    assert_eq!(stored.keys().collect::<Vec<_>>(), ["both", "new"]);
    let time = "SELECT lived_ms FROM headgate.cluster";
    assert_eq!(server.query(time), lived.to_string());
    let generations = "SELECT (SELECT g FROM headgate.cluster), max(g), min(lived_ms), max(lived_ms) FROM headgate.generations";
    assert_eq!(server.query(generations), format!("4|4|{oldest}|{lived}"));
    let database = open(&server.url()).await;
    let gone_on: i64 = server.query(time).parse().expect("a number");
    assert!((lived..lived + day).contains(&gone_on), "{lived} {gone_on}");
    for (claim, replayed) in [("old", false), ("new", true), ("both", true)] {
        let receipt = submit(&database, &["a"], Some(claim)).await;
        assert_eq!(receipt.replayed, replayed, "{claim}");
    }
    database.close().await;
}
