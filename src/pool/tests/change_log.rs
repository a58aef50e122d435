//! The log of changes: it names each key that changed, is cut, and readers find what they ask for nevertheless.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Keys that changed after the beginning of the log and that no row of it names.
const UNNAMED: &str = "
    WITH changed AS (
        SELECT stream, seq, key FROM items UNION SELECT stream, seq, key FROM removed WHERE seq > 0
        UNION SELECT stream, seq, key FROM shown)
    SELECT stream || ' ' || key || ' ' || seq FROM changed
    WHERE seq > coalesce((SELECT previous FROM change_log AS first WHERE first.stream = changed.stream ORDER BY seq LIMIT 1), 0)
    AND NOT EXISTS (
        SELECT 1 FROM change_log AS log, json_each(log.keys) AS one
        WHERE log.stream = changed.stream AND log.seq >= changed.seq AND log.previous < changed.seq AND one.value = changed.key)";
/// Rows whose numbers do not go on from the row before.
const GAPS: &str = "SELECT count(*) FROM (
        SELECT previous, total, json_array_length(keys) AS count,
            lag(seq, 1, previous) OVER by_seq AS seq_before, lag(total, 1, total - json_array_length(keys)) OVER by_seq AS total_before
        FROM change_log WINDOW by_seq AS (PARTITION BY stream ORDER BY seq))
    WHERE previous <> seq_before OR total <> total_before + count";

/// The log names every key that changed, and its rows go on from one another.
pub(super) fn assert_log_is_whole(connection: &Connection) {
    let mut unnamed = connection.prepare(UNNAMED).expect("a statement");
    let unnamed = unnamed.query_map([], |row| row.get(0)).expect("rows");
    let unnamed: Vec<String> = unnamed.map(|one| one.expect("a row")).collect();
    assert!(unnamed.is_empty(), "the log does not name {unnamed:?}");
    let gaps: i64 = (connection.query_row(GAPS, [], |row| row.get(0))).expect("it reads");
    assert_eq!(gaps, 0, "the rows of the log do not follow one another");
}

/// So many keys of a stream are in the log.
fn logged(test: &Test) -> Vec<(u64, String)> {
    let writer = test.pool.lock();
    let sql = "SELECT seq, keys FROM change_log WHERE stream = ?1 ORDER BY seq";
    let mut rows = writer.connection.prepare(sql).expect("a statement");
    let rows = rows.query_map([STREAM], |row| Ok((row.get::<_, i64>(0)?, row.get(1)?)));
    let rows = rows.expect("rows").map(|row| row.expect("a row"));
    rows.map(|(seq, keys)| (seq.unsigned_abs(), keys)).collect()
}

/// The newest items, in pages of so many.
async fn newest(test: &Test, rows: u32) -> Vec<(String, u64)> {
    let limit = PageLimit {
        rows,
        bytes: usize::MAX,
    };
    let (mut all, mut before) = (Vec::new(), None);
    loop {
        let page = test.pool.newest_items(STREAM, before, limit).await;
        let page = page.expect("it reads");
        assert!(page.len() <= rows as usize);
        let Some(last) = page.last() else { return all };
        before = Some(last.seq);
        all.extend(page.into_iter().map(|item| (item.key, item.seq.get())));
    }
}

/// A snapshot in pages of so many.
async fn snapshot(test: &Test, keys: Option<&[String]>, rows: u32) -> Vec<String> {
    let limit = PageLimit {
        rows,
        bytes: usize::MAX,
    };
    let (mut all, mut after) = (Vec::new(), None::<String>);
    loop {
        let page = test.pool.snapshot(STREAM, keys, after.as_deref(), limit);
        let page = page.await.expect("it reads");
        after = page.changes.last().map(|change| change.key.to_string());
        all.extend(page.changes.iter().map(|change| change.key.to_string()));
        if !page.more {
            return all;
        }
    }
}

