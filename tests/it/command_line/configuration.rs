//! `check`, `config show`, `key new`, and how `serve` refuses to start.

use std::path::Path;

use serde_json::Value;

use super::{finish, headgate, run};
use crate::setup::Setup;

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).expect("a file can be written");
}

#[test]
fn check_lists_every_problem_with_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "\
[server]
lisen = \"127.0.0.1:0\"
[storage]
durability = \"sometimes\"
[limits]
burst = 0
[[streams]]
name = \"orders\"
[[streams]]
name = \"orders\"
[[connectors]]
name = \"shop\"
kind = \"ingest\"
keys = [{ name = \"main\", stream = \"oders\", secret = \"ik_short\" }]
[[sinks]]
name = \"other\"
plugin = \"./nothing.wasm\"
streams = [\"*\"]
";
    write(folder.path(), "bad.toml", text);
    let mut command = headgate(folder.path());
    command.args(["check", "--config", "bad.toml"]);
    command.env("HEADGATE_SERVER__PRT", "1");
    let told = finish(&mut command, "").failed(2);
    for (place, says) in [
        ("bad.toml:2", "listen"),
        ("bad.toml:4", "fsync"),
        ("bad.toml:6", "limits.burst"),
        ("bad.toml:", "streams[1]"),
        ("bad.toml:14", "oders"),
        ("bad.toml:14", "24"),
        ("bad.toml:17", "nothing.wasm"),
        ("HEADGATE_SERVER__PRT", "unknown variable"),
    ] {
        let found = told
            .lines()
            .any(|line| line.contains(place) && line.contains(says));
        assert!(found, "{place} … {says} in:\n{told}");
    }
    assert!(!told.contains("ik_short"), "{told}");
    // The daemon says the same, and does not start.
    let mut command = headgate(folder.path());
    command.args(["serve", "--config", "bad.toml"]);
    command.env("HEADGATE_SERVER__PRT", "1");
    let of_check = "the profile is the default, as HEADGATE_PROFILE is not set";
    let (problems, profile) = told.split_once(of_check).expect("the profile");
    assert!(profile.lines().count() == 1, "{told}");
    assert_eq!(finish(&mut command, "").failed(2), problems);
    assert!(!folder.path().join("data").exists(), "nothing was made");
}

#[test]
fn check_looks_into_the_plugins() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "junk.wasm", "no component");
    let sink = "[[sinks]]\nname = \"junk\"\nplugin = \"junk.wasm\"\nstreams = [\"*\"]\n";
    write(folder.path(), "junk.toml", sink);
    let told = run(folder.path(), ["check", "--config", "junk.toml"]).failed(2);
    assert!(told.contains("junk"), "{told}");
    let told = run(folder.path(), ["check"]).ok();
    assert!(told.contains("valid"), "{told}");
    assert!(!folder.path().join("data").exists(), "nothing was made");
}

