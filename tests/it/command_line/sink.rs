//! `sink` against a running daemon with a sink that refuses.

use serde_json::Value;

use super::{Done, operate};
use crate::guests::guest;
use crate::process::{BY_ID, Process};
use crate::receiver::Receiver;
use crate::setup::Setup;
use crate::wait::eventually;

struct Desk {
    folder: Setup,
    process: Process,
}

impl Desk {
    /// A sink `back` behind a closed door.
    fn closed() -> Self {
        let folder = Setup::with_streams(&["orders"]).sink("back", &guest("doorkeeper"), "*", "");
        let process = folder.spawn();
        let desk = Self { folder, process };
        desk.door("close");
        desk
    }

    fn door(&self, moved: &str) {
        let body = format!("{{\"id\": \"{moved}\"}}");
        let id = self.process.accepted("orders", BY_ID, &body);
        self.process.request_becomes(&id, "processed");
    }

    fn fails(&self, body: &str) -> String {
        let id = self.process.accepted("orders", BY_ID, body);
        self.process.request_becomes(&id, "failed");
        id
    }

    fn sink(&self, args: &[&str]) -> Done {
        operate(&self.process, [&["sink"], args].concat())
    }

    fn letters(&self) -> Vec<Value> {
        let all = ["--limit", "1000", "--output", "json"];
        let told = self.sink(&[&["dead-letters", "back"], &all[..]].concat());
        serde_json::from_str(&told.ok()).expect("a JSON list")
    }
}

