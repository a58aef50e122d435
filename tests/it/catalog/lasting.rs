//! What was answered stays, whatever happens to the process; and secrets stay nowhere.

use serde_json::json;

use crate::process::{JSON, Process};
use crate::setup::{Setup, key_of};
use crate::wait::eventually;

fn submit(process: &Process, secret: &str) -> u16 {
    let answer = process.ask("POST", "/api/ingest", secret, JSON, "{}");
    answer.status
}

#[test]
fn a_change_that_was_answered_survives_a_kill() {
    let folder = Setup::with_streams(&["orders"]);
    let keys = "/api/admin/connectors/crm/keys";
    let process = folder.spawn();
    process.make(
        "/api/admin/streams",
        &json!({"name": "news", "on_update": "merge"}),
    );
    process.make("/api/admin/connectors", &json!({"name": "crm"}));
    let made = process.make(keys, &json!({"name": "main", "stream": "news"}));
    process.kill();

    let process = folder.spawn();
    assert_eq!(
        process.admin("/api/admin/streams/news")["on_update"],
        "merge"
    );
    assert_eq!(submit(&process, &made.secret()), 202);
    let rotated = process.make(&format!("{keys}/main/rotate"), &json!({"grace_seconds": 0}));
    process.kill();

    let process = folder.spawn();
    assert_eq!(submit(&process, &made.secret()), 401);
    assert_eq!(submit(&process, &rotated.secret()), 202);
    process
        .call("POST", &format!("{keys}/main/revoke"), "")
        .data(200);
    process.kill();

    let process = folder.spawn();
    assert_eq!(submit(&process, &rotated.secret()), 401);
    assert_eq!(process.admin(&format!("{keys}/main"))["state"], "revoked");
    process
        .call("DELETE", "/api/admin/connectors/crm", "")
        .data(200);
    process
        .call("DELETE", "/api/admin/streams/news", "")
        .data(200);
    process.kill();

    let process = folder.spawn();
    assert_eq!(
        process
            .admin("/api/admin/connectors")
            .as_array()
            .map(Vec::len),
        Some(1)
    );
    assert_eq!(process.list("/api/admin/audit").len(), 7);
    process.stop();
}

#[test]
fn a_configuration_that_is_read_again_leaves_what_was_made_alone() {
    let mut folder = Setup::with_streams(&["orders"]).given_read_key(
        "wall",
        &["orders"],
        "rk_live_for_the_wall_00000000001",
        "",
    );
    let process = folder.spawn();
    let keys = "/api/admin/connectors/tests/keys";
    let made = process.make(keys, &json!({"name": "made", "stream": "orders"}));
    let screen = process.make(
        "/api/admin/read-keys",
        &json!({"name": "screen", "streams": ["orders"]}),
    );
    folder.change("name = \"wall\"", "name = \"screen\"");
    process.hang_up();
    process.says("configuration reloaded");
    assert_eq!(submit(&process, &made.secret()), 202);
    // The declared one of the same name counts now, and the log says so.
    process.says("the read key \"screen\"");
    assert_eq!(
        process.admin("/api/admin/read-keys/screen")["declared"],
        true
    );
    let mut client = process.client();
    let mut read = |secret: &str| {
        let answer = client.get("/api/streams/orders/items", secret);
        answer.expect("an answer").status
    };
    assert_eq!(read(&screen.secret()), 401);
    assert_eq!(read("rk_live_for_the_wall_00000000001"), 200);
    folder.change("name = \"screen\"", "name = \"wall\"");
    eventually("the one that was made is back", || {
        (read(&screen.secret()) == 200).then_some(())
    });
    process.stop();
}

/// A connector with a stream of its own.
const DESK: &str = r#"
[[streams]]
name = "news"
[[connectors]]
name = "desk"
kind = "webhook"
max_items_per_request = 2
keys = [{ name = "desk", stream = "news", secret = "ik_live_of_the_desk_000000000001" }]
"#;

