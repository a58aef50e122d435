//! The files of a release, and what the program says of itself: its build, what is in it, under which licenses.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::{deploy, there_are};
use crate::command_line::{Done, finish, finish_within, run};
use crate::program::BUILD_MAX;

/// Makes a release of the tested program.
fn release(folder: &Path) {
    let mut build = Command::new(deploy("release/build"));
    build
        .arg("--program")
        .arg(env!("CARGO_BIN_EXE_headgate"))
        .arg(folder)
        .env("SOURCE_DATE_EPOCH", "1000000000")
        .env("RELEASE_WITHOUT_ADVISORIES", "1")
        // Quickly rather than small.
        .env("GZIP_LEVEL", "-1")
        .env("DPKG_DEB_COMPRESSOR_TYPE", "gzip")
        .env("DPKG_DEB_COMPRESSOR_LEVEL", "1");
    let done = finish_within(BUILD_MAX, &mut build, "");
    assert!(done.err.contains("WARNING: RELEASE_WITHOUT_ADVISORIES=1"));
    done.ok();
}

pub(super) fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    names
        .map(|name| name.to_string_lossy().into_owned())
        .collect()
}

#[test]
fn a_release_has_everything_and_is_the_same_when_it_is_made_again() {
    let test = "a_release_has_everything_and_is_the_same_when_it_is_made_again";
    if !there_are(&["dpkg-shlibdeps", "python3", "tar", "gzip"], test) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (one, other) = (folder.path().join("one"), folder.path().join("other"));
    release(&one);
    release(&other);
    let made = names(&one);
    for kind in [".tar.gz", ".deb", ".cdx.json", "SHA256SUMS"] {
        let of_kind = made.iter().filter(|name| name.ends_with(kind));
        assert_eq!(of_kind.count(), 1, "{kind}: {made:?}");
    }
    assert_eq!(made.len(), 4, "{made:?}");
    assert_eq!(made, names(&other));
    let digests = |folder: &Path| fs::read_to_string(folder.join("SHA256SUMS")).expect("a file");
    assert_eq!(digests(&one), digests(&other));
    assert_eq!(digests(&one).lines().count(), 3);
    let mut check = Command::new("sha256sum");
    finish(check.args(["--check", "SHA256SUMS"]).current_dir(&one), "").ok();

    let archive = made.iter().find(|name| name.ends_with(".tar.gz"));
    let archive = archive.expect("it is there");
    let mut unpack = Command::new("tar");
    finish(
        unpack
            .args(["--extract", "--file", archive])
            .current_dir(&one),
        "",
    )
    .ok();
    let tree = one.join(archive.trim_end_matches(".tar.gz"));
    for file in [
        "README.md",
        "LICENSE",
        "LICENSES.txt",
        "CHANGELOG.md",
        "config/default.toml",
        "man/man1/headgate-serve.1",
        "completions/headgate.bash",
        "completions/headgate.zsh",
        "completions/headgate.fish",
        "examples/deploy/headgate.service",
    ] {
        let length = fs::metadata(tree.join(file)).map(|file| file.len());
        assert!(length.is_ok_and(|length| length > 0), "{file}");
    }
    let mut program = Command::new(tree.join("headgate"));
    finish(program.arg("--version"), "").ok();
}

#[test]
fn a_release_for_a_machine_that_nobody_can_build_for_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut build = Command::new(deploy("release/build"));
    build.args(["--target", "x86_64-pc-windows-gnu"]);
    let told = finish(build.arg(folder.path()), "").failed(2);
    let what_can = "--target takes MACHINE-unknown-linux-gnu, such as aarch64-unknown-linux-gnu";
    assert!(told.contains(what_can), "{told}");
    assert_eq!(names(folder.path()), BTreeSet::new());
}

