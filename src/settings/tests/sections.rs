//! Sections of sinks: what is made at run time is what a file with the same section makes, and what is shown makes it again.

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};

use super::super::record::{Field, Shape};
use super::super::{Section, Sink, section_toml};
use super::Place;

fn config() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<i32>().prop_map(|number| json!(f64::from(number) / 8.0)),
        "\\PC{0,12}".prop_map(Value::from),
        prop::sample::select(vec!["a\nb", "\"'", "\\", "\u{7f}", "{x|json}"]).prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("[a-e. \"é]{1,4}", inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    });
    prop::collection::vec(("[a-e_.-]{1,6}", value), 0..4)
        .prop_map(|members| Value::Object(members.into_iter().collect()))
}

fn texts(from: &'static [&'static str]) -> BoxedStrategy<Value> {
    prop::collection::vec(prop::sample::select(from), 1..4)
        .prop_map(Value::from)
        .boxed()
}

fn secrets(names: &'static [&'static str]) -> BoxedStrategy<Value> {
    prop::collection::hash_map(prop::sample::select(names), "[!-~]{6,20}", 0..3)
        .prop_map(|all| {
            let all = all
                .into_iter()
                .map(|(name, text)| (name.to_owned(), text.into()));
            Value::Object(all.collect())
        })
        .boxed()
}

/// A value that a row takes.
fn value_of(row: &'static Field) -> BoxedStrategy<Value> {
    let one_of =
        |from: &'static [&'static str]| prop::sample::select(from).prop_map(Value::from).boxed();
    match (row.name, row.shape) {
        ("name", _) => one_of(&["team", "a.b", "x-1"]),
        ("plugin", _) => one_of(&["http-forward", "pool", "postgres", "webhook"]),
        ("streams" | "except" | "writes", _) => texts(&["orders", "sensor-*", "*", "at_home"]),
        // Names that none of these patterns matches would do; there are none.
        ("makes", _) => Just(json!([])).boxed(),
        ("where", _) => one_of(&["status:paid,total>=100", "!a?", "_key^x|y"]),
        ("fields", _) => one_of(&["id,Customer:customer.name", "-secret", "a.*"]),
        ("hosts", _) => texts(&[
            "api.example.com",
            "*.example.org:8443",
            "http://10.0.0.5:9000",
        ]),
        ("networks", _) => texts(&["10.0.0.0/8", "fd00::/8", "127.0.0.1"]),
        ("headers", _) => secrets(&["authorization", "x-a", "x_a"]),
        ("secrets", _) => secrets(&["token", "a-b", "a_b", "a.b"]),
        ("path", _) => one_of(&["out", "out/live", "/srv/graphics/out"]),
        ("to", _) => texts(&[
            "tcp://10.0.0.5:5250",
            "wss://a.example:443",
            "udp://[fd00::1]:5",
        ]),
        ("url", _) => one_of(&["postgresql://me:hush-hush@db.example/shop"]),
        ("in_flight", _) => Just(json!(1)).boxed(),
        // A sink that writes the data pool cannot begin with it.
        ("start", _) => one_of(&["now", "journal"]),
        // The other way round is a mistake.
        ("first_ms", _) => (1..1_000u64).prop_map(Value::from).boxed(),
        ("max_ms", _) => (1_000..100_000u64).prop_map(Value::from).boxed(),
        (_, Shape::Integer(min, max)) => (min..=max.min(1 << 50)).prop_map(Value::from).boxed(),
        (_, Shape::Boolean) => any::<bool>().prop_map(Value::from).boxed(),
        (_, Shape::Choice(words)) => prop::sample::select(words).prop_map(Value::from).boxed(),
        (_, Shape::Table(fields)) => table(fields).prop_map(Value::Object).boxed(),
        (_, Shape::Free) => config().boxed(),
        (name, _) => panic!("no value for {name}"),
    }
}

/// Some of the rows, and those that are required.
fn table(fields: &'static [Field]) -> BoxedStrategy<Map<String, Value>> {
    // Only a file has a digest.
    let rows: Vec<&Field> = fields.iter().filter(|row| row.name != "sha256").collect();
    let values: Vec<_> = (rows.iter())
        .map(|row| match row.required {
            true => value_of(row).prop_map(Some).boxed(),
            false => prop::option::weighted(0.4, value_of(row)).boxed(),
        })
        .collect();
    values
        .prop_map(move |values| {
            let named = rows.iter().zip(values);
            let said = named.filter_map(|(row, value)| Some((row.name.to_owned(), value?)));
            said.collect()
        })
        .boxed()
}

/// What goes with another mode is a mistake.
fn without_the_other_mode(body: &mut Map<String, Value>) {
    // A sink that writes the data pool would follow itself.
    if body.get("plugin") == Some(&json!("pool")) || body.contains_key("writes") {
        body.remove("mode");
    }
    if body.get("mode") != Some(&json!("latest")) {
        body.retain(|name, _| !["shown", "max_rate"].contains(&&**name));
        return;
    }
    body.retain(|name, _| !["start", "ordering", "in_flight", "leaves"].contains(&&**name));
    if let Some(retry) = body.get_mut("retry").and_then(Value::as_object_mut) {
        retry.remove("attempts");
    }
}

fn check(section: &Section) -> Sink {
    let checked = section.check(std::path::Path::new("/nowhere"), &[]);
    checked.unwrap_or_else(|faults| panic!("{section:?}: {faults:?}"))
}

