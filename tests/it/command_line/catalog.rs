//! `stream`, `connector`, `key` and `read-key` against a running daemon.

use serde_json::Value;

use super::{Done, operate};
use crate::process::{Client, JSON, Process};
use crate::setup::Setup;

struct Desk {
    process: Process,
}

impl Desk {
    fn new() -> Self {
        let process = Setup::with_streams(&["orders", "other"]).spawn();
        Self { process }
    }

    fn run(&self, line: &str) -> Done {
        let args = line.split(' ').map(|arg| arg.trim_matches('\''));
        operate(&self.process, args)
    }

    fn listed(&self, line: &str) -> Vec<Value> {
        let json = self.run(&format!("{line} --output json")).ok();
        serde_json::from_str(&json).expect("a JSON list")
    }

    fn post(&self, path: &str, secret: &str) -> u16 {
        let answer = (self.process).ask("POST", path, secret, JSON, r#"{"id": 1}"#);
        answer.status
    }
}

/// The one line of a command's output.
fn line(done: Done) -> String {
    let out = done.ok();
    assert_eq!(out.matches('\n').count(), 1, "{out}");
    out.trim_end().to_owned()
}

#[test]
fn a_tool_is_connected_and_its_key_rotated_and_revoked() {
    let desk = Desk::new();
    let told = desk.run("stream create news --on-update merge --stale-after 60");
    assert_eq!(told.ok(), "stream news created\n");
    let told = desk.run("connector create crm --kind webhook --item-key id --burst 9");
    assert!(told.err.contains("headgate key create crm"), "{told:?}");
    assert_eq!(told.ok(), "connector crm created\n");
    let told = desk.run("key create crm main --stream news");
    assert!(told.err.contains("/api/webhook/news"), "{told:?}");
    let first = line(told);
    assert!(first.starts_with("ik_live_"));
    assert_eq!(desk.post("/api/webhook/news", &first), 202);

    let told = desk.run("key rotate crm main --grace 2h");
    assert!(
        told.err.contains(&first[..16]) && told.err.contains("expires at"),
        "{told:?}"
    );
    let second = line(told);
    assert_eq!(desk.post("/api/webhook/news", &first), 202);
    assert_eq!(desk.post("/api/webhook/news", &second), 202);
    let third = line(desk.run("key rotate crm main --grace 0"));
    assert_eq!(desk.post("/api/webhook/news", &second), 401);
    let told = desk.run("key revoke crm main");
    assert!(
        told.err.contains("an older key is still valid until") && told.err.contains(&first[..16]),
        "{told:?}"
    );
    assert_eq!(told.ok(), format!("key main ({}) revoked\n", &third[..16]));
    assert_eq!(desk.post("/api/webhook/news", &third), 401);
    let lasting = line(desk.run("key create crm spare --stream news"));
    let spare = || desk.listed("key list crm").pop().expect("a key");
    for (expires, expected) in [
        ("2999-01-31T00:00:00Z", "2999-01-31T00:00:00.000Z".into()),
        ("never", Value::Null),
    ] {
        let told = desk.run(&format!("key change crm spare --expires {expires}"));
        assert_eq!(
            told.ok(),
            format!("key spare ({}) changed\n", &lasting[..16])
        );
        assert_eq!(spare()["expires_at"], expected);
    }
    assert_eq!(desk.post("/api/webhook/news", &lasting), 202);
    let told = desk.run("key delete crm spare");
    assert_eq!(
        told.ok(),
        format!("key spare ({}) deleted\n", &lasting[..16])
    );
    assert_eq!(desk.post("/api/webhook/news", &lasting), 401);
    let states: Vec<_> = desk
        .listed("key list crm")
        .iter()
        .map(|key| key["state"].to_string())
        .collect();
    assert_eq!(
        states
            .iter()
            .filter(|state| *state == "\"revoked\"")
            .count(),
        2,
        "{states:?}"
    );
    let table = desk.run("key list crm").ok();
    assert_eq!(table.lines().count(), 4, "{table}");
    assert!(
        table.contains(&first[..16]) && !table.contains(&first[17..]),
        "{table}"
    );

    desk.run(
        "connector change crm --rate 5 --burst default --no-item-key --bytes-per-day 9000000000",
    )
    .ok();
    let crm = &desk.listed("connector list")[0];
    assert_eq!(
        (&crm["requests_per_second"], &crm["burst"], &crm["item_key"]),
        (&5.into(), &Value::Null, &Value::Null)
    );
    assert_eq!(crm["bytes_per_day"], 9_000_000_000_u64, "{crm}");
    desk.run("stream change news --on-update replace --stale-after never")
        .ok();
    let news = &desk.listed("stream list")[0];
    assert_eq!(
        (&news["on_update"], &news["stale_after_seconds"]),
        (&"replace".into(), &Value::Null)
    );
    for (list, rows) in [("stream list", 4), ("connector list", 3)] {
        let table = desk.run(list).ok();
        assert_eq!(table.lines().count(), rows, "{table}");
    }
    let told = desk.run("stream delete news").failed(1);
    assert!(
        told.contains("STREAM_IN_USE") && told.contains("force"),
        "{told}"
    );
    let told = desk.run("connector delete crm").failed(2);
    assert!(told.contains("--yes"), "{told}");
    assert_eq!(
        desk.run("connector delete crm --yes").ok(),
        "connector crm deleted\n"
    );
    assert_eq!(desk.run("stream delete news").ok(), "stream news deleted\n");
    desk.process.stop();
}

#[test]
fn what_is_refused_is_said_in_verbs_and_flags() {
    let desk = Desk::new();
    desk.run("connector create shop").ok();
    desk.run("key create shop main --stream orders").ok();
    desk.run("stream create news").ok();
    desk.run("key create shop second --stream news").ok();
    for (line, says) in [
        ("connector delete nope --yes", "`headgate connector list`"),
        (
            "stream change nope --stale-after 5",
            "`headgate stream list`",
        ),
        ("stream delete news", "\"second\" of \"shop\""),
        ("stream delete news", "use --force"),
        ("key rotate shop nope", "`headgate key list CONNECTOR`"),
        ("read-key revoke nope", "`headgate read-key list`"),
        ("sink retry nope", "`headgate sink list`"),
        (
            "sink discard pool --yes --id 7",
            "`headgate sink dead-letters NAME`",
        ),
        (
            "key create shop third --stream nowhere",
            "`headgate stream create`",
        ),
    ] {
        let told = desk.run(line).failed(1);
        assert!(told.contains(says), "{line}: {told}");
        let odd = ["/api/", "force=true", "{", "GET "];
        assert!(!odd.iter().any(|odd| told.contains(odd)), "{line}: {told}");
    }
    desk.process.stop();
}

#[test]
fn a_screen_gets_a_read_key_and_loses_it() {
    let desk = Desk::new();
    let empty = desk.run("read-key list");
    assert!(empty.err.contains("read-key create"), "{empty:?}");
    assert_eq!(empty.ok(), "");
    let secret =
        line(desk.run("read-key create lobby --stream orders --expires 2999-01-31T00:00:00Z"));
    let read = || {
        let mut client = Client::connect(desk.process.service).expect("it listens");
        let answer = client.get("/api/streams/orders/items", &secret);
        answer.expect("an answer").status
    };
    assert_eq!(read(), 200);
    let keys = desk.listed("read-key list");
    assert_eq!(
        (&keys[0]["name"], &keys[0]["expires_at"]),
        (&"lobby".into(), &"2999-01-31T00:00:00.000Z".into())
    );
    let table = desk.run("read-key list").ok();
    assert!(
        table.contains("orders") && table.contains(&secret[..16]),
        "{table}"
    );
    let made: Value = serde_json::from_str(
        &desk
            .run("read-key create wall --stream orders --allow-in-url --output json")
            .ok(),
    )
    .expect("JSON");
    assert_eq!(
        (&made["key"]["allow_in_url"], &made["key"]["declared"]),
        (&true.into(), &false.into())
    );
    desk.run("read-key change lobby --stream other --expires never --allow-in-url true")
        .ok();
    let lobby = &desk.listed("read-key list")[0];
    assert_eq!(
        (
            &lobby["streams"],
            &lobby["expires_at"],
            &lobby["allow_in_url"]
        ),
        (&serde_json::json!(["other"]), &Value::Null, &true.into())
    );
    assert_eq!(read(), 404);
    desk.run("read-key change lobby --stream orders").ok();
    assert_eq!(read(), 200);
    assert_eq!(
        desk.run("read-key revoke lobby").ok(),
        format!("read key lobby ({}) revoked\n", &secret[..16])
    );
    assert_eq!(read(), 401);
    let left = || desk.listed("read-key list").len();
    assert_eq!(left(), 2);
    let told = desk.run("read-key delete lobby").ok();
    assert_eq!(
        told,
        format!("read key lobby ({}) deleted\n", &secret[..16])
    );
    assert_eq!(left(), 1);
    desk.process.stop();
}

#[test]
fn what_cannot_be_done_is_told_with_the_way_out() {
    let desk = Desk::new();
    for (args, code, says) in [
        ("stream create orders", 1, "NAME_TAKEN"),
        (
            "stream change orders --on-update merge",
            1,
            "defined in the configuration",
        ),
        ("stream change orders", 2, "--stale-after"),
        ("stream create x --stale-after soon", 2, "never"),
        ("stream delete nothing", 1, "STREAM_NOT_FOUND"),
        ("connector change tests --rate 5", 1, "DECLARED"),
        ("connector create x --kind hook", 2, "webhook"),
        ("connector create x --burst 0", 1, "from 1"),
        ("connector change tests", 2, "--item-key"),
        ("read-key change lobby", 2, "--allow-in-url"),
        ("key change tests main --expires soon", 1, "2030-01-31"),
        ("key delete tests nothing", 1, "KEY_NOT_FOUND"),
        (
            "key create tests more --stream order",
            1,
            "did you mean \"orders\"",
        ),
        (
            "key create tests more --stream orders --expires soon",
            1,
            "2030-01-31",
        ),
        (
            "key create nobody more --stream orders",
            1,
            "CONNECTOR_NOT_FOUND",
        ),
        ("key rotate tests orders --grace 3w", 2, "s, m, h or d"),
        ("key revoke tests orders", 1, "DECLARED"),
        ("key list nobody", 1, "CONNECTOR_NOT_FOUND"),
        ("read-key create x", 2, "--stream"),
        ("read-key revoke x", 1, "READ_KEY_NOT_FOUND"),
    ] {
        let told = desk.run(args).failed(code);
        assert!(told.contains(says), "{args}: {told}");
    }
    // What is printed of names can't steer the terminal.
    let name = "'\u{202e}red'";
    let told = desk.run(&format!("stream create {name}")).ok();
    assert_eq!(told, "stream \\u{202e}red created\n");
    let table = desk.run("stream list").ok();
    assert!(
        table.contains("\\u{202e}red") && !table.contains('\u{202e}'),
        "{table}"
    );
    desk.process.stop();
}

#[test]
fn what_nothing_identifies_is_told_where_it_is_made_and_while_it_comes() {
    let desk = Desk::new();
    let done = desk.run("connector create hall --kind webhook --stream orders");
    assert!(
        done.err.contains("nothing identifies its items yet")
            && done.err.contains("connector change hall --item-key FIELD"),
        "{}",
        done.err
    );
    let secret = line(done);
    for told in [
        desk.run("connector create door --kind webhook --item-key id"),
        desk.run("connector create gate --kind ingest"),
        desk.run("connector create alerts --from alertmanager --stream other"),
    ] {
        assert!(!told.err.contains("nothing identifies"), "{}", told.err);
        told.ok();
    }
    let unidentified = "connector hall has no item key";
    assert_eq!(desk.post("/api/webhook/orders/hall", &secret), 202);
    assert!(desk.process.problems().contains(unidentified));
    // Several fields, which must all be there.
    desk.run("connector change hall --item-key id,kind").ok();
    assert_eq!(desk.post("/api/webhook/orders/hall", &secret), 400);
    let both = r#"{"id": 1, "kind": "a"}"#;
    let answer = (desk.process).ask("POST", "/api/webhook/orders/hall", &secret, JSON, both);
    assert_eq!(answer.status, 202);
    assert!(!desk.process.problems().contains(unidentified));
    desk.process.drained();
    let keys: Vec<String> = desk
        .process
        .setup
        .rows("orders")
        .into_iter()
        .map(|item| item.key)
        .collect();
    assert_eq!(keys, ["0", "1|a"]);
    // And none again.
    desk.run("connector change hall --item-key ''").ok();
    let listed = desk.listed("connector list");
    let hall = listed.iter().find(|one| one["name"] == "hall");
    assert!(
        hall.expect("it is listed")["item_key"].is_null(),
        "{listed:?}"
    );
    assert_eq!(desk.post("/api/webhook/orders/hall", &secret), 202);
    assert!(desk.process.problems().contains(unidentified));
    desk.process.stop();
}
