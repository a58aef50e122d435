//! Sinks that misbehave in every way that the fixtures know, each beside one that behaves; and what an operator
//! does about them.
//!
//! The guests are in `tests/fixtures/guests`; they are compiled once for all tests. Each test gives the real program
//! a hostile sink on the stream `hostile` and the built-in one on the stream `innocent`. What a hostile sink did deliver
//! is seen in the pool, because no other sink writes its stream.
//!
//! **Invariant**: after every test the daemon lives, takes requests, and has delivered everything innocent.

mod believing;
mod budgets;
mod containment;
mod exactly_once;
mod forward;
pub(crate) mod http;
mod hundred;
mod influx;
mod letters;
mod lifecycle;
mod loading;
mod makes;
mod ordering;
mod poison;
mod removals;
mod rules;
mod selected;
mod statements;
mod supplied;
mod tables;
mod unfit; // what built-in plugins do not take
mod wasm;
mod webhook;
mod world;
mod writes;

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

use crate::process::{BY_ID, Process};
use crate::program::{BUILD_MAX, output_within};
use crate::setup::Setup;

/// Small, so that a test which waits for them is quick. Waiting is not limited more than usual: on a busy machine
/// everything waits.
const LIMITS: &str = "[plugins]\nmemory_max_bytes = 8388608\ncpu_timeout_ms = 500\n";
/// The same where it is waited for the end of a call that waits.
const IMPATIENT: &str =
    "[plugins]\nmemory_max_bytes = 8388608\ncpu_timeout_ms = 500\nwrite_timeout_ms = 1200\n";
const QUICK_RETRIES: &str = "retry = { first_ms = 10, max_ms = 40, attempts = 3 }\n";

/// The component of a guest; compiles all of them the first time.
pub(crate) fn guest(name: &str) -> String {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(build);
    let file = folder.join(name).with_extension("wasm");
    assert!(file.is_file(), "no guest {}", file.display());
    file.display().to_string()
}

fn build() -> PathBuf {
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/guests");
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).with_file_name("guests");
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args([
            "build",
            "--examples",
            "--locked",
            "--target",
            "wasm32-wasip2",
        ])
        .arg("--target-dir")
        .arg(&target)
        .current_dir(sources);
    // What the outer build sets for its own target must not reach the guests'.
    for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET"] {
        cargo.env_remove(name);
    }
    let output = output_within(BUILD_MAX, &mut cargo, b"").expect("cargo starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the guests do not compile: {said}");
    target.join("wasm32-wasip2/debug/examples")
}

/// A daemon with this guest as the sink of the stream `hostile`.
fn beside_a_good_sink(name: &str, more: &str) -> Setup {
    beside_a_good_sink_within(LIMITS, name, more)
}

/// The same with other limits.
fn beside_a_good_sink_within(limits: &str, name: &str, more: &str) -> Setup {
    Setup::with_streams(&["hostile", "innocent"])
        .toml(limits)
        .sink("hostile", &guest(name), "hostile", more)
        .sink("pool", "pool", "innocent", "")
}

/// Sends something innocent and sees it arrive; the end of every test.
fn nobody_else_suffers(mut process: Process) {
    let before = process.setup.items("innocent").len();
    for number in before..before + 20 {
        let body = format!("{{\"id\": \"{number}\"}}");
        let id = process.accepted("innocent", BY_ID, &body);
        if number + 1 == before + 20 {
            let request = process.request_becomes(&id, "processed");
            assert_eq!(request["sinks"][0]["name"], "pool");
        }
    }
    assert_eq!(process.setup.items("innocent").len(), before + 20);
    let pool = process.sink("pool");
    assert_eq!(pool["state"], "running");
    assert_eq!(pool["dead_letters"], 0);
    assert_eq!(pool["last_error"], Value::Null);
    assert!(process.lives());
    // The panics of guests stand in the log too, but within lines of ours.
    let log = process.log();
    assert!(
        !log.lines().any(|line| line.starts_with("thread '")),
        "{log}"
    );
    process.stop();
}

/// The keys of a stream's items in the pool.
fn keys(folder: &Setup, stream: &str) -> Vec<String> {
    let items = folder.items(stream);
    items.into_iter().map(|(key, ..)| key).collect()
}
