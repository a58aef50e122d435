//! The OpenAPI documents: valid OpenAPI 3.1, true of every answer of a daemon with data; and the pages made from them.
//!
//! **Invariant**: operations are walked as the documents name them, none is listed here by hand.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::process::{Answer, Client, Process};
use crate::receiver::{Receiver, answer};
use crate::setup::{ADMIN_TOKEN, Setup, key_of};

/// The secret of the read key of [`with_data`].
pub(crate) const READ_KEY: &str = "rk_live_for_the_tests_of_documents_1";
/// The schema that the OpenAPI Initiative publishes.
const OPENAPI: &str = include_str!("../fixtures/openapi/schema-3.1.json");

/// An operation of a document.
#[derive(Debug)]
pub(crate) struct Operation {
    /// Upper case.
    pub(crate) method: String,
    /// With `{parameters}`.
    pub(crate) path: String,
    pub(crate) said: Value,
}

impl Operation {
    /// Whether this scheme opens it.
    pub(crate) fn needs(&self, scheme: &str) -> bool {
        let security = self.said["security"].as_array().expect("a list");
        security.iter().any(|one| one.get(scheme).is_some())
    }
}

/// The operations of a document.
pub(crate) fn operations(document: &Value) -> Vec<Operation> {
    let paths = document["paths"].as_object().expect("paths").iter();
    let operations = paths.flat_map(|(path, methods)| {
        let methods = methods.as_object().expect("methods").iter();
        methods.map(|(method, said)| Operation {
            method: method.to_uppercase(),
            path: path.clone(),
            said: said.clone(),
        })
    });
    operations.collect()
}

/// What a listener says without a key.
pub(crate) fn open(address: SocketAddr, path: &str) -> Answer {
    let mut client = Client::connect(address).expect("it listens");
    client.request("GET", path, "", "").expect("an answer")
}

/// The document of a listener.
pub(crate) fn document(address: SocketAddr) -> Value {
    let answer = open(address, "/openapi.json");
    assert_eq!(answer.status, 200);
    answer.json()
}

/// A daemon with an item, a dead letter, a read key, something in every list but that of renderers; and the request
/// that failed.
pub(crate) fn with_data() -> (Setup, Process, String) {
    let receiver = Receiver::start(|_, _| answer(400, "", "no"));
    let host = receiver.url("");
    let more = format!(
        "config = {{ url = \"{host}/\" }}\nhttp = {{ hosts = [\"{host}\"], networks = [\"127.0.0.0/8\"] }}\n"
    );
    let folder = Setup::with_streams(&["orders"])
        .sink("pool", "pool", "*", "")
        .sink("back", "http-forward", "orders", &more)
        .given_read_key(
            "screen",
            &["orders"],
            READ_KEY,
            "operate = true\nexpect = true",
        );
    let process = folder.spawn();
    let headers = "X-Item-Key: id\r\nIdempotency-Key: once\r\n";
    let id = process.accepted(
        "orders",
        headers,
        r#"[{"id": "1", "a": {"b": 1.50}}, {"id": "2"}]"#,
    );
    process.accepted("orders", headers, r#"{"id": "1"}"#);
    assert_eq!(process.post("orders", "", "{").status, 400);
    process.request_becomes(&id, "failed");
    process.make("/api/admin/streams", &json!({"name": "news"}));
    (folder, process, id)
}

/// The path with parameters of things that are there.
pub(crate) fn filled(path: &str, request_id: &str) -> String {
    let mut path = path.to_owned();
    for (parameter, value) in [
        // The other one is removed at the service listener.
        ("/streams/{name}/items/{key}", "/streams/orders/items/2"),
        ("/connectors/{id}", "/connectors/tests"),
        ("/keys/{name}", "/keys/orders"),
        ("/read-keys/{name}", "/read-keys/screen"),
        ("/screens/{name}", "/screens/screen"),
        ("/sinks/{name}", "/sinks/back"),
        ("/plugins/{name}", "/plugins/pool"),
        ("/presets/{name}", "/presets/github"),
        ("/dead-letters/{id}", "/dead-letters/1"),
        ("/retries/{id}", "/retries/1"),
        ("/sessions/{id}", "/sessions/none"),
        ("/nodes/{name}", "/nodes/none"),
        ("/api/admin/search", "/api/admin/search?q=1"),
        ("/streams/{name}", "/streams/orders"),
        ("/export.{format}", "/export.json"),
        ("/feed/{stream}.{format}", "/feed/orders.json"),
        ("/{stream}", "/orders"),
        ("/{verb}", "/add"),
        ("/{connector}", "/tests"),
        ("/items/{key}", "/items/1"),
        ("/{request_id}", &format!("/{request_id}")),
    ] {
        path = path.replace(parameter, value);
    }
    assert!(!path.contains('{'), "nothing is known for {path}");
    path
}

/// Schemas that take no field which they do not name.
fn strict(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if members.get("properties").is_some() {
                let closed = json!(false);
                members.entry("additionalProperties").or_insert(closed);
            }
            members.values_mut().for_each(strict);
        }
        Value::Array(values) => values.iter_mut().for_each(strict),
        _ => {}
    }
}

