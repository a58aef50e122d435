//! Presets listed, printed and tried, without a daemon.

use std::path::Path;

use serde_json::Value;

use super::{Done, operate, run};
use crate::guide::root;
use crate::process::Process;
use crate::setup::Setup;
use crate::wait::eventually;

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
    assert!(done.err.starts_with("114 presets pass"), "{}", done.err);
    let lines = done.ok();
    for line in [
        "ok    adyen AUTHORISATION: stored as ",
        "ok    kick chat.message.sent: out of time: rejected",
        "ok    github ping: answered, and not stored",
        "ok    asana challenge by POST: answered",
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
         ok    meters reading: one byte of the body changed: rejected\n\
         ok    meters reading: one byte of the signature changed: rejected\n\
         ok    meters reading: out of time: rejected\n\
         ok    meters reading: stored as m1\n      \
         meters is only checked against itself: it has no vector of a captured delivery\n"
    );
    assert_eq!(told, "1 preset passes, 1 of them only against themselves\n");
}

#[test]
fn what_is_not_as_the_sample_says_fails() {
    let folder = folder_with(&OWN.replace("keys = [\"m1\"]", "keys = [\"m2\"]"));
    let done = preset(folder.path(), "test meters.toml");
    let line = "FAIL  meters reading: stored as m1: `keys` says m2\n";
    assert!(done.out.contains(line), "{}", done.out);
    let told = done.failed(1);
    assert!(told.contains("failed: meters"), "{told}");
}

#[test]
fn a_mistake_is_told_with_its_line() {
    let folder = folder_with(&OWN.replace("prefix", "prefx"));
    let told = preset(folder.path(), "test meters.toml").failed(2);
    assert!(told.contains("meters.toml: line 8: "), "{told}");
    let says = "verify.prefx is not a field; did you mean `prefix`?";
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
        told.contains("does not match; without its final line break"),
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
    assert_eq!(all.len(), 114);
    let proved = |name: &str| {
        let found = all.iter().find(|one| one["name"] == name);
        found.expect(name)["proved"].clone()
    };
    assert_eq!(proved("stripe"), "vector");
    assert_eq!(proved("kick"), "itself");
    assert_eq!(proved("zapier"), "not signed here");
    let entries = preset(folder.path(), "list --output toml").ok();
    assert_eq!(entries.matches("[[presets]]").count(), 114);
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

#[test]
fn tools_are_described_by_the_guide_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let files = root().join("tests/fixtures/presets");
    let files = std::fs::read_dir(files).expect("a folder");
    let files: Vec<String> = files
        .map(|file| file.expect("a file").path().display().to_string())
        .collect();
    let done = run(
        folder.path(),
        ["preset", "test"]
            .map(str::to_owned)
            .into_iter()
            .chain(files),
    );
    assert!(done.err.starts_with("8 presets pass"), "{done:?}");
    assert!(
        done.ok()
            .contains("ok    monday create_pulse: stored as 77\n")
    );
}

#[test]
fn a_preset_is_begun_and_guessed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    assert_eq!(preset(folder.path(), "new mine").ok(), "mine.toml\n");
    preset(folder.path(), "test mine.toml").ok();
    preset(folder.path(), "new mine").failed(1);
    preset(folder.path(), "new Mine").failed(2);
    let request =
        "X-GitHub-Event: push\nX-GitHub-Delivery: 1\nX-Hub-Signature-256: sha256=00\n\n{}";
    std::fs::write(folder.path().join("captured"), request).expect("it is written");
    let told = preset(folder.path(), "guess --delivery captured").ok();
    let first = told.lines().nth(1).expect("a line");
    assert!(first.starts_with("github "), "{told}");
    assert!(
        told.contains("\nmeta ") && !told.contains("stripe"),
        "{told}"
    );
    std::fs::write(folder.path().join("captured"), "X-Nothing: 1\n\n{}").expect("it is written");
    preset(folder.path(), "guess --delivery captured").failed(1);
}

fn write(process: &Process, text: &str) {
    let folder = process.setup.data_dir().join("presets");
    std::fs::create_dir_all(&folder).expect("a folder");
    // Whole at once, as an editor does it.
    std::fs::write(folder.join("meters.new"), text).expect("it is written");
    std::fs::rename(folder.join("meters.new"), folder.join("meters.toml")).expect("it is moved");
}