/// A script of a release, which finds in place of RustSec's advisories those that `folder` has, and none without one.
fn with_advisories(script: &str, folder: Option<&Path>, home: &Path) -> Done {
    let registry = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let registry = registry
        .unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").expect("a home")).join(".cargo"));
    if !home.join("registry").exists() {
        symlink(registry.join("registry"), home.join("registry")).expect("a link");
    }
    let instead = folder.map_or_else(
        || "file:///nowhere".to_owned(),
        |folder| format!("file://{}", folder.display()),
    );
    let mut command = Command::new(deploy(script));
    command
        .env("CARGO_HOME", home)
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", format!("url.{instead}.insteadOf"))
        .env(
            "GIT_CONFIG_VALUE_0",
            "https://github.com/RustSec/advisory-db",
        )
        .env_remove("RELEASE_WITHOUT_ADVISORIES")
        .arg("--keep-changes")
        .arg(home.join("release"));
    finish_within(BUILD_MAX, &mut command, "")
}

#[test]
fn a_release_fails_with_a_known_hole_and_where_nobody_can_know() {
    let test = "a_release_fails_with_a_known_hole_and_where_nobody_can_know";
    if !there_are(&["cargo-deny", "git"], test) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (home, advisories) = (folder.path().join("home"), folder.path().join("advisories"));
    fs::create_dir_all(&home).expect("a folder");
    let sentence = "RustSec's advisories cannot be fetched: ";
    for script in ["release/advisories", "release/build"] {
        let told = with_advisories(script, None, &home).failed(1);
        assert!(told.contains(sentence), "{told}");
        assert!(told.contains("RELEASE_WITHOUT_ADVISORIES=1"), "{told}");
    }
    assert!(!home.join("release/SHA256SUMS").exists());

    for (package, code) in [("nobody-depends-on-this", 0), ("itoa", 1)] {
        let crates = advisories.join("crates");
        let _ = fs::remove_dir_all(&crates);
        fs::create_dir_all(crates.join(package)).expect("a folder");
        let advisory = format!(
            "```toml\n[advisory]\nid = \"RUSTSEC-2026-9999\"\npackage = \"{package}\"\ndate = \"2026-01-01\"\n\
             [versions]\npatched = [\">= 999.0.0\"]\n```\n\n# A hole of the tests\n\nThere is none.\n"
        );
        let file = crates.join(package).join("RUSTSEC-2026-9999.md");
        fs::write(file, advisory).expect("a file");
        let mut commit = Command::new("sh");
        commit.current_dir(&advisories).args([
            "-euxc",
            "git init --quiet --initial-branch main .; git add --all; \
             git -c user.name=t -c user.email=t@example.com commit --quiet --message advisory",
        ]);
        finish(&mut commit, "").ok();
        let done = with_advisories("release/advisories", Some(&advisories), &home);
        assert_eq!(done.code, Some(code), "{package}: {}{}", done.out, done.err);
        let named = done.err.contains("RUSTSEC-2026-9999");
        assert_eq!(named, code == 1, "{}", done.err);
    }
}

#[test]
fn what_the_program_contains_is_what_the_lock_file_says() {
    let test = "what_the_program_contains_is_what_the_lock_file_says";
    if !there_are(&["python3"], test) {
        return;
    }
    let mut check = Command::new(deploy("release/licenses"));
    finish_within(BUILD_MAX, check.arg("--check"), "").ok();
}

