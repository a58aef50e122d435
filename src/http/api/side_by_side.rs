//! The checker of bodies that is made of rows judges as the one before it did, field by field.
//!
//! **Invariant**: both see the same bodies.

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};

use super::{connectors, keys, read_keys, streams};
use crate::config::{
    self, Connector, Field, Key, Patch, ReadKey, Stream, check_description, check_name,
    check_origin, check_stream_name, looks_secret, misfit_of_connector, misfit_of_stream,
    misfit_of_text,
};
use crate::http::error::ApiError;

type Verdict = Result<Value, Vec<String>>;

/// The field that a sentence of the old checker is about.
fn named(error: &ApiError) -> Vec<String> {
    let message = &error.message;
    let field = match message.strip_prefix("the body must have the field ") {
        Some(field) => field,
        None if message.starts_with("the field ") => "",
        None => message
            .split([' ', '.', ':', '['])
            .next()
            .unwrap_or_default(),
    };
    vec![field.to_owned()]
}

fn refused(field: &str) -> Verdict {
    Err(vec![field.to_owned()])
}

/// What the catalog looked at beside.
fn catalog_of_key(name: &str, description: Option<&str>) -> Result<(), Vec<String>> {
    if misfit_of_text(name, check_name).is_some() {
        return Err(vec!["name".to_owned()]);
    }
    if description.is_some_and(|one| misfit_of_text(one, check_description).is_some()) {
        return Err(vec!["description".to_owned()]);
    }
    Ok(())
}

/// The same of the first key of a connector.
fn catalog_of_first_key(body: &Map<String, Value>) -> Result<(), Vec<String>> {
    let stream = body.get("stream").and_then(Value::as_str);
    if stream.is_some_and(|stream| check_stream_name(stream).is_err()) {
        return Err(vec!["stream".to_owned()]);
    }
    let verify = body.get("verify").filter(|verify| !verify.is_null());
    let verify = verify.map(|verify| config::read_verify(verify).expect("it was read before"));
    verified(&Key {
        verify,
        ..Key::default()
    })
}

/// How a key is verified, in both worlds.
fn verified(key: &Key) -> Result<(), Vec<String>> {
    let fits = key.verify.as_ref().is_none_or(|one| one.verifier().is_ok());
    if fits {
        Ok(())
    } else {
        Err(vec!["verify".to_owned()])
    }
}

fn time(text: Option<&str>) -> Value {
    text.and_then(crate::clock::parse_rfc3339).into()
}

fn shown_key(key: &Key) -> Value {
    let verify = key.verify.as_ref().map(config::Verify::revealed);
    json!([
        key.name,
        key.description,
        key.stream,
        time(key.expires_at.as_deref()),
        key.allow_in_url,
        key.networks,
        verify
    ])
}

fn shown_read_key(key: &ReadKey) -> Value {
    json!([
        key.name,
        key.description,
        key.streams,
        time(key.expires_at.as_deref()),
        key.allow_in_url,
        key.networks,
        key.requests_per_second,
        key.origins
    ])
}

fn old_key(key: Result<Key, ApiError>) -> Verdict {
    let key = key.map_err(|error| named(&error))?;
    catalog_of_key(&key.name, key.description.as_deref())?;
    verified(&key)?;
    if check_stream_name(&key.stream).is_err() {
        return refused("stream");
    }
    Ok(shown_key(&key))
}

fn old_read_key(key: Result<ReadKey, ApiError>) -> Verdict {
    let key = key.map_err(|error| named(&error))?;
    catalog_of_key(&key.name, key.description.as_deref())?;
    if key
        .requests_per_second
        .is_some_and(|rate| !(1..=1_000_000_000).contains(&rate))
    {
        return refused("requests_per_second");
    }
    if key
        .origins
        .iter()
        .any(|one| misfit_of_text(one, check_origin).is_some())
    {
        return refused("origins");
    }
    if key.streams.is_empty()
        || key
            .streams
            .iter()
            .any(|one| check_stream_name(one).is_err())
    {
        return refused("streams");
    }
    Ok(shown_read_key(&key))
}

fn faults<T>(result: Result<T, Vec<config::BodyFault>>) -> Result<T, Vec<String>> {
    result.map_err(|faults| faults.iter().map(|fault| fault.field.to_owned()).collect())
}

/// The rows of a first key that a body of a connector has beside.
fn of_first_key() -> impl Iterator<Item = &'static Field> {
    let names = ["stream", "allow_in_url", "verify"];
    Key::FIELDS
        .iter()
        .filter(move |row| names.contains(&row.name))
}

