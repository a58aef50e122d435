//! Past values of fields: which are recorded, kept, forgotten and read.

mod random;

use super::order::batches;
use super::*;
use crate::acts::{Act, Author};
use crate::past_values::PastKind;
use crate::rules::cases::Op;

/// Field, value and number of the request; `-` for a field that ended, `x` for one of an item that was removed.
type Line = (String, String, u128);

impl Test {
    async fn recording(keep: u32) -> Self {
        let test = Self::new().await;
        test.record(keep);
        test
    }

    fn record(&self, keep: u32) {
        let streams = [STREAM, "merged"].map(|stream| (stream.into(), keep));
        let streams = streams.into_iter().filter(|(_, keep)| *keep > 0);
        self.pool.set_history(streams.collect());
    }

    async fn past(&self, key: &str, field: Option<&str>) -> Vec<Line> {
        self.past_of(STREAM, key, field).await
    }

    /// Newest first, by pages of two.
    async fn past_of(&self, stream: &str, key: &str, field: Option<&str>) -> Vec<Line> {
        let mut all = Vec::new();
        let mut after = None;
        loop {
            let page = (self.pool).past_values(stream, key, field, after.as_ref(), 2);
            let page = page.await.expect("it reads");
            let Some(last) = page.last() else {
                return all;
            };
            after = Some(last.place.to_string().parse().expect("a place"));
            all.extend(page.into_iter().map(|one| {
                let value = match (one.kind, one.value) {
                    (PastKind::Value, Some(value)) => value,
                    (PastKind::Gone, None) => "-".to_owned(),
                    (PastKind::Removed, None) => "x".to_owned(),
                    (PastKind::Act { verb, by, .. }, value) => {
                        format!("{verb} {} by {by}", value.unwrap_or_default())
                    }
                    other => panic!("{other:?}"),
                };
                (one.field, value, number_of(&one.request_id))
            }));
        }
    }

    /// Rows of the file, those that do not count as well.
    fn rows(&self) -> (i64, i64) {
        let sql =
            "SELECT (SELECT count(*) FROM past_values), (SELECT count(*) FROM recorded_streams)";
        let writer = self.pool.lock();
        let rows = writer
            .connection
            .query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)));
        rows.expect("it reads")
    }

    fn sweep(&self) {
        while self.rows_are_dirty() {
            self.pool.sweep_past_values(|| false).expect("it sweeps");
        }
    }

    fn rows_are_dirty(&self) -> bool {
        let sql = "SELECT EXISTS (SELECT 1 FROM recorded_streams WHERE dirty)";
        let writer = self.pool.lock();
        let dirty = writer.connection.query_row(sql, [], |row| row.get(0));
        dirty.expect("it reads")
    }

    fn write(&self, seq: u64, key: &str, fields: &str) {
        self.upsert(&batch_of(STREAM, seq, &[(key, fields)]), true);
    }
}

fn number_of(request_id: &str) -> u128 {
    Uuid::parse_str(request_id).map_or(0, |id| id.as_u128())
}

fn line(field: &str, value: &str, request: u128) -> Line {
    (field.to_owned(), value.to_owned(), request)
}

