//! Checks a sink's settings against the JSON Schema that its plugin brings.
//!
//! **Invariant**: a schema reaches for nothing: references to other documents are not followed.

use serde_json::Value;

/// Problems that a message lists.
const PROBLEMS_MAX: usize = 5;

/// Whether `config` fits; otherwise the sentence that says what does not, with its place. A plugin without
/// a schema takes no settings.
pub(super) fn check(schema: &str, config: &Value) -> Result<(), String> {
    if schema.trim().is_empty() {
        return match config.as_object() {
            Some(settings) if !settings.is_empty() => {
                let names: Vec<&str> = settings.keys().map(String::as_str).collect();
                Err(format!("it takes no settings, not {}", names.join(", ")))
            }
            _ => Ok(()),
        };
    }
    let schema: Value = serde_json::from_str(schema)
        .map_err(|error| format!("the schema that it brings is not JSON: {error}"))?;
    let validator = jsonschema::draft202012::new(&schema)
        .map_err(|error| format!("the schema that it brings cannot be used: {error}"))?;
    let problems: Vec<String> = validator
        .iter_errors(config)
        .take(PROBLEMS_MAX)
        .map(|problem| match problem.instance_path().as_str() {
            "" => problem.to_string(),
            place => format!("{place}: {problem}"),
        })
        .collect();
    match problems.is_empty() {
        true => Ok(()),
        false => Err(problems.join("; ")),
    }
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
}
