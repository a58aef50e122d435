//! Renders a schema as lists of fields.
//!
//! **Invariant**: rendering always ends: a schema inside of itself is named and not rendered again.

use maud::{Markup, html};
use serde_json::Value;

use super::inline;

/// Maximum depth of fields.
const DEPTH_MAX: usize = 12;
/// More values are shown as one text: the presets stand in many places.
const VALUES_MAX: usize = 12;
const SCHEMAS: &str = "#/components/schemas/";
const LIMITS: [&str; 6] = [
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "default",
];

/// The schemas around a value, the outermost first.
type Inside<'a> = Vec<&'a str>;

/// Renders a schema with the fields of its objects.
pub(super) fn show(document: &Value, schema: &Value) -> Markup {
    show_in(document, schema, &mut Vec::new())
}

fn show_in<'a>(document: &'a Value, schema: &'a Value, inside: &mut Inside<'a>) -> Markup {
    let (schema, entered) = resolved(document, schema);
    if let Some(name) = entered {
        if inside.contains(&name) || inside.len() >= DEPTH_MAX {
            return html! { p.quiet { code { (name) } ", as above" } };
        }
        inside.push(name);
    }
    let shown = html! {
        @if let Some(fields) = schema["properties"].as_object().filter(|fields| !fields.is_empty()) {
            ul.fields { @for (name, field) in fields {
                @let (needed, inner) = (is_required(schema, name), without_null(field));
                li {
                    code.name { (name) }
                    " " span.type { (kind(field)) }
                    " " @if needed { span.badge { "required" } } @else { span.quiet { "· optional" } }
                    (description_of(document, field))
                    (show_in(document, inner, inside))
                }
            } }
        } @else if let Some(items) = schema.get("items") {
            (show_in(document, items, inside))
        } @else if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
            (show_in(document, values, inside))
        } @else {
            @for part in parts(schema) { (show_in(document, part, inside)) }
        }
    };
    if entered.is_some() {
        inside.pop();
    }
    shown
}

/// The description of a field, and its limits.
fn description_of(document: &Value, field: &Value) -> Markup {
    let (target, _) = resolved(document, field);
    let own = parts(field).filter_map(|part| part["description"].as_str());
    let own = own.chain(field["description"].as_str()).last();
    let limits = LIMITS.iter().filter_map(|name| {
        let limit = target.get(name).filter(|limit| !limit.is_null())?;
        // Every unsigned integer has this minimum.
        let said = *name != "minimum" || limit != 0;
        said.then(|| format!("{name} {limit}"))
    });
    let limits: Vec<String> = limits.collect();
    html! {
        @if let Some(own) = own { p { (inline(own)) } }
        @if !limits.is_empty() { p.quiet { (limits.join(", ")) } }
    }
}

/// The type of a value: `string or null`, `array of Item`.
pub(super) fn kind(schema: &Value) -> Markup {
    if let Some(name) = schema["$ref"].as_str() {
        return html! { code { (name.strip_prefix(SCHEMAS).unwrap_or(name)) } };
    }
    let values = schema["enum"].as_array();
    if let Some(values) = values.filter(|values| values.len() > VALUES_MAX) {
        let text = |value: &Value| {
            value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned)
        };
        let values: Vec<String> = values.iter().map(text).collect();
        return html! { "one of " code { (values.join(", ")) } };
    }
    if let Some(values) = values {
        return html! { @for (place, value) in values.iter().enumerate() {
            @if place > 0 { " or " }
            code { (value) }
        } };
    }
    let kinds: Vec<&Value> = parts(schema).filter(|part| says_what(part)).collect();
    if !kinds.is_empty() {
        return html! { @for (place, part) in kinds.iter().enumerate() {
            @if place > 0 { " or " }
            (kind(part))
        } };
    }
    let names: Vec<&str> = match &schema["type"] {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => vec!["any value"],
    };
    html! {
        @for (place, name) in names.iter().enumerate() {
            @if place > 0 { " or " }
            (name)
            @if let ("array", Some(items)) = (*name, schema.get("items")) { " of " (kind(items)) }
            @if let ("integer" | "number" | "string", Some(format)) = (*name, schema["format"].as_str()) { " (" (format) ")" }
        }
    }
}

fn says_what(schema: &Value) -> bool {
    ["$ref", "type", "enum", "oneOf", "anyOf", "allOf"]
        .iter()
        .any(|key| schema.get(key).is_some())
}

/// The schemas that a schema combines.
fn parts(schema: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["allOf", "oneOf", "anyOf"].into_iter();
    lists.flat_map(|name| schema[name].as_array().into_iter().flatten())
}

/// The other schema of a field that can be null, so that its fields are shown.
fn without_null(schema: &Value) -> &Value {
    let mut others = parts(schema).filter(|part| part["type"] != "null" && says_what(part));
    match (others.next(), others.next()) {
        (Some(one), None) => without_null(one),
        _ => schema,
    }
}

fn is_required(schema: &Value, name: &str) -> bool {
    let mut names = schema["required"].as_array().into_iter().flatten();
    names.any(|required| required == name)
}

/// The target of a reference, and its name.
pub(super) fn resolved<'a>(document: &'a Value, schema: &'a Value) -> (&'a Value, Option<&'a str>) {
    let Some(name) = schema["$ref"]
        .as_str()
        .and_then(|to| to.strip_prefix(SCHEMAS))
    else {
        return (schema, None);
    };
    (&document["components"]["schemas"][name], Some(name))
}
