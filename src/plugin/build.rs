//! Compiles the built-in plugins to WebAssembly components, so that the package can embed them.
//!
//! **Invariant**: `cargo build` needs no other command before it. If the WebAssembly target is missing, rustup adds it;
//! if that fails, the build stops with one line that names the fix.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

const TARGET: &str = "wasm32-wasip2";

/// The plugins in the binary: package name and file name of the component.
const BUILT_IN: [(&str, &str); 9] = [
    ("headgate-plugin-pool", "pool.wasm"),
    ("headgate-plugin-http-forward", "http_forward.wasm"),
    ("headgate-plugin-postgres", "postgres.wasm"),
    ("headgate-plugin-influx", "influx.wasm"),
    ("headgate-plugin-webhook", "webhook.wasm"),
    ("headgate-plugin-filter-map", "filter_map.wasm"),
    ("headgate-plugin-file", "file.wasm"),
    ("headgate-plugin-lines", "lines.wasm"),
    ("headgate-plugin-mqtt", "mqtt.wasm"),
];

fn main() {
    for path in [
        "build.rs",
        "../../Cargo.toml",
        "../../Cargo.lock",
        "../../plugins",
    ] {
        println!("cargo::rerun-if-changed={path}");
    }
    println!("cargo::rerun-if-env-changed=RUSTUP_TOOLCHAIN");
    let out_dir = PathBuf::from(variable("OUT_DIR"));
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
        Ok(_) => stop("the built-in plugins did not compile; see the compiler's message above"),
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

/// One directory for the guests of all profiles, next to the directories of the profiles. Otherwise each profile would
/// compile the same guests again.
fn plugin_target_dir(out_dir: &Path) -> PathBuf {
    // <target>/<profile>/build/<package>-<hash>/out
    let target = out_dir.ancestors().nth(4).unwrap_or(out_dir);
    target.join("plugins")
}

/// The toolchain is named, because the target of another one would not help this build.
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

/// The standard library itself is looked for, because `rustc` names the folder of a target that is not installed, too.
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

/// A panic would hide the line in a backtrace.
fn stop(message: &str) -> ! {
    println!("cargo::error={message}");
    exit(1)
}
