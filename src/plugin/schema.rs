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
/// Maximum parts of a schema, counted once per reference. Few references can stand for very many parts.
const PARTS_MAX: u64 = 10_000;
/// Maximum depth of nested parts, including references. The check recurses, and would otherwise overflow its stack.
const DEPTH_MAX: u32 = 128;
/// Maximum number of patterns, and of bytes of each when compiled. A short pattern can compile to many megabytes.
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
/// the expected value. Plugins from files are checked when they are loaded, because compiling them may take a minute.
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
    /// Parts and depth below a place, by its address; `None` while it is being counted. Each part is counted once,
    /// because the count itself would otherwise take as long as the check.
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

    /// Parts and depth of a part. References that the count does not follow are refused, because they could hide any
    /// cost.
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
mod tests;
