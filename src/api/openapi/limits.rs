//! What the types of parameters and fields leave out: how long a text may be, which numbers and words there are, and
//! that a body of a change takes no field that it does not name.
//!
//! Added to every operation, when a document is made of the routes.
//!
//! **Invariant**: what a document allows is refused for no reason that a schema can say, and what it does not allow is
//! refused.

use serde_json::{Value, json};

use super::records;
use catalog::{GRACE_SECONDS_MAX, ResourceKind, action_names};
use feed::export;
use operate::requests::Status;

const SCHEMAS: &str = "#/components/schemas/";
/// Text without control characters.
const LINE: &str = r"^[^\u0000-\u001f\u007f-\u009f]*$";

/// A header value of 1 to 255 characters: no control characters, no blank at its ends.
const HEADER_VALUE: &str = r"^[^\u0000-\u0020\u007f-\u00a0]([^\u0000-\u001f\u007f-\u009f]{0,253}[^\u0000-\u0020\u007f-\u00a0])?$";

/// Adds to a document the limits of what its operations take.
pub(super) fn describe(document: &mut Value) {
    let mut bodies = Vec::new();
    let paths = document["paths"].as_object_mut().into_iter().flatten();
    let operations = paths.filter_map(|(_, operations)| operations.as_object_mut());
    for (_, operation) in operations.flatten() {
        let id = operation["operationId"].as_str().unwrap_or_default();
        let id = id.to_owned();
        let parameters = operation
            .get_mut("parameters")
            .and_then(Value::as_array_mut);
        for parameter in parameters.into_iter().flatten() {
            let limits = of_parameter(&id, parameter["name"].as_str().unwrap_or_default());
            add(&mut parameter["schema"], limits);
        }
        let body = operation.pointer_mut("/requestBody/content/application~1json/schema");
        let Some(schema) = body else {
            continue;
        };
        not_null(schema);
        if matches!(&*id, "ingest" | "webhook" | "webhook_address") {
            *schema = items();
        }
        let name = schema["$ref"].as_str();
        let name = name.and_then(|name| name.strip_prefix(SCHEMAS));
        bodies.extend(name.map(str::to_owned));
    }
    records::add_to_answers(&mut document["components"]["schemas"]);
    for name in bodies {
        let schema = &mut document["components"]["schemas"][&name];
        schema["additionalProperties"] = json!(false);
        let fields = schema["properties"].as_object_mut().into_iter().flatten();
        for (field, schema) in fields {
            add(schema, of_field(&name, field));
        }
        records::add(&name, schema);
    }
}

fn add(schema: &mut Value, limits: Value) {
    if let (Some(schema), Value::Object(limits)) = (schema.as_object_mut(), limits) {
        schema.extend(limits);
    }
}

/// A body that may be absent is not null.
fn not_null(schema: &mut Value) {
    let parts = schema.get_mut("oneOf").and_then(Value::as_array_mut);
    let other = parts.and_then(|parts| parts.iter_mut().find(|part| part["type"] != "null"));
    if let Some(other) = other.map(Value::take) {
        *schema = other;
    }
}

/// What is submitted.
fn items() -> Value {
    json!({ "oneOf": [{ "type": "object" }, { "type": "array", "items": { "type": "object" } }] })
}

fn of_parameter(operation: &str, name: &str) -> Value {
    match (operation, name) {
        ("verify_audit", "expect") => json!({ "pattern": "^[0-9A-Fa-f]{64}$" }),
        ("list_items", "limit") => within(1, 1_000),
        ("get_feed", "limit") => within(1, 10_000),
        ("get_feed", "offset") => within(0, 100_000),
        ("get_feed", "decimals") => within(0, 20),
        ("get_feed", "format") => json!({ "enum": feed::formats() }),
        ("export_stream", "format") => json!({ "enum": export::FORMATS }),
        ("get_feed" | "export_stream", "names") => json!({ "enum": ["_", ".", "nested"] }),
        ("get_feed", "shape") => json!({ "enum": ["rows", "object", "one", "fields"] }),
        ("get_feed", "sep") => json!({ "pattern": "^[^\"\r\n]$" }),
        ("get_feed" | "export_stream", "where") => {
            json!({ "pattern": "^([^,:\\\\]*:[^,\\\\]*)?$" })
        }
        (_, "limit") => within(1, 500),
        (_, "max_rate") => within(1, 1_000),
        (_, "Idempotency-Key") => json!({ "pattern": HEADER_VALUE }),
        (_, "X-Item-Key") => name_of_field(),
        ("list_requests" | "list_audit", "since" | "until") => time(),
        ("list_audit", "action") => json!({ "enum": action_names() }),
        ("list_audit", "kind") => json!({ "enum": ResourceKind::ALL.map(ResourceKind::as_str) }),
        ("list_audit", "name" | "who") => json!({ "minLength": 1, "maxLength": 256 }),
        ("list_requests", "text") => json!({ "maxLength": 200 }),
        ("list_requests", "status") => {
            let names = Status::ALL.map(Status::as_str).join("|");
            json!({ "pattern": format!("^(({names})?(,|$))*$") })
        }
        ("discard_dead_letters", "id") => json!({ "minItems": 1, "maxItems": 1_000 }),
        ("discard_dead_letters", "request_id") => json!({ "format": "uuid" }),
        ("discard_dead_letters", "all") => json!({ "enum": [true] }),
        _ => Value::Null,
    }
}

/// Of a field of a body with this schema.
fn of_field(schema: &str, name: &str) -> Value {
    match (schema, name) {
        (_, "stream") => json!({ "minLength": 1, "maxLength": 128, "pattern": LINE }),
        (_, "preset") => {
            let names = webhook::presets().into_iter();
            json!({ "enum": names.map(|preset| preset.name.as_str()).collect::<Vec<_>>() })
        }
        (_, "grace_seconds") => within(0, GRACE_SECONDS_MAX),
        (_, "expires_at") => time(),
        ("TicketRequest", "streams") => json!({ "minItems": 1 }),
        // Ids are texts in answers, so both are taken.
        ("LetterSelection", "ids") => {
            let id = json!({ "type": ["string", "integer"], "pattern": "^[0-9]+$", "minimum": 0 });
            json!({ "minItems": 1, "maxItems": 1_000, "items": id })
        }
        ("LetterSelection", "request_id") => json!({ "format": "uuid" }),
        _ => Value::Null,
    }
}

fn within(min: u64, max: u64) -> Value {
    json!({ "minimum": min, "maximum": max })
}

fn name_of_field() -> Value {
    json!({ "minLength": 1, "maxLength": 1_024 })
}

fn time() -> Value {
    json!({ "format": "date-time" })
}
