//! The client libraries of the examples: the shared cases, their own tests, and the real daemon, which is killed.
//!
//! Where `python3` is missing a test is skipped and says so; with `CI` set that is a failure.
//!
//! **Invariant**: nothing is written into the source tree.

use std::path::Path;
use std::process::Command;

use crate::process::skipped;
use crate::program::{BUILD_MAX, output, output_within};

/// Whether there is a Python that the library supports.
fn python(test: &str) -> bool {
    let asked = "import sys; sys.exit(sys.version_info < (3, 9))";
    let found = output(Command::new("python3").args(["-c", asked]));
    let found = found.is_ok_and(|found| found.status.success());
    if !found {
        let reason = "there is no python3 of version 3.9 or newer";
        assert!(std::env::var_os("CI").is_none(), "{test}: {reason}");
        skipped(test, reason);
    }
    found
}

/// Runs a program of the source tree; what it says.
fn run(args: &[&str]) -> String {
    let mut command = Command::new("python3");
    command
        .arg("-B")
        .args(args)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let done = output_within(BUILD_MAX, &mut command, b"").expect("it runs");
    let said = [done.stdout, done.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(done.status.success(), "{args:?}:\n{said}");
    said
}

#[test]
fn the_python_client_does_what_all_clients_promise() {
    if !python("clients::the_python_client_does") {
        return;
    }
    let runner = "examples/clients/python/tests/runner.py";
    assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join(runner).exists());
    let kit = "tests/clients/run.py";
    let said = run(&[kit, "--language", "python", "--", "python3", runner]);
    assert!(said.matches("PASS ").count() >= 64, "{said}");
}

#[test]
fn the_python_client_passes_its_own_tests() {
    if !python("clients::the_python_client_passes") {
        return;
    }
    let said = run(&[
        "-m",
        "unittest",
        "discover",
        "-s",
        "examples/clients/python/tests",
    ]);
    assert!(said.contains("\nOK"), "{said}");
}

#[test]
fn the_python_client_loses_nothing_when_the_daemon_is_killed() {
    if !python("clients::the_python_client_loses") {
        return;
    }
    let daemon = env!("CARGO_BIN_EXE_headgate");
    let said = run(&["tests/clients/daemon.py", daemon]);
    assert_eq!(said.matches("PASS ").count(), 3, "{said}");
}
