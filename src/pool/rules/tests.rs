//! The rules alone: cases of `order-vectors.json`, and what holds of random histories.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use super::cases::{Case, Op, Step, cases, histories, histories_count};
use super::*;

/// The keys of a stream, and when their items expire.
#[derive(Default)]
pub(crate) struct Stream<'a> {
    pub(crate) keys: BTreeMap<&'a str, State<'a>>,
    expire_at: BTreeMap<&'a str, f64>,
}

impl<'a> Stream<'a> {
    /// Applies an operation; what became of it, as the cases say it.
    pub(crate) fn apply(&mut self, op: &'a Op, place: Place, on_update: OnUpdate) -> Value {
        let state = self.keys.remove(&*op.key).unwrap_or_default();
        let (state, became) = apply(state, &op.operation(place, on_update));
        let name = if op.fields.is_some() {
            "update"
        } else {
            "removal"
        };
        let mut said = json!({ "key": op.key, "op": name });
        let (word, taken) = match became {
            Became::Applied => ("applied", None),
            Became::Stale => ("stale", None),
            Became::Partly(taken) => ("partly", Some(taken)),
            Became::Again => ("again", None),
        };
        said["became"] = word.into();
        if matches!(word, "stale" | "partly") {
            said["version"] = json!(op.text);
            said["reached"] = json!(state.reached.as_ref().map(|reached| &*reached.text));
        }
        if let Some(taken) = taken {
            said["taken"] = json!(taken);
        }
        self.keys.insert(&op.key, state);
        said
    }

    /// Items as they are shown.
    pub(crate) fn shown(&self) -> BTreeMap<&'a str, Value> {
        let item = |(key, state): (&&'a str, &State<'a>)| {
            let json = state.item.as_ref()?.fields.json();
            Some((*key, serde_json::from_str(&json).expect("fields are JSON")))
        };
        self.keys.iter().filter_map(item).collect()
    }

    pub(crate) fn check(&self, case: &Case) {
        let expect = &case.expect;
        assert_eq!(json!(self.shown()), expect["pool"], "{}", case.name);
        for (key, reached) in expect["reached"].as_object().expect("versions") {
            let state = &self.keys[&**key];
            let text = state.reached.as_ref().map(|reached| &*reached.text);
            assert_eq!(text, reached.as_str(), "{}", case.name);
        }
        for (key, fields) in expect["reached_fields"].as_object().into_iter().flatten() {
            let state = &self.keys[&**key];
            let mut item = state.item.clone().expect("it is shown");
            for (name, reached) in fields.as_object().expect("fields") {
                let name = serde_json::to_string(name).expect("a name");
                let own = item.fields.written(&name, state.written());
                let own = own.and_then(|own| own.reached).max(state.floor);
                let expected = reached.as_str().and_then(Version::parse);
                assert_eq!(own, expected, "{}: {name}", case.name);
            }
        }
    }
}

/// Plays a case, one operation after the other. Returns its requests, and those of expiry, with their numbers.
pub(crate) fn play(case: &Case) -> Vec<(i64, Vec<Op>)> {
    let removals: BTreeMap<String, Op> = ["a", "b"]
        .map(|key| (key.to_owned(), Op::removal_of(key)))
        .into();
    let mut stream = Stream::default();
    let (mut now, mut seq) = (0.0, 0);
    let mut requests: Vec<(i64, &[Op])> = Vec::new();
    let mut said = Vec::new();
    let mut played = Vec::new();
    for step in &case.steps {
        seq += 1;
        let ops = match step {
            Step::Request(ops) => &ops[..],
            Step::Repeat => &[],
            Step::Wait(seconds) => {
                now += seconds;
                let at = std::mem::take(&mut stream.expire_at);
                let (due, later) = at.into_iter().partition(|(_, at)| *at <= now);
                stream.expire_at = later;
                for key in BTreeMap::into_keys(due) {
                    played.push((seq, vec![removals[key].clone()]));
                    stream.apply(&removals[key], place(seq, 0), case.on_update);
                }
                continue;
            }
            Step::ExpireAsOf(settled) => {
                let later = requests[*settled..].iter();
                let is_named = later.flat_map(|(_, ops)| *ops).any(|op| op.key == "a");
                if is_named {
                    &[]
                } else {
                    std::slice::from_ref(&removals["a"])
                }
            }
        };
        requests.push((seq, ops));
        played.push((seq, ops.to_vec()));
        let mut became = Vec::new();
        for (op, position) in ops.iter().zip(0..) {
            let one = stream.apply(op, place(seq, position), case.on_update);
            if let Some(after) = case.expire_after
                && one["became"] == "applied"
            {
                stream.expire_at.insert(&op.key, now + after);
            }
            became.push(one);
        }
        said.push(became);
    }
    stream.check(case);
    let expected = case.expect["requests"].as_array().expect("requests").iter();
    let expected: Vec<_> = expected
        .map(|request| request["operations"].clone())
        .collect();
    assert_eq!(json!(said), json!(expected), "{}", case.name);
    let Some(delivery) = &case.delivery else {
        return played;
    };
    let mut stream = Stream::default();
    for index in delivery {
        let (seq, ops) = requests[*index];
        for (op, position) in ops.iter().zip(0..) {
            stream.apply(op, place(seq, position), case.on_update);
        }
    }
    stream.check(case);
    played
}

#[test]
fn every_case_ends_as_it_says_and_so_does_each_of_its_operations() {
    let cases = cases();
    assert_eq!(cases.len(), 198);
    for case in &cases {
        play(case);
    }
}

