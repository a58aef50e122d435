//! The OpenAPI documents, made from the same routes that serve, when somebody asks for the first time: few do, and making
//! one takes several times as long as the rest of a start.
//!
//! **Invariant**: a route that exists is described: the documents are generated, not written.

mod limits;
mod records;

use std::sync::{Arc, Once};

use salvo_core::http::StatusCode;
use salvo_core::{Depot, FlowCtrl, Handler, Request, Response, Router, async_trait};
use salvo_oapi::naming::{FlexNamer, set_namer};
use salvo_oapi::security::{Http, HttpAuthScheme};
use salvo_oapi::{Info, OpenApi, SecurityScheme};
use serde_json::{Value, json};

use http::document::{Document, Made};
use http::envelope;

/// What the tags stand for, in the order in which people meet them.
const TAGS: [(&str, &str); 15] = [
    (
        "submit",
        "Submit items, and ask for the status of a request.",
    ),
    (
        "read",
        "Read the items of streams and follow their changes.",
    ),
    ("status", "The status of the daemon."),
    ("streams", "The named destinations of items."),
    (
        "acts",
        "What operators show instead of the source's values: overrides, holds, undo.",
    ),
    (
        "operate",
        "Overrides, holds and undo with an operate key, for controllers and tablets.",
    ),
    ("connectors", "The data sources. Each has ingest keys."),
    (
        "keys",
        "Ingest keys: each submits to one stream, for one connector. A secret is shown once.",
    ),
    ("read keys", "Keys for renderers. The secret is shown once."),
    ("requests", "The request log of each connector."),
    (
        "sinks",
        "Where items go, and the dead letters: items that a sink could not deliver.",
    ),
    ("renderers", "The connected screens."),
    ("backups", "Consistent copies of the data directory."),
    ("audit", "Who changed what at run time."),
    ("health", "Health, readiness and metrics of the daemon."),
];

/// The scheme of the admin API.
const ADMIN_TOKEN: &str = "admin_token";
const REQUEST_ID: &str = "X-Request-Id";
const RETRY_AFTER: &str = "Retry-After";
const WWW_AUTHENTICATE: &str = "WWW-Authenticate";

/// What paths of the admin API name.
struct Named {
    /// How the path begins.
    path: &'static str,
    /// What is answered where there is none.
    missing: &'static str,
    /// Whether a configuration may declare it, so that it cannot be changed at run time.
    declarable: bool,
}

/// The longer paths first.
const NAMED: [Named; 7] = [
    named("/api/admin/streams/{name}", "No such stream.", true),
    named(
        "/api/admin/connectors/{id}/keys/{name}",
        "No such connector or key.",
        true,
    ),
    named("/api/admin/connectors/{id}", "No such connector.", true),
    named("/api/admin/read-keys/{name}", "No such read key.", true),
    named(
        "/api/admin/requests/{request_id}",
        "No such request in the log.",
        false,
    ),
    named("/api/admin/sinks/{name}", "No such sink.", false),
    named("/api/admin/sessions/{id}", "No such session.", false),
];

/// A path of version 0.1, which leads to the same handler as the path of today.
struct OldPath {
    path: &'static str,
    operation_id: &'static str,
    now: &'static str,
}

/// Removed in version 0.3.
const OLD_PATHS: [OldPath; 2] = [
    OldPath {
        path: "/api/admin/requests/{request_id}/send-again",
        operation_id: "send_request_again",
        now: "/api/admin/requests/{request_id}/resend",
    },
    OldPath {
        path: "/api/admin/sinks/{name}/retries/give-up",
        operation_id: "give_up_retries",
        now: "/api/admin/sinks/{name}/retries/end",
    },
];
/// How the descriptions of paths and fields of version 0.1 begin.
const DEPRECATED: &str = "Deprecated: ";

const fn named(path: &'static str, missing: &'static str, declarable: bool) -> Named {
    Named {
        path,
        missing,
        declarable,
    }
}

/// The scheme of the key that opens an operation, by path and method, and what that is in words.
type KeyOf = fn(&str, &str) -> (&'static str, &'static str);

/// The document of the service listener, which has these routes.
pub fn service(routes: impl Fn() -> Router + Send + Sync + 'static) -> Arc<Document> {
    Document::new(move || {
        document(
            &routes(),
            "Headgate",
            "Submit items and ask for their status; read items and follow their changes.",
            &[
                ("ingest_key", "An ingest key, `ik_live_…` or `ik_test_…`."),
                ("read_key", "A read key, `rk_live_…`."),
                ("operate_key", "An operate key, `ok_live_…`."),
            ],
            |path, method| match path {
                path if path.starts_with("/api/operate") => ("operate_key", "operate key"),
                "/api/live" => ("read_key", "read key or ticket"),
                "/api/tickets" => ("read_key", "read key"),
                path if path.starts_with("/api/streams") && method == "get" => {
                    ("read_key", "read key")
                }
                path if path.starts_with("/feed/") => ("read_key", "read key"),
                _ => ("ingest_key", "ingest key"),
            },
        )
    })
}

