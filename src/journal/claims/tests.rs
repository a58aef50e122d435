//! Claims against a model: over hours, expiry, transactions that are rolled back, restarts.
//!
//! Run by `cargo test`. **Invariant**: time is a number of the test's own.

use std::collections::HashMap;

use proptest::prelude::*;
use sha2::{Digest, Sha256};

use super::*;
use crate::sqlite::{self, Synchronous};

const START_MS: u64 = 500_000 * HOUR_MS;

struct Test {
    claims: Claims,
    connection: Connection,
    folder: tempfile::TempDir,
    now_ms: u64,
}

/// What the index must hold: when each claim was made, and its request.
type Model = HashMap<u64, (u64, Uuid)>;

fn claim(number: u64) -> Claim {
    let digest = Sha256::digest(number.to_le_bytes());
    Claim {
        scope: std::array::from_fn(|at| digest[at]),
        payload: [7; 8],
    }
}

fn open(folder: &tempfile::TempDir) -> (Claims, Connection) {
    let path = folder.path().join("journal.db");
    let connection = sqlite::open_writer(&path, Synchronous::Normal).expect("it opens");
    let claims = Claims::open(&connection).expect("it reads");
    (claims, connection)
}

impl Test {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (claims, connection) = open(&folder);
        Self {
            claims,
            connection,
            folder,
            now_ms: START_MS,
        }
    }

    fn run(&self, sql: &str) {
        self.connection.execute_batch(sql).expect("it runs");
    }

    fn find(&mut self, number: u64) -> Option<Held> {
        let found = self
            .claims
            .find(&self.connection, &claim(number), self.now_ms);
        found.expect("it reads")
    }

    fn insert(&mut self, number: u64, at_ms: u64) -> Uuid {
        let held = Held {
            request_id: Uuid::now_v7(),
            items: 1,
            payload: [7; 8],
            at_ms,
        };
        let inserted = self.claims.insert(&self.connection, &claim(number), held);
        inserted.expect("it writes");
        held.request_id
    }

    /// Claims these, in one transaction.
    fn fill(&mut self, numbers: std::ops::Range<u64>) {
        self.run("BEGIN IMMEDIATE");
        for number in numbers {
            self.insert(number, self.now_ms);
        }
        self.run("COMMIT");
        self.claims.committed();
    }

    fn roll_back(&mut self) {
        self.run("ROLLBACK");
        let done = self.claims.rolled_back(&self.connection);
        done.expect("it reads");
    }

    /// One step; true if there may be more.
    fn expire(&mut self) -> bool {
        self.run("BEGIN IMMEDIATE");
        let more = self.claims.expire(&self.connection, self.now_ms);
        self.run("COMMIT");
        more.expect("it deletes")
    }

    fn restart(&mut self) {
        (self.claims, self.connection) = open(&self.folder);
    }

    /// Waits until every filter is there that was not at the start.
    fn built(&mut self) {
        if let Some(build) = self.claims.build.take() {
            while let Some((number, filter)) = build.wait() {
                self.claims.take_filter(number, filter);
            }
        }
        assert!(self.claims.hours.iter().all(|hour| hour.whole));
    }

    /// How many tables are asked for these.
    fn asked(&self, numbers: std::ops::Range<u64>) -> usize {
        let asked = |number| {
            let claim = claim(number);
            self.claims.to_be_asked(&claim, self.now_ms).count()
        };
        numbers.map(asked).sum()
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// Somebody sends this key; made at a time so many hours ahead, as if the clock had been ahead then.
    Claim(u64, u64),
    Commit,
    RollBack,
    /// So many minutes go by.
    Pass(u64),
    Expire,
    Restart,
    /// A restart, and the filters are made.
    Built,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => (0..60_u64, prop_oneof![9 => Just(0), 1 => 1..50_u64])
            .prop_map(|(key, ahead)| Step::Claim(key, ahead)),
        4 => Just(Step::Commit),
        2 => Just(Step::RollBack),
        3 => (1..900_u64).prop_map(Step::Pass),
        2 => Just(Step::Expire),
        1 => Just(Step::Restart),
        1 => Just(Step::Built),
    ];
    prop::collection::vec(step, 1..150)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn a_key_is_new_or_held_as_the_model_says(steps in steps()) {
        let mut test = Test::new();
        let mut committed = Model::new();
        // With what the open transaction did.
        let mut model = Model::new();
        let mut open = false;
        for step in steps {
            match step {
                Step::Claim(key, ahead) => {
                    if !open {
                        test.run("BEGIN IMMEDIATE");
                        open = true;
                    }
                    let now_ms = test.now_ms;
                    let held = model.get(&key).filter(|(at_ms, _)| at_ms + WINDOW_MS > now_ms);
                    let found = test.find(key).map(|found| (found.at_ms, found.request_id));
                    prop_assert_eq!(found, held.copied(), "key {}", key);
                    if found.is_none() {
                        let at_ms = now_ms + ahead * HOUR_MS;
                        let id = test.insert(key, at_ms);
                        model.insert(key, (at_ms, id));
                    }
                }
                Step::Pass(minutes) => test.now_ms += minutes * 60_000,
                Step::RollBack if open => {
                    test.roll_back();
                    model.clone_from(&committed);
                    open = false;
                }
                Step::RollBack => {}
                _ => {
                    if open {
                        test.run("COMMIT");
                        test.claims.committed();
                        committed.clone_from(&model);
                        open = false;
                    }
                    match step {
                        Step::Expire => while test.expire() {},
                        Step::Restart => test.restart(),
                        Step::Built => {
                            test.restart();
                            test.built();
                        }
                        _ => {}
                    }
                }
            }
        }
    }
}

