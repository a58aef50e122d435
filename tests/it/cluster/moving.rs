//! `headgate migrate`: a data directory becomes the beginning of a cluster, and a cluster becomes a data directory.
//!
//! **Invariant**: who asks over the API, and what receivers are sent, cannot see where the data is.

mod places;
mod refused;

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::app::Random;
use crate::command_line::{Done, finish, headgate};
use crate::process::{Client, SetOnDrop};
use crate::program::Lines;
use crate::receiver::{Book, Receiver, answer};
use crate::stored::{one, read_only};

/// Somewhere that is away until it is told otherwise, and then takes each item once.
struct Far {
    is_there: Arc<AtomicBool>,
    book: Book,
    receiver: Receiver,
}

impl Far {
    fn new() -> Self {
        let (is_there, book) = (Arc::new(AtomicBool::new(false)), Book::default());
        let receiver = Receiver::start({
            let (is_there, book) = (Arc::clone(&is_there), book.clone());
            move |seen, _| {
                if seen.path == "/letters" {
                    return answer(422, "", "never");
                }
                if !is_there.load(Ordering::SeqCst) {
                    return answer(503, "", "away");
                }
                let items = seen.json();
                let items = items.as_array().expect("a list").iter();
                let items = items.map(|item| item["key"].as_str().expect("a key").to_owned());
                book.take(
                    seen.header("idempotency-key").expect("a key"),
                    items.collect(),
                );
                answer(200, "", "")
            }
        });
        Self {
            is_there,
            book,
            receiver,
        }
    }

    fn comes_back(&self) {
        self.is_there.store(true, Ordering::SeqCst);
    }

    /// The sinks of every configuration: one that waits for it, and one that has dead letters.
    fn sinks(&self, setup: Setup) -> Setup {
        let host = self.receiver.url("");
        let more = |path: &str| {
            let url = self.receiver.url(path);
            format!(
                "retry = {{ first_ms = 100, max_ms = 200, attempts = 1000000 }}\n\
                 config = {{ url = {url:?}, max_items = 1 }}\n\
                 http = {{ hosts = [{host:?}], networks = [\"127.0.0.0/8\"] }}\n"
            )
        };
        setup
            .sink("far", "http-forward", "orders", &more("/in"))
            .sink("letters", "http-forward", "scores", &more("/letters"))
            .set("storage.payload_retention_minutes", 60)
    }

    fn alone(&self) -> Setup {
        let setup = Setup::with_streams(&["orders", "scores"])
            .given_read_key("screen", &["orders", "scores"], READ_KEY, "")
            .sink("pool", "pool", "*", "");
        self.sinks(setup)
    }

    fn node(&self, server: &Postgres, name: &str) -> Setup {
        clustered(self.alone(), server, name)
    }
}

fn clustered(setup: Setup, server: &Postgres, name: &str) -> Setup {
    setup
        .set("storage.engine", "postgres")
        .set("cluster.urls", vec![server.url()])
        .set("cluster.name", name)
        .set("cluster.durability", "local")
        .set("cluster.commit_wait_seconds", 2)
}

/// Runs the verb with the configuration of a node.
fn migrate(node: &Setup, direction: &str, dir: &Path) -> Done {
    let config = node.write();
    let mut command = headgate(&node.path(""));
    command.args(["migrate", "--output", "json", "--config"]);
    finish(command.arg(config).arg(direction).arg(dir), "")
}

/// What it moved, all of it equal: rows by part.
#[track_caller]
fn moved(done: Done) -> Value {
    let told: Value = serde_json::from_str(&done.ok()).expect("JSON");
    let parts = told["parts"].as_array().expect("parts");
    assert_eq!(parts.len(), 7, "{told}");
    assert!(parts.iter().all(|part| part["equal"] == true), "{told}");
    told
}

fn rows(told: &Value, name: &str) -> u64 {
    let parts = told["parts"].as_array().expect("parts");
    let part = parts.iter().find(|part| part["part"] == name);
    part.expect("a part")["rows"].as_u64().expect("a number")
}