/// The document of the admin listener, which has these routes.
pub fn admin(routes: impl Fn() -> Router + Send + Sync + 'static) -> Arc<Document> {
    Document::new(move || {
        document(
            &routes(),
            "Headgate admin",
            "Read requests, their status and the state of the sinks; resend or discard dead letters. Create and change streams, connectors and keys. Create backups.",
            &[(
                ADMIN_TOKEN,
                "The admin token, or another one of the configuration; by default it is in the file `admin.token` of the data directory. Its role determines its permissions.",
            )],
            |_, _| (ADMIN_TOKEN, "admin token"),
        )
    })
}

fn document(
    router: &Router,
    title: &str,
    description: &str,
    schemes: &[(&str, &str)],
    key_of: KeyOf,
) -> Made {
    // OpenAPI allows letters, digits, `.`, `-` and `_` in the names of schemas.
    static NAMES: Once = Once::new();
    NAMES.call_once(|| {
        set_namer(
            FlexNamer::new()
                .short_mode(true)
                .generic_delimiter("_", "_"),
        );
    });
    let info = Info::new(title, env!("CARGO_PKG_VERSION")).description(description);
    let mut document = OpenApi::with_info(info);
    for (name, about) in schemes {
        let bearer = Http::new(HttpAuthScheme::Bearer).description(*about);
        document = document.add_security_scheme(*name, SecurityScheme::Http(bearer));
    }
    let document = document.merge_router(router);
    let mut value = serde_json::to_value(&document).unwrap_or_default();
    deprecate(&mut value);
    complete(&mut value, key_of);
    feeds(&mut value);
    limits::describe(&mut value);
    Made {
        json: serde_json::to_vec(&value).unwrap_or_default(),
        value,
    }
}

/// Marks what version 0.1 had under another name. An old path has the operation of the path of today, whose id
/// would be there twice otherwise.
fn deprecate(document: &mut Value) {
    for old in &OLD_PATHS {
        let operations = document["paths"].get_mut(old.path);
        let operations = operations.and_then(Value::as_object_mut);
        for (method, operation) in operations.into_iter().flatten() {
            let use_now = format!(
                "{DEPRECATED}use `{} {}`. Version 0.3 removes this path.",
                method.to_uppercase(),
                old.now
            );
            operation["operationId"] = json!(old.operation_id);
            operation["description"] = json!(use_now);
            operation["deprecated"] = json!(true);
        }
    }
    deprecate_fields(&mut document["components"]["schemas"]);
}

/// Marks the fields that say in their description that they are deprecated.
fn deprecate_fields(schemas: &mut Value) {
    let schemas = schemas.as_object_mut().into_iter().flatten();
    let fields = schemas.filter_map(|(_, schema)| schema.get_mut("properties")?.as_object_mut());
    for (_, field) in fields.flatten() {
        // Next to a reference, the description is a part of its own.
        let parts = field["allOf"].as_array().into_iter().flatten();
        let is_old = |part: &Value| {
            let said = part["description"].as_str();
            said.is_some_and(|said| said.starts_with(DEPRECATED))
        };
        let is_deprecated = parts.chain([&*field]).any(is_old);
        if is_deprecated {
            field["deprecated"] = json!(true);
        }
    }
}

/// Adds what is the same for many operations: which key opens it, what is answered without one, to a body or a
/// parameter that cannot be used, to a path that names nothing, and to whatever else goes wrong; the headers of answers;
/// and the tags' descriptions.
fn complete(document: &mut Value, key_of: KeyOf) {
    let mut used = Vec::new();
    let paths = document["paths"].as_object_mut().into_iter().flatten();
    for (path, operations) in paths {
        for (method, operation) in operations.as_object_mut().into_iter().flatten() {
            used.extend(operation["tags"][0].as_str().map(str::to_owned));
            complete_named(path, method, &mut operation["responses"]);
            // Public ones say so themselves.
            if operation["security"].is_null() {
                let (scheme, what) = key_of(path, method);
                operation["security"] = json!([{ scheme: [] }]);
                operation["responses"]["401"] =
                    json!({ "description": format!("No valid {what}.") });
                if scheme == ADMIN_TOKEN && operation["responses"]["403"].is_null() {
                    operation["responses"]["403"] =
                        json!({ "description": "The role of the token does not allow it." });
                }
                if scheme == ADMIN_TOKEN {
                    let paused = "Too many invalid admin tokens from this address.";
                    operation["responses"]["429"] = json!({ "description": paused });
                }
            }
            if let Some(unusable) = unusable(operation)
                && operation["responses"]["400"].is_null()
            {
                operation["responses"]["400"] = json!({ "description": unusable });
            }
            let other = "Any other error, in the form of all errors.";
            operation["responses"]["default"] = json!({ "description": other });
            let responses = operation["responses"].as_object_mut().into_iter().flatten();
            for (status, response) in responses {
                response["headers"] = headers_of(status);
                if is_error(status) {
                    response["content"] = json!({
                        "application/json": { "schema": { "$ref": "#/components/schemas/ErrorBody" } },
                    });
                }
            }
        }
    }
    let tags = TAGS
        .iter()
        .filter(|(name, _)| used.iter().any(|used| used == name));
    let tags = tags.map(|(name, description)| json!({"name": name, "description": description}));
    document["tags"] = tags.collect();
    document["components"]["headers"] = headers();
}

