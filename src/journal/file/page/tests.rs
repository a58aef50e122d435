//! Pages are what a plain look through all entries finds, and none of them looks through all entries.
//!
//! Run by `cargo test`. **Invariant**: the entries are written by the journal's own writer.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use uuid::Uuid;

use super::*;
use crate::Journal;
use crate::log::{Client, Endpoint, LogEntry};
use crate::page::{Budget, LogPage};
use base::clock::Unix;
use base::order::Seq;
use std::time::Instant;

/// Numbers that are the same in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    /// A time of less than so many milliseconds.
    pub(crate) fn ms(&mut self, below: u64) -> Duration {
        Duration::from_millis(self.below(below))
    }

    fn one_of<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize].clone()
    }
}

async fn open(path: &Path) -> Arc<Journal> {
    open_with(path, u64::MAX, Seq::MIN).await
}

pub(crate) async fn open_with(
    path: &Path,
    log_retention_bytes: u64,
    seq_floor: Seq,
) -> Arc<Journal> {
    crate::file::tests::open(path, |options| {
        options.log_retention_bytes = log_retention_bytes;
        options.seq_floor = seq_floor;
    })
    .await
}

const HOUR: Duration = Duration::from_hours(1);
const START: Unix = Unix::from_ms(1_000 * 3_600_000);

/// `big` has most entries, `late` none before the end, `rare` one in 997. The clock is set back by an hour in the
/// middle, and entries come up to a minute late.
async fn filled(folder: &Path, entries: u64) -> Arc<Journal> {
    let journal = open(&folder.join("journal.db")).await;
    let mut random = Random(7);
    for n in 0..entries {
        let back = if n > entries / 2 {
            HOUR
        } else {
            Duration::ZERO
        };
        let connector = match random.below(10) {
            _ if n % 997 == 5 => "rare",
            _ if n + 300 > entries => "late",
            0..7 => "big",
            _ => "mid",
        };
        let outcome = match random.below(40) {
            // Nothing else for a long stretch.
            _ if connector == "mid" && n > entries / 3 => Outcome::Rejected,
            0 => Outcome::Rejected,
            1 => Outcome::Duplicate,
            _ if n % 1_999 == 3 => Outcome::Test,
            _ => Outcome::Accepted,
        };
        let rejected = outcome == Outcome::Rejected;
        journal.record(LogEntry {
            request_id: Uuid::now_v7(),
            received_at: START - back + Duration::from_millis(n * 500) - random.ms(60_000),
            connector: connector.into(),
            stream: "s".into(),
            outcome,
            endpoint: Endpoint::Ingest,
            http_status: if rejected { 400 } else { 202 },
            items: 1,
            bytes: 10,
            key: "ik_live_a1b2c3d4".into(),
            client: Client::Address([127, 0, 0, random.below(9) as u8].into()),
            item_key: None,
            idempotency_key: (random.below(3) == 0).then(|| format!("Order_{n}%").into()),
            error: rejected.then(|| format!("line {} has no Größe", random.below(100)).into()),
            headers: None,
            sent_again_from: None,
            sender: None,
        });
    }
    journal.flush().await.expect("it is written");
    journal
}

fn matches(filter: &Filter, row: &LogRow) -> bool {
    let entry = &row.entry;
    let client = entry.client.to_string();
    let has = |text: &String| {
        let places = [
            entry.error.as_deref(),
            entry.idempotency_key.as_deref(),
            Some(&*entry.key),
            Some(&*client),
        ];
        let text = text.to_ascii_lowercase();
        let mut places = places.into_iter().flatten();
        places.any(|place| place.to_ascii_lowercase().contains(&text))
    };
    (filter.connector.as_ref()).is_none_or(|connector| *connector == entry.connector)
        && filter
            .outcome
            .is_none_or(|outcome| outcome == entry.outcome)
        && filter.since.is_none_or(|since| entry.received_at >= since)
        && filter.until.is_none_or(|until| entry.received_at <= until)
        && filter.text.as_ref().is_none_or(has)
}