/// What is wrong with a value as this schema of a document says.
fn misfits(document: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let mut whole = json!({"components": document["components"], "allOf": [schema]});
    strict(&mut whole["components"]);
    let validator = jsonschema::draft202012::new(&whole).expect("a schema");
    let errors = validator.iter_errors(value);
    let errors = errors.map(|error| format!("{}: {error}", error.instance_path()));
    errors.collect()
}

fn call(address: SocketAddr, operation: &Operation, request_id: &str, body: &str) -> Answer {
    let path = filled(&operation.path, request_id);
    let secret = match () {
        () if operation.needs("ingest_key") => key_of("orders"),
        () if operation.needs("read_key") || operation.needs("operate_key") => READ_KEY.to_owned(),
        () => ADMIN_TOKEN.to_owned(),
    };
    let mut client = Client::connect(address).expect("it listens");
    let answer = client.call(&operation.method, &path, &secret, body);
    answer.unwrap_or_else(|error| panic!("{} {path}: {error}", operation.method))
}

/// Whether the answer is one that the document knows.
fn check(document: &Value, operation: &Operation, answer: &Answer) {
    let name = format!("{} {}", operation.method, operation.path);
    let response = &operation.said["responses"][answer.status.to_string()];
    assert!(
        response.is_object(),
        "{name} answers {}, of which the document says nothing: {}",
        answer.status,
        answer.body
    );
    let Some(content) = response["content"].as_object() else {
        assert_eq!(answer.body, "", "{name}");
        return;
    };
    let kind = answer.header("content-type").unwrap_or_default();
    let known = content.iter().find(|(known, _)| kind.starts_with(*known));
    let (known, content) = known.unwrap_or_else(|| panic!("{name} answers {kind}"));
    if known == "application/json" {
        let wrong = misfits(document, &content["schema"], &answer.json());
        assert_eq!(wrong, Vec::<String>::new(), "{name}: {}", answer.body);
    }
}

#[test]
fn both_documents_are_valid_openapi_3_1() {
    let process = Setup::with_streams(&["orders"]).spawn();
    let schema: Value = serde_json::from_str(OPENAPI).expect("JSON");
    let validator = jsonschema::draft202012::new(&schema).expect("a schema");
    for address in [process.service, process.admin] {
        let mut document = document(address);
        let wrong: Vec<String> = validator
            .iter_errors(&document)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert_eq!(wrong, Vec::<String>::new());
        // What the official schema leaves to others: schemas are schemas, names are unique, tags are explained.
        let schemas = document["components"]["schemas"].as_object();
        for (name, schema) in schemas.expect("schemas") {
            let meta = jsonschema::draft202012::meta::validate(schema);
            assert!(meta.is_ok(), "{name}: {meta:?}");
        }
        let tags = document["tags"].as_array().expect("tags").iter();
        let tags: BTreeSet<String> = tags.map(|tag| tag["name"].to_string()).collect();
        let mut ids = BTreeSet::new();
        for operation in operations(&document) {
            let said = &operation.said;
            assert!(ids.insert(said["operationId"].to_string()), "{operation:?}");
            assert!(tags.contains(&said["tags"][0].to_string()), "{said}");
            for (kind, body) in said["requestBody"]["content"]
                .as_object()
                .into_iter()
                .flatten()
            {
                if kind == "application/wasm" {
                    continue;
                }
                let example = &body["example"];
                let wrong = misfits(&document, &body["schema"], example);
                assert_eq!(wrong, Vec::<String>::new(), "the example {example}");
                assert!(example.is_object() || example.is_array(), "{operation:?}");
            }
        }
        // The check can fail.
        document["info"]["title"] = json!(7);
        assert!(!validator.is_valid(&document));
    }
}

#[test]
fn names_of_version_0_1_are_deprecated() {
    let process = Setup::with_streams(&["orders"]).spawn();
    let document = document(process.admin);
    let old = operations(&document).into_iter();
    let old = old.filter(|operation| operation.said["deprecated"] == true);
    let paths: Vec<String> = old.map(|operation| operation.path).collect();
    assert_eq!(
        paths,
        [
            "/api/admin/requests/{request_id}/send-again",
            "/api/admin/sinks/{name}/retries/give-up",
        ]
    );
    for (answer, field) in [
        ("EndedRetriesData", "given_up"),
        ("ReloadedScreens", "told"),
        ("VerifiedData", "misfit"),
    ] {
        let fields = &document["components"]["schemas"][answer]["properties"];
        assert_eq!(fields[field]["deprecated"], true, "{fields}");
    }
}

