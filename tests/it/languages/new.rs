//! `headgate plugin new`: projects that can be built, checked and tried as they are.

use std::fs;
use std::path::Path;

use super::behaviour::{asks_for_no_wasi, keeps_what_is_over_the_threshold};
use super::{C, COMPILED, JAVASCRIPT, PYTHON, RUST, Workshop, available, follow_readme, tried};
use crate::command_line::{finish, headgate, run};

/// Makes a project, follows its README, and tries the component.
fn works(test: &str, lang: &str, programs: &[&[&str]], component: &str) {
    if !available(&format!("languages::new::{test}"), programs) {
        return;
    }
    let workshop = Workshop::enter(&format!("new-{lang}"));
    let folder = &workshop.root;
    if folder.join("my-sink").exists() {
        fs::remove_dir_all(folder.join("my-sink")).expect("a folder of ours");
    }
    let told = run(folder, ["plugin", "new", "my-sink", "--lang", lang]).ok();
    let project = folder.join("my-sink");
    let readme = fs::read_to_string(project.join("README.md")).expect("a README");
    let (_, steps) = told.split_once("  cd my-sink\n").expect("the next steps");
    let mut steps = steps.lines().take(3);
    assert!(
        steps.all(|step| readme.contains(step.trim())),
        "{told} in {readme}"
    );
    let component = follow_readme(&workshop, &project, component);
    let report = tried(
        &workshop,
        &component,
        r#"[{"id": "a", "value": 9}, {"id": "b", "value": 10, "secret": 1}]"#,
    );
    let report = report.ok();
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["effects"][0]["key"], "b");
    assert_eq!(report["effects"][0]["fields"]["value"], 10);
    let mut check = headgate(folder);
    check.env(COMPILED, workshop.compiled());
    check.args(["plugin", "check", "--settings", r#"{"least": 1}"#]);
    let checked = finish(check.arg(&component), "");
    assert!(checked.ok().starts_with("my-sink 0.1.0, "));
    // It is the example of its language under another name.
    keeps_what_is_over_the_threshold(&workshop, &component);
    if ["js", "c"].contains(&lang) {
        asks_for_no_wasi(&workshop, &component, "my-sink");
    }
}

#[test]
fn rust() {
    let component = "target/wasm32-wasip2/release/my_sink.wasm";
    works("rust", "rust", RUST, component);
}

#[test]
fn javascript() {
    works("javascript", "js", JAVASCRIPT, "my-sink.wasm");
}

#[test]
fn python() {
    works("python", "python", PYTHON, "my-sink.wasm");
}

#[test]
fn c() {
    works("c", "c", C, "my-sink.wasm");
}

#[test]
fn nothing_that_exists_is_touched() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |path: &str| folder.path().join(path);
    fs::create_dir_all(at("full")).expect("a folder");
    fs::write(at("full/mine.txt"), "mine").expect("a file");
    fs::write(at("file"), "mine").expect("a file");
    for (path, says) in [
        (
            "full",
            "full is not empty; name a directory that does not exist",
        ),
        ("file", "file is not a directory"),
        ("My Sink", "a letter first"),
        ("a/..", "a letter first"),
        ("sinks/2", "a letter first"),
    ] {
        let told = run(folder.path(), ["plugin", "new", path]).failed(2);
        assert!(told.contains(says), "{path}: {told}");
    }
    let told = run(folder.path(), ["plugin", "new", "a", "--lang", "cobol"]).failed(2);
    assert!(told.contains("rust, js, python, c"), "{told}");
    let names = |path: &Path| {
        let entries = fs::read_dir(path).expect("a folder");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<_> = names
            .map(|name| name.into_string().expect("text"))
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(folder.path()), ["file", "full"]);
    assert_eq!(names(&at("full")), ["mine.txt"]);

    fs::create_dir(at("empty")).expect("a folder");
    run(folder.path(), ["plugin", "new", "empty", "--lang", "js"]).ok();
    run(folder.path(), ["plugin", "new", "new/deep/a1"]).ok();
    assert!(at("empty/wit/sink.wit").is_file());
    assert!(at("new/deep/a1/sdk/wit/sink.wit").is_file());
}
