//! Claims against a model: over runs, expiry, transactions that are rolled back, restarts.
//!
//! Run by `cargo test`. **Invariant**: time is a number of the test's own.

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;
use sha2::{Digest, Sha256};

use super::*;
use base::clock::Lived;
use sqlite::Synchronous;

const HOUR: Duration = Duration::from_hours(1);
const START: Lived = Lived::from_ms(500_000 * 3_600_000);

/// Claims of a run: few, so that there are many.
const RUN: usize = 20;

struct Test {
    claims: Claims,
    connection: Connection,
    folder: tempfile::TempDir,
    now: Lived,
}

/// What the index must hold: when each claim was made, and its request.
type Model = HashMap<u64, (Lived, Uuid)>;

fn claim(number: u64) -> Claim {
    let digest = Sha256::digest(number.to_le_bytes());
    Claim {
        scope: std::array::from_fn(|at| digest[at]),
        payload: [7; 8],
    }
}

fn open(folder: &tempfile::TempDir, run: usize) -> (Claims, Connection) {
    let path = folder.path().join("journal.db");
    let connection = sqlite::open_writer(&path, Synchronous::Normal).expect("it opens");
    sqlite::upgrade(&connection, 1, &[TABLES]).expect("the tables are made");
    let claims = Claims::with_runs_of(run, &connection).expect("it reads");
    (claims, connection)
}

impl Test {
    fn new() -> Self {
        Self::with_runs_of(RUN)
    }

    fn with_runs_of(run: usize) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (claims, connection) = open(&folder, run);
        Self {
            claims,
            connection,
            folder,
            now: START,
        }
    }

    fn run(&self, sql: &str) {
        self.connection.execute_batch(sql).expect("it runs");
    }

    fn number(&self, sql: &str) -> i64 {
        let number = self.connection.query_row(sql, [], |row| row.get(0));
        number.expect("a number")
    }

    fn find(&self, number: u64) -> Option<Held> {
        let found = self.claims.find(&self.connection, &claim(number), self.now);
        found.expect("it reads")
    }

    fn insert(&mut self, number: u64, at: Lived) -> Uuid {
        let held = Held {
            request_id: Uuid::now_v7(),
            items: 1,
            payload: [7; 8],
            at,
        };
        let inserted = self.claims.insert(&self.connection, &claim(number), held);
        inserted.expect("it writes");
        held.request_id
    }

    fn commit(&mut self) {
        self.run("COMMIT");
        self.claims.committed(self.now);
    }

    /// Claims these, in one transaction.
    fn fill(&mut self, numbers: std::ops::Range<u64>) {
        self.run("BEGIN IMMEDIATE");
        for number in numbers {
            self.insert(number, self.now);
        }
        self.commit();
    }

    fn roll_back(&mut self) {
        self.run("ROLLBACK");
        self.claims.rolled_back();
    }

    /// One step; true if there may be more.
    fn expire(&mut self) -> bool {
        self.run("BEGIN IMMEDIATE");
        let more = self.claims.expire(&self.connection, self.now);
        self.run("COMMIT");
        more.expect("it deletes")
    }

    fn restart(&mut self) {
        (self.claims, self.connection) = open(&self.folder, self.claims.run_claims);
    }

    /// How many runs are asked for these.
    fn asked(&self, numbers: std::ops::Range<u64>) -> usize {
        let asked = |number| {
            let Claim { scope, .. } = claim(number);
            self.claims.to_be_asked(&scope, self.now).count()
        };
        numbers.map(asked).sum()
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// Somebody sends this key; made at a time so many hours ahead, as if the clock had been ahead then.
    Claim(u64, u64),
    /// The same with so many keys, from this one on, that nobody sent before.
    Many(u64),
    Commit,
    RollBack,
    /// So many minutes go by.
    Pass(u64),
    Expire,
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => (0..60_u64, prop_oneof![9 => Just(0), 1 => 1..50_u64])
            .prop_map(|(key, ahead)| Step::Claim(key, ahead)),
        2 => (1..50_u64).prop_map(Step::Many),
        6 => Just(Step::Commit),
        2 => Just(Step::RollBack),
        3 => (1..600_u64).prop_map(Step::Pass),
        2 => Just(Step::Expire),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_key_is_new_or_held_as_the_model_says(steps in steps()) {
        let mut test = Test::new();
        let mut committed = Model::new();
        // With what the open transaction did.
        let mut model = Model::new();
        let mut open = false;
        let mut next = 1_000;
        for step in steps {
            if matches!(step, Step::Claim(..) | Step::Many(_)) && !open {
                test.run("BEGIN IMMEDIATE");
                open = true;
            }
            let now = test.now;
            match step {
                Step::Claim(key, ahead) => {
                    let held = model.get(&key).filter(|(at, _)| *at + WINDOW > now);
                    let found = test.find(key).map(|found| (found.at, found.request_id));
                    prop_assert_eq!(found, held.copied(), "key {}", key);
                    if found.is_none() {
                        let at = now + Duration::from_hours(ahead);
                        let id = test.insert(key, at);
                        model.insert(key, (at, id));
                    }
                }
                Step::Many(count) => {
                    for key in next..next + count {
                        prop_assert_eq!(test.find(key), None);
                        let id = test.insert(key, now);
                        model.insert(key, (now, id));
                    }
                    next += count;
                }
                Step::Pass(minutes) => test.now += Duration::from_mins(minutes),
                Step::RollBack if open => {
                    test.roll_back();
                    model.clone_from(&committed);
                    open = false;
                }
                Step::RollBack => {}
                _ => {
                    if open {
                        test.commit();
                        committed.clone_from(&model);
                        open = false;
                    }
                    match step {
                        Step::Expire => while test.expire() {},
                        Step::Restart => test.restart(),
                        _ => {}
                    }
                }
            }
        }
        if open {
            test.commit();
        }
        for (key, (at, id)) in model {
            let held = (at + WINDOW > test.now).then_some(id);
            prop_assert_eq!(test.find(key).map(|found| found.request_id), held, "key {}", key);
        }
    }
}

