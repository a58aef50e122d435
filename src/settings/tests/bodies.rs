//! Bodies of the API: what the rows let through makes a record, and what they refuse is named.
//!
//! Before there was one checker, two judged 40,000 of these bodies alike.

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};

use super::super::{Connector, Field, Key, Patch, ReadKey, Shape, Stream};

/// The rows of a first key that a body of a connector has beside.
fn of_first_key() -> impl Iterator<Item = &'static Field> {
    let names = ["stream", "allow_in_url", "verify"];
    Key::FIELDS
        .iter()
        .filter(move |row| names.contains(&row.name))
}

fn number() -> impl Strategy<Value = Value> {
    prop_oneof![
        prop::sample::select(vec![
            json!(0),
            json!(1),
            json!(2),
            json!(-1),
            json!(60.0),
            json!(-0.0),
            json!(0.5),
            json!(1e3),
            json!(1e18),
            json!(1e20),
            json!(u64::MAX),
            json!(i64::MIN),
            json!(1_000_000_000u64),
            json!(1_000_000_001u64),
            json!(31_536_000u64),
            json!(31_536_001u64),
            json!(4_294_967_295u64),
            json!(4_294_967_296u64),
            json!(8_796_093_022_208u64),
            json!(8_796_093_022_209u64),
            json!(1_000_000_000_000u64),
            json!(1_000_000_000_001u64),
            json!(200),
            json!(204),
            json!(205),
        ]),
        any::<u64>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "",
            "a",
            "x.y",
            ".",
            "order.id",
            "ik_live_0123456789abcdef",
            "at_home",
            "rk_x",
            "two\nlines",
            "ingest",
            "webhook",
            "replace",
            "merge",
            "delivery",
            "body",
            "shopify",
            "github",
            "stripe",
            "hmac",
            "token",
            "meta",
            "hex",
            "base64",
            "sha1",
            "sha256",
            "s",
            "ms",
            "2030-01-31T00:00:00Z",
            "2030-01-31T00:00:00+01:00",
            "2030-01-31",
            "1969-01-01T00:00:00Z",
            "10.0.0.0/8",
            "127.0.0.1",
            "unix",
            "https://a.example",
            "null",
            "*",
            "https://a.example/x",
            "X-Signature",
            "{body}",
            "header:X-Id",
            "body:id",
            "a secret of sixteen",
            "orders/delete",
            "@delivery",
            "\u{e4}",
            "HTTPS://A.example",
        ])
        .prop_map(str::to_owned),
        "\\PC{0,12}",
        (190..210usize).prop_map(|count| "\u{e4}".repeat(count)),
        (1_020..1_030usize).prop_map(|count| "a".repeat(count)),
        (60..70usize).prop_map(|count| "a".repeat(count)),
        (120..135usize).prop_map(|count| "a".repeat(count)),
        (250..260usize).prop_map(|count| "a".repeat(count)),
    ]
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        3 => number(),
        5 => text().prop_map(Value::from),
    ]
}

fn texts() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => prop::collection::vec(text(), 0..4).prop_map(Value::from),
        1 => prop::collection::vec(scalar(), 0..4).prop_map(Value::from),
    ]
}

fn delete_when() -> impl Strategy<Value = Value> {
    let inside = |name: &'static str| {
        prop_oneof![
            3 => text().prop_map(Value::from), 3 => texts(), 1 => scalar(),
        ]
        .prop_map(move |value| (name.to_owned(), value))
    };
    prop::collection::vec(
        prop_oneof![4 => inside("field"), 4 => inside("is"), 1 => inside("iss")],
        0..3,
    )
    .prop_map(|members| Value::Object(members.into_iter().collect()))
}

fn removal() -> impl Strategy<Value = Value> {
    (text(), prop::collection::vec(text(), 0..3))
        .prop_map(|(field, is)| json!({"field": field, "is": is}))
}

