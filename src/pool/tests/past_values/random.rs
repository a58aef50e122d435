//! Random histories, in random batches, with kills and changes of the setting: what is recorded is what a model says.

use std::collections::BTreeMap;

use super::*;
use crate::rules::cases::{histories, histories_count};
use crate::rules::place;
use crate::rules::tests::{Stream, on_update};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// What happens between two requests.
#[derive(Debug, Clone)]
enum Between {
    Nothing,
    Kill,
    Keep(u32),
    Sweep,
}

/// What is to be there of a stream: of each key and field the lines, oldest first.
#[derive(Default)]
struct Model {
    keep: u32,
    past: BTreeMap<(String, String), Vec<(String, u128)>>,
}

impl Model {
    fn set_keep(&mut self, keep: u32) {
        self.keep = keep;
        self.trim();
    }

    fn trim(&mut self) {
        for lines in self.past.values_mut() {
            let over = lines.len().saturating_sub(self.keep as usize);
            lines.drain(..over);
        }
        self.past.retain(|_, lines| !lines.is_empty());
    }

    fn note(
        &mut self,
        key: &str,
        before: Option<&serde_json::Value>,
        after: Option<&serde_json::Value>,
        request: u128,
    ) {
        for field in ["f0", "f1", "f2"] {
            let (old, new) = (
                before.and_then(|fields| fields.get(field)),
                after.and_then(|fields| fields.get(field)),
            );
            if old == new {
                continue;
            }
            let value = match (new, after) {
                (Some(value), _) => value.to_string(),
                (None, Some(_)) => "-".to_owned(),
                (None, None) => "x".to_owned(),
            };
            let lines = self.past.entry((key.to_owned(), field.to_owned()));
            lines.or_default().push((value, request));
        }
        self.trim();
    }
}

#[test]
fn random_histories_are_recorded_alike_in_random_batches_with_kills_and_other_settings() {
    let between = prop_oneof![
        6 => Just(Between::Nothing),
        1 => Just(Between::Kill),
        1 => prop_oneof![Just(0), Just(1), Just(2), Just(5)].prop_map(Between::Keep),
        1 => Just(Between::Sweep),
    ];
    let step = (histories(3), between);
    let steps = (
        prop::collection::vec(step, 1..6),
        on_update(),
        any::<u32>(),
        1..6_u32,
    );
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let tested = TestRunner::new(Config {
        cases: histories_count() / 20,
        failure_persistence: None,
        ..Config::default()
    })
    .run(&steps, |(steps, on_update, cuts, keep)| {
        runtime.block_on(play(&steps, on_update, cuts, keep))
    });
    tested.unwrap_or_else(|error| panic!("{error}"));
}

/// Plays a history, and compares what is there after each step.
async fn play(
    steps: &[(Vec<Vec<Op>>, Between)],
    on_update: OnUpdate,
    cuts: u32,
    keep: u32,
) -> Result<(), TestCaseError> {
    let mut test = Test::recording(keep).await;
    let mut keep = keep;
    let mut model = Model::default();
    model.set_keep(keep);
    let mut rules = Stream::default();
    let mut seq = 0_i64;
    for (requests, between) in steps {
        let (pragma, streams) = ("PRAGMA synchronous = OFF", [(STREAM.into(), on_update)]);
        test.pool
            .lock()
            .connection
            .execute_batch(pragma)
            .expect("it is set");
        test.pool.set_on_update(streams.into());
        let mut numbered = Vec::new();
        for ops in requests {
            seq += 1;
            for (op, position) in ops.iter().zip(0..) {
                let before = rules.shown().remove(&*op.key);
                rules.apply(op, place(seq, position), on_update);
                let after = rules.shown().remove(&*op.key);
                model.note(
                    &op.key,
                    before.as_ref(),
                    after.as_ref(),
                    seq.unsigned_abs().into(),
                );
            }
            numbered.push((seq, ops.clone()));
        }
        for batch in batches(STREAM, &numbered, |at| cuts >> (at % 32) & 1 == 1) {
            test.settle_all(vec![batch], true);
        }
        match between {
            Between::Nothing => {}
            Between::Kill => {
                test = test.killed().await;
                test.record(keep);
            }
            Between::Keep(other) => {
                // What a lower number takes away is there again if it is raised before that is deleted.
                if keep > 0 {
                    test.sweep();
                }
                keep = *other;
                model.set_keep(keep);
                test.record(keep);
            }
            Between::Sweep => test.sweep(),
        }
        let mut found: BTreeMap<(String, String), Vec<(String, u128)>> = BTreeMap::new();
        for key in ["a", "b"] {
            for (field, value, request) in test.past(key, None).await.into_iter().rev() {
                let lines = found.entry((key.to_owned(), field));
                lines.or_default().push((value, request));
            }
        }
        prop_assert_eq!(&found, &model.past);
    }
    Ok(())
}
