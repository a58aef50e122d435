//! Checks a sink's settings against its plugin's JSON Schema.
//!
//! An instance is checked when it starts. [`invalid_config`] checks the settings of built-in plugins with the whole
//! configuration, before anything starts.
//!
//! **Invariant**: a schema loads nothing: references to other documents are not followed. The cost of a check is
//! limited before it begins, because guests supply the schema and their own limits do not apply here.

use std::collections::HashMap;

use jsonschema::PatternOptions;
use serde_json::Value;

use super::redact::Redactor;

/// The schemas of the built-in plugins; `pool` has no settings.
const BUILT_IN: [(&str, &str); 9] = [
    ("pool", ""),
    (
        "http-forward",
        include_str!("../../plugins/http-forward/src/config.schema.json"),
    ),
    (
        "postgres",
        include_str!("../../plugins/postgres/src/config.schema.json"),
    ),
    (
        "influx",
        include_str!("../../plugins/influx/src/config.schema.json"),
    ),
    (
        "webhook",
        include_str!("../../plugins/webhook/src/config.schema.json"),
    ),
    (
        "filter-map",
        include_str!("../../plugins/filter-map/src/config.schema.json"),
    ),
    (
        "file",
        include_str!("../../plugins/file/src/config.schema.json"),
    ),
    (
        "lines",
        include_str!("../../plugins/lines/src/config.schema.json"),
    ),
    (
        "mqtt",
        include_str!("../../plugins/mqtt/src/config.schema.json"),
    ),
];

/// Maximum problems in a message.
const PROBLEMS_MAX: usize = 5;
const SCHEMA_BYTES_MAX: usize = 64 << 10;
/// Maximum parts of a schema, counted once per reference.
const PARTS_MAX: u64 = 10_000;
/// Maximum depth of nested parts, including references.
const DEPTH_MAX: u32 = 128;
/// Maximum number of patterns, and of bytes of each when compiled.
const PATTERNS_MAX: u32 = 100;
const PATTERN_BYTES_MAX: usize = 256 << 10;

/// A violation of the schema.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SchemaError {
    /// A JSON pointer into the settings.
    place: String,
    said: String,
}

/// Violations in the `config` of a sink with a built-in plugin: the place as in the configuration, `config.url`, and
/// the expected value. Plugins from files are checked when they are loaded.
pub fn invalid_config(sink: &settings::Sink) -> Vec<(String, String)> {
    let Some(schema) = of_built_in(&sink.plugin) else {
        return Vec::new();
    };
    let violations = violations(schema, &sink.config).unwrap_or_else(|said| {
        let place = String::new();
        vec![SchemaError { place, said }]
    });
    let redactor = Redactor::of(sink);
    let written = violations.into_iter().map(|SchemaError { place, said }| {
        let mut path = "config".to_owned();
        for part in place.split('/').skip(1) {
            match part.parse::<usize>() {
                Ok(index) => path.push_str(&format!("[{index}]")),
                Err(_) => {
                    path.push_str(&format!(".{}", part.replace("~1", "/").replace("~0", "~")))
                }
            }
        }
        (redactor.redact(path), redactor.redact(said))
    });
    written.collect()
}

/// The schema of a built-in plugin.
pub(super) fn of_built_in(plugin: &str) -> Option<&'static str> {
    let found = BUILT_IN.iter().find(|(name, _)| *name == plugin);
    found.map(|(_, schema)| *schema)
}

/// Checks `config`; otherwise returns a sentence with the first violations and their places. A plugin without a schema
/// has no settings.
pub(super) fn check(schema: &str, config: &Value) -> Result<(), String> {
    let problems: Vec<String> = violations(schema, config)?
        .into_iter()
        .map(|SchemaError { place, said }| match place.as_str() {
            "" => said,
            place => format!("{place}: {said}"),
        })
        .collect();
    match problems.is_empty() {
        true => Ok(()),
        false => Err(problems.join("; ")),
    }
}

