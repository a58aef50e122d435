//! `headgate plugin test --expect`: what a call should have come to, compared with what it did.
//!
//! **Invariant**: only what is named is compared, and everything that differs is said.

use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value};

use super::super::error::CliError;
use super::super::output::shown;

/// The longest time that the call may have taken.
const MAX_MS: &str = "max_ms";
/// What can be named beside it: the members of the report.
const NAMED: [&str; 5] = ["result", "effects", "state", "rejected", "kept_handles"];

#[derive(Debug)]
pub(super) struct Expected(Map<String, Value>);

impl Expected {
    /// Reads it from a file.
    pub(super) fn read(path: &Path) -> Result<Self, CliError> {
        let wrong = |why: String| {
            CliError::wrong_use(format!(
                "--expect {}: {why}",
                shown(&path.display().to_string())
            ))
        };
        let text = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
        let expected: Map<String, Value> = serde_json::from_slice(&text).map_err(|error| {
            wrong(format!(
                "an object like that of --output json is expected: {error}"
            ))
        })?;
        match expected
            .keys()
            .find(|name| *name != MAX_MS && !NAMED.contains(&name.as_str()))
        {
            None => Ok(Self(expected)),
            Some(name) => Err(wrong(format!(
                "`{}` is not known; what can be named is {}, {MAX_MS}",
                shown(name),
                NAMED.join(", ")
            ))),
        }
    }

    /// What differs, a line each.
    pub(super) fn differences(&self, report: &Value, took: Duration) -> Vec<String> {
        let mut lines = Vec::new();
        for (name, expected) in &self.0 {
            if name != MAX_MS {
                compare(name, expected, &report[name], &mut lines);
                continue;
            }
            let took_ms = took.as_secs_f64() * 1e3;
            if expected.as_f64().is_none_or(|most| took_ms > most) {
                lines.push(format!(
                    "{MAX_MS}: the call took {took_ms:.1} ms, at most {expected} were expected"
                ));
            }
        }
        lines
    }
}

/// Members that are not named may be there; entries of a list may not.
fn compare(place: &str, expected: &Value, found: &Value, lines: &mut Vec<String>) {
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => {
            for (name, value) in expected {
                let place = format!("{place}.{name}");
                compare(
                    &place,
                    value,
                    found.get(name).unwrap_or(&Value::Null),
                    lines,
                );
            }
        }
        (Value::Array(expected), Value::Array(found)) => {
            for (index, value) in expected.iter().enumerate() {
                let place = format!("{place}[{index}]");
                compare(
                    &place,
                    value,
                    found.get(index).unwrap_or(&Value::Null),
                    lines,
                );
            }
            for (index, value) in found.iter().enumerate().skip(expected.len()) {
                lines.push(format!(
                    "{place}[{index}]: nothing was expected, it is {value}"
                ));
            }
        }
        _ if expected == found => {}
        _ => lines.push(format!("{place}: {expected} was expected, it is {found}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_named_is_compared_and_all_that_differs_is_said() {
        let report = json!({
            "result": "took all items", "rejected": [],
            "effects": [{"effect": "upsert", "key": "a", "fields": {"n": 1, "m": 2}}, {"effect": "delete", "key": "b"}],
        });
        let differences = |expected: Value| {
            let expected = Expected(expected.as_object().cloned().expect("an object"));
            expected.differences(&report, Duration::from_millis(5))
        };
        let same = json!({"effects": [{"key": "a", "fields": {"n": 1}}, {"key": "b"}], "rejected": [], "max_ms": 5});
        assert_eq!(differences(same), Vec::<String>::new());
        let other = json!({"result": "x", "effects": [{"key": "b", "fields": {"n": 1, "k": 1}}], "max_ms": 4});
        let said = differences(other);
        assert_eq!(said.len(), 5, "{said:?}");
        for words in [
            "result: \"x\" was expected",
            "effects[0].key",
            "effects[0].fields.k",
            "effects[1]: nothing",
            "at most 4",
        ] {
            assert!(
                said.iter().any(|line| line.contains(words)),
                "{words}: {said:?}"
            );
        }
    }
}
