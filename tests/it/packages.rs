//! What Headgate is given to others in: the container image, the Debian package, the files of a release.
//!
//! Each is made by the one script that makes it for everybody, of the program that these tests test.

mod clients; // the packages of the client libraries
mod cluster; // two nodes: what the Compose file and the Kubernetes manifest say
mod container; // the image, run by podman
mod debian; // the package, installed by dpkg
mod failover; // the Compose file of two nodes, run by podman-compose
mod release; // archives, digests, what is in the program and under which licenses
mod renderer; // the compose file and the Kubernetes manifest

use std::path::PathBuf;
use std::process::Command;

use crate::process::skipped;
use crate::program::output;

/// A file of `examples/deploy`.
fn deploy(path: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "examples/deploy", path]
        .iter()
        .collect()
}

/// Whether the machine has these programs; under CI it must.
fn there_are(programs: &[&str], test: &str) -> bool {
    let missing = programs.iter().find(|program| {
        let found = output(Command::new("which").arg(program));
        !found.is_ok_and(|found| found.status.success())
    });
    if let Some(program) = missing {
        assert!(
            std::env::var_os("CI").is_none(),
            "{program} is needed under CI"
        );
        skipped(test, &format!("there is no {program}"));
    }
    missing.is_none()
}

/// Whether the tests run as root, which some of what is tested here needs.
fn is_root(test: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skipped(test, "it needs root");
    }
    is_root
}
