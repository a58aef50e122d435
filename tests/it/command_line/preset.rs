//! Presets listed, printed and tried, without a daemon.

use std::path::Path;

use serde_json::Value;

use super::{Done, run};

const OWN: &str = r#"title = "Meters"
item_key = "meter.id"
id = "header:X-Delivery"

[verify]
signature = "header:X-Signature"
separator = ","
prefix = "v1="
signed = "{ts}.{body}"
timestamp = "part:t="

[[samples]]
event = "reading"
body = '{"meter":{"id":"m1"},"value":1.5}'
expect = { keys = ["m1"], fields = { value = 1.5 } }
"#;

fn folder_with(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("meters.toml"), text).expect("it is written");
    folder
}

fn preset(folder: &Path, line: &str) -> Done {
    run(folder, ["preset"].into_iter().chain(line.split(' ')))
}

#[test]
fn every_preset_of_the_program_passes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let done = preset(folder.path(), "test");
    assert!(!done.out.contains("FAIL"), "{}", done.out);
    assert!(done.err.starts_with("113 presets pass"), "{}", done.err);
    let lines = done.ok();
    for line in [
        "ok    adyen AUTHORISATION: stored as ",
        "ok    kick chat.message.sent: out of time: refused",
        "ok    github ping: answered, and not stored",
        "ok    asana question by POST: answered",
        "ok    stripe vector 1: verified",
    ] {
        assert!(lines.contains(line), "{line}");
    }
}

#[test]
fn a_preset_of_a_file_is_tried() {
    let folder = folder_with(OWN);
    let done = preset(folder.path(), "test meters.toml");
    let told = done.err.clone();
    assert_eq!(
        done.ok(),
        "ok    meters reading: verified\n\
         ok    meters reading: one byte of the body changed: refused\n\
         ok    meters reading: one byte of the signature changed: refused\n\
         ok    meters reading: out of time: refused\n\
         ok    meters reading: stored as m1\n      \
         meters is checked against itself only: there is no vector of a delivery that was really sent\n"
    );
    assert_eq!(told, "1 preset passes, 1 of them against themselves only\n");
}

#[test]
fn what_is_not_as_the_sample_says_fails() {
    let folder = folder_with(&OWN.replace("keys = [\"m1\"]", "keys = [\"m2\"]"));
    let done = preset(folder.path(), "test meters.toml");
    let line = "FAIL  meters reading: stored as m1: `keys` says m2\n";
    assert!(done.out.contains(line), "{}", done.out);
    let told = done.failed(1);
    assert!(told.contains("not as it should be: meters"), "{told}");
}

#[test]
fn a_mistake_is_told_with_its_line() {
    let folder = folder_with(&OWN.replace("prefix", "prefx"));
    let told = preset(folder.path(), "test meters.toml").failed(2);
    assert!(told.contains("meters.toml: line 8: "), "{told}");
    let says = "verify.prefx is no field; did you mean `prefix`?";
    assert!(told.contains(says), "{told}");
    let told = preset(folder.path(), "test ./absent.toml").failed(2);
    assert!(told.contains("absent.toml"), "{told}");
    let told = preset(folder.path(), "show nothing").failed(2);
    assert!(told.contains("no preset nothing"), "{told}");
}

#[test]
fn a_delivery_that_was_captured_becomes_a_vector() {
    let folder = folder_with(OWN);
    let at = |name: &str| folder.path().join(name);
    let body = "{\"meter\":{\"id\":\"m7\"}}";
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, b"the secret of the meters");
    let tag = ring::hmac::sign(&key, format!("1763707452.{body}").as_bytes());
    let tag: String = tag
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let head = format!(
        "POST /meters HTTP/1.1\r\nHost: hooks.example.com\r\nX-Signature: t=1763707452,v1={tag}\r\n\r\n"
    );
    std::fs::write(at("secret"), "the secret of the meters\n").expect("it is written");
    std::fs::write(at("good"), format!("{head}{body}")).expect("it is written");
    std::fs::write(at("edited"), format!("{head}{body}\n")).expect("it is written");
    std::fs::write(at("other"), format!("{head}{{}}")).expect("it is written");
    let test = |name: &str, more: &str| {
        let line = format!("test meters.toml --delivery {name} --secret-file secret{more}");
        preset(folder.path(), &line)
    };
    let vector = test("good", " --with-secret").ok();
    assert!(vector.contains("now = 1763707452\n"), "{vector}");
    assert!(!test("good", "").ok().contains("the secret"));
    std::fs::write(at("meters.toml"), format!("{OWN}\n{vector}")).expect("it is written");
    let done = preset(folder.path(), "test meters.toml");
    assert!(done.err.starts_with("1 preset passes, 0 of"), "{done:?}");
    assert!(done.ok().contains("ok    meters vector 1: verified\n"));
    let told = test("edited", "").failed(1);
    assert!(
        told.contains("does not match; without the line break"),
        "{told}"
    );
    let told = test("other", "").failed(1);
    assert!(told.ends_with("does not match\n"), "{told}");
}

#[test]
fn presets_are_listed_and_printed_as_files() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let all = preset(folder.path(), "list --output json").ok();
    let all: Vec<Value> = serde_json::from_str(&all).expect("a list");
    assert_eq!(all.len(), 113);
    let proved = |name: &str| {
        let found = all.iter().find(|one| one["name"] == name);
        found.expect(name)["proved"].clone()
    };
    assert_eq!(proved("stripe"), "vector");
    assert_eq!(proved("kick"), "itself");
    assert_eq!(proved("zapier"), "not signed here");
    let entries = preset(folder.path(), "list --output toml").ok();
    assert_eq!(entries.matches("[[presets]]").count(), 113);
    let shown = preset(folder.path(), "show openai").ok();
    assert!(
        !shown.contains("extends") && shown.contains("webhook-signature"),
        "{shown}"
    );
    // What is printed is a preset again.
    std::fs::write(
        folder.path().join("mine.toml"),
        shown.replace("\"openai\"", "\"mine\""),
    )
    .expect("it is written");
    preset(folder.path(), "test mine.toml").ok();
}
