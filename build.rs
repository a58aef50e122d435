//! Says what `headgate --version` says of this build.
//!
//! **Invariant**: a build for debugging does not change with a commit.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    describe_build(&PathBuf::from(variable("OUT_DIR")));
}

/// The profile, and the commit in programs that are given to others: those for debugging would only be compiled again
/// after each commit.
fn describe_build(out_dir: &Path) {
    // <target>/<profile>/build/<package>-<hash>/out
    let profile = out_dir.ancestors().nth(3).and_then(Path::file_name);
    let profile = profile.unwrap_or_default().to_string_lossy();
    println!("cargo::rerun-if-env-changed=HEADGATE_COMMIT");
    let commit = match variable("PROFILE") == "debug" {
        true => None,
        false => given_commit()
            .or_else(packaged_commit)
            .or_else(checked_out_commit),
    };
    let commit = commit.map(|commit| format!(", commit {commit}"));
    let commit = commit.unwrap_or_default();
    // Cargo sets it for what it runs, too: the daemon refuses variables named HEADGATE_ that it does not know.
    println!("cargo::rustc-env=BUILT_AS={profile} build{commit}");
}

/// As whoever builds says it, who may have no repository.
fn given_commit() -> Option<String> {
    short(&env::var_os("HEADGATE_COMMIT")?.into_string().ok()?)
}

/// As `cargo package` notes it in an archive.
fn packaged_commit() -> Option<String> {
    let noted = std::fs::read_to_string(".cargo_vcs_info.json").ok()?;
    short(noted.split("\"sha1\": \"").nth(1)?.split('"').next()?)
}

/// That of the repository whose root this folder is.
fn checked_out_commit() -> Option<String> {
    if !git(&["rev-parse", "--show-prefix"])?.is_empty() {
        return None;
    }
    // The log of HEAD gets a line with every commit and checkout.
    for file in ["logs/HEAD", "HEAD"] {
        let path = git(&["rev-parse", "--git-path", file])?;
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    short(&git(&["rev-parse", "HEAD"])?)
}

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// The beginning of a commit's id; `None` if it is none.
fn short(commit: &str) -> Option<String> {
    let is_id = commit.len() >= 12 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| commit[..12].to_owned())
}

fn variable(name: &str) -> OsString {
    env::var_os(name).unwrap_or_default()
}
