//! A curl command for an operation, ready to paste.
//!
//! **Invariant**: the command contains no secret, and its values are quoted for a POSIX shell.

use serde_json::{Map, Value, json};

use super::operation::Operation;
use super::schema::resolved;
use base::text::shell_quoted as quoted;

/// Maximum depth of an example.
const DEPTH_MAX: usize = 6;

pub(super) fn curl(document: &Value, operation: &Operation<'_>, base: &str) -> String {
    let mut call = "curl".to_owned();
    if operation.method != "get" {
        call.push_str(&format!(" -X {}", operation.method.to_uppercase()));
    }
    let url = quoted(&format!("{base}{}", path(operation.path)));
    call.push_str(&format!(" {url}"));
    if let Some(scheme) = operation.security().0.first() {
        call.push_str(&format!(
            " \\\n  -H \"Authorization: Bearer ${}\"",
            scheme.to_uppercase()
        ));
    }
    let contents = operation.said["requestBody"]["content"].as_object();
    if let Some((media_type, content)) = contents.and_then(|contents| contents.iter().next()) {
        let body = match content.get("example") {
            Some(example) => example.clone(),
            None => sample(document, &content["schema"], 0),
        };
        call.push_str(&format!(
            " \\\n  -H {} \\\n  -d {}",
            quoted(&format!("Content-Type: {media_type}")),
            quoted(&body.to_string())
        ));
    }
    call
}

/// A path with its parameters in capitals.
fn path(template: &str) -> String {
    let mut path = String::new();
    for (place, part) in template.split(['{', '}']).enumerate() {
        match place % 2 {
            0 => path.push_str(part),
            _ => path.push_str(&part.to_uppercase()),
        }
    }
    path
}

/// An example of a schema. An object has its required fields, or the first field if none is required.
fn sample(document: &Value, schema: &Value, depth: usize) -> Value {
    let (schema, _) = resolved(document, schema);
    for known in ["example", "default", "const"] {
        if let Some(value) = schema.get(known).filter(|value| !value.is_null()) {
            return value.clone();
        }
    }
    if let Some(value) = schema["enum"].get(0) {
        return value.clone();
    }
    if depth >= DEPTH_MAX {
        return Value::Null;
    }
    for name in ["allOf", "oneOf", "anyOf"] {
        let mut parts = schema[name].as_array().into_iter().flatten();
        if let Some(part) = parts.find(|part| part["type"] != "null") {
            return sample(document, part, depth + 1);
        }
    }
    let kind = schema["type"].as_str().or(schema["type"][0].as_str());
    match kind {
        Some("object") => object(document, schema, depth),
        Some("array") => json!([sample(document, &schema["items"], depth + 1)]),
        Some("string") => json!("TEXT"),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(1)),
        Some("boolean") => json!(true),
        _ => Value::Null,
    }
}

fn object(document: &Value, schema: &Value, depth: usize) -> Value {
    let Some(fields) = schema["properties"].as_object() else {
        return json!({});
    };
    let required: Vec<&str> = schema["required"].as_array().map_or_else(
        || fields.keys().take(1).map(String::as_str).collect(),
        |names| names.iter().filter_map(Value::as_str).collect(),
    );
    let filled = required.into_iter().filter_map(|name| {
        let value = sample(document, fields.get(name)?, depth + 1);
        Some((name.to_owned(), value))
    });
    Value::Object(filled.collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_a_path_are_capitals() {
        assert_eq!(path("/a/{name}/b/{id}"), "/a/NAME/b/ID");
    }

    #[test]
    fn a_sample_of_a_schema_inside_itself_ends() {
        let schema = json!({"$ref": "#/components/schemas/Node"});
        let node = json!({"type": "object", "required": ["next"], "properties": {"next": schema}});
        let document = json!({"components": {"schemas": {"Node": node}}});
        let sample = sample(&document, &schema, 0).to_string();
        assert!(
            sample.len() < 100 && sample.ends_with("null}}}}}}"),
            "{sample}"
        );
    }
}
