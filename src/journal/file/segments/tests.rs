//! Every entry is found, by its id and by its connector, whatever the clock did: what stretches and marks lead to is what a
//! look through the whole log finds.
//!
//! Run by `cargo test`. **Invariant**: random numbers are the same in every run.

mod rolled_back;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use uuid::Uuid;

use super::super::page::tests::{Random, open_with as open};
use super::super::schema;
use super::*;
use crate::log::Filter;
use crate::page::Budget;
use crate::{Durability, Journal};
use base::clock::Unix;
use base::order::Seq;

impl Random {
    fn id(&mut self, at: Unix) -> Uuid {
        let mut id = [0; 16];
        id[..6].copy_from_slice(&at.ms().to_be_bytes()[2..]);
        id[6..8].copy_from_slice(&(0x7000 | self.below(0x1000) as u16).to_be_bytes());
        id[8..].copy_from_slice(&(self.below(1 << 62) | 1 << 63).to_be_bytes());
        Uuid::from_bytes(id)
    }
}

/// What the file says of an entry.
#[derive(Debug, Clone)]
struct Known {
    seq: Seq,
    id: Uuid,
    connector: String,
    outcome: Outcome,
    received_at: Unix,
    from: Option<Uuid>,
}

/// A look through the whole log.
fn all(path: &Path) -> Vec<Known> {
    let file = Connection::open(path).expect("it opens");
    let sql = "SELECT seq, request_id, connector, outcome, received_ms, sent_again_from FROM requests ORDER BY seq";
    let mut statement = file.prepare(sql).expect("the log");
    let rows = statement.query_map([], |row| {
        Ok(Known {
            seq: Seq::from_column(row.get(0)?),
            id: Uuid::from_bytes(row.get(1)?),
            connector: row.get(2)?,
            outcome: Outcome::from_code(row.get(3)?),
            received_at: Unix::from_column(row.get(4)?),
            from: row.get::<_, Option<[u8; 16]>>(5)?.map(Uuid::from_bytes),
        })
    });
    let rows = rows.expect("rows");
    rows.map(|row| row.expect("a row")).collect()
}

const HOUR: Duration = Duration::from_hours(1);
/// What the clock is set ahead and back by.
const STEPS: [Duration; 3] = [HOUR, Duration::from_secs(5), Duration::from_hours(24 * 365)];
const CONNECTORS: [&str; 6] = ["big", "big", "big", "mid", "mid", "a"];

/// Entries as they come in while the clock does what clocks do.
fn record(journal: &Journal, random: &mut Random, clock: &mut Unix, entries: u64) {
    let pace = [1, 20, 500, 60_000][random.below(4) as usize];
    let slow = [100_000, 50][random.below(2) as usize];
    let mut before = None;
    for n in 0..entries {
        *clock += random.ms(2 * pace);
        if random.below(1_500) == 0 {
            *clock += STEPS[random.below(3) as usize];
        }
        if random.below(1_500) == 0 {
            *clock = *clock - STEPS[random.below(3) as usize];
        }
        let late = if random.below(slow) == 0 {
            random.ms(120_000)
        } else {
            random.ms(30)
        };
        let id = random.id(*clock - late);
        let connector = match random.below(700) {
            0 => "rare",
            1 => "zoo",
            other => CONNECTORS[other as usize % CONNECTORS.len()],
        };
        let outcome = match random.below(60) {
            0 => Outcome::ALL[random.below(6) as usize],
            1..4 => Outcome::Rejected,
            _ => Outcome::Accepted,
        };
        let mut entry = LogEntry::of(id, *clock, connector.into(), "s".into(), outcome);
        entry.sent_again_from = before.filter(|_| n % 97 == 0);
        before = Some(id);
        journal.record(entry);
    }
}

/// All pages of a filter.
async fn followed(journal: &Journal, filter: &Filter) -> Vec<Seq> {
    let mut filter = filter.clone();
    let mut seqs = Vec::new();
    loop {
        let page = journal.log_page(&filter, 300, &mut Budget::of(1)).await;
        let page = page.expect("it reads");
        seqs.extend(page.rows.iter().map(|row| row.seq));
        match page.next {
            Some(next) => filter.before = Some(next),
            None => return seqs,
        }
    }
}