#[tokio::test]
async fn a_field_has_its_last_values_with_the_request_that_wrote_each() {
    let test = Test::recording(3).await;
    test.write(1, "m1", r#"{"home":1,"name":"A"}"#);
    test.write(2, "m1", r#"{"home":2,"name":"A"}"#);
    // The same once more is a change of the item, and of no field.
    test.write(3, "m1", r#"{"home":2,"name":"A"}"#);
    test.write(4, "m1", r#"{"home":3}"#);
    test.write(5, "m1", r#"{"home":4}"#);
    test.write(5, "other", r#"{"home":9}"#);
    let home = [("4", 5), ("3", 4), ("2", 2)].map(|(value, by)| line("home", value, by));
    assert_eq!(test.past("m1", Some("home")).await, home);
    let [four, three, two] = home;
    let (ended, name) = (line("name", "-", 4), line("name", "\"A\"", 1));
    assert_eq!(
        test.past("m1", None).await,
        [four, three, ended, two, name],
        "newest first"
    );
    // Delivered again, or too late: nothing.
    test.write(5, "m1", r#"{"home":4}"#);
    test.write(3, "m1", r#"{"home":7}"#);
    let test = test.killed().await;
    assert_eq!(test.past("m1", Some("home")).await.len(), 3);
    assert_eq!(test.past("m1", Some("none")).await, []);
    assert_eq!(test.past("none", None).await, []);
}

#[tokio::test]
async fn a_removal_is_recorded_and_an_item_that_comes_back_goes_on() {
    let test = Test::recording(20).await;
    test.write(1, "m1", r#"{"home":1}"#);
    test.remove(STREAM, "m1", 2);
    let before = [line("home", "x", 2), line("home", "1", 1)];
    assert_eq!(test.past("m1", None).await, before);
    test.write(3, "m1", r#"{"home":1}"#);
    let all = [&[line("home", "1", 3)], &before[..]].concat();
    assert_eq!(test.past("m1", None).await, all);
    // What came and went within one commit, too.
    let ops = |seq| (seq, vec![op("m2", Some(r#"{"n":1}"#)), op("m2", None)]);
    test.settle_all(batches(STREAM, &[ops(4)], |_| false), true);
    assert_eq!(
        test.past("m2", None).await,
        [line("n", "x", 4), line("n", "1", 4)]
    );
}

#[tokio::test]
async fn what_was_recorded_of_a_removed_item_goes_with_its_tombstone() {
    let test = Test::recording(20).await;
    test.pool.lock().removals.keep_published(1);
    for (seq, key) in [(1, "a"), (2, "b"), (3, "c")] {
        test.write(seq, key, r#"{"n":1}"#);
    }
    for (seq, key) in [(4, "a"), (5, "b"), (6, "c")] {
        test.remove(STREAM, key, seq);
    }
    test.write(7, "b", r#"{"n":2}"#);
    test.write(8, "d", r#"{"n":3}"#);
    test.remove(STREAM, "d", 9);
    test.passes("pool", 9);
    test.forget();
    assert_eq!(test.tombstones(), "d");
    for (key, count) in [("a", 0), ("b", 3), ("c", 0), ("d", 2)] {
        assert_eq!(test.past(key, None).await.len(), count, "{key}");
    }
}

#[tokio::test]
async fn a_lower_number_and_none_take_the_rest_away() {
    let test = Test::recording(5).await;
    for seq in 1..=9 {
        test.write(seq, "m1", &format!(r#"{{"n":{seq}}}"#));
    }
    let newest = |first: u64, last: u64| {
        let lines = (first..=last).rev();
        lines
            .map(|n| line("n", &n.to_string(), n.into()))
            .collect::<Vec<_>>()
    };
    assert_eq!(test.past("m1", None).await, newest(5, 9));
    test.record(2);
    assert_eq!(test.past("m1", None).await, newest(8, 9), "at once");
    let test = test.killed().await;
    test.record(2);
    test.sweep();
    assert_eq!(test.rows(), (2, 2));
    test.record(4);
    test.write(10, "m1", r#"{"n":10}"#);
    assert_eq!(test.past("m1", None).await, newest(8, 10));
    // Off and on again: what was before is not seen, whether it is deleted or not.
    test.record(0);
    assert_eq!(test.past("m1", None).await, []);
    test.write(11, "m1", r#"{"n":11}"#);
    test.record(4);
    assert_eq!(test.past("m1", None).await, []);
    test.write(12, "m1", r#"{"n":12}"#);
    assert_eq!(test.past("m1", None).await, newest(12, 12));
    test.sweep();
    assert_eq!(test.rows(), (1, 2));
    test.record(0);
    let test = test.killed().await;
    test.record(0);
    test.sweep();
    assert_eq!(test.rows(), (0, 0));
}

#[tokio::test]
async fn a_start_without_the_stream_ends_what_was_recorded() {
    let test = Test::recording(5).await;
    test.write(1, "m1", r#"{"n":1}"#);
    let test = test.killed().await;
    // Until it is said what is set, it goes on as it was.
    test.write(2, "m1", r#"{"n":2}"#);
    assert_eq!(test.past("m1", None).await.len(), 2);
    test.record(0);
    test.record(5);
    assert_eq!(test.past("m1", None).await, []);
    test.sweep();
    assert_eq!(test.rows(), (0, 2));
}

#[tokio::test]
async fn more_than_a_chunk_is_swept() {
    let test = Test::recording(2).await;
    let keys: Vec<String> = (0..700).map(|key| format!("k{key}")).collect();
    for seq in 1..=2 {
        let fields = format!(r#"{{"a":{seq},"b":{seq}}}"#);
        let items: Vec<(&str, &str)> = keys.iter().map(|key| (&**key, &*fields)).collect();
        test.upsert(&batch_of(STREAM, seq, &items), true);
    }
    assert_eq!(test.rows().0, 2_800);
    test.record(1);
    test.sweep();
    assert_eq!(test.rows(), (1_400, 2));
    assert_eq!(
        test.past("k699", None).await,
        [line("a", "2", 2), line("b", "2", 2)]
    );
}

#[tokio::test]
async fn what_is_delivered_again_to_a_pool_that_lost_it_is_recorded_once() {
    let test = Test::recording(20).await;
    test.write(1, "m1", r#"{"n":1}"#);
    test.write(2, "m1", r#"{"n":2}"#);
    let lost = "DELETE FROM items";
    test.pool
        .lock()
        .connection
        .execute_batch(lost)
        .expect("it is lost");
    test.write(1, "m1", r#"{"n":1}"#);
    test.write(2, "m1", r#"{"n":2}"#);
    test.write(3, "m1", r#"{"n":3}"#);
    let lines = [("3", 3), ("2", 2), ("1", 1)].map(|(value, by)| line("n", value, by));
    assert_eq!(test.past("m1", None).await, lines);
}

#[tokio::test]
async fn what_operators_write_stands_beside_it() {
    let test = Test::recording(20).await;
    let stream: Arc<str> = STREAM.into();
    test.write(1, "m1", r#"{"n":1,"o":1}"#);
    let by = Author {
        operator: "token anna".into(),
        name: "anna".into(),
        client: String::new(),
        request_id: Uuid::from_u128(100),
    };
    let act = |act: Act| {
        let acted = test.pool.act(&stream, &act, &by, None).expect("it writes");
        acted.expect("it is made");
    };
    act(Act::Override {
        key: "m1".to_owned(),
        fields: r#"{"n":7}"#.to_owned(),
        until: None,
        create: false,
    });
    test.write(2, "m1", r#"{"n":2,"o":1}"#);
    let lines = [
        line("n", "2", 2),
        line("n", "override 7 by anna", 100),
        line("n", "1", 1),
    ];
    assert_eq!(test.past("m1", Some("n")).await, lines);
    act(Act::Release {
        key: Some("m1".to_owned()),
        fields: None,
    });
    let past = test.past("m1", Some("n")).await;
    assert_eq!(past[0], line("n", "release  by anna", 100));
    // While it is held, the source's values are recorded as they come.
    act(Act::Hold {
        keys: None,
        until: None,
    });
    test.write(3, "m1", r#"{"n":3,"o":1}"#);
    assert_eq!(test.past("m1", Some("n")).await[0], line("n", "3", 3));
}

fn op(key: &str, fields: Option<&str>) -> Op {
    Op {
        key: key.to_owned(),
        fields: fields.map(str::to_owned),
        text: None,
    }
}
