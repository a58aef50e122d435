//! `status`, `item`, times, and what verbs and the daemon say when somebody is not there, or is there already.

use std::net::TcpListener;
use std::process::Stdio;
use std::time::Instant;

use serde_json::Value;

use super::{admin_args, finish, headgate, operate, run};
use crate::process::{BY_ID, JSON, Process};
use crate::program::output_within;
use crate::setup::{Setup, key_of};
use crate::wait::{PROCESS_DEADLINE, eventually_within};

fn send(process: &Process, body: &str) {
    let key = key_of("orders");
    let answer = process.ask("POST", "/api/ingest", &key, &format!("{JSON}{BY_ID}"), body);
    assert_eq!(answer.status, 202, "{}", answer.body);
}

#[test]
fn status_shows_problems_sinks_and_screens_and_fails_where_there_is_a_problem() {
    let process = Setup::with_streams(&["orders"]).spawn();
    send(&process, r#"[{"id": 1}]"#);
    let well = operate(&process, ["status"]).ok();
    assert!(well.starts_with("No problems.\n"), "{well}");
    for part in ["\nNAME ", "\npool ", "No connected screens."] {
        assert!(well.contains(part), "{part}: {well}");
    }
    // Nothing failed, so there is no column for it.
    assert!(!well.contains("LAST ERROR"), "{well}");

    for _ in 0..20 {
        let answer = process.ask("POST", "/api/ingest", &key_of("orders"), JSON, "no JSON");
        assert_eq!(answer.status, 400, "{}", answer.body);
    }
    let done = eventually_within(
        PROCESS_DEADLINE,
        || "there is a problem".to_owned(),
        || {
            let done = operate(&process, ["status"]);
            (done.code == Some(1)).then_some(done)
        },
    );
    assert!(
        done.out.starts_with("KIND     PROBLEM\nrefused  "),
        "{}",
        done.out
    );
    assert_eq!(done.err, "error: 1 problem\n");
    let json = operate(&process, ["status", "--output", "json"]);
    let json: Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!(json["problems"].as_array().expect("a list").len(), 1);
    let detail = &json["problem_details"][0];
    assert_eq!(detail["sentence"], json["problems"][0]);
    assert_eq!(
        (&detail["kind"], &detail["subject"], &detail["name"]),
        (&"refused".into(), &"connector".into(), &"tests".into())
    );
    assert_eq!(detail["page"], "/connectors/tests?status=rejected#log");
    assert_eq!(json["screens"], serde_json::json!([]));
    assert_eq!(json["sinks"][0]["name"], "pool");
}

#[test]
fn an_item_is_shown_with_its_values_as_they_were_sent_and_removed() {
    let process = Setup::with_streams(&["orders"]).spawn();
    send(
        &process,
        r#"[{"id": "a/b", "total": 10.50, "home": {"name": "Österreich"}}]"#,
    );
    let get = ["item", "get", "orders", "a/b"];
    let text = eventually_within(
        PROCESS_DEADLINE,
        || "the item is there".to_owned(),
        || Some(operate(&process, get)).filter(|done| done.code == Some(0)),
    );
    let text = text.ok();
    assert!(text.starts_with("key: a/b\nupdated: 20"), "{text}");
    assert!(
        text.ends_with("  total: 10.50\n  home.name: Österreich\n"),
        "{text}"
    );
    let json = operate(&process, get.into_iter().chain(["--output", "json"])).ok();
    assert!(json.contains("10.50"), "{json}");
    let item: Value = serde_json::from_str(&json).expect("JSON");
    let request = item["request_id"].as_str().expect("a request");
    assert!(
        operate(&process, ["requests", "show", request])
            .ok()
            .contains("connector: tests")
    );

    let mut berlin = headgate(&process.setup.path(""));
    berlin
        .env("TZ", "CET-1")
        .args(get)
        .args(admin_args(&process));
    let berlin = finish(&mut berlin, "").ok();
    assert!(berlin.contains("+01:00\n"), "{berlin}");
    let mut utc = headgate(&process.setup.path(""));
    utc.env("TZ", "CET-1")
        .args(get)
        .args(admin_args(&process))
        .arg("--utc");
    assert_eq!(finish(&mut utc, "").ok(), text);

    let told = operate(&process, ["item", "rm", "orders", "a/b"]).ok();
    assert_eq!(told, "item a/b of orders removed\n");
    eventually_within(
        PROCESS_DEADLINE,
        || "the item is gone".to_owned(),
        || (operate(&process, get).code == Some(1)).then_some(()),
    );
    let gone = operate(&process, ["item", "rm", "orders", "a/b"]).failed(1);
    assert!(gone.contains("ITEM_NOT_FOUND"), "{gone}");
    let trail = process.admin("/api/admin/audit");
    let trail = trail.as_array().expect("entries");
    assert!(
        trail
            .iter()
            .any(|one| one["action"] == "remove" && one["name"] == "a/b")
    );
}

#[test]
fn a_port_that_is_taken_names_its_setting_and_who_has_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("an address").to_string();
    let own = base::process::named(std::process::id());
    let serve = |variable: &str, args: &[&str]| {
        let mut command = headgate(folder.path());
        command.env("HEADGATE_SERVER__LISTEN", "127.0.0.1:0");
        command.env("HEADGATE_ADMIN__LISTEN", "127.0.0.1:0");
        if !variable.is_empty() {
            command.env(variable, &address);
        }
        let data = ["serve", "--data-dir", "elsewhere"];
        let said = finish(command.args(data).args(args), "").failed(1);
        assert!(folder.path().join("elsewhere").exists());
        said
    };
    for (variable, args, setting) in [
        ("HEADGATE_SERVER__LISTEN", &[][..], "server.listen"),
        ("HEADGATE_ADMIN__LISTEN", &[], "admin.listen"),
        ("", &["--listen", &address], "server.listen"),
    ] {
        let said = serve(variable, args);
        // A child of another test has the socket, too, until it becomes its program.
        let taken = format!("cannot listen on {address}: the address is in use by another program");
        for part in [&*taken, &own, &format!("set {setting} ")] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
    let wrong = run(folder.path(), ["serve", "--listen", "nowhere"]).failed(2);
    assert!(wrong.contains("option --listen: server.listen"), "{wrong}");
}

#[test]
fn tail_and_send_give_up_where_there_was_never_a_daemon_unless_they_are_to_wait() {
    let folder = tempfile::tempdir().expect("a folder");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    let began = Instant::now();
    let verb = |line: &str| {
        let mut command = headgate(folder.path());
        command.args(line.split(' ')).args(["--admin-url", &url]);
        command
    };
    let (url_args, key) = (["--url", &url], "ik_live_0123456789abcdef");
    let mut tail = verb("tail orders --token secret");
    tail.args(url_args);
    let log = verb("tail --log --token secret");
    let mut send = headgate(folder.path());
    send.args(["send", "--key", key]).args(url_args);
    let mut waits = verb("tail --log --token secret --wait");
    let mut waits = waits.stderr(Stdio::null()).spawn().expect("it starts");
    let threads = [tail, log, send].map(|mut command| {
        std::thread::spawn(move || output_within(PROCESS_DEADLINE, &mut command, b"{\"id\": 1}"))
    });
    for thread in threads {
        let output = thread.join().expect("no panic").expect("it starts");
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.contains("is `headgate serve` running? --wait"),
            "{said}"
        );
    }
    assert!(began.elapsed() >= client::patience::ABSENT_MAX);
    assert!(waits.try_wait().expect("a child").is_none());
    waits.kill().expect("a child");
    waits.wait().expect("a child");
}

#[test]
fn search_finds_items_and_errors_and_says_when_there_is_nothing() {
    let process = Setup::with_streams(&["orders"]).spawn();
    send(
        &process,
        r#"[{"id": "o-1", "name": "Ada"}, {"id": "o-12"}]"#,
    );
    let answer = process.ask("POST", "/api/ingest", &key_of("orders"), JSON, "no JSON");
    assert_eq!(answer.status, 400, "{}", answer.body);
    process.drained();
    let found = operate(&process, ["search", "o-1"]).ok();
    let lines: Vec<&str> = found.lines().collect();
    assert_eq!(lines.len(), 3, "{found}");
    assert!(
        lines[1].starts_with("item") && lines[1].contains("Ada"),
        "{found}"
    );
    let found = operate(&process, ["search", "line 1", "--output", "ndjson"]).ok();
    let hit: Value = serde_json::from_str(found.trim()).expect("one line of JSON");
    assert_eq!(hit["kind"], "request");
    assert_eq!(operate(&process, ["search", "no such thing"]).ok(), "");
    let wrong = operate(&process, ["search", ""]);
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.err.contains("expected 1 to 512"), "{}", wrong.err);
}