fn verify() -> impl Strategy<Value = Value> {
    let names: Vec<&str> = vec![
        "secret",
        "verify_token",
        "replay",
        "tolerance_seconds",
        "url",
        "answer",
        "header",
        "prefix",
        "separator",
        "signed",
        "hash",
        "encoding",
        "secret_encoding",
        "timestamp",
        "id",
        "event",
        "topic",
        "webhook_id",
        "audience",
        "email",
        "secrte",
    ];
    let value = prop_oneof![
        4 => scalar(),
        1 => texts(),
        1 => text().prop_map(|text| json!({"header": text})),
        1 => text().prop_map(|text| json!({"file": text})),
        1 => (text(), scalar()).prop_map(|(text, unit)| json!({"header": text, "unit": unit})),
    ];
    let schemes = prop::sample::select(vec![
        "hmac", "token", "shopify", "github", "stripe", "meta", "nosuch",
    ]);
    let members = prop::collection::vec((prop::sample::select(names), value), 0..3);
    (
        prop::option::of(schemes),
        prop::bool::weighted(0.8),
        members,
    )
        .prop_map(|(scheme, secret, members)| {
            let mut whole = Map::new();
            if let Some(scheme) = scheme {
                whole.insert("scheme".to_owned(), scheme.into());
            }
            if secret {
                whole.insert("secret".to_owned(), "a secret of sixteen and more".into());
            }
            for (name, value) in members {
                whole.insert(name.to_owned(), value);
            }
            Value::Object(whole)
        })
}

/// A value that suits the row, mostly.
fn value_of(row: &'static Field) -> BoxedStrategy<Value> {
    let suits = match row.shape {
        Shape::Integer(min, max) => {
            prop_oneof![number().boxed(), (min..=max).prop_map(Value::from).boxed()].boxed()
        }
        Shape::Boolean => any::<bool>().prop_map(Value::from).boxed(),
        Shape::List(..) => texts().boxed(),
        Shape::Choice(words) => prop::sample::select(words).prop_map(Value::from).boxed(),
        Shape::Table(_) if row.name == "verify" => verify().boxed(),
        Shape::Table(_) => prop_oneof![removal(), delete_when()].boxed(),
        _ => text().prop_map(Value::from).boxed(),
    };
    prop_oneof![
        8 => suits,
        1 => scalar(),
        1 => Just(Value::Null),
        1 => texts(),
    ]
    .boxed()
}

fn body(kind: usize) -> BoxedStrategy<Map<String, Value>> {
    let fields = [
        Connector::FIELDS,
        Stream::FIELDS,
        Key::FIELDS,
        ReadKey::FIELDS,
    ][kind / 2];
    let rows: Vec<&'static Field> = fields.iter().chain(of_first_key()).collect();
    let given = (0..rows.len()).prop_flat_map(move |index| {
        let row = rows[index];
        let name = prop_oneof![40 => Just(row.name), 1 => Just("nosuch")];
        (name, value_of(row))
    });
    let name = prop_oneof![9 => Just("x".to_owned()), 1 => text()];
    let stream = prop_oneof![4 => Just("x".to_owned()), 1 => text()];
    (
        prop::collection::vec(given, 0..4),
        name,
        stream,
        prop::bool::weighted(0.95),
    )
        .prop_map(move |(given, name, stream, is_whole)| {
            let mut body: Map<String, Value> = Map::new();
            for (name, value) in given {
                body.insert(name.to_owned(), value);
            }
            // What must be given is there, mostly.
            if kind % 2 == 1 && is_whole {
                body.insert("name".to_owned(), name.into());
                if kind == 5 {
                    body.insert("stream".to_owned(), stream.into());
                } else if kind == 7 {
                    body.entry("streams").or_insert_with(|| json!([stream]));
                }
            }
            body
        })
        .boxed()
}