#[test]
fn config_show_tells_origins_and_masks_secrets() {
    const CANARY: &str = "ik_live_canary_0123456789abcdef";
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "token", "canary-token-0123456789abcdef\n");
    let text = format!(
        "[admin]\ntoken = {{ file = \"token\" }}\n[limits]\nburst = 7\n[[streams]]\nname = \"orders\"\n\
         [[connectors]]\nname = \"shop\"\nkind = \"ingest\"\n\
         keys = [{{ name = \"main\", stream = \"orders\", secret = \"{CANARY}\" }}]\n\
         [[read_keys]]\nname = \"screen\"\nstreams = [\"orders\"]\nsecret = {{ env = \"SCREEN_KEY\" }}\n"
    );
    write(folder.path(), "headgate.toml", &text);
    for output in ["text", "json"] {
        let mut command = headgate(folder.path());
        command.args([
            "config",
            "show",
            "--config",
            "headgate.toml",
            "--output",
            output,
        ]);
        command.env("SCREEN_KEY", "rk_live_canary_0123456789abcdef");
        command.env("HEADGATE_SERVER__LISTEN", "127.0.0.1:9999");
        let shown = finish(&mut command, "").ok();
        assert!(!shown.contains("canary"), "{shown}");
        assert!(shown.contains("********"), "{shown}");
        assert!(shown.contains("HEADGATE_SERVER__LISTEN"), "{shown}");
        assert!(shown.contains("headgate.toml:4"), "{shown}");
        if output == "json" {
            serde_json::from_str::<Value>(&shown).expect("JSON");
        } else {
            assert!(
                shown.lines().any(|line| line.contains("127.0.0.1:9999")),
                "{shown}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_new_key_works_by_the_hash_that_is_printed_with_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = run(folder.path(), ["key", "new"]).ok();
    let key = text.lines().next().expect("a line").to_owned();
    assert!(key.starts_with("ik_live_"));
    // The printed example is a configuration as it stands.
    let (_, example) = text.split_once("For example:\n\n").expect("an example");
    assert!(!example.contains(&key), "{example}");
    let app = Setup::new().toml(example).start().await;
    app.caller_with(&key).ingest("{}").await.receipt();
    let last = if key.ends_with('x') { 'y' } else { 'x' };
    let misspelt = format!("{}{last}", &key[..key.len() - 1]);
    app.caller_with(&misspelt)
        .ingest("{}")
        .await
        .refused(401, "UNAUTHORIZED");

    let json = run(folder.path(), ["key", "new", "--test", "--output", "json"]).ok();
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let text = |name: &str| json[name].as_str().expect("a text").to_owned();
    assert!(text("key").starts_with("ik_test_") && text("key").starts_with(&text("prefix")));
    let toml = format!(
        "[[connectors]]\nname = \"trial\"\nkind = \"ingest\"\n\
         keys = [{{ name = \"a\", stream = \"orders\", sha256 = \"{}\" }}]",
        text("sha256")
    );
    let app = Setup::new().stream("orders").toml(&toml).start().await;
    app.caller_with(&text("key")).ingest("{}").await.receipt();
    assert_eq!(app.fields("orders").await, []);
    let log = app.admin().log("trial", "").await;
    assert_eq!(
        (&log[0]["status"], &log[0]["key"]),
        (&"test".into(), &text("prefix").into())
    );

    let read = run(folder.path(), ["key", "new", "--read"]).ok();
    assert!(read.starts_with("rk_live_"));
    assert_ne!(
        run(folder.path(), ["key", "new"]).ok().lines().next(),
        Some(&*key)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn serve_refuses_a_data_folder_that_is_in_use() {
    let app = Setup::shop().start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = headgate(folder.path());
    command.arg("serve").env("HEADGATE_PROFILE", "test");
    command.env("HEADGATE_STORAGE__DATA_DIR", app.data_dir());
    let told = finish(&mut command, "").failed(1);
    assert!(told.contains("another headgate"), "{told}");
    assert!(told.contains(&std::process::id().to_string()), "{told}");
    app.caller("shop").ingest("{}").await.receipt();
}

#[test]
fn a_service_is_checked_as_its_unit_runs_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let write = |name: &str, text: &str| write(folder.path(), name, text);
    write(
        "own.toml",
        "[[streams]]\nname = \"orders\"\n[[connectors]]\nname = \"shop\"\nkind = \"webhook\"\n\
         keys = [{ name = \"main\", stream = \"orders\", secret = { env = \"KEY_OF_THE_SHOP\" } }]\n",
    );
    let key = run(folder.path(), ["key", "new"]).ok();
    let key = key.lines().next().expect("a key").to_owned();
    write("secrets", &format!("KEY_OF_THE_SHOP={key}\n"));
    let unit = format!(
        "[Service]\nEnvironment=HEADGATE_PROFILE=production\nEnvironment=HEADGATE_STORAGE__DATA_DIR={}\n\
         EnvironmentFile=-{}\nExecStart=/usr/bin/headgate serve --config {}\n",
        at("kept"),
        at("secrets"),
        at("own.toml"),
    );
    write("gate.service", &unit);
    let service = format!("--service={}", at("gate.service"));
    let told = run(folder.path(), ["check", &service]).ok();
    assert!(told.contains("profile production (as the unit "), "{told}");
    let shown = run(folder.path(), ["config", "show", &service]).ok();
    assert!(shown.contains(&at("kept")), "{shown}");

    // A shell has neither the profile nor the secrets, and the command says so.
    let told = run(folder.path(), ["check", "--config", "own.toml"]).failed(2);
    assert!(
        told.contains("KEY_OF_THE_SHOP") && told.contains("the profile is the default"),
        "{told}"
    );
    let mut check = headgate(folder.path());
    check
        .args(["check", "--config", "own.toml"])
        .env("HEADGATE_PROFILE", "production")
        .env("KEY_OF_THE_SHOP", &key);
    let told = finish(&mut check, "").ok();
    assert!(
        told.contains("profile production (of HEADGATE_PROFILE)"),
        "{told}"
    );

    std::fs::remove_file(at("secrets")).expect("it was there");
    let told = run(folder.path(), ["check", &service]).failed(2);
    assert!(told.contains("KEY_OF_THE_SHOP"), "{told}");
    let told = run(folder.path(), ["check", "--service=no-such-unit"]).failed(2);
    assert!(told.contains("no-such-unit.service"), "{told}");
}
