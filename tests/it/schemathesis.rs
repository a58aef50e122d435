//! The OpenAPI documents under Schemathesis: calls made from them, good and bad, one by one and in chains, and every
//! answer held against them.
//!
//! A short run by default; `HEADGATE_SCHEMA_CASES=10000` makes so many calls, `HEADGATE_SEED` other ones. Where the
//! program is missing the test is skipped and says so; with `CI` set that is a failure. What is not checked stands with
//! its reason in `tests/fixtures/openapi`.
//!
//! **Invariant**: a status that the document does not name is a failure, though `default` allows clients to see it.

use std::net::SocketAddr;
use std::process::Command;

use serde_json::json;

use crate::faults::number;
use crate::openapi::{READ_KEY, document, with_data};
use crate::process::{BY_ID, Process, skipped};
use crate::program::{BUILD_MAX, output, output_within};
use crate::setup::{ADMIN_TOKEN, Setup, key_of};

/// Its two names.
const PROGRAMS: [&str; 2] = ["schemathesis", "st"];
const SERVICE: &str = include_str!("../fixtures/openapi/schemathesis-service.toml");
const ADMIN: &str = include_str!("../fixtures/openapi/schemathesis-admin.toml");

/// The program; `None` where there is none and none is required.
fn program(test: &str) -> Option<&'static str> {
    let found = PROGRAMS.into_iter().find(|program| {
        let told = output(Command::new(program).arg("--version"));
        told.is_ok_and(|told| String::from_utf8_lossy(&told.stdout).contains("version 4."))
    });
    if found.is_none() {
        let reason = "there is no schemathesis 4 (`pip install schemathesis`)";
        assert!(std::env::var_os("CI").is_none(), "{test}: {reason}");
        skipped(test, reason);
    }
    found
}

/// What calls are made of.
struct Calls<'a> {
    program: &'a str,
    /// What repeats them.
    seed: u64,
    /// Most calls that are made up of one operation, in each way.
    of_operation_max: u64,
}

impl Calls<'_> {
    /// Makes them against a listener; how many there were.
    fn make(&self, setup: &Setup, name: &str, address: SocketAddr, config: &str) -> u64 {
        let mut document = document(address);
        let paths = document["paths"].as_object_mut().expect("paths");
        let methods = paths.values_mut().filter_map(|path| path.as_object_mut());
        for operation in methods.flat_map(|methods| methods.values_mut()) {
            let responses = operation["responses"].as_object_mut();
            responses.expect("responses").remove("default");
        }
        let (config_file, document_file) = (format!("{name}.toml"), format!("{name}.json"));
        std::fs::write(setup.path(&config_file), config).expect("a file");
        std::fs::write(setup.path(&document_file), document.to_string()).expect("a file");
        let mut command = Command::new(self.program);
        command
            .current_dir(setup.path("."))
            .args(["--config-file", &config_file, "run", &document_file])
            .args(["--url", &format!("http://{address}")])
            .args(["--max-examples", &self.of_operation_max.to_string()])
            .args(["--seed", &self.seed.to_string()])
            .args(["--workers", "1", "--request-timeout", "60"])
            .args(["--generation-database", "none", "--warnings", "off"])
            .args(["--continue-on-failure", "--no-shrink", "--no-color"]);
        let output = output_within(BUILD_MAX, &mut command, b"").expect("it runs");
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "the {name} listener and its document differ, with HEADGATE_SEED={}:\n{told}{}",
            self.seed,
            String::from_utf8_lossy(&output.stderr)
        );
        let (before, _) = told.split_once(" generated").expect("a summary");
        let made = before.split_whitespace().next_back();
        made.expect("a number").parse().expect("a number")
    }
}

/// A daemon with something in every list; and a request that failed.
fn daemon() -> (Setup, Process, String) {
    let (setup, process, request_id) = with_data();
    for (path, body) in [
        (
            "connectors",
            json!({"name": "made", "kind": "webhook", "stream": "news"}),
        ),
        (
            "connectors/tests/keys",
            json!({"name": "made", "stream": "news"}),
        ),
        ("read-keys", json!({"name": "made", "streams": ["news"]})),
    ] {
        process.make(&format!("/api/admin/{path}"), &body);
    }
    (setup, process, request_id)
}

#[test]
fn every_answer_to_a_call_made_from_a_document_is_one_that_it_knows() {
    let Some(program) = program("schemathesis::every_answer") else {
        return;
    };
    let wanted = number("HEADGATE_SCHEMA_CASES").unwrap_or(0);
    let mut calls = Calls {
        program,
        seed: number("HEADGATE_SEED").unwrap_or(1),
        of_operation_max: if wanted == 0 { 4 } else { 60 },
    };
    let (mut service, mut admin) = (0, 0);
    loop {
        let (setup, mut process, request_id) = daemon();
        let config = SERVICE
            .replace("{ingest_key}", &key_of("orders"))
            .replace("{read_key}", READ_KEY);
        service += calls.make(&setup, "service", process.service, &config);
        let config = ADMIN
            .replace("{admin_token}", ADMIN_TOKEN)
            .replace("{request_id}", &request_id);
        admin += calls.make(&setup, "admin", process.admin, &config);
        process.accepted("orders", BY_ID, r#"{"id": "after"}"#);
        assert_eq!(process.metric("headgate_panics_total"), Some(0.0));
        assert!(process.lives());
        if service + admin >= wanted {
            break;
        }
        calls.seed += 1;
    }
    println!("{service} calls of the service listener, {admin} of the admin listener");
    assert!(service > 200 && admin > 800, "too few calls");
}