#[test]
fn streams_connectors_and_keys_of_a_changed_file_take_effect_at_once() {
    const SECRET: &str = "ik_live_of_the_desk_000000000001";
    let mut folder = Setup::with_streams(&["orders"])
        .sink("pool", "pool", "*", "")
        .given_read_key("wall", &["orders"], "rk_live_for_the_wall_00000000001", "")
        .toml("# more");
    let process = folder.spawn();
    let status = |secret: &str, items: &str| {
        let answer = process.ask("POST", "/api/ingest", secret, JSON, items);
        answer.status
    };
    assert_eq!(status(SECRET, r#"{"id": 1}"#), 401);
    folder.change("# more", DESK);
    eventually("the new key works", || {
        (status(SECRET, r#"{"id": 1}"#) == 202).then_some(())
    });
    assert_eq!(status(SECRET, r#"[{"id": 1}, {"id": 2}, {"id": 3}]"#), 400);
    assert_eq!(status(&key_of("orders"), r#"{"id": 1}"#), 202);
    let streams = process.admin("/api/admin/streams");
    assert_eq!(streams.as_array().map(Vec::len), Some(2));

    folder.change("max_items_per_request = 2", "max_items_per_request = 3");
    eventually("three items are accepted", || {
        let answer = status(SECRET, r#"[{"id": 1}, {"id": 2}, {"id": 3}]"#);
        (answer == 202).then_some(())
    });
    // A mistake changes nothing.
    folder.change("kind = \"webhook\"\nmax", "kind = \"unknown\"\nmax");
    process.says("configuration rejected");
    assert_eq!(status(SECRET, r#"{"id": 4}"#), 202);
    folder.change("kind = \"unknown\"\nmax", "kind = \"webhook\"\nmax");

    let whole = DESK.replace("max_items_per_request = 2", "max_items_per_request = 3");
    folder.change(&whole, "# none");
    eventually("the key is nobody's", || {
        (status(SECRET, r#"{"id": 5}"#) == 401).then_some(())
    });
    assert_eq!(
        process.call("GET", "/api/admin/streams/news", "").status,
        404
    );
    assert_eq!(status(&key_of("orders"), r#"{"id": 1}"#), 202);
    process.stop();
}

/// What is in the place of a secret wherever one was pasted by mistake.
const CANARY: &str = "ik_live_canary00_pasted_into_the_wrong_place_000001";

#[test]
fn no_secret_is_in_a_file_a_log_the_audit_trail_or_an_error() {
    let folder = Setup::with_streams(&["orders"]).sink("pool", "pool", "*", "");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_headgate"));
    command
        .args(["serve", "--config", "headgate.toml"])
        .env("HEADGATE_LOG__LEVEL", "trace")
        .env("HEADGATE_LOG__REQUESTS", "true");
    let process = folder.spawn_as(command).expect("it starts");
    let keys = "/api/admin/connectors/crm/keys";
    let mut told = String::new();
    let refused = |path: &str, body: &str| {
        let answer = process.call("POST", path, body);
        assert_eq!(answer.status, 400, "{path}: {}", answer.body);
        answer.body
    };
    // Pasted where none belongs: into every field, as a field's name, as the whole body.
    for (path, fields) in [
        (
            "/api/admin/streams",
            &["name", "on_update", "stale_after_seconds"][..],
        ),
        (
            "/api/admin/connectors",
            &["name", "kind", "item_key", "burst"],
        ),
        (
            "/api/admin/connectors/tests/keys",
            &["name", "stream", "test", "expires_at"],
        ),
        (
            "/api/admin/read-keys",
            &["name", "streams", "expires_at", "allow_in_url"],
        ),
    ] {
        for field in fields {
            // With whatever else must be there.
            let mut body = serde_json::json!({"name": "n"});
            if path.ends_with("keys") && !path.contains("read") {
                body["stream"] = "orders".into();
            } else if path.contains("read") {
                body["streams"] = serde_json::json!(["orders"]);
            }
            for value in [serde_json::json!(CANARY), serde_json::json!([CANARY])] {
                body[*field] = value;
                told += &refused(path, &body.to_string());
            }
        }
        for body in [
            format!("{{\"{CANARY}\": 1}}"),
            format!("\"{CANARY}\""),
            format!("{{\"name\": {CANARY}}}"),
        ] {
            told += &refused(path, &body);
        }
    }
    process.make("/api/admin/streams", &json!({"name": "news"}));
    process.make("/api/admin/connectors", &json!({"name": "crm"}));
    let made = process.make(keys, &json!({"name": "main", "stream": "news"}));
    let rotated = process.call("POST", &format!("{keys}/main/rotate"), "");
    let screen = process.make(
        "/api/admin/read-keys",
        &json!({"name": "wall", "streams": ["news"]}),
    );
    let secrets = [made.secret(), rotated.secret(), screen.secret()];
    assert_eq!(submit(&process, &secrets[0]), 202);
    process
        .call("POST", &format!("{keys}/main/revoke"), "")
        .data(200);
    assert_eq!(submit(&process, &secrets[1]), 401);
    process.drained();
    for path in [
        "connectors",
        "streams",
        "read-keys",
        "audit",
        "status",
        "connectors/crm/requests",
    ] {
        told += &process.admin(&format!("/api/admin/{path}")).to_string();
    }
    told += &process.metrics();
    assert!(told.contains(&secrets[0][..16]), "prefixes are shown");
    let files = || -> Vec<(String, Vec<u8>)> {
        let entries = std::fs::read_dir(folder.data_dir()).expect("a folder");
        let files = entries
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.is_file());
        files
            .map(|path| {
                (
                    path.display().to_string(),
                    std::fs::read(&path).expect("a file"),
                )
            })
            .collect()
    };
    let mut places = files();
    assert!(
        places
            .iter()
            .any(|(name, _)| name.ends_with("catalog.db-wal")),
        "also the log of writes"
    );
    process.terminate();
    let log = process.ended().log;
    assert!(log.contains("/api/admin/read-keys"), "requests are logged");
    places.extend(files());
    places.push(("the log".to_owned(), log.into_bytes()));
    places.push(("an answer".to_owned(), told.into_bytes()));
    // What follows the part that may be shown.
    for secret in secrets
        .iter()
        .map(|secret| &secret[17..])
        .chain(["pasted_into_the_wrong"])
    {
        for (place, bytes) in &places {
            let found = bytes
                .windows(secret.len())
                .any(|window| window == secret.as_bytes());
            assert!(!found, "a secret is in {place}");
        }
    }
}