/// What the API says of what is stored, without what changes by itself.
fn said(process: &Process) -> Vec<(String, Value)> {
    let mut said = Vec::new();
    for stream in ["orders", "scores"] {
        let path = format!("/api/streams/{stream}/items?limit=1000");
        let answer = process.ask("GET", &path, READ_KEY, "", "");
        said.push((path, answer.json()["data"].clone()));
    }
    let logs = ["tests", "made"].map(|connector| {
        process.list(&format!(
            "/api/admin/connectors/{connector}/requests?limit=500"
        ))
    });
    for request in logs.iter().flatten() {
        let id = request["request_id"].as_str().expect("an id").to_owned();
        for path in ["", "/content"] {
            let path = format!("/api/admin/requests/{id}{path}");
            let mut answer = process.call("GET", &path, "").json();
            // The sink that is away is tried again and again.
            answer["data"]["sinks"].take();
            said.push((path, answer["data"].take()));
        }
    }
    for path in [
        "/api/admin/sinks/letters/dead-letters?limit=500",
        "/api/admin/connectors",
        "/api/admin/connectors/made/keys",
        "/api/admin/streams",
    ] {
        let mut data = process.admin(path);
        forget_uses(&mut data);
        said.push((path.to_owned(), data));
    }
    said
}

/// When a key was last used is stored now and then.
fn forget_uses(data: &mut Value) {
    match data {
        Value::Array(list) => list.iter_mut().for_each(forget_uses),
        Value::Object(fields) => {
            fields.remove("last_used_at");
            fields.values_mut().for_each(forget_uses);
        }
        _ => {}
    }
}

#[track_caller]
fn says_the_same(process: &Process, expected: &[(String, Value)]) {
    let found = said(process);
    for ((path, found), (expected_path, expected)) in found.iter().zip(expected) {
        assert_eq!(path, expected_path);
        assert_eq!(found, expected, "{path}");
    }
    assert_eq!(found.len(), expected.len());
}

/// What one daemon alone went through, and what is expected of whoever goes on.
#[derive(Default)]
struct Past {
    /// The first request under each idempotency key.
    keyed: Vec<(String, String, String)>,
    /// Keys of items that wait for the sink that is away.
    waiting: Vec<String>,
    /// A key that was made at run time, and one that was revoked.
    secrets: [String; 2],
    digest: String,
}