#[test]
fn new_keys_ask_hardly_any_run_and_repeats_one() {
    const CLAIMS: u64 = 48_000;
    let mut test = Test::with_runs_of(1_000);
    for first in (0..CLAIMS).step_by(10) {
        test.fill(first..first + 10);
    }
    // So also after a start.
    for _ in 0..2 {
        let runs = test.claims.runs.len();
        assert!((40..=48).contains(&runs), "{runs}");
        let asked = test.asked(CLAIMS..CLAIMS + 1_000);
        assert!(asked < 200, "{asked} runs for 1,000 new keys");
        let in_runs =
            test.number("SELECT count(*) FROM claims WHERE run IN (SELECT run FROM claim_runs)");
        let in_runs = in_runs as usize;
        let asked = test.asked(0..CLAIMS);
        assert!((in_runs..in_runs + in_runs / 5).contains(&asked), "{asked}");
        for number in [0, CLAIMS / 2, CLAIMS - 1] {
            assert!(test.find(number).is_some(), "{number}");
        }
        test.restart();
    }
}

#[test]
fn the_log_is_as_long_as_what_is_in_no_run_and_little_more() {
    let mut test = Test::new();
    for first in 0..3_000 {
        test.fill(first..first + 1);
        let log = test.number("SELECT count(*) FROM claim_log");
        assert!(log <= 3 * RUN as i64, "{log} after {first}");
        let (log, claims) = (test.claims.log.len() as i64, "SELECT count(*) FROM claims");
        let turning = test.claims.turn.as_ref().map_or(0, |_| RUN as i64);
        assert!(test.number(claims) + log + turning > first as i64);
    }
}

#[test]
fn keys_that_are_used_again_after_a_day_and_numbers_that_were_skipped_do_not_make_the_log_longer() {
    let mut test = Test::new();
    for round in 0..60 {
        test.fill(0..5);
        if round == 30 {
            test.claims.last_id += 1_000_000;
        }
        if round % 20 == 10 {
            while test.expire() {}
            test.restart();
        }
        let log = test.number("SELECT count(*) FROM claim_log");
        assert!(log <= 3 * RUN as i64, "{log} in round {round}");
        assert!(test.find(4).is_some());
        test.now += 25 * HOUR;
    }
}

#[test]
fn a_damaged_claim_holds_nothing_and_hides_no_other() {
    let mut test = Test::new();
    test.fill(0..3);
    test.run(
        "UPDATE claim_log SET items = -1 WHERE id = 1;
         UPDATE claim_log SET payload = 'text' WHERE id = 2;
         INSERT INTO claim_log SELECT 4, scope, request_id, items, payload, 5 FROM claim_log WHERE id = 3;",
    );
    test.restart();
    let found = [0, 1, 2].map(|number| test.find(number).is_some());
    assert_eq!(found, [false, false, true]);
}