/// All pages: the positions, and how many pages there were.
async fn followed(journal: &Journal, filter: &Filter, limit: u32) -> Vec<Seq> {
    let mut filter = filter.clone();
    let mut seqs: Vec<Seq> = Vec::new();
    loop {
        let page = journal.log_page(&filter, limit, &mut Budget::of(1)).await;
        let page = page.expect("it reads");
        assert!(page.rows.len() <= limit as usize);
        seqs.extend(page.rows.iter().map(|row| row.seq));
        let Some(next) = page.next else { return seqs };
        assert!(
            filter.before.is_none_or(|before| next < before),
            "it gets on"
        );
        assert!(seqs.last().is_none_or(|last| next <= *last));
        filter.before = Some(next);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn pages_followed_to_their_end_are_what_a_look_through_all_entries_finds() {
    let folder = tempfile::tempdir().expect("a folder");
    let journal = filled(folder.path(), 5_500).await;
    let all = journal
        .log_page(&Filter::default(), 10_000, &mut Budget::of(1))
        .await;
    let all = all.expect("it reads").rows;
    assert_eq!(all.len(), 5_500);
    let mut random = Random(11);
    let mut found = 0;
    for _ in 0..300 {
        let middle = all[random.below(5_500) as usize].entry.received_at;
        let some = |random: &mut Random| random.below(3) == 0;
        let filter = Filter {
            connector: some(&mut random).then(|| {
                random
                    .one_of(&["big", "mid", "rare", "late", "nobody"])
                    .into()
            }),
            outcome: some(&mut random).then(|| random.one_of(&Outcome::ALL)),
            before: some(&mut random).then(|| Seq::new(random.below(6_000))),
            since: some(&mut random).then(|| middle - random.ms(2 * 3_600_000)),
            until: some(&mut random).then(|| middle + random.ms(90_000)),
            text: some(&mut random).then(|| {
                let texts = [
                    "127.0.0.3",
                    "LINE 4",
                    "größe",
                    "Größe",
                    "order_1",
                    "_",
                    "%",
                    "order\\",
                    "IK_LIVE",
                    "no",
                ];
                random.one_of(&texts).to_owned()
            }),
        };
        let expected: Vec<Seq> = (all.iter())
            .filter(|row| filter.before.is_none_or(|before| row.seq < before))
            .filter(|row| matches(&filter, row))
            .map(|row| row.seq)
            .collect();
        let limit = random
            .one_of(&[1_u32, 7, 50, 500])
            .max(expected.len() as u32 / 20 + 1);
        assert_eq!(
            followed(&journal, &filter, limit).await,
            expected,
            "{filter:?}"
        );
        found += expected.len();
        let sample: Vec<Seq> = all.iter().step_by(3).map(|row| row.seq).collect();
        let at = journal.log_at(&filter, &sample).await.expect("it reads");
        let wanted: HashSet<Seq> = sample.into_iter().collect();
        let wanted = all
            .iter()
            .filter(|row| wanted.contains(&row.seq) && matches(&filter, row));
        let at: Vec<Seq> = at.iter().map(|row| row.seq).collect();
        assert_eq!(
            at,
            wanted.map(|row| row.seq).collect::<Vec<_>>(),
            "{filter:?}"
        );
    }
    assert!(found > 10_000, "the filters let something pass");
    journal.close().await;
}

/// Steps of SQLite's machine that a page takes.
async fn steps(journal: &Journal, counted: &AtomicU64, filter: &Filter) -> (LogPage, u64) {
    let before = counted.load(Ordering::Relaxed);
    let mut budget = Budget {
        until: Instant::now() + Duration::from_secs(3_600),
        ..Budget::of(1)
    };
    let page = journal.log_page(filter, 50, &mut budget).await;
    let page = page.expect("it reads");
    (page, counted.load(Ordering::Relaxed) - before)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn no_filter_looks_through_the_whole_log() {
    const ENTRIES: u64 = 30_000;
    let folder = tempfile::tempdir().expect("a folder");
    let journal = filled(folder.path(), ENTRIES).await;
    let counted = Arc::new(AtomicU64::new(0));
    let counts = Arc::clone(&counted);
    // One read after the other has the same connection.
    let counting = journal.file().reads.read(move |connection| {
        let count = move || {
            counts.fetch_add(1, Ordering::Relaxed);
            false
        };
        connection.progress_handler(1, Some(count))
    });
    counting.await.expect("a connection");
    let middle = START - HOUR + Duration::from_millis(20_000 * 500);
    let plain = Filter::default();
    let of = |connector: &str| Filter {
        connector: Some(connector.into()),
        ..Filter::default()
    };
    let with = |filter: Filter, outcome| Filter {
        outcome: Some(outcome),
        ..filter
    };
    let window = |filter: Filter| Filter {
        since: Some(middle),
        until: Some(middle + Duration::from_secs(2)),
        ..filter
    };
    let mut worse = Vec::new();
    for (filter, found, steps_max) in [
        (plain.clone(), 50, 5_000),
        (of("big"), 50, 8_000),
        (of("rare"), 31, 5_000),
        (of("nobody"), 0, 1_000),
        // What is wanted lies behind thousands of others.
        (of("mid"), 50, 8_000),
        (with(of("mid"), Outcome::Accepted), 50, 5_000),
        (with(of("big"), Outcome::Test), 9, 5_000),
        (with(of("late"), Outcome::Removed), 0, 1_000),
        (with(plain.clone(), Outcome::Test), 12, 5_000),
        (with(plain.clone(), Outcome::Rejected), 50, 5_000),
        (with(plain.clone(), Outcome::Removed), 0, 1_000),
        (with(plain.clone(), Outcome::Accepted), 50, 20_000),
        // A stretch has 1,000 entries, and entries come up to 120 places late.
        (window(of("rare")), 0, 10_000),
        (window(of("big")), 8, 180_000),
    ] {
        let (page, steps) = steps(&journal, &counted, &filter).await;
        assert!(steps > 0, "they are counted");
        let rows = page.rows.len();
        println!("{rows} of {found}, {steps} of {steps_max} steps: {filter:?}");
        if rows != found || steps > steps_max {
            worse.push(filter);
        }
    }
    assert!(worse.is_empty(), "{worse:?}");
    // What no index knows is looked for a part of the log at a time, and the page says so.
    let nothing = Filter {
        text: Some("no entry says this".to_owned()),
        ..of("big")
    };
    let (page, _) = steps(&journal, &counted, &nothing).await;
    assert!(page.rows.is_empty());
    let next = page.next.expect("there is more to look through");
    let time = journal.log_time(next).await.expect("it reads");
    assert!(time.is_some_and(|time| time < START + Duration::from_millis(ENTRIES * 500)));
    journal.close().await;
}