/// The headers that answers refer to.
fn headers() -> Value {
    json!({
        REQUEST_ID: {
            "description": "The id of the request; for a duplicate, the id of the first request.",
            "required": true,
            "schema": { "type": "string", "format": "uuid" },
        },
        RETRY_AFTER: {
            "description": "Seconds to wait before a retry.",
            "required": true,
            "schema": { "type": "integer", "minimum": 1 },
        },
        WWW_AUTHENTICATE: {
            "description": "How to send a key.",
            "required": true,
            "schema": { "type": "string" },
        },
    })
}

/// Adds what feeds and exports are written as, which the types of answers do not say.
fn feeds(document: &mut Value) {
    let feed = "/paths/~1feed~1{stream}.{format}/get/responses/200";
    let export = "/paths/~1api~1admin~1streams~1{name}~1export.{format}/get/responses/200";
    let answers = [
        (feed, feed::content_types().to_vec()),
        (export, feed::export::content_types().collect()),
    ];
    for (answer, content_types) in answers {
        if let Some(answer) = document.pointer_mut(answer) {
            answer["content"] = contents(&content_types);
        }
    }
}

/// What a table is in each of these content types.
fn contents(content_types: &[&str]) -> Value {
    let contents = content_types.iter().map(|content_type| {
        let schema = match content_type.contains("json;") && !content_type.contains("ndjson") {
            true => json!({ "type": ["array", "object"] }),
            false => json!({ "type": "string" }),
        };
        (
            content_type
                .split(';')
                .next()
                .unwrap_or_default()
                .to_owned(),
            json!({ "schema": schema }),
        )
    });
    Value::Object(contents.collect())
}

/// What stands beside every answer of this status.
fn headers_of(status: &str) -> Value {
    let more = match status {
        "401" => Some(WWW_AUTHENTICATE),
        "429" => Some(RETRY_AFTER),
        _ => None,
    };
    let headers = [Some(REQUEST_ID), more].into_iter().flatten();
    let header = |name: &str| json!({ "$ref": format!("#/components/headers/{name}") });
    Value::Object(
        headers
            .map(|name| (name.to_owned(), header(name)))
            .collect(),
    )
}

/// Adds what is answered where the path names nothing, and where it names what a configuration declares.
fn complete_named(path: &str, method: &str, responses: &mut Value) {
    let found = NAMED.iter().find(|named| path.starts_with(named.path));
    let Some(named) = found else {
        return;
    };
    if responses["404"].is_null() {
        responses["404"] = json!({ "description": named.missing });
    }
    if named.declarable && method != "get" && responses["409"].is_null() {
        responses["409"] =
            json!({ "description": "The resource is defined in the configuration." });
    }
    if let Some(responses) = responses.as_object_mut() {
        responses.sort_keys();
    }
}

fn is_error(status: &str) -> bool {
    status == "default" || status.starts_with(['4', '5'])
}

/// What of a call cannot be used, where something may be wrong with it.
fn unusable(operation: &Value) -> Option<&'static str> {
    if !operation["requestBody"].is_null() {
        return Some("The body is invalid.");
    }
    let mut parameters = operation["parameters"].as_array().into_iter().flatten();
    let in_query = parameters.any(|parameter| parameter["in"] == "query");
    in_query.then_some("A parameter cannot be used.")
}

/// `GET /openapi.json`
pub struct GetDocument(pub Arc<Document>);

#[async_trait]
impl Handler for GetDocument {
    async fn handle(&self, _: &mut Request, _: &mut Depot, res: &mut Response, _: &mut FlowCtrl) {
        envelope::write_json(res, StatusCode::OK, self.0.made().await.json.clone());
    }
}