async fn compare(journal: &Journal, known: &[Known], random: &mut Random) {
    for one in known {
        if random.below(12) > 0 {
            continue;
        }
        let found = journal.log_get(one.id).await.expect("it reads");
        assert_eq!(found.map(|row| row.seq), Some(one.seq), "{one:?}");
        let near = random.id(one.received_at);
        assert!(journal.log_get(near).await.expect("it reads").is_none());
    }
    for one in known.iter().filter(|one| one.from.is_some()) {
        let from = one.from.expect("it is there");
        let became = journal.sent_again_as(from).await.expect("it reads");
        assert_eq!(became, [one.id]);
    }
    let names: BTreeSet<&str> = known.iter().map(|one| &*one.connector).collect();
    let found = journal.log_connectors().await.expect("it reads");
    assert_eq!(found, names.iter().copied().collect::<Vec<_>>());
    for name in ["a", "big", "mid", "rare", "zoo", "nobody"] {
        let has = journal.log_has_connector(name).await.expect("it reads");
        assert_eq!(has, names.contains(name), "{name}");
    }
    for _ in 0..40 {
        let connector = ["a", "big", "mid", "rare", "zoo", "nobody"][random.below(6) as usize];
        let middle = known[random.below(known.len() as u64) as usize].received_at;
        let some = |random: &mut Random| random.below(3) == 0;
        let filter = Filter {
            connector: (!some(random)).then(|| connector.into()),
            outcome: some(random).then(|| Outcome::ALL[random.below(6) as usize]),
            since: some(random).then(|| middle - random.ms(3_600_000)),
            until: some(random).then(|| middle + random.ms(3_600_000)),
            ..Filter::default()
        };
        let is = |one: &&Known| {
            (filter.connector.as_ref()).is_none_or(|connector| **connector == *one.connector)
                && filter.outcome.is_none_or(|outcome| outcome == one.outcome)
                && filter.since.is_none_or(|since| one.received_at >= since)
                && filter.until.is_none_or(|until| one.received_at <= until)
        };
        let expected: Vec<Seq> = known.iter().rev().filter(is).map(|one| one.seq).collect();
        assert_eq!(followed(journal, &filter).await, expected, "{filter:?}");
    }
    let removals: Vec<Seq> = (known.iter())
        .filter(|one| one.outcome == Outcome::Removed)
        .map(|one| one.seq)
        .collect();
    let found = journal.file().reads.read(|connection| {
        let (every, removed) = (Seq::MIN..Seq::MAX, [Outcome::Removed]);
        segment_index::find(connection, None, &removed, &every, false, 100_000)
    });
    let mut found = found.await.expect("it reads");
    found.retain(|seq| *seq >= known[0].seq);
    assert_eq!(found, removals);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn every_entry_is_found_whatever_the_clock_did() {
    find_every_entry(7).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn every_entry_is_found_whatever_another_clock_did() {
    find_every_entry(19).await;
}

/// The same in every run; tests of several numbers run at the same time.
async fn find_every_entry(seed: u64) {
    let mut random = Random(seed);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal.db");
    let mut clock = Unix::from_ms(1_000_000 * 3_600_000);
    let mut last_seq = Seq::MIN;
    let mut late = 0;
    for round in 0..8 {
        let floor = if round == 5 {
            last_seq + 100_000
        } else {
            Seq::MIN
        };
        let journal = open(&path, u64::MAX, floor).await;
        let entries = 200 + random.below(2_500);
        record(&journal, &mut random, &mut clock, entries);
        journal.flush().await.expect("it is written");
        let known = all(&path);
        compare(&journal, &known, &mut random).await;
        last_seq = known.last().expect("some").seq;
        journal.close().await;
        let late_now = late_ids(&path);
        assert!(
            late_now < known.len() as i64,
            "{late_now} of {}",
            known.len()
        );
        late = late.max(late_now);
        if round % 3 == 2 {
            prune(&path, &known, &mut random).await;
        }
    }
    assert!(late > 0, "some came late");
}

fn late_ids(path: &Path) -> i64 {
    let file = Connection::open(path).expect("it opens");
    file.query_row("SELECT count(*) FROM log_late", [], |row| row.get(0))
        .expect("a number")
}

/// Half of the log goes, and what led there with it.
async fn prune(path: &Path, known: &[Known], random: &mut Random) {
    let file = Connection::open(path).expect("it opens");
    let number = |sql: &str| {
        file.query_row(sql, [], |row| row.get::<_, Option<i64>>(0))
            .expect("a number")
    };
    let bytes = number("SELECT sum(bytes) FROM log_spans").unwrap_or(0);
    let journal = open(path, u64::MAX, Seq::MIN).await;
    let begun = begun(&journal).await;
    journal.close().await;
    let journal = open(path, bytes.unsigned_abs() / 2, Seq::MIN).await;
    let lowest = || number("SELECT min(seq) FROM requests").map(Seq::from_column);
    let is_less = async {
        while lowest() == Some(known[0].seq) {
            journal.flush().await.expect("it writes");
        }
    };
    let limit = std::time::Duration::from_secs(600);
    (tokio::time::timeout(limit, is_less).await).expect("the log becomes smaller");
    journal.close().await;
    let lowest = lowest().expect("some are left");
    for (table, column) in [
        ("log_spans", "last_seq"),
        ("log_late", "seq"),
        ("log_sent_again", "seq"),
    ] {
        let sql = format!("SELECT min({column}) FROM {table}");
        assert!(
            number(&sql).is_none_or(|seq| Seq::from_column(seq) >= lowest),
            "{table}"
        );
    }
    for table in ["log_marks", "log_mark_names"] {
        let orphans = format!(
            "SELECT count(*) FROM {table} WHERE first_seq NOT IN (SELECT first_seq FROM log_spans)"
        );
        assert_eq!(number(&orphans), Some(0), "{table}");
    }
    let journal = open(path, u64::MAX, Seq::MIN).await;
    let (gone, left): (Vec<Known>, Vec<Known>) =
        known.iter().cloned().partition(|one| one.seq < lowest);
    for one in gone.iter().filter(|_| random.below(40) == 0) {
        assert!(journal.log_get(one.id).await.expect("it reads").is_none());
    }
    compare(&journal, &left, random).await;
    for (filter, before) in begun {
        let is = |one: &&Known| {
            (filter.connector.as_ref()).is_none_or(|connector| **connector == *one.connector)
                && filter.outcome.is_none_or(|outcome| outcome == one.outcome)
                && one.seq < before
        };
        let expected: Vec<Seq> = left.iter().rev().filter(is).map(|one| one.seq).collect();
        let filter = Filter {
            before: Some(before),
            ..filter
        };
        assert_eq!(followed(&journal, &filter).await, expected, "{filter:?}");
    }
    journal.close().await;
}

/// Filters, each with the cursors that its pages gave.
async fn begun(journal: &Journal) -> Vec<(Filter, Seq)> {
    let mut begun = Vec::new();
    for connector in [None, Some("big"), Some("mid"), Some("a"), Some("rare")] {
        for outcome in [None, Some(Outcome::Accepted), Some(Outcome::Rejected)] {
            let filter = Filter {
                connector: connector.map(Into::into),
                outcome,
                ..Filter::default()
            };
            let mut next = None;
            loop {
                let filter = Filter {
                    before: next,
                    ..filter.clone()
                };
                let page = journal.log_page(&filter, 300, &mut Budget::of(1)).await;
                next = page.expect("it reads").next;
                let Some(before) = next else { break };
                begun.push((filter, before));
            }
        }
    }
    begun
}

#[test]
fn nothing_is_sorted_and_nothing_is_looked_through_that_a_mark_can_lead_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal.db");
    let file = schema::open_writer(&path, Durability::Os).expect("it opens");
    let plan = |sql: &str| sqlite::plan(&file, sql).expect("a plan");
    let mut plans = vec![plan(&super::super::log::of_id())];
    for connector in [Some("shop"), None] {
        for outcomes in [&Outcome::ALL[1..2], &Outcome::ALL] {
            for newest_first in [true, false] {
                let query = segment_index::query(
                    connector,
                    outcomes,
                    &(Seq::new(5)..Seq::new(9)),
                    newest_first,
                );
                plans.push(plan(query.text()));
            }
        }
    }
    for sql in FORGET {
        plans.push(plan(sql));
    }
    for plan in plans {
        println!("{plan}");
        for bad in [
            "TEMP B-TREE",
            "SCAN requests",
            "SCAN log_",
            "SCAN s",
            "SCAN n",
            "SCAN r\n",
        ] {
            assert!(!plan.contains(bad), "{bad}: {plan}");
        }
    }
}