/// Reads a body and makes a record of it; the record as the API shows it.
fn read(kind: usize, body: Map<String, Value>) -> Result<(Patch, Value), Vec<String>> {
    let beside: Vec<&Field> = of_first_key().collect();
    let fields = [
        Connector::FIELDS,
        Stream::FIELDS,
        Key::FIELDS,
        ReadKey::FIELDS,
    ][kind / 2];
    let patch = match kind {
        1 => Patch::of_new(fields, &beside, body),
        kind if kind % 2 == 1 => Patch::of_new(fields, &[], body),
        _ => Patch::of_change(fields, body),
    };
    let patch = patch.map_err(|faults| {
        let told = faults
            .iter()
            .map(|fault| format!("{} {fault}", fault.field));
        told.collect::<Vec<_>>()
    })?;
    let mut made = (
        Connector::default(),
        Stream::default(),
        Key::default(),
        ReadKey::default(),
    );
    let set = match kind / 2 {
        0 => made.0.set_all(&patch).map(|()| json!(made.0)),
        1 => made.1.set_all(&patch).map(|()| json!(made.1)),
        2 => made.2.set_all(&patch).map(|()| json!(made.2)),
        _ => made.3.set_all(&patch).map(|()| json!(made.3)),
    };
    let made = set.expect("what was checked can be set");
    Ok((patch, made))
}

#[test]
fn what_a_body_sets_is_what_the_record_has_and_what_is_refused_is_named() {
    let mut runner = TestRunner::default();
    let (mut accepted, mut refused) = (0, 0);
    for case in 0..10_000 {
        let kind = case % 8;
        let body = body(kind).new_tree(&mut runner).expect("a body").current();
        match read(kind, body.clone()) {
            Ok((patch, made)) => {
                accepted += 1;
                for (name, value) in patch.iter() {
                    // Secrets are masked, networks in their canonical form, and another record has its own rows.
                    let is_itself =
                        !["verify", "networks"].contains(&&**name) && !made[name].is_null();
                    assert!(!is_itself || made[name] == *value, "{body:?}: {made}");
                }
            }
            Err(told) => {
                refused += 1;
                for fault in told {
                    assert!(fault.trim().len() > 8, "{body:?}: {fault}");
                    assert!(
                        !fault.contains("ik_live_0123456789abcdef"),
                        "{body:?}: {fault}"
                    );
                }
            }
        }
    }
    assert!(accepted > 1_000 && refused > 1_000, "{accepted} {refused}");
}

#[test]
fn a_body_says_what_is_wrong_in_words_of_json() {
    for (fields, body, says) in [
        (
            Connector::FIELDS,
            json!({"burst": 0}),
            "burst must be from 1 to 1000000000, or null for the limit of all keys",
        ),
        (
            Connector::FIELDS,
            json!({"burst": "many"}),
            "burst must be a whole number",
        ),
        (
            Connector::FIELDS,
            json!({"kind": null}),
            "kind must be \"ingest\" or \"webhook\"",
        ),
        (
            Connector::FIELDS,
            json!({"name": "b"}),
            "the field \"name\" is not allowed here",
        ),
        (
            Connector::FIELDS,
            json!({"delete_when": {"is": ["x"]}}),
            "delete_when must have the field `field`",
        ),
        (
            Connector::FIELDS,
            json!({"delete_when": {"field": "ik_live_x", "is": ["x"]}}),
            "delete_when.field begins like a secret",
        ),
        (
            Connector::FIELDS,
            json!({"delete_when": {"field": "a", "is": []}}),
            "delete_when.is must have at least one entry",
        ),
        (
            ReadKey::FIELDS,
            json!({"streams": "news"}),
            "streams must be a list of texts",
        ),
        (
            ReadKey::FIELDS,
            json!({"expires_at": "soon"}),
            "expires_at must be a time like",
        ),
        (
            Stream::FIELDS,
            json!({"items_max": 0, "on_update": "join"}),
            "items_max must be from 1 to 1000000000000, or null for any number|on_update must be \"replace\" or \"merge\"",
        ),
    ] {
        let body = body.as_object().cloned().expect("an object");
        let faults = Patch::of_change(fields, body).expect_err(says);
        let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
        assert!(told.join("|").starts_with(says), "{told:?}");
    }
    let whole = json!({"burst": 60.0, "item_key": null});
    let patch = Patch::of_change(
        Connector::FIELDS,
        whole.as_object().cloned().expect("an object"),
    );
    let patch = patch.expect("60.0 is an integer");
    assert_eq!(
        (&patch["burst"], &patch["item_key"]),
        (&json!(60), &Value::Null)
    );
}