impl Past {
    /// A random history.
    fn of(process: &Process, random: &mut Random) -> Self {
        let mut past = Self::default();
        let connector = json!({"name": "made", "kind": "webhook", "item_key": "uid"});
        process.make("/api/admin/connectors", &connector);
        past.secrets = ["kept", "revoked"].map(|name| {
            let key = json!({"name": name, "stream": "scores"});
            let made = process.make("/api/admin/connectors/made/keys", &key);
            made.secret()
        });
        let revoked = "/api/admin/connectors/made/keys/revoked";
        process.call("DELETE", revoked, "").data(200);
        for number in 0..60 {
            let id = format!("i{}", random.within(0..20));
            match random.within(0..10) {
                0 => {
                    process.removed("orders", &id);
                    past.waiting.push(id);
                }
                1 | 2 => {
                    process.accepted("scores", BY_ID, &format!("{{\"id\": \"{id}\", \"n\": 1}}"));
                }
                3 => {
                    // Without the field that identifies items.
                    let headers = format!("{JSON}X-Number: {number}\r\n");
                    let path = "/api/webhook/scores";
                    let refused = process.ask("POST", path, &past.secrets[0], &headers, "{}");
                    assert_eq!(refused.status, 400, "{}", refused.body);
                }
                _ => {
                    let key = format!("key-{number}");
                    let headers = format!("{BY_ID}Idempotency-Key: {key}\r\n");
                    let body = format!("{{\"id\": \"{id}\", \"n\": {number}}}");
                    let request = process.accepted("orders", &headers, &body);
                    past.keyed.push((key, body, request));
                    past.waiting.push(id);
                }
            }
        }
        process.accepted("scores", BY_ID, r#"{"id": "letter"}"#);
        process.sink_becomes("pool", "done", |sink| sink["lag"] == 0);
        process.sink_becomes("letters", "done", |sink| {
            sink["lag"] == 0 && sink["retries"] == 0
        });
        process.sink_becomes("far", "waiting", |sink| sink["retries"] != 0);
        let verified = process.admin("/api/admin/audit/verify");
        past.digest = verified["newest"]["digest"]
            .as_str()
            .expect("one")
            .to_owned();
        past
    }

    /// Keys are repeats, whoever is asked; the audit log has what it had.
    fn is_known(&self, process: &Process) {
        for (key, body, request) in self.keyed.iter().step_by(5) {
            let headers = format!("{BY_ID}Idempotency-Key: {key}\r\n");
            let repeat = process.post("orders", &headers, body);
            assert_eq!(
                repeat.header("idempotent-replayed"),
                Some("true"),
                "{}",
                repeat.body
            );
            assert_eq!(&repeat.request_id(), request);
        }
        let headers = format!("{JSON}X-Item-Key: id\r\n");
        let post = |secret: &str| {
            let body = r#"{"uid": "by-key"}"#;
            (process.ask("POST", "/api/webhook/scores", secret, &headers, body)).status
        };
        assert_eq!(post(&self.secrets[1]), 401);
        let path = format!("/api/admin/audit/verify?expect={}", self.digest);
        assert_eq!(process.admin(&path)["good"], true);
    }
}

#[test]
fn a_random_history_goes_on_in_a_cluster_and_back_in_a_folder() {
    let Some(server) = Postgres::start("a_random_history_goes_on_in_a_cluster") else {
        return;
    };
    let mut random = crate::faults::bench::random("moving");
    let far = Far::new();
    let alone = far.alone();
    let process = alone.spawn();
    let mut past = Past::of(&process, &mut random);
    let before = said(&process);
    assert!(before.iter().any(|(path, data)| {
        path.ends_with("dead-letters?limit=500")
            && data.as_array().is_some_and(|all| !all.is_empty())
    }));
    // Whatever is waiting in memory is in the files.
    match random.within(0..2) {
        0 => process.kill(),
        _ => process.stop(),
    }
    let nodes = ["a", "b"].map(|name| far.node(&server, name));
    let told = moved(migrate(&nodes[0], "--from", alone.data_dir()));
    assert_eq!(told["moved_before"], false);
    for part in [
        "data pool",
        "catalog",
        "request log",
        "waiting requests",
        "idempotency keys",
        "refused bodies",
    ] {
        assert_ne!(rows(&told, part), 0, "{part}");
    }
    let again = moved(migrate(&nodes[1], "--from", alone.data_dir()));
    assert_eq!(again["moved_before"], true);
    assert_eq!(again["parts"], told["parts"]);
    let refused = alone.try_spawn().expect_err("it was moved");
    assert!(refused.log.contains("moved-to-cluster"), "{}", refused.log);

    let running = nodes.each_ref().map(Setup::spawn);
    owner(&running[0]);
    for node in &running {
        says_the_same(node, &before);
    }
    running.iter().for_each(|node| past.is_known(node));
    for (number, node) in running.iter().enumerate() {
        let id = format!("new-{number}");
        node.accepted("orders", BY_ID, &format!("{{\"id\": \"{id}\"}}"));
        past.waiting.push(id);
    }
    for node in &running {
        eventually("the new items are shown", || {
            items(node)
                .iter()
                .any(|(key, _)| key == "new-1")
                .then_some(())
        });
        node.sink_becomes("pool", "done", |sink| sink["lag"] == 0);
    }
    let gone_on = said(&running[1]);
    running.into_iter().for_each(Process::stop);

    let back = nodes[0].path("back");
    let told = moved(migrate(&nodes[0], "--to", &back));
    assert_eq!(told["running"], json!([]));
    let alone = far.alone().data_in(&back);
    let process = alone.spawn();
    says_the_same(&process, &gone_on);
    past.is_known(&process);
    far.comes_back();
    process.drained();
    let waiting: Vec<&str> = past.waiting.iter().map(String::as_str).collect();
    far.book.holds_each_once(&waiting);
    process.stop();
}

#[test]
fn what_waits_is_delivered_once_by_the_cluster() {
    let Some(server) = Postgres::start("what_waits_is_delivered_once_by_the_cluster") else {
        return;
    };
    let mut random = crate::faults::bench::random("moving");
    let far = Far::new();
    let alone = far.alone();
    let process = alone.spawn();
    let past = Past::of(&process, &mut random);
    process.stop();
    let node = far.node(&server, "a");
    moved(migrate(&node, "--from", alone.data_dir()));
    far.comes_back();
    let running = node.spawn();
    running.drained();
    let waiting: Vec<&str> = past.waiting.iter().map(String::as_str).collect();
    far.book.holds_each_once(&waiting);
    running.stop();
}

#[test]
fn a_move_that_is_killed_at_any_moment_is_repeated() {
    let Some(server) = Postgres::start("a_move_that_is_killed_at_any_moment") else {
        return;
    };
    let far = Far::new();
    let alone = far.alone();
    let process = alone.spawn();
    Past::of(&process, &mut crate::faults::bench::random("moving"));
    let before = said(&process);
    process.stop();
    let node = far.node(&server, "a");
    let config = node.write();
    for line in 0..12 {
        let mut command = headgate(&node.path(""));
        command.args(["migrate", "--config"]).arg(&config);
        command.arg("--from").arg(alone.data_dir());
        let spawned = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut child = spawned.expect("it starts");
        let mut lines = Lines::of(child.stderr.take().expect("piped"));
        // One more of what it says that it does is begun.
        let _ = lines.by_ref().take(line).count();
        child.kill().expect("a child");
        child.wait().expect("a child");
        eventually("its transaction has ended", || {
            let open =
                "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'headgate%'";
            (server.query(open) == "0").then_some(())
        });
        if server.query("SELECT to_regclass('headgate.requests') IS NULL") == "t" {
            continue;
        }
        let sums = "SELECT (SELECT count(*) FROM headgate.moved_in), (SELECT count(*) > 0 FROM headgate.requests),
             (SELECT count(*) > 0 FROM headgate.bases), (SELECT g > 1 FROM headgate.cluster)";
        let found = server.query(sums);
        assert!(["0|f|f|f", "7|t|t|t"].contains(&&*found), "{line}: {found}");
    }
    moved(migrate(&node, "--from", alone.data_dir()));
    let running = node.spawn();
    says_the_same(&running, &before);
    running.stop();
}

#[test]
fn what_is_accepted_before_a_folder_is_made_of_a_running_cluster_is_in_it() {
    let Some(server) = Postgres::start("what_is_accepted_before_a_folder_is_made") else {
        return;
    };
    let nodes = ["a", "b"].map(|name| node(&server, name));
    let running = nodes.each_ref().map(Setup::spawn);
    owner(&running[0]);
    let (done, sent) = (AtomicBool::new(false), std::sync::Mutex::new(Vec::new()));
    let back = nodes[0].path("back");
    let wanted = std::thread::scope(|scope| {
        for (number, node) in running.iter().enumerate() {
            let (service, done, sent) = (node.service, &done, &sent);
            scope.spawn(move || {
                let mut client = Client::connect(service).expect("it listens");
                for count in 0.. {
                    if done.load(Ordering::SeqCst) {
                        return;
                    }
                    let id = format!("{number}-{count}");
                    let body = format!("{{\"id\": \"{id}\"}}");
                    let answer = client.post("orders", BY_ID, &body).expect("an answer");
                    assert_eq!(answer.status, 202, "{}", answer.body);
                    sent.lock().expect("no panic").push(id);
                }
            });
        }
        let _done = SetOnDrop(&done);
        eventually("there is load", || {
            (sent.lock().expect("no panic").len() > 300).then_some(())
        });
        let wanted = sent.lock().expect("no panic").clone();
        let told = moved(migrate(&nodes[0], "--to", &back));
        assert_eq!(told["running"], json!(["a", "b"]));
        wanted
    });
    running.into_iter().for_each(Process::stop);
    let alone = Setup::with_streams(&["orders"])
        .given_read_key("screen", &["orders"], READ_KEY, "")
        .sink("pool", "pool", "*", "")
        .data_in(&back);
    let process = alone.spawn();
    process.drained();
    let found = items(&process);
    for id in wanted {
        assert!(found.iter().any(|(key, _)| *key == id), "{id}");
    }
    process.stop();
}

#[test]
fn time_goes_on_from_where_the_folder_was() {
    const DAYS_10: u64 = 10 * 24 * 3_600_000;
    let Some(server) = Postgres::start("time_goes_on_from_where_the_folder_was") else {
        return;
    };
    let alone = Setup::with_streams(&["orders"])
        .sink("pool", "pool", "*", "")
        .set("storage.trust_clock", "never");
    let process = alone.spawn();
    let headers = format!("{BY_ID}Idempotency-Key: one\r\n");
    let request = process.processed("orders", &headers, r#"{"id": "a"}"#);
    process.stop();
    // As if the daemon had been off for ten of the days since, and nobody could know.
    alone.tamper(
        "journal.db",
        &format!(
            "UPDATE timeline SET lived_ms = lived_ms - {DAYS_10}; UPDATE claim_log SET at_ms = at_ms - {DAYS_10};
             DROP TABLE IF EXISTS clock"
        ),
    );
    let lived: i64 = one(&alone.journal(), "SELECT max(lived_ms) FROM timeline");
    let node = clustered(alone.clone(), &server, "a").data_in(alone.path("node"));
    moved(migrate(&node, "--from", alone.data_dir()));
    let running = node.spawn();
    let repeat = running.post("orders", &headers, r#"{"id": "a"}"#);
    assert_eq!(repeat.header("idempotent-replayed"), Some("true"));
    assert_eq!(repeat.request_id(), request);
    let now = server.query("SELECT lived_ms FROM headgate.cluster");
    let now: i64 = now.parse().expect("a number");
    assert!((lived..lived + DAYS_10.cast_signed() / 2).contains(&now));
    running.stop();
    let back = node.path("back");
    moved(migrate(&node, "--to", &back));
    let lived: i64 = one(
        &read_only(&back.join("journal.db")),
        "SELECT max(lived_ms) FROM timeline",
    );
    assert!((now..now + DAYS_10.cast_signed() / 2).contains(&lived));
}
