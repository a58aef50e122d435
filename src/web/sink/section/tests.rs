//! Tests: a section that fills its form is read back unchanged, and only changes are sent.

use serde_json::json;

/// The fields of a form, in their order.
type Typed = Vec<(String, String)>;

use super::super::rows::Follows;
use super::super::schema_form::resolved;
use super::*;
use settings::Sink;

/// The form has all settings.
fn asked(follows: Follows) -> Asked {
    Asked::all(follows)
}

const CONTROLS: &str = r##"{
    "$defs": {"name": {"type": "string"}},
    "type": "object",
    "properties": {
        "table": {"$ref": "#/$defs/name"},
        "key": {"type": "array", "items": {"$ref": "#/$defs/name"}},
        "headers": {"type": "object", "additionalProperties": {"type": "string"}},
        "columns": {"type": "array", "items": {"type": "object"}},
        "create": {"type": "boolean"}
    }
}"##;

fn section() -> Map<String, Value> {
    let section = json!({
        "plugin": "mine",
        "streams": ["orders", "höhe/ü", "sensor-*", "gone"],
        "except": ["sensor-x"],
        "where": "status:paid,total>=100",
        "fields": "id,Customer:customer.name",
        "leaves": "remove",
        "writes": ["a", "b*"],
        "makes": ["totals"],
        "start": "state",
        "ordering": "key",
        "in_flight": 3,
        "retry": {"first_ms": 20, "max_ms": 50, "attempts": 4},
        "batch": {"items_max": 7, "bytes_max": 1000, "linger_ms": 0},
        "limits": {"memory_max_bytes": 67_108_864, "write_timeout_ms": 9, "cpu_timeout_ms": 8},
        "http": {
            "hosts": ["api.example.com", "http://10.0.0.5:9000"], "networks": ["10.0.0.0/8"],
            "headers": {"authorization": {"set": true}, "x-b": {"set": true}},
            "timeout_ms": 77, "request_bytes_max": 1, "response_bytes_max": 2, "requests_max": 3, "concurrency_max": 5,
        },
        "postgres": {"url": {"set": true}, "timeout_ms": 5},
        "folder": {"path": "out"},
        "wire": {"to": ["tcp://10.0.0.5:5250"], "networks": ["10.0.0.0/8"]},
        "secrets": {"token": {"set": true}},
        "config": {"table": "Orders", "key": ["id"], "headers": {"x-a": "1"}, "columns": [{"name": "id"}], "create": true},
    });
    section.as_object().cloned().expect("an object")
}

#[test]
fn every_setting_of_a_section_comes_back_from_its_form() {
    let schema = resolved(&serde_json::from_str(CONTROLS).expect("JSON"));
    let check = |section: &Map<String, Value>, follows: Follows| {
        let form = SectionForm {
            plugin: "mine",
            schema: &schema,
            asked: &asked(follows),
            kept: Some(section),
        };
        let mut wrong = Wrong::new();
        let back = form.read(&form.filled(&["höhe/ü", "orders", "other"]), &mut wrong);
        assert_eq!(wrong, []);
        assert_eq!(Value::Object(back), Value::Object(section.clone()));
    };
    let mut said = section();
    check(&said, Follows::Journal);
    // A setting that is missing in the form would be lost when a sink is created from it.
    let mut known: Vec<&str> = said.keys().map(String::as_str).collect();
    known.extend(["name", "sha256", "enabled", "mode", "shown", "max_rate"]);
    for row in Sink::FIELDS {
        assert!(known.contains(&row.name), "the form has no {}", row.name);
    }
    for gone in ["makes", "start", "leaves", "ordering", "in_flight"] {
        said.shift_remove(gone);
    }
    said["retry"] = json!({"first_ms": 20, "max_ms": 50});
    said.extend([
        ("mode".to_owned(), json!("latest")),
        ("shown".to_owned(), json!(true)),
        ("max_rate".to_owned(), json!(5)),
    ]);
    check(&said, Follows::Latest);
}

#[test]
fn what_is_sent_is_what_was_changed() {
    let schema = resolved(&serde_json::from_str(CONTROLS).expect("JSON"));
    let section = section();
    let form = SectionForm {
        plugin: "mine",
        schema: &schema,
        asked: &asked(Follows::Journal),
        kept: Some(&section),
    };
    let streams = ["orders", "höhe/ü"];
    let before = form.read(&form.filled(&streams), &mut Wrong::new());
    let sent = |change: &dyn Fn(&mut Typed)| -> Value {
        let filled = form.filled(&streams);
        let mut typed: Vec<(String, String)> = filled
            .pairs()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        change(&mut typed);
        let mut data = FormData::default();
        for (name, value) in typed {
            data.put(&name, value);
        }
        let mut wrong = Wrong::new();
        let after = form.read(&data, &mut wrong);
        assert_eq!(wrong, []);
        difference(&before.clone().into(), &after.into()).unwrap_or_default()
    };
    let put = |typed: &mut Vec<(String, String)>, name: &str, value: &str| {
        let found = typed.iter_mut().find(|(known, _)| known == name);
        match found {
            Some((_, known)) => value.clone_into(known),
            None => typed.push((name.to_owned(), value.to_owned())),
        }
    };
    assert_eq!(sent(&|_| {}), Value::Null);
    let one = sent(&|typed| {
        put(typed, "retry.attempts", "9");
        put(typed, "where", "");
        put(typed, "config.create", "false");
        put(typed, "config.headers", "x-b: 2");
    });
    assert_eq!(
        one,
        json!({
            "retry": {"attempts": 9}, "where": null,
            "config": {"create": false, "headers": {"x-b": "2", "x-a": null}},
        })
    );
    // The first header gets a new value; the second one is removed.
    let secrets = sent(&|typed| {
        let names = typed
            .iter_mut()
            .filter(|(name, _)| name == "http.headers.name");
        for (_, name) in names.filter(|(_, name)| name == "x-b") {
            name.clear();
        }
        put(typed, "http.headers.value", "Bearer new");
        put(typed, "postgres.url", "postgresql://a@b/c");
    });
    assert_eq!(
        secrets,
        json!({
            "http": {"headers": {"authorization": "Bearer new", "x-b": null}},
            "postgres": {"url": "postgresql://a@b/c"},
        })
    );
}

#[test]
fn a_secret_needs_its_name_and_a_new_one_its_value() {
    let form = SectionForm {
        plugin: "mine",
        schema: &Value::Null,
        asked: &asked(Follows::Either),
        kept: None,
    };
    let mut data = FormData::default();
    for (name, value) in [
        ("streams", "orders"),
        ("http.headers.name", "authorization"),
        ("http.headers.value", ""),
        ("http.headers.name", ""),
        ("http.headers.value", "hush"),
    ] {
        data.put(name, value.to_owned());
    }
    let mut wrong = Wrong::new();
    form.read(&data, &mut wrong);
    let told: Vec<&str> = wrong.iter().map(|(_, message)| &**message).collect();
    assert_eq!(
        told,
        ["Give authorization a value.", "Give the secret a name."]
    );
}