/// Puts the texts of secrets where it is said that there are some.
fn revealed(shown: &mut Value, secret: &Value) {
    match (shown, secret) {
        (shown, Value::String(text)) if *shown == json!({"set": true}) => *shown = json!(text),
        (Value::Object(shown), secret) => {
            for (name, value) in shown {
                revealed(value, &secret[&**name]);
            }
        }
        _ => {}
    }
}

#[test]
fn what_is_shown_of_a_sink_makes_it_again_by_the_api_and_in_a_file() {
    let mut runner = TestRunner::default();
    let sinks = table(Sink::FIELDS);
    for case in 0..10_000 {
        let mut body = sinks.new_tree(&mut runner).expect("a body").current();
        without_the_other_mode(&mut body);
        let section = Section::of_new(body.clone()).expect("a section");
        let sink = check(&section);

        let shown = Value::Object(sink.shown_section());
        for (name, value) in sink.secrets.iter() {
            let text = value.reveal();
            assert!(
                !shown.to_string().contains(&json!(text).to_string()),
                "{name}: {shown}"
            );
        }
        let mut again = shown.clone();
        revealed(&mut again, &Value::Object(body.clone()));
        let again = again.as_object().cloned().expect("an object");
        let of_api = check(&Section::of_new(again).expect("a section"));
        assert_eq!(of_api, sink, "{body:?}");

        // As it was shown, in a patch of itself.
        let patch = shown.as_object().cloned().expect("an object");
        let patched = check(&section.changed(patch.clone()).expect("nothing is new"));
        assert_eq!(patched, sink, "{body:?}");
        assert_eq!(Section::of_stored(&section.stored()), Some(section));

        if case % 40 == 0 {
            in_a_file(&sink, &patch);
        }
    }
}

/// The printed section, in a file with variables for its secrets.
fn in_a_file(sink: &Sink, shown: &Map<String, Value>) {
    let text = section_toml(shown);
    let variables = text.lines().next().unwrap_or_default().split_once(": ");
    let mut place = Place::with(&text);
    for variable in variables.map_or("", |(_, names)| names).split(", ") {
        place = place.var(variable, "postgresql://me:hush-hush@db.example/shop");
    }
    let loaded = place.load();
    let sinks = &loaded.settings.sinks;
    let found = sinks.iter().find(|found| found.name == sink.name);
    let found = found.unwrap_or_else(|| panic!("{text}"));
    assert_eq!(found.shown(), sink.shown(), "{text}");
}

#[test]
fn a_patch_takes_away_keeps_and_refuses() {
    let section = |value: Value| {
        Section::of_new(value.as_object().cloned().expect("an object")).expect("a section")
    };
    let changed = |section: &Section, value: Value| {
        section.changed(value.as_object().cloned().expect("an object"))
    };
    let before = section(json!({
        "name": "team", "plugin": "http-forward", "streams": ["a"], "where": null,
        "secrets": {"token": "hush-1"},
        "config": {"url": "https://me:hush-2@a.example/x", "api_key": "hush-3", "list": [1, {"token": "hush-4"}]},
    }));
    let same = changed(&before, json!({"secrets": {"token": {"set": true}}}));
    assert_eq!(same, Ok(before.clone()));
    // What was shown of settings stays, too.
    let shown = check(&before).shown()["config"].clone();
    assert!(!shown.to_string().contains("hush"), "{shown}");
    assert_eq!(
        changed(&before, json!({"config": shown})),
        Ok(before.clone())
    );
    let other = changed(&before, json!({"config": {"api_key": null, "list": [2]}}));
    let other = other.expect("a section");
    assert_eq!(
        other.get("config"),
        Some(&json!({"url": "https://me:hush-2@a.example/x", "list": [2]}))
    );
    let faults = changed(&before, json!({"http": {"headers": {"x": {"set": true}}}}));
    assert_eq!(faults.expect_err("there is none")[0].path, "http.headers.x");
    let audited = changed(
        &before,
        json!({"secrets": {"token": "hush-5", "new": "hush-6"}}),
    );
    let audited = audited
        .expect("a section")
        .audited(Some(&before))
        .to_string();
    assert!(!audited.contains("hush"), "{audited}");
    assert!(audited.contains(r#""token":"changed""#), "{audited}");
    for config in [json!({"a": [null]}), json!({"a": u64::MAX})] {
        let odd = changed(&before, json!({"config": config})).expect("a section");
        let faults = odd.check(std::path::Path::new("/nowhere"), &[]);
        assert!(
            faults.expect_err("no file has that")[0]
                .path
                .starts_with("config.a")
        );
    }
}

#[test]
fn what_a_sink_may_do_is_said_in_sentences() {
    let section = json!({
        "name": "team", "plugin": "filter-map", "streams": ["orders"],
        "writes": ["orders", "sensor-*"], "makes": ["totals"], "secrets": {"token": "hush-1"},
        "http": {"hosts": ["api.example.com"], "networks": ["10.0.0.0/8"]},
        "postgres": {"url": "postgresql://me:hush@db.example:5433/shop?sslmode=require"},
    });
    let section = Section::of_new(section.as_object().cloned().expect("an object"));
    assert_eq!(
        check(&section.expect("a section")).grants(),
        [
            "may call api.example.com",
            "may call addresses in 10.0.0.0/8",
            "may write the streams orders and sensor-*",
            "may make items of totals",
            "may write to the database db.example:5433/shop",
            "may read the secret token",
        ]
    );
}
