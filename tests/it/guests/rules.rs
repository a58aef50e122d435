//! The built-in sink that filters and maps, against a plain reading of its rules.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::http::ONCE;
use super::nobody_else_suffers;
use crate::app::Random;
use crate::process::{BY_ID, Process};
use crate::setup::Setup;

const STREAMS: [&str; 4] = ["hostile", "hostile-1", "moved", "moved-too"];
const FIELDS: [&str; 4] = ["a", "b.c", "d", "x y"];

/// A daemon whose streams `hostile` and `hostile-1` are written by these rules.
fn filtering(config: &str) -> Setup {
    let more = format!("{ONCE}config = {config}\n");
    Setup::with_streams(&["hostile", "hostile-1", "innocent"])
        .sink("hostile", "filter-map", "hostile*", &more)
        .sink("pool", "pool", "innocent", "")
}

/// A table of TOML in a line.
fn toml(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members = members.iter();
            let members = members.map(|(name, value)| format!("{name:?} = {}", toml(value)));
            format!("{{ {} }}", members.collect::<Vec<_>>().join(", "))
        }
        Value::Array(values) => {
            let values: Vec<_> = values.iter().map(toml).collect();
            format!("[{}]", values.join(", "))
        }
        other => other.to_string(),
    }
}

fn some_value(random: &mut Random) -> Value {
    match random.within(0..8) {
        0 => json!(null),
        1 => json!(true),
        2 => json!("true"),
        3 => json!(""),
        4 => json!([1]),
        5 => json!(random.within(0..4).to_string()),
        6 => json!(random.within(0..4) as f64 / 2.0),
        _ => json!(random.within(0..4)),
    }
}

fn field(random: &mut Random) -> &'static str {
    FIELDS[random.within(0..4) as usize]
}

fn some_fields(random: &mut Random) -> Value {
    let mut fields: Vec<_> = FIELDS
        .into_iter()
        .filter(|_| random.within(0..2) == 0)
        .collect();
    fields.push("id");
    json!(fields)
}

fn some_rule(random: &mut Random) -> Value {
    let mut rule = Map::new();
    match random.within(0..4) {
        0 => drop(rule.insert("streams".to_owned(), json!(["hostile"]))),
        1 => drop(rule.insert("streams".to_owned(), json!(["none", "hostile-*"]))),
        _ => {}
    }
    let conditions = (0..random.within(0..3)).map(|_| {
        let mut condition = Map::from_iter([("field".to_owned(), json!(field(random)))]);
        let (name, value) = match random.within(0..6) {
            0 => ("exists", json!(random.within(0..2) == 0)),
            1 => ("above", json!(random.within(0..3))),
            2 => ("below", json!(random.within(0..3) as f64 + 0.5)),
            kind => {
                let value = loop {
                    let value = some_value(random);
                    if !value.is_null() && !value.is_array() {
                        break value;
                    }
                };
                (if kind == 3 { "differs_from" } else { "equals" }, value)
            }
        };
        condition.insert(name.to_owned(), value);
        Value::from(condition)
    });
    rule.insert("when".to_owned(), conditions.collect());
    match random.within(0..8) {
        0 => drop(rule.insert("drop".to_owned(), json!(true))),
        1 | 2 => drop(rule.insert("keep".to_owned(), some_fields(random))),
        3 => drop(rule.insert("remove".to_owned(), json!([field(random)]))),
        4 | 5 => {
            let names = json!({field(random): field(random), field(random): "new"});
            rule.insert("rename".to_owned(), names);
        }
        _ => {}
    }
    if random.within(0..3) == 0 {
        let stream = ["moved", "moved-too"][random.within(0..2) as usize];
        rule.insert("stream".to_owned(), json!(stream));
    }
    rule.into()
}

/// As the README says it; `None` if there is a reason for a dead letter, otherwise where the item is.
fn reference(
    config: &Value,
    stream: &str,
    item: &Map<String, Value>,
) -> Option<Vec<(String, Value)>> {
    let holds = |condition: &Value| {
        let value = item.get(condition["field"].as_str().expect("a name"));
        let value = value.filter(|value| !value.is_null());
        let equals = |wanted: &Value| match (wanted, value) {
            (_, None) => false,
            (Value::Number(wanted), Some(value)) => wanted.as_f64() == value.as_f64(),
            (wanted, Some(value)) => {
                let text = |value: &Value| value.as_str().map_or(value.to_string(), str::to_owned);
                text(wanted) == text(value)
            }
        };
        let number = value.and_then(Value::as_f64);
        condition
            .as_object()
            .expect("a table")
            .iter()
            .all(|(name, wanted)| match name.as_str() {
                "exists" => json!(value.is_some()) == *wanted,
                "equals" => equals(wanted),
                "differs_from" => !equals(wanted),
                "above" => number > wanted.as_f64(),
                "below" => number.is_some() && number < wanted.as_f64(),
                _ => true,
            })
    };
    let rule = config["rules"]
        .as_array()
        .expect("rules")
        .iter()
        .find(|rule| {
            let streams = rule["streams"].as_array();
            streams.is_none_or(|patterns| {
                patterns.iter().any(|pattern| {
                    let pattern = pattern.as_str().expect("a pattern");
                    stream == pattern
                        || pattern
                            .strip_suffix('*')
                            .is_some_and(|begin| stream.starts_with(begin))
                })
            }) && rule["when"]
                .as_array()
                .expect("conditions")
                .iter()
                .all(holds)
        });
    let Some(rule) = rule else {
        let kept =
            (config["otherwise"] == "keep").then(|| (stream.to_owned(), item.clone().into()));
        return Some(kept.into_iter().collect());
    };
    if rule["drop"] == true {
        return Some(Vec::new());
    }
    let lists = |name: &str, field: &str| {
        rule[name]
            .as_array()
            .map(|list| list.contains(&json!(field)))
    };
    let mut fields = Map::new();
    for (name, value) in item {
        if lists("keep", name) == Some(false) || lists("remove", name) == Some(true) {
            continue;
        }
        let renamed = rule["rename"][name].as_str().unwrap_or(name);
        if fields.insert(renamed.to_owned(), value.clone()).is_some() {
            return None;
        }
    }
    let stream = rule["stream"].as_str().unwrap_or(stream);
    Some(vec![(stream.to_owned(), fields.into())])
}

