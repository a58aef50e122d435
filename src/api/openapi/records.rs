//! The bodies that set records, from the rows of the records.
//!
//! **Invariant**: a body that its schema allows is refused for no reason that the rows can say.

use serde_json::{Map, Value, json};

use operate::TRIAL_ITEMS_MAX;
use settings::{Connector, Field, Key, ReadKey, Shape, Sink, Stream, TextKind};

/// The schemas of bodies by their names: the rows of the record, and whether it is a new one.
const BODIES: [(&str, &[Field], bool); 11] = [
    ("NewStream", Stream::FIELDS, true),
    ("StreamPatch", Stream::FIELDS, false),
    ("NewConnector", Connector::FIELDS, true),
    ("ConnectorPatch", Connector::FIELDS, false),
    ("NewKey", Key::FIELDS, true),
    ("KeyPatch", Key::FIELDS, false),
    ("NewReadKey", ReadKey::FIELDS, true),
    ("ReadKeyPatch", ReadKey::FIELDS, false),
    ("NewSink", Sink::FIELDS, true),
    ("SinkPatch", Sink::FIELDS, false),
    ("SinkTrial", Sink::FIELDS, false),
];

/// The schemas of answers that have all that can be set.
const ANSWERS: [(&str, &[Field]); 4] = [
    ("StreamData", Stream::FIELDS),
    ("ConnectorData", Connector::FIELDS),
    ("KeyData", Key::FIELDS),
    ("ReadKeyData", ReadKey::FIELDS),
];

/// Adds the rows to the answers that show a record.
pub(super) fn add_to_answers(schemas: &mut Value) {
    for (name, fields) in ANSWERS {
        let Some(schema) = schemas.get_mut(name) else {
            continue;
        };
        collapse(schema);
        let mut required = vec![Value::from("id")];
        required.retain(|_| !schema["properties"]["id"].is_null());
        for row in fields.iter().filter(|row| !row.declared) {
            let effective = Field {
                none: if row.effective { "" } else { row.none },
                ..*row
            };
            schema["properties"][row.name] = of_row(&effective);
            mask(row, &mut schema["properties"][row.name]);
            // As of other answers: what may be null may be left out.
            if effective.none.is_empty() {
                required.push(row.name.into());
            }
        }
        let others = schema["required"].take();
        let others = others.as_array().into_iter().flatten().cloned();
        required.extend(others.filter(|name| name != "id"));
        schema["required"] = required.into();
        if let Some(properties) = schema["properties"].as_object_mut() {
            properties.sort_keys();
        }
    }
}

/// Says how an answer has the secrets of a table.
fn mask(row: &Field, schema: &mut Value) {
    let Shape::Table(fields) = row.shape else {
        return;
    };
    for row in fields {
        let Shape::Secret = row.shape else {
            continue;
        };
        let shown = format!(
            "{} Shown as `********`, or as the file or variable that holds it. Null: there is none.",
            row.about()
        );
        let secret = &mut schema["properties"][row.name];
        secret["type"] = json!(["string", "object", "null"]);
        secret["description"] = shown.into();
    }
}

/// A schema that is its own fields and an open object is its own fields.
fn collapse(schema: &mut Value) {
    let parts = schema["allOf"].take();
    let Some(schema) = schema.as_object_mut() else {
        return;
    };
    schema.shift_remove("allOf");
    let parts = parts.as_array().into_iter().flatten();
    let parts = parts.filter_map(Value::as_object);
    for part in parts.filter(|part| part.contains_key("properties")) {
        schema.extend(part.clone());
    }
}

/// Adds the rows to the schema of this name, if it is that of a record.
pub(super) fn add(name: &str, schema: &mut Value) {
    let Some((_, fields, is_new)) = BODIES.iter().find(|(known, ..)| *known == name) else {
        return;
    };
    let rows = fields
        .iter()
        .filter(|row| !row.declared && (*is_new || !row.fixed));
    let mut properties = schema["properties"].take();
    if !properties.is_object() {
        properties = json!({});
    }
    for row in rows.clone() {
        properties[row.name] = of_row(row);
    }
    if let Some(properties) = properties.as_object_mut() {
        properties.sort_keys();
    }
    schema["properties"] = properties;
    if name == "SinkTrial" {
        properties_of_trial(&mut schema["properties"]);
    }
    if ["NewSink", "SinkPatch", "SinkTrial"].contains(&name) {
        as_merge_patch(&mut schema["properties"]);
    }
    let required = rows.filter(|row| *is_new && row.required && !row.assumed);
    let required: Vec<&str> = required.map(|row| row.name).collect();
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    // Where the first key of a connector is verified, it is as where a key is.
    if name == "NewConnector"
        && let Some(row) = Key::FIELDS.iter().find(|row| row.name == "verify")
    {
        let about = schema["properties"]["verify"]["description"].take();
        let mut verify = of_row(row);
        verify["description"] = about;
        schema["properties"]["verify"] = verify;
    }
}