fn new_verdicts(kind: usize, body: Map<String, Value>) -> Verdict {
    let beside: Vec<&Field> = of_first_key().collect();
    match kind {
        0 | 1 => {
            let patch = faults(match kind {
                0 => Patch::of_change(Connector::FIELDS, body),
                _ => Patch::of_new(Connector::FIELDS, &beside, body),
            })?;
            let mut key = Key::default();
            key.set_all(&patch).expect("checked");
            verified(&key)?;
            let mut connector = Connector {
                name: "x".to_owned(),
                ..Default::default()
            };
            connector.set_all(&patch).expect("checked");
            Ok(json!(connector))
        }
        2 | 3 => {
            let patch = faults(match kind {
                2 => Patch::of_change(Stream::FIELDS, body),
                _ => Patch::of_new(Stream::FIELDS, &[], body),
            })?;
            let mut stream = Stream {
                name: "x".to_owned(),
                ..Default::default()
            };
            stream.set_all(&patch).expect("checked");
            Ok(json!(stream))
        }
        4 | 5 => {
            let patch = faults(match kind {
                4 => Patch::of_change(Key::FIELDS, body),
                _ => Patch::of_new(Key::FIELDS, &[], body),
            })?;
            let mut key = Key {
                name: "x".to_owned(),
                stream: "x".to_owned(),
                ..Default::default()
            };
            key.set_all(&patch).expect("checked");
            verified(&key)?;
            Ok(shown_key(&key))
        }
        _ => {
            let patch = faults(match kind {
                6 => Patch::of_change(ReadKey::FIELDS, body),
                _ => Patch::of_new(ReadKey::FIELDS, &[], body),
            })?;
            let mut key = ReadKey {
                name: "x".to_owned(),
                streams: vec!["x".to_owned()],
                ..Default::default()
            };
            key.set_all(&patch).expect("checked");
            Ok(shown_read_key(&key))
        }
    }
}

fn old_verdicts(kind: usize, body: Map<String, Value>) -> Verdict {
    let connector = |read: Result<Connector, ApiError>| {
        let connector = read.map_err(|error| named(&error))?;
        match misfit_of_connector(&connector) {
            Some((field, _)) => refused(field),
            None => Ok(json!(connector)),
        }
    };
    let stream = |read: Result<Stream, ApiError>| {
        let stream = read.map_err(|error| named(&error))?;
        match misfit_of_stream(&stream) {
            Some((field, _)) => refused(field),
            None => Ok(json!(stream)),
        }
    };
    match kind {
        0 => connector(connectors::old_change(body)),
        1 => {
            let found = connector(connectors::old_new(body.clone()))?;
            catalog_of_first_key(&body)?;
            Ok(found)
        }
        2 => stream(streams::old_change(body)),
        3 => stream(streams::old_new(body)),
        4 => old_key(keys::old_change(body)),
        5 => old_key(keys::old_new(body)),
        6 => old_read_key(read_keys::old_change(body)),
        _ => old_read_key(read_keys::old_new(body)),
    }
}

/// What the old checker let through: a key in a field that is named for removals.
fn is_the_known_exception(body: &Map<String, Value>) -> bool {
    let field = body
        .get("delete_when")
        .and_then(|when| when["field"].as_str());
    field.is_some_and(looks_secret)
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
        config::Shape::Integer(min, max) => {
            prop_oneof![number().boxed(), (min..=max).prop_map(Value::from).boxed()].boxed()
        }
        config::Shape::Boolean => any::<bool>().prop_map(Value::from).boxed(),
        config::Shape::List(..) => texts().boxed(),
        config::Shape::Choice(words) => prop::sample::select(words).prop_map(Value::from).boxed(),
        config::Shape::Table(_) if row.name == "verify" => verify().boxed(),
        config::Shape::Table(_) => prop_oneof![removal(), delete_when()].boxed(),
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

#[test]
fn both_checkers_judge_alike() {
    let mut runner = TestRunner::default();
    let (mut differ, mut accepted) = (Vec::new(), 0);
    for case in 0..40_000 {
        let kind = case % 8;
        let tree = body(kind).new_tree(&mut runner).expect("a body");
        let body = tree.current();
        let (old, new) = (
            old_verdicts(kind, body.clone()),
            new_verdicts(kind, body.clone()),
        );
        let alike = match (&old, &new) {
            (Ok(old), Ok(new)) => old == new,
            (Ok(_), Err(_)) => is_the_known_exception(&body),
            (Err(old), Err(new)) => {
                // Of two faults another one may come first: that of a scheme is found after all others.
                let is_later = old == &["verify"] && new == &["stream"];
                is_later || old.iter().all(|field| new.contains(field))
            }
            (Err(_), Ok(_)) => false,
        };
        accepted += usize::from(new.is_ok());
        if !alike {
            differ.push(format!("{kind} {body:?}\n  {old:?}\n  {new:?}\n"));
        }
    }
    let shown = differ.len().min(15);
    assert!(
        differ.is_empty(),
        "{} differ\n{}",
        differ.len(),
        differ[..shown].concat()
    );
    // Neither side of the comparison is empty.
    assert!((4_000..36_000).contains(&accepted), "{accepted}");
}
