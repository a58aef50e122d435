//! Compiles the built-in plugins to WebAssembly components, so that the crate can embed them, renders the guide, and says
//! what `headgate --version` says of this build.
//!
//! **Invariant**: `cargo build` needs no other command before it. A missing WebAssembly target is
//! added with rustup; where that is impossible the build stops with one line that says what to do.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

#[path = "src/guide/render.rs"]
mod guide;

const TARGET: &str = "wasm32-wasip2";

/// The plugins inside the binary: package name and file name of the component.
const BUILT_IN: [(&str, &str); 6] = [
    ("headgate-plugin-pool", "pool.wasm"),
    ("headgate-plugin-http-forward", "http_forward.wasm"),
    ("headgate-plugin-postgres", "postgres.wasm"),
    ("headgate-plugin-influx", "influx.wasm"),
    ("headgate-plugin-webhook", "webhook.wasm"),
    ("headgate-plugin-filter-map", "filter_map.wasm"),
];

fn main() {
    for path in ["build.rs", "Cargo.toml", "Cargo.lock", "plugins"] {
        println!("cargo::rerun-if-changed={path}");
    }
    println!("cargo::rerun-if-env-changed=RUSTUP_TOOLCHAIN");
    let out_dir = PathBuf::from(variable("OUT_DIR"));
    describe_build(&out_dir);
    render_guide(&out_dir);
    add_target_if_missing();
    let target_dir = plugin_target_dir(&out_dir);
    let mut cargo = Command::new(variable("CARGO"));
    cargo
        .args(["build", "--profile", "plugin", "--target", TARGET])
        .arg("--target-dir")
        .arg(&target_dir);
    for (package, _) in BUILT_IN {
        cargo.args(["--package", package]);
    }
    // What the outer build sets for its own target must not reach the guests'.
    for name in [
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
        "CARGO_BUILD_TARGET",
    ] {
        cargo.env_remove(name);
    }
    match cargo.status() {
        Ok(status) if status.success() => {}
        Ok(_) => stop("the built-in plugins did not compile; the compiler's message stands above"),
        Err(error) => stop(&format!("cannot start cargo for the plugins: {error}")),
    }
    for (_, file) in BUILT_IN {
        let from = target_dir.join(TARGET).join("plugin").join(file);
        let to = out_dir.join(file);
        if let Err(error) = std::fs::copy(&from, &to) {
            stop(&format!("cannot copy {}: {error}", from.display()));
        }
    }
}

fn render_guide(out_dir: &Path) {
    println!("cargo::rerun-if-changed=src/guide");
    let folder = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("src/guide");
    if let Err(error) = guide::write(&folder, out_dir) {
        stop(&format!("the guide cannot be rendered: {error}"));
    }
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

/// One folder for the guests of all profiles, beside the profiles' own folders.
fn plugin_target_dir(out_dir: &Path) -> PathBuf {
    // <target>/<profile>/build/<package>-<hash>/out
    let target = out_dir.ancestors().nth(4).unwrap_or(out_dir);
    target.join("plugins")
}

fn add_target_if_missing() {
    if target_installed() {
        return;
    }
    let mut rustup = Command::new("rustup");
    rustup.args(["target", "add", TARGET]);
    if let Some(toolchain) = env::var_os("RUSTUP_TOOLCHAIN") {
        rustup.arg("--toolchain").arg(toolchain);
    }
    match rustup.status() {
        Ok(status) if status.success() && target_installed() => {}
        Ok(_) => stop(&format!(
            "cannot add the Rust target {TARGET}; run `rustup target add {TARGET}` and build again"
        )),
        Err(_) => stop(&format!(
            "the Rust target {TARGET} is missing and there is no rustup; install rustup, or your distribution's Rust standard library for {TARGET}"
        )),
    }
}

fn target_installed() -> bool {
    let output = Command::new(variable("RUSTC"))
        .args(["--print", "target-libdir", "--target", TARGET])
        .output();
    match output {
        Ok(output) if output.status.success() => {
            let folder = String::from_utf8_lossy(&output.stdout);
            std::fs::read_dir(folder.trim()).is_ok_and(|mut files| {
                files.any(|file| {
                    file.is_ok_and(|file| file.file_name().to_string_lossy().starts_with("libstd-"))
                })
            })
        }
        _ => false,
    }
}

fn variable(name: &str) -> OsString {
    env::var_os(name).unwrap_or_else(|| stop(&format!("cargo did not set {name}")))
}

fn stop(message: &str) -> ! {
    println!("cargo::error={message}");
    exit(1)
}