#[test]
fn what_a_transaction_deleted_that_was_rolled_back_is_deleted_later() {
    let mut test = Test::new();
    for first in (0..100).step_by(10) {
        test.fill(first..first + 10);
    }
    test.now += 25 * HOUR;
    let claims = "SELECT count(*) FROM claims";
    assert!(test.number(claims) > 20);
    test.run("BEGIN IMMEDIATE");
    let (connection, now) = (&test.connection, test.now);
    while test.claims.expire(connection, now).expect("it deletes") {}
    test.roll_back();
    assert!(test.number(claims) > 20);
    while test.expire() {}
    assert_eq!(test.number(claims), 0);
}

#[test]
fn a_filter_that_is_damaged_or_lost_is_made_again() {
    let mut test = Test::new();
    for first in (0..200).step_by(5) {
        test.fill(first..first + 5);
    }
    let stored = "SELECT count(*) FROM claim_runs WHERE length(filter) > 64";
    let runs = test.number(stored);
    assert!(runs > 5, "{runs}");
    test.run(
        "UPDATE claim_runs SET filter = NULL WHERE run = 1;
         UPDATE claim_runs SET filter = zeroblob(length(filter)) WHERE run = 2;
         DELETE FROM claim_runs WHERE run = 3;",
    );
    list_runs(&test.connection).expect("it lists them");
    test.restart();
    assert_eq!(test.number(stored), runs);
    for number in 0..200 {
        assert!(test.find(number).is_some(), "{number}");
    }
}

#[test]
fn a_claim_from_a_time_that_lies_ahead_outlives_its_neighbors() {
    let mut test = Test::new();
    test.insert(1, START + 40 * HOUR);
    for first in (100..200).step_by(10) {
        test.fill(first..first + 10);
    }
    let runs = test.claims.runs.len();
    assert!(runs > 3);
    test.now += 25 * HOUR;
    while test.expire() {}
    assert_eq!(test.claims.runs.len(), 1);
    test.restart();
    assert!(test.find(1).is_some() && test.find(100).is_none());
    test.now += 40 * HOUR;
    while test.expire() {}
    assert_eq!(test.claims.runs.len(), 0);
    assert_eq!(test.number("SELECT count(*) FROM claims"), 0);
    assert!(test.find(1).is_none());
}

#[test]
fn expired_claims_go_in_steps() {
    let mut test = Test::with_runs_of(2_500);
    test.fill(0..2_500);
    test.fill(3_000..4_300);
    let runs = "SELECT count(*) FROM claim_runs";
    assert_eq!(test.number(runs), 1);
    test.now += 25 * HOUR;
    for left in [1_500, 500] {
        assert!(test.expire());
        assert_eq!(test.number("SELECT count(*) FROM claims"), left);
        // What goes on after a start is asked no more.
        test.restart();
        assert!(test.find(2_499).is_none());
    }
    assert!(test.expire());
    assert!(!test.expire());
    assert_eq!(test.number(runs), 0);
}

#[test]
fn hours_of_the_format_before_become_runs() {
    let mut test = Test::new();
    let first = 500_000;
    for hour in 0..3 {
        let number = first + hour;
        test.run(&format!(
            "CREATE TABLE claims_{number} (scope BLOB PRIMARY KEY, request_id BLOB NOT NULL, items INTEGER NOT NULL,
                 payload BLOB NOT NULL, at_ms INTEGER NOT NULL) WITHOUT ROWID"
        ));
        for key in hour * 100..(hour + 1) * 100 {
            let insert = format!(
                "INSERT INTO claims_{number} VALUES (?1, randomblob(16), 1, x'0707070707070707', ?2)"
            );
            let at = (START + Duration::from_hours(hour)).to_column();
            let row = rusqlite::params![&claim(key).scope[..], at];
            test.connection.execute(&insert, row).expect("a claim");
        }
    }
    test.fill(300..310);
    test.restart();
    assert_eq!(test.claims.runs.len(), 3 * 100 / RUN);
    let old = "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'claims\\_%' ESCAPE '\\'";
    assert_eq!(test.number(old), 0);
    for (passed_hours, live) in [(0, 0..310), (24, 100..300), (25, 200..300), (26, 300..300)] {
        test.now = START + passed_hours * HOUR;
        for number in 0..310 {
            let found = test.find(number).is_some();
            assert_eq!(found, live.contains(&number), "{number}");
        }
    }
    test.now += HOUR;
    while test.expire() {}
    assert_eq!(test.number("SELECT count(*) FROM claims"), 0);
}