#[test]
fn new_keys_ask_hardly_any_table_and_repeats_one() {
    const HOURS: u64 = 24;
    const CLAIMS: u64 = 2_000;
    let mut test = Test::new();
    for hour in 0..HOURS {
        test.now_ms = START_MS + hour * HOUR_MS;
        test.fill(hour * CLAIMS..(hour + 1) * CLAIMS);
    }
    let keys = HOURS * CLAIMS;
    // So also after a start.
    for _ in 0..2 {
        let asked = test.asked(keys..keys + 1_000);
        assert!(asked < 200, "{asked} tables for 1,000 new keys");
        let asked = test.asked(0..keys);
        assert!((48_000..58_000).contains(&asked), "{asked}");
        test.restart();
        // Before its filter is made, a table is asked.
        for number in [0, keys - 1] {
            assert!(test.find(number).is_some(), "{number}");
        }
        test.built();
    }
}

#[test]
fn the_filter_of_the_hour_that_goes_on_knows_claims_from_before_the_start_and_after_it() {
    let mut test = Test::new();
    test.fill(0..100);
    test.restart();
    test.fill(100..200);
    test.built();
    test.fill(200..300);
    assert!((300..330).contains(&test.asked(0..300)));
    for number in 0..300 {
        assert!(test.find(number).is_some(), "{number}");
    }
    assert_eq!(test.claims.hours.len(), 1);
}

#[test]
fn an_hour_that_lies_ahead_keeps_its_claims_and_the_order() {
    let mut test = Test::new();
    test.insert(1, START_MS + 40 * HOUR_MS);
    test.insert(2, START_MS);
    test.insert(3, START_MS + 20 * HOUR_MS);
    let numbers = |test: &Test| -> Vec<u64> {
        let hours = test.claims.hours.iter();
        hours.map(|hour| hour.number - START_MS / HOUR_MS).collect()
    };
    assert_eq!(numbers(&test), [0, 20, 40]);
    test.restart();
    while test.expire() {}
    assert_eq!(numbers(&test), [0, 20, 40]);
    for number in 1..=3 {
        assert!(test.find(number).is_some(), "{number}");
    }
    test.now_ms = START_MS + 30 * HOUR_MS;
    while test.expire() {}
    assert_eq!(numbers(&test), [20, 40]);
    assert!(test.find(2).is_none());
    assert!(test.find(1).is_some() && test.find(3).is_some());
}

#[test]
fn expired_claims_go_in_steps() {
    let mut test = Test::new();
    test.fill(0..2_500);
    test.now_ms += HOUR_MS + 1;
    test.fill(3_000..3_010);
    test.now_ms = START_MS + 25 * HOUR_MS;
    let rows = |test: &Test| -> i64 {
        let sql = format!("SELECT count(*) FROM claims_{}", START_MS / HOUR_MS);
        let rows = test.connection.query_row(&sql, [], |row| row.get(0));
        rows.expect("the table is there")
    };
    for left in [1_500, 500] {
        assert!(test.expire());
        assert_eq!(rows(&test), left);
        // What goes on after a start is asked no more.
        test.restart();
        assert!(test.find(2_499).is_none());
    }
    assert!(test.expire());
    assert!(!test.expire());
    assert_eq!(test.claims.hours.len(), 1);
    assert!(test.find(3_009).is_some());
}
