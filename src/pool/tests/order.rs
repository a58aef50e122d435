//! However operations are cut into batches, the pool ends as the rules say of them one after the other.

use super::*;
use crate::apply::Stored;
use crate::rules::cases::{Op, cases};
use crate::rules::place;
use crate::rules::tests::{Stream, on_update, play, runner};
use item::{ItemRef, Version};
use proptest::prelude::*;

/// The requests in batches: behind the operation `n` a batch ends if `cut(n)`.
pub(super) fn batches(
    stream: &str,
    requests: &[(i64, Vec<Op>)],
    cut: impl Fn(u32) -> bool,
) -> Vec<Batch> {
    let mut batches = Vec::new();
    let mut slices = Vec::new();
    let mut number = 0;
    for (seq, ops) in requests {
        let entry = Arc::new(entry(stream, seq.unsigned_abs(), ops));
        let slice = |start, end| Slice {
            start,
            end,
            ..Slice::whole(Arc::clone(&entry))
        };
        let mut start = 0;
        for end in 1..=slice(0, 0).entry.items.len() as u32 {
            if cut(number) {
                slices.push(slice(start, end));
                batches.push(Batch::new(std::mem::take(&mut slices), 1));
                start = end;
            }
            number += 1;
        }
        if (start as usize) < ops.len() {
            slices.push(slice(start, ops.len() as u32));
        }
    }
    if !slices.is_empty() {
        batches.push(Batch::new(slices, 1));
    }
    batches
}

fn entry(stream: &str, seq: u64, ops: &[Op]) -> Entry {
    let mut items = ItemsWriter::new(1 << 20, 0);
    for op in ops {
        let (fields, action) = match &op.fields {
            Some(fields) => (fields.as_str(), Action::Upsert),
            None => ("{}", Action::Remove),
        };
        let pushed = items.push_item(&ItemRef {
            key: &op.key,
            fields,
            shape: 0,
            action,
            meta: ItemMeta {
                version: op.version(),
                expire_after_seconds: None,
                ..ItemMeta::default()
            },
            sent_version: op.text.as_deref().unwrap_or_default(),
        });
        pushed.expect("it fits");
    }
    Entry {
        seq: Seq::new(seq),
        request_id: Uuid::from_u128(seq.into()),
        stream: stream.into(),
        received_at: Unix::from_ms(seq * 1_000),
        arrived: None,
        items: items.into_items(),
    }
}

impl Test {
    pub(super) fn settle_all(&self, batches: Vec<Batch>, published: bool) {
        let settlement = Settlement {
            sink: "pool".into(),
            staged: Staged {
                publishes: if published {
                    batches.clone()
                } else {
                    Vec::new()
                },
                effects: batches.into_iter().map(Effect::Apply).collect(),
                ..Staged::default()
            },
            ..Settlement::default()
        };
        self.pool.settle(&settlement).expect("it settles");
    }

    /// What the file has of the keys of a stream.
    fn stored(&self, stream: &str) -> Vec<(&'static str, Stored)> {
        let writer = self.pool.lock();
        let stored =
            |key| Stored::of(&writer.connection, &writer.removals, stream, key).expect("it reads");
        ["a", "b", "0", "1", "2", "7"]
            .map(|key| (key, stored(key)))
            .into()
    }
}

fn states<'a>(stored: &'a [(&'static str, Stored)]) -> Stream<'a> {
    let mut stream = Stream::default();
    for (key, stored) in stored {
        stream.keys.insert(key, stored.state());
    }
    stream
}

#[tokio::test]
async fn every_case_ends_as_it_says_in_every_split_of_its_operations() {
    let test = Test::new().await;
    let mut splits = 0;
    for (number, case) in cases().iter().enumerate() {
        let requests = play(case);
        let operations: usize = requests.iter().map(|(_, ops)| ops.len()).sum();
        let masks = 0..1_u32 << (operations - 1);
        let name = |mask| format!("c{number}-{mask}");
        let streams = masks
            .clone()
            .map(|mask| (name(mask).into(), case.on_update));
        test.pool.set_on_update(streams.collect());
        let split = |mask| batches(&name(mask), &requests, |at| mask >> at & 1 == 1);
        test.settle_all(masks.clone().flat_map(split).collect(), true);
        for mask in masks {
            states(&test.stored(&name(mask))).check(case);
            splits += 1;
        }
    }
    assert!(splits > 600, "{splits}");
}

#[tokio::test]
async fn random_histories_end_as_the_rules_say_in_random_batches() {
    let test = Test::new().await;
    let fast = "PRAGMA synchronous = OFF";
    test.pool
        .lock()
        .connection
        .execute_batch(fast)
        .expect("it is set");
    let number = std::cell::Cell::new(0_i64);
    let histories = (
        crate::rules::cases::histories(6),
        on_update(),
        any::<u32>(),
        any::<bool>(),
    );
    let tested = runner().run(&histories, |(requests, on_update, cuts, told)| {
        number.set(number.get() + 100);
        let stream = "random";
        let erase =
            "DELETE FROM items; DELETE FROM removed; DELETE FROM stale; DELETE FROM stale_items";
        let mut writer = test.pool.lock();
        writer.connection.execute_batch(erase).expect("it is empty");
        writer.removals = Removals::load(&writer.connection).expect("it reads");
        drop(writer);
        test.pool.set_on_update([(stream.into(), on_update)].into());
        let numbers = (number.get()..).zip(requests);
        let requests: Vec<(i64, Vec<Op>)> = numbers.collect();
        let mut expected = Stream::default();
        let mut left = [0, 0];
        for (seq, ops) in &requests {
            for (op, position) in ops.iter().zip(0..) {
                let said = expected.apply(op, place(*seq, position), on_update);
                left[0] += i64::from(said["became"] == "stale");
                left[1] += i64::from(said["became"] == "partly");
            }
        }
        for batch in batches(stream, &requests, |at| cuts >> (at % 32) & 1 == 1) {
            test.settle_all(vec![batch], told);
        }
        let stored = test.stored(stream);
        let found = states(&stored);
        prop_assert_eq!(found.shown(), expected.shown());
        let version = |state: &crate::rules::State<'_>| {
            let reached = state.reached.as_ref();
            reached.map(|one| (one.version, one.text.clone().into_owned()))
        };
        for (key, state) in &expected.keys {
            let found = &found.keys[key];
            prop_assert_eq!(version(found), version(state));
            prop_assert_eq!(effective(found), effective(state));
        }
        let stale = "SELECT coalesce(sum(items), 0), coalesce(sum(partly), 0) FROM stale";
        let writer = test.pool.lock();
        let noted = writer
            .connection
            .query_row(stale, [], |row| Ok([row.get::<_, i64>(0)?, row.get(1)?]));
        prop_assert_eq!(noted.expect("it reads"), left);
        Ok(())
    });
    tested.unwrap_or_else(|error| panic!("{error}"));
}

/// What each field has reached, and what counts for those that are not there.
fn effective(state: &crate::rules::State<'_>) -> (Vec<Option<Version>>, Option<Version>) {
    let mut item = state.item.clone();
    let names = ["\"f0\"", "\"f1\"", "\"f2\""];
    let of_field = |name| match &mut item {
        Some(item) => {
            let written = item.fields.written(name, state.written());
            written.and_then(|one| one.reached).max(state.floor)
        }
        None => None,
    };
    (names.map(of_field).into(), state.floor)
}
