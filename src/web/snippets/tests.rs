//! Unit tests of `snippets.rs`.

use super::*;
use catalog::key::{KeyKind, generate};

#[test]
fn a_key_takes_the_place_of_the_variable_in_every_language() {
    let key = generate(KeyKind::Ingest).expect("random numbers");
    let address = Address {
        base: "http://127.0.0.1:8080".to_owned(),
        public: None,
        socket: None,
    };
    let sample = Sample {
        path: "/api/webhook/orders".to_owned(),
        item_key: None,
        items: None,
        is_plain: true,
    };
    let both = |key| {
        let all = all(&address, &sample, key).into_iter();
        let both: Vec<String> = all
            .flat_map(|one| [Some(one.code), one.library])
            .flatten()
            .collect();
        assert_eq!(both.len(), 9);
        both
    };
    for code in both(Some(&key)) {
        assert_eq!(code.matches(key.expose()).count(), 1, "{code}");
        for left in ["HEADGATE_KEY", "{key}", "os."] {
            assert!(!code.contains(left), "{code}");
        }
    }
    for code in both(None) {
        assert_eq!(code.matches("HEADGATE_KEY").count(), 1, "{code}");
    }
}

#[test]
fn a_library_is_shown_for_what_it_can_send() {
    let sample = |is_plain| Sample {
        path: "/api/webhook/orders".to_owned(),
        item_key: Some("it's \"{key}\""),
        items: None,
        is_plain,
    };
    let address = |socket: Option<&str>| Address {
        base: "http://127.0.0.1:8080".to_owned(),
        public: None,
        socket: socket.map(str::to_owned),
    };
    let libraries = |address: &Address, is_plain| -> Vec<String> {
        let all = all(address, &sample(is_plain), None).into_iter();
        all.filter_map(|one| one.library).collect()
    };
    let shown = libraries(&address(None), true);
    assert_eq!(shown.len(), 4);
    for code in shown {
        let field = r#""it's \"{key}\"""#;
        assert_eq!(code.matches(field).count(), 2, "{code}");
        assert!(
            !code.contains("{field}") && !code.contains("{from}"),
            "{code}"
        );
    }
    assert!(libraries(&address(None), false).is_empty());
    assert!(libraries(&address(Some("/run/headgate.sock")), true).is_empty());
}

#[test]
fn the_item_key_takes_the_place_of_id_in_every_language() {
    let check = |field: &str, expected: [&str; 5]| {
        for (code, expected) in [CURL, NODE, PYTHON, C_SHARP, GO].iter().zip(expected) {
            let code = with_item(code, Some(field), None);
            assert!(code.contains(expected), "{expected}: {code}");
        }
    };
    check(
        "order.id",
        [
            r#"-d '{"order.id": 1, "name": "first"}'"#,
            r#"JSON.stringify({ "order.id": 1, name: "first" })"#,
            r#"json.dumps({"order.id": 1, "name": "first"}).encode()"#,
            r#"new Dictionary<string, object> { ["order.id"] = 1, ["name"] = "first" }"#,
            r#"strings.NewReader(`{"order.id": 1, "name": "first"}`)"#,
        ],
    );
    let hostile = with_item(CURL, Some("it's\u{202e}"), None);
    assert!(hostile.contains(r#"-d '{"it'\''s\u202e": 1"#), "{hostile}");
    let hostile = with_item(GO, Some("`"), None);
    assert!(
        hostile.contains(r#"strings.NewReader("{\"`\": 1, \"name\": \"first\"}")"#)
            || hostile.contains(r#":= strings.NewReader("{\"`\": 1"#),
        "{hostile}"
    );
}

#[test]
fn the_item_stands_where_the_connector_looks_for_items() {
    let check = |field: Option<&str>, items: &str, expected: [&str; 5]| {
        for (code, expected) in [CURL, NODE, PYTHON, C_SHARP, GO].iter().zip(expected) {
            let code = with_item(code, field, Some(items));
            assert!(code.contains(expected), "{expected}: {code}");
        }
    };
    check(
        None,
        "value",
        [
            r#"-d '{"value": [{"id": 1, "name": "first"}]}'"#,
            r#"JSON.stringify({"value": [{ id: 1, name: "first" }]})"#,
            r#"json.dumps({"value": [{"id": 1, "name": "first"}]}).encode()"#,
            r#"new Dictionary<string, object> { ["value"] = new[] { new { id = 1, name = "first" } } }"#,
            r#"strings.NewReader(`{"value": [{"id": 1, "name": "first"}]}`)"#,
        ],
    );
    check(
        Some("no"),
        "a.it's",
        [
            r#"-d '{"a": {"it'\''s": [{"no": 1, "name": "first"}]}}'"#,
            r#"JSON.stringify({"a": {"it's": [{ "no": 1, name: "first" }]}})"#,
            r#"json.dumps({"a": {"it's": [{"no": 1, "name": "first"}]}}).encode()"#,
            r#"["a"] = new Dictionary<string, object> { ["it's"] = new[] { new Dictionary<string, object> { ["no"] = 1"#,
            r#"strings.NewReader(`{"a": {"it's": [{"no": 1, "name": "first"}]}}`)"#,
        ],
    );
}
