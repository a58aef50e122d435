//! The cases of `order-vectors.json`, and random histories, as requests of operations.
//!
//! The tests of the rules apply them one after the other, those of the pool in batches.
//!
//! Not here is the class `again`: which operations of a request are sent again is chosen by `ingest`, and what is chosen
//! is a request like others. That an expiry is not appended where something accepted later names its key is the
//! journal's part of `expiry-race`; here that condition stands in the case.

use item::flatten::{FlattenLimits, ItemKey, flatten_by};
use item::{Version, field_name, members, unescape};
use proptest::prelude::*;
use serde_json::Value;
use settings::OnUpdate;

use super::{Operation, Place, Reached};

const CASES: &str = include_str!("../../../tests/fixtures/order-vectors.json");

/// One operation as it was sent.
#[derive(Debug, Clone)]
pub(crate) struct Op {
    pub(crate) key: String,
    /// None: a removal.
    pub(crate) fields: Option<String>,
    /// The text of its version.
    pub(crate) text: Option<String>,
}

#[derive(Debug)]
pub(crate) enum Step {
    Request(Vec<Op>),
    Wait(f64),
    /// The timer looked when so many requests were settled.
    ExpireAsOf(usize),
    Repeat,
}

#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) on_update: OnUpdate,
    pub(crate) expire_after: Option<f64>,
    pub(crate) steps: Vec<Step>,
    /// In which order requests are handed to the pool.
    pub(crate) delivery: Option<Vec<usize>>,
    pub(crate) expect: Value,
}

impl Op {
    pub(crate) fn removal_of(key: &str) -> Self {
        Self {
            key: key.to_owned(),
            fields: None,
            text: None,
        }
    }

    pub(crate) fn version(&self) -> Option<Version> {
        self.text.as_deref().and_then(Version::parse)
    }

    pub(crate) fn operation(&self, place: Place, on_update: OnUpdate) -> Operation<'_> {
        let version = self.version();
        let text = self.text.as_deref().unwrap_or_default();
        Operation {
            place,
            fields: self.fields.as_deref(),
            version,
            reaches: version.map(|version| Reached {
                version,
                text: text.into(),
            }),
            on_update,
            index: 0,
        }
    }
}

/// Every case but those that are not run here.
pub(crate) fn cases() -> Vec<Case> {
    let all: Value = serde_json::from_str(CASES).expect("the file is JSON");
    let all = all["vectors"].as_array().expect("cases").iter();
    all.filter(|case| case["class"] != "again")
        .map(read)
        .collect()
}

fn read(case: &Value) -> Case {
    let stream = &case["stream"];
    let version = stream["version"].as_str();
    let step = |step: &Value| match step {
        _ if step["post"].is_array() => {
            let by_position = step.get("item_key").is_some_and(Value::is_null);
            Step::Request(request(&step["post"], by_position, version))
        }
        _ if step["delete"].is_string() => Step::Request(vec![Op::removal_of(
            step["delete"].as_str().expect("a key"),
        )]),
        _ if step["wait_seconds"].is_number() => {
            Step::Wait(step["wait_seconds"].as_f64().expect("seconds"))
        }
        _ if step["expire_as_of"].is_number() => {
            Step::ExpireAsOf(step["expire_as_of"].as_u64().expect("a number") as usize)
        }
        _ => {
            assert!(step["repeat"].is_number(), "{step}");
            Step::Repeat
        }
    };
    Case {
        name: format!("{}: {}", case["id"], case["name"]),
        on_update: match &stream["on_update"] {
            merge if merge == "merge" => OnUpdate::Merge,
            _ => OnUpdate::Replace,
        },
        expire_after: stream["expire_after_seconds"].as_f64(),
        steps: case["steps"]
            .as_array()
            .expect("steps")
            .iter()
            .map(step)
            .collect(),
        delivery: serde_json::from_value(case["delivery"].clone()).expect("indexes"),
        expect: case["expect"].clone(),
    }
}

fn request(items: &Value, by_position: bool, version: Option<&str>) -> Vec<Op> {
    let limits = FlattenLimits {
        flattened_bytes_max: 1 << 20,
        item_bytes_max: 1 << 20,
    };
    let item_key = (!by_position).then_some(ItemKey {
        field: "id",
        named_by: "the case",
    });
    let items = items.to_string();
    let items = flatten_by(items.as_bytes(), item_key, limits).expect("it is flat");
    let op = |item: item::ItemRef<'_>| {
        let value = |name: &str| {
            let mut all = members(item.fields);
            let (_, value) = all.find(|(other, _)| field_name(other) == name)?;
            match value.as_bytes()[0] {
                b'"' => Some(unescape(&value[1..value.len() - 1]).into_owned()),
                b'{' | b'[' | b'n' => None,
                _ => Some(value.to_owned()),
            }
        };
        let is_removal = value("gone").is_some_and(|gone| gone == "yes");
        let text = version.and_then(value);
        Op {
            key: item.key.to_owned(),
            fields: (!is_removal).then(|| item.fields.to_owned()),
            text: text.filter(|text| Version::parse(text).is_some()),
        }
    };
    items.iter().map(op).collect()
}

/// Random requests of a stream with two keys and few versions: most operations meet others.
pub(crate) fn histories(operations_max: usize) -> impl Strategy<Value = Vec<Vec<Op>>> {
    let version = prop_oneof![1 => Just(None), 3 => (0..7_u8).prop_map(Some)];
    let fields = prop::collection::btree_map(0..3_u8, 0..100_u8, 0..3);
    let op = (
        0..2_u8,
        version,
        prop_oneof![3 => fields.prop_map(Some), 1 => Just(None)],
    );
    let op = op.prop_map(|(key, version, fields)| Op {
        key: ["a", "b"][usize::from(key)].to_owned(),
        text: version.map(|version| version.to_string()),
        fields: fields.map(|fields| {
            let fields = fields
                .iter()
                .map(|(name, value)| format!("\"f{name}\":{value}"));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }),
    });
    let request = prop::collection::vec(op, 1..4);
    prop::collection::vec(request, 1..=operations_max)
}

/// How many random histories are played.
#[expect(clippy::disallowed_methods, reason = "a variable of tests")]
pub(crate) fn histories_count() -> u32 {
    let count = std::env::var("HEADGATE_ORDER_HISTORIES").ok();
    count.map_or(2_000, |count| count.parse().expect("a number"))
}