#[test]
fn every_answer_is_one_that_the_document_knows() {
    let (folder, process, request_id) = with_data();
    for address in [process.service, process.admin] {
        let document = document(address);
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            for operation in operations(&document) {
                let ends_never = operation.path == "/api/live";
                let has_no_length = operation.path.ends_with("/export.{format}");
                if operation.method != method || ends_never || has_no_length {
                    continue;
                }
                let body = match operation.path.as_str() {
                    "/api/admin/backups" => json!({"dir": folder.path("backup")}),
                    _ => operation.said["requestBody"]["content"]["application/json"]["example"]
                        .clone(),
                };
                let body = match body {
                    Value::Null => String::new(),
                    body => body.to_string(),
                };
                let answer = call(address, &operation, &request_id, &body);
                check(&document, &operation, &answer);
                // Built-in plugins give theirs to nobody; the tests of plugins ask for one that was added.
                if method == "GET" && !operation.path.ends_with("/component") {
                    assert_eq!(answer.status, 200, "{operation:?}: {}", answer.body);
                }
                if operation.said["requestBody"].is_object() {
                    let answer = call(address, &operation, &request_id, "[1");
                    check(&document, &operation, &answer);
                    assert_eq!(answer.status, 400, "{operation:?}: {}", answer.body);
                }
                let nobody = filled(&operation.path, "none").replace("/orders", "/none");
                let nobody = nobody
                    .replace("/sinks/back", "/sinks/none")
                    .replace("/tests", "/none");
                let unknown = Operation {
                    path: nobody,
                    method: operation.method.clone(),
                    said: operation.said.clone(),
                };
                let answer = call(address, &unknown, &request_id, &body);
                check(&document, &unknown, &answer);
            }
        }
    }
    // The check can fail.
    let document = document(process.admin);
    let status = json!({"$ref": "#/components/schemas/Success_StatusData_"});
    let good = json!({"success": true, "data": process.admin("/api/admin/status")});
    assert_eq!(misfits(&document, &status, &good), Vec::<String>::new());
    for (field, value) in [("version", json!(1)), ("more", json!(1))] {
        let mut bad = good.clone();
        bad["data"][field] = value;
        assert_ne!(misfits(&document, &status, &bad), Vec::<String>::new());
    }
}

#[test]
fn the_documentation_shows_every_operation_and_loads_nothing_from_elsewhere() {
    let process = Setup::with_streams(&["orders"]).spawn();
    for address in [process.service, process.admin] {
        let answer = open(address, "/docs/api");
        assert_eq!(answer.status, 200);
        let policy = answer.header("content-security-policy").expect("a policy");
        assert!(
            policy.contains("default-src 'none'") && !policy.contains("unsafe"),
            "{policy}"
        );
        let page = answer.body;
        for attribute in [" src=\"", " href=\"", " action=\""] {
            for target in page.split(attribute).skip(1) {
                let own =
                    target.starts_with('#') || target.starts_with('/') && !target.starts_with("//");
                assert!(own, "{}", target.chars().take(40).collect::<String>());
            }
        }
        assert!(!page.contains("<script") && !page.contains(" style="));
        let mut anchors = BTreeSet::new();
        for part in page.split(" id=\"").skip(1) {
            let id = part.split('"').next().expect("an id");
            assert!(anchors.insert(id), "{id} is there twice");
        }
        for link in page.split("href=\"#").skip(1) {
            let link = link.split('"').next().expect("a link");
            assert!(anchors.contains(link), "{link} leads nowhere");
        }
        let document = document(address);
        for operation in operations(&document) {
            let id = operation.said["operationId"].as_str().expect("an id");
            let (_, shown) = page
                .split_once(&format!("<article class=\"panel\" id=\"{id}\""))
                .unwrap_or_else(|| panic!("{id} is not shown"));
            let (shown, _) = shown.split_once("</article>").expect("an end");
            assert!(shown.contains(&operation.path), "{shown}");
            assert!(shown.contains("curl"), "{shown}");
            let parameters = operation.said["parameters"].as_array();
            for parameter in parameters.into_iter().flatten() {
                let name = parameter["name"].as_str().expect("a name");
                assert!(
                    shown.contains(&format!(">{name}</code>")),
                    "{name}: {shown}"
                );
            }
            let responses = operation.said["responses"].as_object();
            for (status, _) in responses.expect("responses") {
                assert!(shown.contains(&format!(">{status}</span>")), "{shown}");
            }
        }
        let css = open(address, "/docs.css");
        assert_eq!(
            (css.status, css.header("content-type")),
            (200, Some("text/css; charset=utf-8"))
        );
    }
}