pub(crate) fn runner() -> TestRunner {
    TestRunner::new(Config {
        cases: histories_count(),
        failure_persistence: None,
        ..Config::default()
    })
}

pub(crate) fn on_update() -> impl Strategy<Value = OnUpdate> {
    prop_oneof![Just(OnUpdate::Replace), Just(OnUpdate::Merge)]
}

#[test]
fn what_a_key_has_reached_never_falls_and_what_comes_again_changes_nothing() {
    let histories = (histories(8), on_update(), any::<prop::sample::Index>());
    let tested = runner().run(&histories, |(requests, on_update, again)| {
        let ops: Vec<&Op> = requests.iter().flatten().collect();
        let mut stream = Stream::default();
        for (op, seq) in ops.iter().zip(1..) {
            let before = stream.keys.get(&*op.key).and_then(State::version);
            stream.apply(op, place(seq, 0), on_update);
            let state = &stream.keys[&*op.key];
            prop_assert!(state.version() >= before);
            prop_assert!(state.version() >= op.version());
            prop_assert!(state.version() >= state.floor);
            prop_assert!(state.item.is_some() || state.floor == state.version());
        }
        let told = |stream: &Stream<'_>| format!("{:?} {:?}", stream.shown(), stream.keys);
        let mut same = Stream::default();
        let last = again.index(ops.len());
        for (op, seq) in ops.iter().zip(1..) {
            same.apply(op, place(seq, 0), on_update);
        }
        let before = same.shown();
        let op = ops[last];
        let (at, state) = (place(last as i64 + 1, 0), same.keys[&*op.key].clone());
        if is_behind(at, state.place) {
            let said = same.apply(op, at, on_update);
            prop_assert_eq!(&said["became"], "again", "{}", told(&same));
            prop_assert_eq!(same.shown(), before);
        }
        Ok(())
    });
    tested.unwrap_or_else(|error| panic!("{error}"));
}

/// Dead letters come late. Without versions the place of each field says what was accepted later.
#[test]
fn updates_that_merge_may_come_late_if_they_have_no_version() {
    let histories = (histories(6), any::<prop::sample::Index>());
    let tested = runner().run(&histories, |(requests, first)| {
        let mut ops: Vec<Op> = requests.into_iter().flatten().collect();
        for op in &mut ops {
            op.text = None;
        }
        let places = (1..).map(|seq| place(seq, 0));
        let mut placed: Vec<(&Op, Place)> = ops.iter().zip(places).collect();
        let end = |placed: &[(&Op, Place)]| {
            let mut keys: BTreeMap<&str, State<'_>> = BTreeMap::new();
            for (op, place) in placed {
                let state = keys.remove(&*op.key).unwrap_or_default();
                let (state, _) = apply(state, &op.operation(*place, OnUpdate::Merge));
                keys.insert(&op.key, state);
            }
            let fields = |state: &State<'_>| {
                state
                    .item
                    .as_ref()
                    .map(|item| item.fields.json().into_owned())
            };
            let fields = keys.into_iter().map(|(key, state)| {
                let fields = fields(&state).map(|json| serde_json::from_str::<Value>(&json));
                (
                    key.to_owned(),
                    fields.map(|json| json.expect("fields are JSON")),
                )
            });
            fields.collect::<BTreeMap<_, _>>()
        };
        let in_order = end(&placed);
        let late = placed.remove(first.index(placed.len()));
        placed.push(late);
        prop_assert_eq!(end(&placed), in_order);
        Ok(())
    });
    tested.unwrap_or_else(|error| panic!("{error}"));
}

/// Where every operation has a version of its own, nothing but versions counts.
#[test]
fn versions_alone_decide_in_whatever_order_they_are_accepted() {
    let versions = Just((1..=9).collect::<Vec<u32>>()).prop_shuffle();
    let histories = (histories(3), versions, on_update());
    let tested = runner().run(&histories, |(requests, versions, on_update)| {
        let mut ops: Vec<Op> = requests.into_iter().flatten().collect();
        for (op, version) in ops.iter_mut().zip(&versions) {
            op.text = Some(version.to_string());
        }
        let end = |ops: &[Op]| {
            let mut stream = Stream::default();
            for (op, seq) in ops.iter().zip(1..) {
                stream.apply(op, place(seq, 0), on_update);
            }
            json!(stream.shown())
        };
        let mut rising = ops.clone();
        rising.sort_by_key(Op::version);
        prop_assert_eq!(end(&ops), end(&rising));
        Ok(())
    });
    tested.unwrap_or_else(|error| panic!("{error}"));
}

/// The arrival of a removal may stand for its version; a clock that is behind lowers nothing.
#[test]
fn a_removal_whose_arrival_is_lower_lowers_nothing_that_was_reached() {
    let reached = |text: &'static str| {
        let version = Version::parse(text)?;
        Some(Reached {
            version,
            text: text.into(),
        })
    };
    let update = Operation {
        place: place(1, 0),
        fields: Some("{}"),
        version: Version::parse("9"),
        reaches: reached("9"),
        on_update: OnUpdate::Replace,
        index: 0,
    };
    let removal = Operation {
        place: place(2, 0),
        fields: None,
        version: None,
        reaches: reached("5"),
        ..update.clone()
    };
    let (state, _) = apply(State::default(), &update);
    let (state, became) = apply(state, &removal);
    assert_eq!(became, Became::Applied);
    assert!(state.item.is_none());
    assert_eq!(state.reached, reached("9"));
    assert_eq!(state.floor, Version::parse("9"));
}
