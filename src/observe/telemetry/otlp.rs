//! Spans as collectors take them: OTLP in JSON, version 1 of its protocol.
//!
//! Ids are hex digits there, and numbers of 64 bits are texts.
//!
//! **Invariant**: what is said of a request are names, numbers and times: no key, no header, nothing of a body.

use std::time::Instant;

use serde_json::{Value as Json, json};

use super::context::Hex;
use super::{Open, Span, Trace, Value};

/// What is said of all spans of the daemon.
pub(super) fn resource(service_name: &str) -> Json {
    json!({"attributes": [
        text("service.name", service_name),
        text("service.version", env!("CARGO_PKG_VERSION")),
        text("service.instance.id", &uuid::Uuid::now_v7().to_string()),
    ]})
}

/// The body of a request to the collector.
pub(super) fn body(resource: &Json, spans: &[Span]) -> Vec<u8> {
    let spans: Vec<Json> = spans.iter().map(span).collect();
    let scope = json!({"name": "headgate", "version": env!("CARGO_PKG_VERSION")});
    let body = json!({"resourceSpans": [{
        "resource": resource,
        "scopeSpans": [{"scope": scope, "spans": spans}],
    }]});
    body.to_string().into_bytes()
}

/// How many spans a collector says that it has not taken, of those that it was sent.
pub(super) fn rejected(answer: &[u8]) -> u64 {
    let answer: Json = serde_json::from_slice(answer).unwrap_or_default();
    match &answer["partialSuccess"]["rejectedSpans"] {
        Json::String(number) => number.parse().unwrap_or(0),
        number => number.as_u64().unwrap_or(0),
    }
}

fn span(span: &Span) -> Json {
    let Span { open, ended } = span;
    let Open { trace, error, .. } = open;
    let attributes = open.attributes.iter().map(|(name, value)| match value {
        Value::Text(value) => text(name, value),
        Value::Name(value) => text(name, value),
        Value::Number(number) => {
            json!({"key": name, "value": {"intValue": number.to_string()}})
        }
    });
    let mut attributes: Vec<Json> = attributes.collect();
    attributes.extend(error.map(|error| text("error.type", error)));
    let mut span = json!({
        "traceId": Hex(&trace.id).to_string(),
        "spanId": Hex(&open.id).to_string(),
        "name": open.name,
        "kind": open.kind as u32,
        "startTimeUnixNano": at(trace, open.began),
        "endTimeUnixNano": at(trace, *ended),
        "attributes": attributes,
        // Unset, or an error.
        "status": if error.is_some() { json!({"code": 2}) } else { json!({}) },
        "flags": 1,
    });
    if let Some(parent) = &open.parent {
        span["parentSpanId"] = Hex(parent).to_string().into();
    }
    if let Some(state) = &trace.state {
        span["traceState"] = (**state).into();
    }
    span
}

fn text(name: &str, value: &str) -> Json {
    json!({"key": name, "value": {"stringValue": value}})
}

/// Unix time in nanoseconds.
fn at(trace: &Trace, moment: Instant) -> String {
    let since = moment.saturating_duration_since(trace.began).as_nanos();
    let since = u64::try_from(since).unwrap_or(u64::MAX);
    trace.began_unix_ns.saturating_add(since).to_string()
}

#[cfg(test)]
mod tests {
    use super::rejected;

    #[test]
    fn what_a_collector_rejects_is_read_in_both_forms() {
        for (answer, expected) in [
            ("", 0),
            ("{}", 0),
            (r#"{"partialSuccess":{}}"#, 0),
            (r#"{"partialSuccess":{"rejectedSpans":"3"}}"#, 3),
            (
                r#"{"partialSuccess":{"rejectedSpans":4,"errorMessage":"x"}}"#,
                4,
            ),
        ] {
            assert_eq!(rejected(answer.as_bytes()), expected, "{answer}");
        }
    }
}