#[test]
fn what_a_version_changes_for_clients_is_listed_by_operation_and_schema() {
    let test = "what_a_version_changes_for_clients_is_listed_by_operation_and_schema";
    if !there_are(&["python3"], test) {
        return;
    }
    let program = Path::new(env!("CARGO_BIN_EXE_headgate"));
    let folder = tempfile::tempdir().expect("a folder");
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    let openapi = |args: &[&Path]| {
        let mut script = Command::new(deploy("release/openapi"));
        finish_within(BUILD_MAX, script.args(args), "")
    };
    openapi(&[Path::new("--save"), program, &old]).ok();
    assert_eq!(openapi(&[&old, program]).ok(), "");

    fs::create_dir(&new).expect("a folder");
    fs::copy(old.join("service.json"), new.join("service.json")).expect("a copy");
    let text = fs::read_to_string(old.join("admin.json")).expect("a file");
    let mut document: Value = serde_json::from_str(&text).expect("JSON");
    document["info"]["description"] = "another text".into();
    let streams = document["paths"]["/api/admin/streams"].as_object_mut();
    streams.expect("an object").remove("post").expect("a route");
    let fields = &mut document["components"]["schemas"]["ErrorInfo"]["properties"];
    fields["code"]["type"] = "integer".into();
    fields["more"]["type"] = "string".into();
    fs::write(new.join("admin.json"), document.to_string()).expect("a file");
    let done = openapi(&[Path::new("--without-texts"), &old, &new]);
    assert_eq!(done.code, Some(1), "{}", done.err);
    let listed: Vec<&str> = done.out.lines().collect();
    let expected = [
        r#"~ admin, schema ErrorInfo, field code, type: "string" -> "integer""#,
        r#"+ admin, schema ErrorInfo, field more: {"type": "string"}"#,
        "- admin, POST /api/admin/streams",
    ];
    assert_eq!(listed, expected);
    let with_texts = openapi(&[&old, &new]).out;
    assert_eq!(with_texts.lines().count(), 4, "{with_texts}");
}

#[test]
fn licenses_are_printed_with_their_texts_and_as_a_bill_of_materials() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = run(folder.path(), ["licenses"]).ok();
    for part in [
        "Headgate ",
        "wasmtime ",
        "sqlite ",
        "htmx ",
        "Apache License",
        "Permission is hereby granted, free of charge",
        "UNICODE LICENSE V3",
    ] {
        assert!(text.contains(part), "{part}");
    }
    let list = run(folder.path(), ["licenses", "--output", "json"]).ok();
    let list: Vec<Value> = serde_json::from_str(&list).expect("JSON");
    assert!(list.len() > 300, "{}", list.len());
    for component in &list {
        let name = component["name"].as_str().expect("a name");
        assert!(component["license"].is_string(), "{name}");
        // Each stands above a text.
        let above = |line: &str| line.split(", ").any(|word| word == name);
        assert!(text.lines().any(above), "{name}");
    }

    let bill = run(folder.path(), ["licenses", "--output", "cyclonedx"]).ok();
    let bill: Value = serde_json::from_str(&bill).expect("JSON");
    assert_eq!(bill["bomFormat"], "CycloneDX");
    assert_eq!(bill["specVersion"], "1.5");
    let components = bill["components"].as_array().expect("a list");
    assert_eq!(components.len(), list.len());
    let urls: BTreeSet<&str> = components
        .iter()
        .filter_map(|component| component["purl"].as_str())
        .collect();
    assert_eq!(urls.len(), list.len(), "each has one of its own");
    let crates = components.iter().filter(|component| {
        let url = component["purl"].as_str().expect("an URL");
        let digest = component["hashes"][0]["content"].as_str();
        let is_crate = url.starts_with("pkg:cargo/");
        assert_eq!(is_crate, digest.is_some_and(|digest| digest.len() == 64));
        is_crate
    });
    assert!(crates.count() > 300);
}

#[test]
fn the_version_says_how_the_program_was_built() {
    let folder = tempfile::tempdir().expect("a folder");
    let version = env!("CARGO_PKG_VERSION");
    let short = run(folder.path(), ["-V"]).ok();
    assert_eq!(short, format!("headgate {version}\n"));
    let long = run(folder.path(), ["--version"]).ok();
    let build = long
        .strip_prefix(&format!("headgate {version} ("))
        .and_then(|rest| rest.strip_suffix(")\n"))
        .unwrap_or_else(|| panic!("{long}"));
    let (profile, commit) = build.split_once(" build").expect("a profile");
    assert!(!profile.is_empty(), "{long}");
    match cfg!(debug_assertions) {
        true => assert_eq!((profile, commit), ("debug", "")),
        false => assert!(
            commit.is_empty() || commit.starts_with(", commit "),
            "{long}"
        ),
    }
}