#[test]
fn dead_letters_are_shown_sent_again_and_discarded() {
    let desk = Desk::closed();
    let bodies: Vec<String> = (0..130)
        .map(|n| format!("{{\"id\": \"reject-{n}\", \"n\": 1.50}}"))
        .collect();
    let many = desk.fails(&format!("[{}]", bodies.join(",")));
    let one = desk.fails(r#"{"id": "reject-one\u001b[2J", "n": {"x": 1}}"#);

    let list = desk.sink(&["list"]).ok();
    let lines: Vec<&str> = list.lines().collect();
    // And why it is failing.
    assert_eq!(lines.len(), 4, "{list}");
    assert!(
        lines[0].starts_with("NAME") && lines[0].ends_with("DEAD LETTERS"),
        "{list}"
    );
    for part in ["back", "doorkeeper.wasm", "failing", "131"] {
        assert!(lines[1].contains(part), "{part} in {list}");
    }
    let sinks: Value =
        serde_json::from_str(&desk.sink(&["list", "--output", "json"]).ok()).expect("JSON");
    assert_eq!(
        (&sinks[0]["name"], &sinks[0]["dead_letters"]),
        (&"back".into(), &131.into())
    );

    let table = desk.sink(&["dead-letters", "back", "--limit", "130"]).ok();
    assert_eq!(
        table.lines().count(),
        131,
        "several pages, and the headings"
    );
    let newest = table.lines().nth(1).expect("a row");
    assert!(
        newest.contains(&one) && newest.contains("reject-one\\u{1b}[2J"),
        "{newest}"
    );
    assert!(
        newest.ends_with("the door is \\u{1b}[31mclosed"),
        "{newest}"
    );
    assert!(!table.contains('\u{1b}'));
    let newest = desk.sink(&["dead-letters", "back"]).ok();
    assert_eq!(newest.lines().count(), 51);
    let letters = desk.letters();
    assert_eq!(letters.len(), 131);
    assert_eq!(letters[0]["fields"]["n.x"], 1);
    assert_eq!(letters[0]["request_id"], *one);
    let id = |letter: &Value| letter["id"].as_str().expect("an id").to_owned();

    desk.door("open");
    let two = format!("{},{}", id(&letters[1]), id(&letters[2]));
    let told = desk.sink(&["retry", "back", "--id", &two]);
    assert_eq!(told.ok(), "2 dead letters retried\n");
    let told = desk
        .sink(&["discard", "back", "--id", &id(&letters[3])])
        .failed(2);
    assert!(told.contains("--yes"), "{told}");
    assert_eq!(desk.letters().len(), 129, "nobody said yes");
    let told = desk.sink(&["discard", "back", "--yes", "--id", &id(&letters[3])]);
    assert_eq!(told.ok(), "1 dead letter discarded\n");
    let told = desk.sink(&["retry", "back", "--request", &many]);
    assert_eq!(told.ok(), "127 dead letters retried\n");
    desk.process.request_becomes(&many, "discarded");
    let told = desk.sink(&["discard", "back", "--all", "--yes"]);
    assert_eq!(told.ok(), "1 dead letter discarded\n");
    assert_eq!(desk.folder.items("orders").len(), 129 + 2);
    let empty = desk.sink(&["dead-letters", "back"]);
    assert!(empty.err.contains("no dead letters"), "{empty:?}");
    assert_eq!(empty.ok(), "");

    let told = desk.sink(&["retry", "back", "--id", "999"]).failed(1);
    assert!(told.contains("DEAD_LETTER_NOT_FOUND"), "{told}");
    let told = desk.sink(&["retry", "nobody"]).failed(1);
    assert!(told.contains("SINK_NOT_FOUND"), "{told}");
    desk.process.stop();
}

#[test]
fn what_waits_is_tried_at_once() {
    let desk = Desk::closed();
    let id = desk
        .process
        .accepted("orders", BY_ID, r#"{"id": "retry-a"}"#);
    (desk.process).sink_becomes("back", "retrying", |sink| sink["retries"] == 1);
    desk.door("open");
    assert_eq!(
        desk.sink(&["retry", "back"]).ok(),
        "retrying 1 waiting batch\n"
    );
    desk.process.request_becomes(&id, "processed");
    let nothing = desk.sink(&["retry", "back"]);
    assert!(nothing.err.contains("--all"), "{nothing:?}");
    assert_eq!(nothing.ok(), "retrying 0 waiting batches\n");
    desk.process.stop();
}

#[test]
fn what_waits_is_listed_and_given_up_and_a_sink_is_forgotten() {
    let mut desk = Desk::closed();
    for key in ["retry-a", "retry-b"] {
        let body = format!("{{\"id\": \"{key}\"}}");
        desk.process.accepted("orders", BY_ID, &body);
        let waits = if key == "retry-a" { 1 } else { 2 };
        (desk.process).sink_becomes("back", "retrying", |sink| sink["retries"] == waits);
    }
    let table = desk.sink(&["retries", "back"]).ok();
    assert_eq!(table.lines().count(), 3, "{table}");
    assert!(table.contains("the door is closed"), "{table}");
    let listed = desk.sink(&["retries", "back", "--output", "json"]).ok();
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    let id = listed[0]["id"].as_str().expect("an id");
    let told = desk.sink(&["end-retries", "back", id]);
    assert_eq!(told.ok(), "1 waiting batch ended: 1 dead letter\n");
    let told = desk.sink(&["end-retries", "back", id]).failed(1);
    assert!(told.contains("RETRY_NOT_FOUND"), "{told}");
    desk.sink(&["end-retries", "back"]).failed(2);
    // The verb of version 0.1.
    let told = desk.sink(&["give-up", "back", "--all"]);
    assert_eq!(told.ok(), "1 waiting batch ended: 1 dead letter\n");
    let told = desk.sink(&["forget", "back", "--yes"]).failed(1);
    assert!(told.contains("DECLARED"), "{told}");

    desk.folder.change("name = \"back\"", "name = \"front\"");
    (desk.process).sink_becomes("back", "unconfigured", |sink| {
        sink["state"] == "unconfigured"
    });
    let list = desk.sink(&["list"]).ok();
    assert!(list.contains("headgate sink forget back"), "{list}");
    let told = desk.sink(&["forget", "back"]).failed(2);
    assert!(told.contains("--yes"), "{told}");
    let told = desk.sink(&["forget", "back", "--yes"]);
    assert_eq!(
        told.ok(),
        "data of the sink back deleted, with 0 waiting batches and 2 dead letters\n"
    );
    let list = desk.sink(&["list"]).ok();
    assert!(!list.contains("back"), "{list}");
    desk.process.stop();
}

#[test]
fn a_sink_is_made_tried_and_printed_as_a_section_that_makes_it_again() {
    let receiver = Receiver::content();
    let folder = Setup::with_streams(&["orders"]).toml("# here\n");
    let process = folder.spawn();
    let sink = |args: &[&str]| operate(&process, [&["sink"], args].concat());
    let secret = folder.path("secret");
    std::fs::write(&secret, "hush-this-is-a-secret\n").expect("a file");
    let header = format!("x-token=@{}", secret.display());
    let config = format!(r#"{{"url": "{}"}}"#, receiver.url("/in"));
    let host = receiver.url("");
    let made = sink(&[
        "create",
        "team",
        "--plugin",
        "http-forward",
        "--streams",
        "orders",
        "--config",
        &config,
        "--host",
        &host,
        "--network",
        "127.0.0.0/8",
        "--header",
        &header,
        "--section",
        r#"{"retry": {"attempts": 3}}"#,
    ]);
    assert_eq!(made.ok(), "sink team created\n");
    let told = sink(&["create", "team", "--plugin", "pool", "--streams", "a"]).failed(1);
    assert!(told.contains("NAME_TAKEN"), "{told}");
    let tried = sink(&["try", "team", "--item", r#"{"id": 7}"#]).ok();
    assert!(
        tried.contains("would send: POST http://127.0.0.1"),
        "{tried}"
    );
    assert!(tried.contains("x-token: ********"), "{tried}");
    assert_eq!(receiver.seen().len(), 0);
    let changed = sink(&["change", "team", "--where", "total>=1", "--writes", ""]);
    assert_eq!(changed.ok(), "sink team changed\n");
    let told = sink(&["change", "team", "--where", "total>>1"]).failed(1);
    assert!(told.contains("where"), "{told}");
    assert_eq!(sink(&["pause", "team"]).ok(), "sink team paused\n");
    let shown = sink(&["show", "team"]).ok();
    assert!(shown.contains("state         paused"), "{shown}");
    assert!(
        shown.contains("grant         may call addresses in 127.0.0.0/8"),
        "{shown}"
    );
    assert_eq!(sink(&["resume", "team"]).ok(), "sink team resumed\n");
    let toml = sink(&["show", "team", "--output", "toml"]).ok();
    let json: Value =
        serde_json::from_str(&sink(&["show", "team", "--output", "json"]).ok()).expect("JSON");
    assert!(!toml.contains("hush") && !json.to_string().contains("hush"));
    assert_eq!(sink(&["delete", "team"]).ok(), "sink team deleted\n");
    drop(process);

    // The printed section in a file is the same sink.
    let mut folder = folder;
    let section = toml.replace(
        r#"{ env = "SINK_TEAM_HTTP_HEADERS_X_TOKEN" }"#,
        r#""hush-this-is-a-secret""#,
    );
    assert_ne!(section, toml, "{toml}");
    folder.change("# here\n", &section);
    let process = folder.spawn();
    let declared = process.sink("team");
    assert_eq!(declared["declared"], true);
    assert_eq!(declared["section"], json["section"]);
    process.accepted("orders", "", r#"{"total": 2}"#);
    let seen = eventually("it is sent", || {
        Some(receiver.seen()).filter(|seen| !seen.is_empty())
    });
    assert_eq!(seen[0].header("x-token"), Some("hush-this-is-a-secret"));
    process.stop();
}