/// # Errors
/// The schema cannot be used, or there are settings without a schema.
fn violations(schema: &str, config: &Value) -> Result<Vec<SchemaError>, String> {
    if schema.trim().is_empty() {
        return match config.as_object() {
            Some(settings) if !settings.is_empty() => {
                let names: Vec<&str> = settings.keys().map(String::as_str).collect();
                Err(format!("it takes no settings, not {}", names.join(", ")))
            }
            _ => Ok(Vec::new()),
        };
    }
    if schema.len() > SCHEMA_BYTES_MAX {
        return Err(format!(
            "the schema that it brings has {} bytes; at most {SCHEMA_BYTES_MAX} are read",
            schema.len()
        ));
    }
    let schema: Value = serde_json::from_str(schema)
        .map_err(|error| format!("the schema that it brings is not JSON: {error}"))?;
    Cost::default()
        .bounded(&schema)
        .map_err(|why| format!("the schema that it brings cannot be used: {why}"))?;
    let patterns = PatternOptions::regex()
        .size_limit(PATTERN_BYTES_MAX)
        .dfa_size_limit(PATTERN_BYTES_MAX);
    let validator = jsonschema::draft202012::options()
        .with_pattern_options(patterns)
        .build(&schema)
        .map_err(|error| format!("the schema that it brings cannot be used: {error}"))?;
    let problems = validator.iter_errors(config).take(PROBLEMS_MAX);
    let violations = problems.map(|problem| {
        let place = problem.instance_path().as_str();
        let named = place.split('/').any(settings::names_secret);
        let nested = problem.instance().is_object() || problem.instance().is_array();
        let said = match named || nested || !settings::hidden(problem.instance()).is_empty() {
            true => problem.masked_with("this").to_string(),
            false => problem.to_string(),
        };
        let described = description(&schema, problem.evaluation_path().as_str());
        SchemaError {
            place: place.to_owned(),
            said: match described {
                Some(described) => format!("{said}; expected: {described}"),
                None => said,
            },
        }
    });
    Ok(violations.collect())
}

/// The schema's description of the setting to which a keyword applies.
fn description<'a>(schema: &'a Value, keyword: &str) -> Option<&'a str> {
    let (part, _) = keyword
        .split_once("/$ref")
        .or_else(|| keyword.rsplit_once('/'))?;
    schema.pointer(part)?.get("description")?.as_str()
}

/// Computes the maximum cost of checking against a schema.
#[derive(Default)]
struct Cost {
    /// Parts and depth below a place, by its address; `None` while it is being counted.
    known: HashMap<*const Value, Option<(u64, u32)>>,
    patterns: u32,
}

impl Cost {
    fn bounded(mut self, schema: &Value) -> Result<(), String> {
        self.of(schema, schema, 0)?;
        if self.patterns > PATTERNS_MAX {
            return Err(format!("it has more than {PATTERNS_MAX} patterns"));
        }
        Ok(())
    }

    /// Parts and depth of a part.
    fn of(&mut self, part: &Value, root: &Value, above: u32) -> Result<(u64, u32), String> {
        let place: *const Value = part;
        match self.known.get(&place) {
            Some(Some(known)) => return within(*known, above),
            Some(None) => return Err("it refers to itself, which is not supported".to_owned()),
            None => {}
        }
        within((1, 1), above)?;
        self.known.insert(place, None);
        let (mut parts, mut depth) = (1_u64, 1_u32);
        let mut add = |(more, deep): (u64, u32)| {
            parts = parts.saturating_add(more);
            depth = depth.max(deep + 1);
        };
        match part {
            Value::Array(items) => {
                for item in items {
                    add(self.of(item, root, above + 1)?);
                }
            }
            Value::Object(fields) => {
                for (name, value) in fields {
                    match (name.as_str(), value) {
                        ("pattern", Value::String(_)) => self.patterns += 1,
                        ("patternProperties", Value::Object(patterns)) => {
                            self.patterns += u32::try_from(patterns.len()).unwrap_or(u32::MAX);
                        }
                        ("$ref", Value::String(reference)) => {
                            let pointer = reference.strip_prefix('#');
                            let target = pointer.and_then(|pointer| root.pointer(pointer));
                            let target = target.ok_or_else(|| {
                                format!("{reference:?} is not a place in it such as \"#/$defs/a\"")
                            })?;
                            add(self.of(target, root, above + 1)?);
                        }
                        ("$dynamicRef" | "$recursiveRef", _) => {
                            return Err(format!("{name} is not supported; use $ref"));
                        }
                        ("$id", Value::String(_)) if !std::ptr::eq(part, root) => {
                            return Err("only the whole schema may have an $id".to_owned());
                        }
                        _ => {}
                    }
                    add(self.of(value, root, above + 1)?);
                }
            }
            _ => {}
        }
        self.known.insert(place, Some((parts, depth)));
        within((parts, depth), above)
    }
}

fn within((parts, depth): (u64, u32), above: u32) -> Result<(u64, u32), String> {
    if parts > PARTS_MAX {
        return Err(format!("it comes to more than {PARTS_MAX} parts"));
    }
    if above.saturating_add(depth) > DEPTH_MAX {
        return Err(format!("its parts lie more than {DEPTH_MAX} deep"));
    }
    Ok((parts, depth))
}

#[cfg(test)]
mod tests {
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
}