/// The text of a preset that the daemon has, by the title that it is waited for.
fn titled(process: &Process, title: &str) {
    eventually(title, || {
        let shown = get(process, "/api/admin/presets/meters");
        shown.contains(title).then_some(())
    });
}

fn get(process: &Process, path: &str) -> String {
    let mut client = crate::process::Client::connect(process.admin).expect("it listens");
    let token = process.setup.admin_token();
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\r\n",
        process.admin
    );
    client.send(&head).expect("it is sent");
    client.answer().expect("an answer").body
}

#[test]
fn a_preset_of_the_data_folder_is_followed() {
    let setup = Setup::with_streams(&["readings"]);
    let process = setup.spawn();
    write(&process, OWN);
    titled(&process, "Meters");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "the secret of the meters").expect("it is written");
    let secret = secret.display().to_string();
    let create = "connector create hall --from meters --stream readings --secret-file";
    let create = create.split(' ').chain([secret.as_str()]);
    operate(&process, create.collect::<Vec<_>>()).ok();
    let trigger = "trigger meters reading --connector hall".split(' ');
    operate(&process, trigger.clone().collect::<Vec<_>>()).ok();

    // A mistake is told with its line, and nothing changes.
    write(&process, &OWN.replace("prefix", "prefx"));
    process.says("meters.toml:8: verify.prefx is not a field");
    operate(&process, trigger.clone().collect::<Vec<_>>()).ok();
    let shown = get(&process, "/api/admin/presets/meters");
    assert!(
        shown.contains("presets/meters.toml") && shown.contains("v1="),
        "{shown}"
    );

    // Mended, it counts again; it cannot go while the connector uses it.
    write(
        &process,
        &OWN.replace("\"Meters\"", "\"Meters of the hall\""),
    );
    titled(&process, "Meters of the hall");
    let file = process.setup.data_dir().join("presets/meters.toml");
    std::fs::remove_file(&file).expect("it is removed");
    process.says("is missing, but the connector");
    operate(&process, trigger.collect::<Vec<_>>()).ok();
}

#[test]
fn presets_of_the_configuration_count_over_those_of_the_folder() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let presets = folder.path().join("data/presets");
    std::fs::create_dir_all(&presets).expect("a folder");
    std::fs::write(presets.join("meters.toml"), OWN).expect("it is written");
    let entry = "[[presets]]\nname = \"meters\"\nextends = \"meters\"\ntitle = \"Other meters\"\n";
    std::fs::write(folder.path().join("own.toml"), entry).expect("it is written");
    let listed = |line: &str| {
        let all = preset(folder.path(), line).ok();
        let all: Vec<Value> = serde_json::from_str(&all).expect("a list");
        assert_eq!(all.len(), 115);
        let last = all.last().expect("one").clone();
        (
            last["title"].clone(),
            last["from"].as_str().expect("a place").to_owned(),
        )
    };
    let (title, from) = listed("list --output json");
    assert_eq!(title, "Meters");
    assert!(from.ends_with("data/presets/meters.toml"), "{from}");
    let (title, from) = listed("list --output json --config own.toml");
    assert_eq!((title, &*from), ("Other meters".into(), "own.toml"));
    // What is replaced is extended.
    let shown = preset(folder.path(), "show meters --config own.toml").ok();
    assert!(shown.contains("prefix = \"v1=\""), "{shown}");
    std::fs::write(folder.path().join("own.toml"), format!("\n{entry}id = 7\n"))
        .expect("it is written");
    let told = preset(folder.path(), "list --config own.toml").failed(2);
    assert!(told.contains("own.toml:6: id: "), "{told}");
}

#[test]
fn a_preset_that_others_can_write_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let presets = folder.path().join("data/presets");
    std::fs::create_dir_all(&presets).expect("a folder");
    let file = presets.join("meters.toml");
    std::fs::write(&file, OWN).expect("it is written");
    let mode = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("its owner");
    };
    for (path, is) in [(&file, 0o644), (&presets, 0o755)] {
        mode(path, is | 0o002);
        let told = preset(folder.path(), "list").failed(2);
        assert!(told.contains("chmod go-w"), "{told}");
        mode(path, is);
    }
    preset(folder.path(), "list").ok();
}
