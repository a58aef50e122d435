//! Unit tests of `schema.rs`.

use serde_json::json;

use super::*;

#[test]
fn settings_are_checked_and_the_place_is_named() {
    let schema = r#"{"type": "object", "required": ["url"], "additionalProperties": false,
                         "properties": {"url": {"type": "string"}, "size": {"type": "integer", "minimum": 1}}}"#;
    let refused = |config: Value| check(schema, &config).expect_err("it does not fit");
    assert_eq!(check(schema, &json!({"url": "x", "size": 3})), Ok(()));
    assert!(refused(json!({"url": "x", "size": 0})).starts_with("/size: "));
    let missing = refused(json!({"ulr": "x"}));
    assert!(
        missing.contains("url") && missing.contains("ulr"),
        "{missing}"
    );
    assert_eq!(check("", &json!({})), Ok(()));
    assert_eq!(
        check("", &json!({"a": 1})),
        Err("it takes no settings, not a".to_owned())
    );
    assert!(check("{", &json!({})).is_err());
    let elsewhere = r#"{"$ref": "https://example.com/schema.json"}"#;
    assert!(check(elsewhere, &json!({})).is_err());
}

#[test]
fn the_description_of_a_setting_says_what_is_expected() {
    let schema = r##"{"$defs": {"size": {"type": "integer"}},
            "allOf": [{"description": "one of both", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}],
            "properties": {"a": {"description": "a text", "type": "string"},
                           "b": {"description": "a size", "$ref": "#/$defs/size"}, "c": {"type": "null"}}}"##;
    let refused = |config: Value| check(schema, &config).expect_err("it does not fit");
    for (config, said) in [
        (
            json!({"a": 1}),
            "/a: 1 is not of type \"string\"; expected: a text",
        ),
        (
            json!({"b": "x"}),
            "/b: \"x\" is not of type \"integer\"; expected: a size",
        ),
        (json!({"a": "x", "c": 1}), "/c: 1 is not of type \"null\""),
    ] {
        assert_eq!(refused(config), said);
    }
    let both = refused(json!({"a": "x", "b": 1}));
    assert!(
        both.starts_with("this ") && both.ends_with("; expected: one of both"),
        "{both}"
    );
}

#[test]
fn settings_of_built_in_plugins_are_checked_before_anything_starts() {
    let sink = |plugin: &str, config| settings::Sink {
        plugin: plugin.to_owned(),
        config,
        ..settings::Sink::default()
    };
    let invalid_config = |plugin: &str, config| invalid_config(&sink(plugin, config));
    for plugin in settings::BUILT_IN_PLUGINS {
        let (place, _) = &invalid_config(plugin, json!({"nothing": "knows this"}))[0];
        assert_eq!(place, "config", "{plugin}");
    }
    let type_of_column =
        json!({"table": "t", "key": ["a"], "columns": [{"name": "a", "type": ";"}]});
    assert_eq!(
        invalid_config("postgres", type_of_column)[0].0,
        "config.columns[0].type"
    );
    assert_eq!(invalid_config("postgres", json!({"table": "t"})), []);
    assert_eq!(invalid_config("pool", json!({})), []);
    // What is in a file is not known before it is loaded.
    assert_eq!(invalid_config("./mine.wasm", json!({"any": 1})), []);
}

#[test]
fn what_does_not_fit_is_said_without_secrets() {
    let schema = r#"{"type": "object", "properties": {
            "url": {"type": "string", "pattern": "^https://a"},
            "headers": {"additionalProperties": {"maxLength": 3}},
            "one": {"oneOf": [{"type": "string"}, {"type": "integer"}]}}}"#;
    let refused = |config: Value| check(schema, &config).expect_err("it does not fit");
    for config in [
        json!({"url": "https://me:hush@b"}),
        json!({"headers": {"x-api-key": "hush"}}),
        json!({"one": {"password": "hush"}}),
    ] {
        let said = refused(config);
        assert!(said.contains("this") && !said.contains("hush"), "{said}");
    }
    let said = refused(json!({"url": "https://b"}));
    assert!(said.contains("https://b"), "{said}");
}

#[test]
fn schemas_that_cost_much_are_refused_before_they_are_used() {
    // Each definition refers twice to the next.
    let doubling = |count: u32| {
        let next = |number: u32| json!({"$ref": format!("#/$defs/{}", number + 1)});
        let twice = |number: u32| {
            (
                number.to_string(),
                json!({"allOf": [next(number), next(number)]}),
            )
        };
        let mut definitions: serde_json::Map<_, _> = (0..count).map(twice).collect();
        definitions.insert(count.to_string(), json!({}));
        json!({"$defs": definitions, "$ref": "#/$defs/0"})
    };
    let chain: serde_json::Map<_, _> = (0..1_000)
        .map(|number| {
            (
                number.to_string(),
                json!({"$ref": format!("#/$defs/{}", number + 1)}),
            )
        })
        .collect();
    let patterns: Vec<Value> = vec![json!({"pattern": "a"}); 101];
    for (schema, words) in [
        (doubling(40), "more than 10000 parts"),
        (
            json!({"$defs": chain, "$ref": "#/$defs/0"}),
            "more than 128 deep",
        ),
        (json!({"allOf": patterns}), "more than 100 patterns"),
        (json!({"pattern": "((a{100}){100}){100}"}), "cannot be used"),
        (
            json!({"properties": {"a": {"$ref": "#"}}}),
            "refers to itself",
        ),
        (json!({"$dynamicRef": "#a"}), "not supported"),
        (
            json!({"$defs": {"a": {"$id": "a", "$ref": "#"}}}),
            "may have an $id",
        ),
        (
            json!({"title": "x".repeat(70_000)}),
            "at most 65536 are read",
        ),
    ] {
        let refused = check(&schema.to_string(), &json!({"a": 1})).expect_err("too much");
        assert!(refused.contains(words), "{refused}");
    }
    assert_eq!(check(&doubling(5).to_string(), &json!({})), Ok(()));
}