/// What stands beside the section of a trial.
fn properties_of_trial(properties: &mut Value) {
    properties["name"] = json!({
        "type": "string", "description": "Of a section that is no sink's yet: what it would be called.",
    });
    properties["items"] = json!({
        "type": "array", "items": { "type": "object" }, "minItems": 1, "maxItems": TRIAL_ITEMS_MAX,
        "description": "Items to try it with; default: the newest item of its streams.",
    });
    properties["send"] = json!({
        "type": "boolean", "description": "Whether what the sink sends goes out, once.",
    });
}

/// A merge patch takes away what is null, wherever that stands, and need not say all.
fn as_merge_patch(properties: &mut Value) {
    for schema in properties.as_object_mut().into_iter().flatten() {
        let schema = schema.1;
        let mut kinds = match schema["type"].take() {
            Value::Array(kinds) => kinds,
            kind => vec![kind],
        };
        if !kinds.contains(&json!("null")) {
            kinds.push("null".into());
        }
        schema["type"] = kinds.into();
        if let Some(words) = schema["enum"].as_array_mut()
            && !words.contains(&Value::Null)
        {
            words.push(Value::Null);
        }
        if let Some(members) = schema.as_object_mut() {
            members.shift_remove("required");
            members.retain(|_, value| !value.is_null());
        }
        if schema["properties"].is_object() {
            as_merge_patch(&mut schema["properties"]);
        }
    }
}

/// A secret of a table as a body has it: its text, that it stays as it is, or null for none.
fn secret_or_none() -> Value {
    json!({
        "type": ["string", "object", "null"],
        "properties": { "set": { "type": "boolean", "enum": [true] } },
        "additionalProperties": false,
        "description": "Its text; `{\"set\": true}`: it stays as it is; null: there is none.",
    })
}

/// The schema of a field.
fn of_row(row: &Field) -> Value {
    let mut schema = of_shape(row);
    if !row.none.is_empty() {
        schema.insert("type".to_owned(), json!([schema["type"], "null"]));
        if let Some(words) = schema.get_mut("enum").and_then(Value::as_array_mut) {
            words.push(Value::Null);
        }
    }
    let none = match row.none {
        "" => String::new(),
        none => format!(" Null: {none}."),
    };
    schema.insert(
        "description".to_owned(),
        format!("{}{none}", row.about()).into(),
    );
    Value::Object(schema)
}

fn of_shape(row: &Field) -> Map<String, Value> {
    let schema = match row.shape {
        Shape::Integer(min, max) => {
            let format = if i32::try_from(max).is_ok() {
                "int32"
            } else {
                "int64"
            };
            json!({ "type": "integer", "format": format, "minimum": min, "maximum": max })
        }
        Shape::Boolean => json!({ "type": "boolean" }),
        Shape::Choice(words) => json!({ "type": "string", "enum": words }),
        Shape::Time => json!({ "type": "string", "format": "date-time" }),
        Shape::List(kind, least) => {
            let mut list = json!({ "type": "array", "items": of_text(&kind) });
            if least > 0 {
                list["minItems"] = least.into();
            }
            if row.entries_max < usize::MAX {
                list["maxItems"] = row.entries_max.into();
            }
            list
        }
        Shape::Table(fields) => {
            let required = fields.iter().filter(|row| row.required).map(|row| row.name);
            let properties = fields.iter().map(|row| (row.name.to_owned(), of_row(row)));
            json!({
                "type": "object",
                "required": required.collect::<Vec<_>>(),
                "properties": properties.collect::<Map<_, _>>(),
                "additionalProperties": false,
            })
        }
        Shape::Text(kind) => of_text(&kind),
        Shape::SecretList => json!({ "type": "array", "items": { "type": "string" } }),
        Shape::Secrets(_) => json!({
            "type": "object", "additionalProperties": secret_or_none(),
        }),
        Shape::Free => json!({ "type": "object" }),
        // The others are of files alone, but for the secret of a signing key.
        _ => json!({ "type": "string" }),
    };
    match schema {
        Value::Object(schema) => schema,
        _ => Map::new(),
    }
}

fn of_text(kind: &TextKind) -> Value {
    let mut schema = json!({ "type": "string" });
    if let Some((min, max)) = kind.chars {
        if min > 0 {
            schema["minLength"] = min.into();
        }
        schema["maxLength"] = max.into();
    }
    if !kind.pattern.is_empty() {
        schema["pattern"] = kind.pattern.into();
    }
    let words = (kind.words)();
    if !words.is_empty() {
        let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
        schema["enum"] = names.into();
    }
    schema
}
