//! Tests: values are read and shown, and a section that fills its form is read back unchanged.

use serde_json::json;

use super::*;

fn schema() -> Value {
    json!({
        "type": "object", "required": ["url"],
        "properties": {
            "url": {"type": "string", "title": "Address"},
            "count": {"type": "integer", "default": 7},
            "yes": {"type": "boolean", "default": true},
            "word": {"enum": ["a", "b"]},
            "list": {"type": "array", "items": {"type": "string"}},
            "table": {"type": "object", "additionalProperties": {"type": "string"}},
            "inner": {"type": "object", "properties": {"deep": {"type": "number"}}},
            "token": {"type": "string", "x-headgate": "secret"},
            "odd": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
            "body": {"x-headgate": "template:body"},
            "text": {"x-headgate": "template:body"},
        },
    })
}

fn form(fields: &[(&str, &str)]) -> FormData {
    let mut data = FormData::default();
    for (name, value) in fields {
        data.put(name, (*value).to_owned());
    }
    data
}

#[test]
fn what_is_typed_is_read_as_the_schema_has_it_and_what_is_empty_sets_nothing() {
    let data = form(&[
        ("config.url", " https://a "),
        ("config.count", "12"),
        ("config.yes", "false"),
        ("config.word", "b"),
        ("config.list", "x\n\n y \n"),
        ("config.table", "A: b:c\nd:e"),
        ("config.inner.deep", "1.5"),
        ("config.odd", "[1, null]"),
        ("config.body", "{\"a\": \"{n}\"}"),
        ("config.text", "{n} left"),
        ("config.unknown", "1"),
    ]);
    let mut wrong = Wrong::new();
    let all = typed(CONFIG, &schema(), &data, &mut wrong);
    assert_eq!(wrong, []);
    assert_eq!(
        Value::Object(all),
        json!({
            "url": "https://a", "count": 12, "yes": false, "word": "b", "list": ["x", "y"],
            "table": {"A": "b:c", "d": "e"}, "inner": {"deep": 1.5}, "odd": [1, null],
            "body": {"a": "{n}"}, "text": "{n} left",
        })
    );
    let all = typed(
        CONFIG,
        &schema(),
        &form(&[("config.url", ""), ("config.yes", "")]),
        &mut wrong,
    );
    assert_eq!((Value::Object(all), wrong), (json!({}), Vec::new()));
}

#[test]
fn what_cannot_be_read_is_said_at_its_control_and_comes_back_without_secrets() {
    let fields = [
        ("config.count", "\"><script>"),
        ("config.table", "no colon"),
        ("config.odd", "{"),
        ("config.token", "hush-typed"),
    ];
    let data = form(&fields);
    let mut wrong = Wrong::new();
    typed(CONFIG, &schema(), &data, &mut wrong);
    let places: Vec<&str> = wrong.iter().map(|(path, _)| &**path).collect();
    assert_eq!(places, ["config.count", "config.table", "config.odd"]);
    let schema = schema();
    let shown = SchemaForm::new(CONFIG, &schema, &data, &wrong)
        .controls()
        .into_string();
    assert!(
        shown.contains("value=\"&quot;&gt;&lt;script&gt;\""),
        "{shown}"
    );
    assert!(shown.contains("Enter a number."), "{shown}");
    assert!(
        shown.contains("type=\"password\"") && !shown.contains("hush"),
        "{shown}"
    );
    assert!(shown.contains(">Address</label>"), "{shown}");
    assert!(shown.contains("as usual (yes)"), "{shown}");
}

#[test]
fn what_is_set_comes_back_as_it_was_and_references_are_what_they_mean() {
    let schema = resolved(&json!({
        "$defs": {
            "name": {"type": "string"},
            "names": {"type": "array", "items": {"$ref": "#/$defs/name"}},
            "tree": {"type": "object", "properties": {"inner": {"$ref": "#/$defs/tree"}}},
        },
        "properties": {
            "table": {"$ref": "#/$defs/name", "description": "As it is."},
            "tags": {"$ref": "#/$defs/names"},
            "word": {"enum": ["a", "b"]},
            "yes": {"type": "boolean"},
            "headers": {"type": "object", "additionalProperties": {"type": "string"}},
            "inner": {"type": "object", "properties": {"deep": {"type": "number"}, "body": {"x-headgate": "template:body"}}},
            "rules": {"type": "array", "items": {"type": "object"}},
            "body": {"x-headgate": "template:body"},
            "token": {"type": "string", "x-headgate": "secret"},
            "tree": {"$ref": "#/$defs/tree"},
        },
    }));
    assert_eq!(schema["properties"]["table"]["type"], "string");
    assert_eq!(schema["properties"]["table"]["description"], "As it is.");
    let set = json!({
        "table": "Orders", "tags": ["a", "b c"], "word": "b", "yes": false, "headers": {"x-a": "1: {n}", "x-b": ""},
        "inner": {"deep": 1.50, "body": "{n} left"}, "rules": [{"drop": true}], "body": {"a": ["{n}", 1]},
        "token": "hush",
    });
    let mut data = FormData::default();
    fill(CONFIG, &schema, &set, &mut data);
    let mut wrong = Wrong::new();
    let mut back = Value::Object(typed(CONFIG, &schema, &data, &mut wrong));
    assert_eq!(wrong, []);
    assert_eq!(back["token"], Value::Null, "a secret is typed anew");
    back["token"] = json!("hush");
    assert_eq!(back, set);

    // Without properties, and with an empty path.
    let mut data = FormData::default();
    fill(
        CONFIG,
        &json!({"type": "object"}),
        &json!({"a": [1]}),
        &mut data,
    );
    let back = typed(CONFIG, &json!({"type": "object"}), &data, &mut wrong);
    assert_eq!(Value::Object(back), json!({"a": [1]}));
    let rows = json!({"properties": {"in_flight": {"type": "integer"}}});
    fill("", &rows, &json!({"in_flight": 4}), &mut data);
    assert_eq!(data.get("in_flight"), Some("4"));
}