fn dropped(process: &Process) -> u64 {
    let series = "headgate_plugin_events_total{sink=\"hostile\",name=\"dropped\"}";
    process.metric(series).map_or(0, |number| number as u64)
}

#[test]
fn items_become_what_the_first_rule_that_they_meet_says() {
    let seed = getrandom::u64().expect("randomness");
    let mut random = Random(seed);
    for _ in 0..8 {
        let rules: Vec<_> = (0..random.within(0..6))
            .map(|_| some_rule(&mut random))
            .collect();
        let otherwise = ["keep", "drop"][random.within(0..2) as usize];
        let config = json!({"rules": rules, "otherwise": otherwise});
        let folder = filtering(&toml(&config));
        let process = folder.spawn();
        let mut wanted = BTreeMap::new();
        let (mut gone, mut refused) = (0, 0);
        for stream in ["hostile", "hostile-1"] {
            let sent: Vec<Map<_, _>> = (0..200)
                .map(|number| {
                    let mut item =
                        Map::from_iter([("id".to_owned(), json!(format!("{stream}/{number}")))]);
                    for name in FIELDS {
                        if random.within(0..3) > 0 {
                            item.insert(name.to_owned(), some_value(&mut random));
                        }
                    }
                    item
                })
                .collect();
            for item in &sent {
                match reference(&config, stream, item) {
                    None => refused += 1,
                    Some(places) => {
                        gone += u64::from(places.is_empty());
                        let key = item["id"].as_str().expect("text").to_owned();
                        let places = places.into_iter();
                        wanted
                            .extend(places.map(|(stream, fields)| ((stream, key.clone()), fields)));
                    }
                }
            }
            process.accepted("hostile", BY_ID, "{\"id\": \"first\"}");
            process.accepted(stream, BY_ID, &json!(sent).to_string());
        }
        // What was only there so that batches hold several requests.
        let first = Map::from_iter([("id".to_owned(), json!("first"))]);
        let places = reference(&config, "hostile", &first).expect("no name twice");
        gone += 2 * u64::from(places.is_empty());
        let key = "first".to_owned();
        wanted.extend(
            places
                .into_iter()
                .map(|(stream, fields)| ((stream, key.clone()), fields)),
        );
        process.drained();
        let mut found = BTreeMap::new();
        for stream in STREAMS {
            for (key, fields, _) in folder.items(stream) {
                found.insert((stream.to_owned(), key), fields);
            }
        }
        let what = format!("seed {seed}: {config}");
        assert_eq!(found, wanted, "{what}");
        assert_eq!(process.sink("hostile")["dead_letters"], refused, "{what}");
        assert_eq!(dropped(&process), gone, "{what}");
        nobody_else_suffers(process);
    }
}

#[test]
fn items_that_would_have_a_name_twice_are_the_only_ones_given_up() {
    let config = "{ rules = [{ when = [{ field = \"a\", exists = true }], rename = { a = \"b\" } }], otherwise = \"drop\" }";
    let folder = filtering(config);
    let process = folder.spawn();
    let body = r#"[{"id": "0", "a": 1.50}, {"id": "1", "a": 2, "b": 3}, {"id": "2"}, {"id": "3", "a": 4}]"#;
    process.failed("hostile", BY_ID, body);
    let letters = process.dead_letters("hostile");
    assert_eq!(letters.len(), 1);
    assert_eq!(
        (&letters[0]["key"], &letters[0]["position"]),
        (&json!("1"), &json!(1))
    );
    assert_eq!(
        letters[0]["reason"],
        "an item would have the field \"b\" twice"
    );
    let kept: Vec<_> = folder
        .items("hostile")
        .into_iter()
        .map(|(key, fields, _)| (key, fields))
        .collect();
    let expected = [
        ("0", json!({"id": "0", "b": 1.5})),
        ("3", json!({"id": "3", "b": 4})),
    ];
    assert_eq!(kept, expected.map(|(key, fields)| (key.to_owned(), fields)));
    nobody_else_suffers(process);
}