#[tokio::test]
async fn a_transaction_appends_a_row_for_each_stream() {
    let test = Test::new().await;
    test.upsert(&batch(1, &["b", "a", "quo\"te"]), true);
    test.upsert(&batch_of("others", 2, &[("x", "{}")]), true);
    test.upsert(&batch(3, &["a"]), false);
    test.remove(STREAM, "b", 4);
    let expected = [
        (3, r#"["a","b","quo\"te"]"#),
        (5, r#"["a"]"#),
        (6, r#"["b"]"#),
    ];
    let expected = expected.map(|(seq, keys)| (seq, keys.to_owned()));
    assert_eq!(logged(&test), expected);
}

#[tokio::test]
async fn many_keys_of_one_transaction_are_in_several_rows() {
    let test = Test::new().await;
    let keys: Vec<String> = (0..700).map(|key| format!("{key:03}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    test.upsert(&batch(1, &keys), true);
    let rows = logged(&test);
    let seqs: Vec<u64> = rows.iter().map(|(seq, _)| *seq).collect();
    assert_eq!(seqs, [256, 512, 700]);
    assert_eq!(test.read(STREAM, 300).await.len(), 400);
    assert_eq!(snapshot(&test, None, 64).await, keys);
}

#[tokio::test]
async fn a_log_that_was_cut_says_what_it_lacks_and_the_newest_items_are_found_all_the_same() {
    let test = Test::new().await;
    for seq in 1..=9 {
        test.upsert(&batch(seq, &[&seq.to_string()]), true);
    }
    test.upsert(&batch(10, &["9", "2"]), true);
    test.remove(STREAM, "3", 11);
    let last = test.pool.last_change(STREAM).await.expect("it reads");
    let whole = newest(&test, 2).await;
    for kept in [12, 6, 3, 1, 0] {
        test.pool.cut_log(STREAM, kept);
        let left = logged(&test);
        let lost = 12
            - left
                .iter()
                .map(|(_, keys)| keys.split(',').count())
                .sum::<usize>();
        for position in 0..=12 {
            let after = ChangeSeq::new(position);
            let page = (test.pool).changed_after(STREAM, None, after, EVERYTHING);
            let page = page.await.expect("it reads");
            assert_eq!(page.is_whole, position >= lost as u64, "{kept} {position}");
            let of_keys = ["2".to_owned()];
            let of_keys = (test.pool).changed_after(STREAM, Some(&of_keys), after, EVERYTHING);
            assert!(of_keys.await.expect("it reads").is_whole);
        }
        for rows in 1..4 {
            assert_eq!(newest(&test, rows).await, whole, "{kept} kept, {rows} rows");
        }
        let now = test.pool.last_change(STREAM).await.expect("it reads");
        assert_eq!(now, last);
    }
}

#[tokio::test]
async fn what_is_cut_depends_on_how_many_items_there_are() {
    let test = Test::new().await;
    let keys: Vec<String> = (0..1_000).map(|key| format!("{key:04}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    for seq in 1..=60 {
        test.upsert(&batch(seq, &keys), true);
    }
    let kept: usize = (logged(&test).iter())
        .map(|(_, keys)| keys.split(',').count())
        .sum();
    assert!((50_000..=52_048).contains(&kept), "{kept}");
    assert_eq!(test.read(STREAM, 59_400).await.len(), 600);
}

#[tokio::test]
async fn a_page_has_what_fits_and_the_next_one_goes_on() {
    let test = Test::new().await;
    let large = format!(r#"{{"text":"{}"}}"#, "x".repeat(1_000));
    let items: Vec<(String, &str)> = (0..20).map(|key| (format!("{key:02}"), &*large)).collect();
    let items: Vec<(&str, &str)> = items.iter().map(|(key, json)| (&**key, *json)).collect();
    test.upsert(&batch_of(STREAM, 1, &items), true);
    let limit = PageLimit {
        rows: 1_000,
        bytes: 2_500,
    };
    let (mut position, mut sizes) = (ChangeSeq::MIN, Vec::new());
    loop {
        let page = (test.pool)
            .changed_after(STREAM, None, position, limit)
            .await;
        let page = page.expect("it reads");
        position = page.through;
        sizes.push(page.changes.len());
        if !page.more {
            break;
        }
    }
    assert_eq!(sizes, [3, 3, 3, 3, 3, 3, 2]);
    // A snapshot knows whether there is more, whatever made its page full.
    let small = PageLimit {
        rows: 1_000,
        bytes: 20 * large.len(),
    };
    let page = test.pool.snapshot(STREAM, None, None, small).await;
    let page = page.expect("it reads");
    assert_eq!((page.changes.len(), page.more), (20, false));
}

/// What one request does.
#[derive(Debug, Clone)]
enum Step {
    Update { keys: BTreeSet<u8>, is_told: bool },
    Remove(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let update = (btree_set(0..12_u8, 1..6), any::<bool>())
        .prop_map(|(keys, is_told)| Step::Update { keys, is_told });
    let step = prop_oneof![3 => update, 1 => (0..12_u8).prop_map(Step::Remove)];
    vec(step, 1..50)
}

fn name(key: u8) -> String {
    format!("k{key:02}")
}

/// Updates, some of them not told, and removals, of a few keys; then all positions are asked, and compared with a model.
#[test]
fn readers_find_what_changed_at_every_position() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut runner = TestRunner::new(Config::with_cases(12));
    let done = runner.run(&steps(), |steps| {
        runtime.block_on(check(&steps));
        Ok(())
    });
    done.expect("the model and the pool agree");
}

async fn check(steps: &[Step]) {
    let test = Test::new().await;
    // Of each key the number of its last change, and whether it is gone.
    let mut model: BTreeMap<String, (u64, bool)> = BTreeMap::new();
    for (step, seq) in steps.iter().zip(1..) {
        match step {
            Step::Update { keys, is_told } => {
                let before = test.seq();
                let keys: Vec<String> = keys.iter().map(|key| name(*key)).collect();
                let names: Vec<&str> = keys.iter().map(String::as_str).collect();
                test.upsert(&batch(seq, &names), *is_told);
                let numbered = keys.into_iter().zip(before + 1..);
                model.extend(numbered.map(|(key, number)| (key, (number, false))));
            }
            Step::Remove(key) => {
                if let Some(number) = test.remove(STREAM, &name(*key), seq) {
                    model.insert(name(*key), (number, true));
                }
            }
        }
    }
    for position in 0..=test.seq() {
        let mut changed: Vec<(String, u64, bool)> = (model.iter())
            .map(|(key, (number, is_gone))| (key.clone(), *number, *is_gone))
            .filter(|(_, number, _)| *number > position)
            .collect();
        changed.sort_by_key(|(_, number, _)| *number);
        assert_eq!(test.read(STREAM, position).await, changed);
    }
    let last = model.values().map(|(number, _)| *number).max();
    let told = test.pool.last_change(STREAM).await.expect("it reads");
    assert_eq!(told.get(), last.unwrap_or(0));
    model.retain(|_, (_, is_gone)| !*is_gone);
    let keys: Vec<String> = model.keys().cloned().collect();
    assert_eq!(snapshot(&test, None, 3).await, keys);
    let some = ["k01", "k04", "none", "k04"].map(str::to_owned);
    let of_some: Vec<String> = (keys.iter().filter(|key| some.contains(key)))
        .cloned()
        .collect();
    assert_eq!(snapshot(&test, Some(&some), 1).await, of_some);
    let mut held: Vec<(String, u64)> = (model.into_iter())
        .map(|(key, (number, _))| (key, number))
        .collect();
    held.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
    assert_eq!(newest(&test, 2).await, held);
}
