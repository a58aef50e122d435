//! Backups of a running daemon, and what becomes of them.
//!
//! **Invariant**: a restored folder is judged by the answers that callers got before the backup began, and by its files
//! as any SQLite client reads them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::app::{Message, Transport};
use crate::command_line::{Done, operate, run};
use crate::guests::guest;
use crate::process::{Answer, BY_ID, Client, JSON, Process, SetOnDrop};
use crate::setup::{ADMIN_TOKEN, Setup};
use crate::stored::{one, read_only};
use crate::wait::eventually;

const ORDERS: &str = "orders";
/// A stream whose sink does not get on.
const HELD: &str = "held";
const POSTERS: usize = 4;

fn folder() -> Setup {
    Setup::with_streams(&[ORDERS, HELD])
        .sink("pool", "pool", ORDERS, "")
        .sink("back", &guest("doorkeeper"), HELD, "")
}

fn make(process: &Process, dir: &Path) -> Answer {
    let body = json!({"dir": dir}).to_string();
    process.call("POST", "/api/admin/backups", &body)
}

fn made(process: &Process, dir: &Path) -> Value {
    make(process, dir).data(201)
}

fn restore(folder: &Setup, backup: &Path, data_dir: &Path) -> Done {
    let args: [&std::ffi::OsStr; 4] = [
        "restore".as_ref(),
        backup.as_ref(),
        "--data-dir".as_ref(),
        data_dir.as_ref(),
    ];
    run(&folder.path(""), args)
}

/// Submits one item after the other until it is told to stop; the request ids of those that were acknowledged, by key.
fn post(
    service: SocketAddr,
    poster: usize,
    done: &AtomicBool,
    acknowledged: &Mutex<BTreeMap<String, String>>,
) {
    let mut client = Client::connect(service).expect("the daemon listens");
    for number in 0.. {
        if done.load(Ordering::Relaxed) {
            return;
        }
        let key = format!("{poster}-{number}");
        let headers = format!("{BY_ID}Idempotency-Key: {key}\r\n");
        let answer = client.post(ORDERS, &headers, &format!("{{\"id\": \"{key}\"}}"));
        let answer = answer.expect("an answer, backup or not");
        assert_eq!(answer.status, 202, "{}", answer.body);
        let id = answer.request_id();
        acknowledged.lock().expect("no panic").insert(key, id);
    }
}

#[test]
fn a_backup_under_load_holds_every_request_that_was_acknowledged_before_it_exactly_once() {
    if crate::setup::file_only("a node makes no backups") {
        return;
    }
    let before = folder();
    let process = before.spawn();
    // What waits for its sink lies in the journal, behind its cursor.
    let door = |process: &Process, moved: &str| {
        process.accepted(HELD, BY_ID, &format!("{{\"id\": \"{moved}\"}}"))
    };
    process.request_becomes(&door(&process, "close"), "processed");
    let mut held = BTreeMap::new();
    for number in 0..20 {
        let key = format!("retry-{number}");
        let id = process.accepted(HELD, BY_ID, &format!("{{\"id\": \"{key}\"}}"));
        held.insert(key, id);
    }
    let waiting = |sink: &Value| sink["retries"] != 0 && sink["waiting_since"].is_null();
    process.sink_becomes("back", "retrying", waiting);

    let key = json!({"name": "made", "stream": ORDERS}).to_string();
    let key = process.call("POST", "/api/admin/connectors/tests/keys", &key);
    let key = key.json()["data"]["secret"]
        .as_str()
        .expect("a secret")
        .to_owned();

    let acknowledged = Mutex::new(BTreeMap::new());
    let count = || acknowledged.lock().expect("no panic").len();
    let done = AtomicBool::new(false);
    let (dir, wanted, told) = std::thread::scope(|scope| {
        for poster in 0..POSTERS {
            let (service, done, acknowledged) = (process.service, &done, &acknowledged);
            scope.spawn(move || post(service, poster, done, acknowledged));
        }
        let _done = SetOnDrop(&done);
        // Several in a row: each begins at another moment of the load.
        let mut last = None;
        for backup in 1..=5 {
            eventually("there is load", || (count() > backup * 300).then_some(()));
            let wanted = acknowledged.lock().expect("no panic").clone();
            let dir = before.path(&format!("backup-{backup}"));
            let told = made(&process, &dir);
            last = Some((dir, wanted, told));
        }
        let while_it_ran = count();
        eventually("there is load afterwards", || {
            (count() > while_it_ran + 100).then_some(())
        });
        last.expect("there were some")
    });
    let acknowledged = acknowledged.into_inner().expect("no panic");
    assert!(acknowledged.len() > wanted.len());
    process.kill();

    private(
        &dir,
        &["catalog.db", "journal.db", "manifest.json", "pool.db"],
    );
    let manifest = std::fs::read_to_string(dir.join("manifest.json")).expect("a manifest");
    let manifest: Value = serde_json::from_str(&manifest).expect("JSON");
    for part in ["version", "made_at", "epoch", "highest_seq"] {
        assert_eq!(manifest[part], told[part], "{part}");
    }
    assert!(told["highest_seq"].as_u64() >= Some(wanted.len() as u64));
    let restored = before.path("restored");
    let told = restore(&before, &dir, &restored).ok();
    assert!(told.contains("restored"), "{told}");

    let after = folder().data_in(&restored);
    let process = after.spawn();
    process.request_becomes(&door(&process, "open"), "processed");
    let answer = process.ask("POST", "/api/ingest", &key, JSON, "{}");
    assert_eq!(answer.status, 202, "a key made at run time");
    let again = process.call("POST", "/api/admin/sinks/back/retry", "");
    assert_eq!(again.status, 200, "{}", again.body);
    process.drained();
    let mut found = BTreeMap::new();
    for stream in [ORDERS, HELD] {
        let rows = after.items(stream).into_iter();
        found.extend(rows.map(|(key, _, request_id)| (key, request_id)));
    }
    let journal = read_only(&restored.join("journal.db"));
    let highest = |journal| -> i64 { one(journal, "SELECT max(seq) FROM requests") };
    let other_life = before.journal();
    let first_new: i64 = journal
        .query_row(
            "SELECT seq FROM requests WHERE stream = ?1 ORDER BY seq DESC LIMIT 1",
            [HELD],
            |row| row.get(0),
        )
        .expect("the request that opened the door");
    assert!(
        first_new > highest(&other_life),
        "its number was given out before"
    );
    let mut accepted = journal
        .prepare("SELECT request_id FROM requests WHERE outcome = 0")
        .expect("the request log");
    let ids = accepted.query_map([], |row| Ok(Uuid::from_bytes(row.get(0)?).to_string()));
    let mut logged: BTreeMap<String, u32> = BTreeMap::new();
    for id in ids.expect("rows") {
        *logged.entry(id.expect("an id")).or_default() += 1;
    }
    for (key, request_id) in wanted.iter().chain(&held) {
        assert_eq!(found.get(key), Some(request_id), "{key}");
        assert_eq!(logged.get(request_id), Some(&1), "{key}");
    }
    // What came while the backup was made is there whole or not at all.
    for (key, request_id) in found {
        if let Some(first) = acknowledged.get(&key) {
            assert_eq!(*first, request_id, "{key}");
        }
    }
    for (key, request_id) in wanted.iter().step_by(100) {
        let headers = format!("{BY_ID}Idempotency-Key: {key}\r\n");
        let repeated = process.post(ORDERS, &headers, &format!("{{\"id\": \"{key}\"}}"));
        assert_eq!(repeated.header("idempotent-replayed"), Some("true"));
        assert_eq!(repeated.request_id(), *request_id, "{key}");
    }
    process.drained();
    process.stop();
}

/// Nobody else may read the folder; it holds these files and nothing else.
fn private(dir: &Path, files: &[&str]) {
    let mode = |path: &Path| {
        let metadata = std::fs::metadata(path).expect("it is there");
        metadata.permissions().mode() & 0o777
    };
    assert_eq!(mode(dir), 0o700);
    let entries = std::fs::read_dir(dir).expect("a folder");
    let mut found: Vec<String> = entries
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("UTF-8")
        })
        .collect();
    found.sort_unstable();
    assert_eq!(found, files);
    for file in files {
        assert_eq!(mode(&dir.join(file)), 0o600, "{file}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renderer_of_the_life_before_is_told_everything_afresh() {
    if crate::setup::file_only("a node makes no backups") {
        return;
    }
    let setup = Setup::screen();
    let app = setup.clone().start().await;
    let put = async |app: &crate::app::TestApp, number: u32, value: &str| {
        let body = format!(r#"{{"id": {number}, "value": "{value}"}}"#);
        app.caller("shop").ingest_by("id", body).await.receipt();
        app.drain().await;
    };
    for number in 0..5 {
        put(&app, number, "before").await;
    }
    let root = tempfile::tempdir().expect("a folder");
    let (dir, data_dir) = (setup.path("backup"), root.path().join("data"));
    let manifest = app.parts.backups.make(dir.clone()).await;
    let manifest = manifest.expect("it is made");
    // The life before goes on, and its renderers with it.
    for number in 0..3 {
        put(&app, number, "lost").await;
    }
    let content = app.content(&["orders"]).await;
    let mut renderers = Transport::ALL.map(|transport| app.renderer(transport, &["orders"]));
    for renderer in &mut renderers {
        renderer.holds(&content).await;
        renderer.disconnect();
    }
    let highest = |rows: Vec<crate::stored::Item>| rows.iter().map(|item| item.seq).max();
    let seen = highest(app.items("orders").await);
    app.stop().await;

    let restored = headgate::daemon::restore_into(&data_dir, &dir).expect("it is restored");
    assert_ne!(restored.epoch, manifest.epoch);
    let app = setup.data_in(data_dir).start().await;
    // As many changes as the life before made, of other items.
    for number in 3..6 {
        put(&app, number, "after").await;
    }
    let content = app.content(&["orders"]).await;
    for renderer in &mut renderers {
        renderer.moved(&app.service);
        let since = renderer.id.clone().expect("a position");
        renderer.connect_from(Some(&since)).await;
        let reset = renderer.next().await.expect("a message");
        assert_eq!(reset.kind, "reset", "{}", reset.text);
        let messages: Vec<Message> = renderer.snapshots().await;
        assert!(messages.iter().all(|message| message.kind == "snapshot"));
        assert_eq!(renderer.content, content);
        renderer.disconnect();
    }
    let rows = app.items("orders").await;
    let new: Vec<i64> = rows
        .iter()
        .filter(|item| item.fields.contains("after"))
        .map(|item| item.seq)
        .collect();
    assert_eq!(new.len(), 3);
    assert!(new.iter().all(|seq| Some(*seq) > seen), "{new:?} {seen:?}");
    // From now on positions hold again, over restarts.
    renderers[0].holds(&content).await;
    renderers[0].disconnect();
    let app = app.restart().await;
    renderers[0].moved(&app.service);
    renderers[0].connect().await;
    let messages = renderers[0].caught_up().await;
    assert!(messages.iter().all(|message| message.kind == "heartbeat"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lives_of_a_backup_that_is_restored_twice_never_take_each_other_for_themselves() {
    if crate::setup::file_only("a node makes no backups") {
        return;
    }
    let setup = Setup::screen();
    let app = setup.clone().start().await;
    let setup = app.stop().await;
    // The clock of the machine that restores is behind the one that made the file.
    setup.tamper("pool.db", "UPDATE history SET epoch = 1 << 50");
    let app = setup.clone().start().await;
    let dir = setup.path("backup");
    let made = app.parts.backups.make(dir.clone()).await;
    made.expect("it is made");
    app.stop().await;
    let root = tempfile::tempdir().expect("a folder");
    let live = async |name: &str| {
        let data_dir = root.path().join(name);
        headgate::daemon::restore_into(&data_dir, &dir).expect("it is restored");
        let app = setup.clone().data_in(data_dir).start().await;
        let body = format!(r#"{{"id": 1, "value": "{name}"}}"#);
        app.caller("shop").ingest_by("id", body).await.receipt();
        app.drain().await;
        app
    };
    let path = "/api/streams/orders/items";
    let app = live("first").await;
    let content = app.content(&["orders"]).await;
    let mut screens = Transport::ALL.map(|transport| app.renderer(transport, &["orders"]));
    for screen in &mut screens {
        screen.holds(&content).await;
        screen.disconnect();
    }
    let polled = app.reader("screen").get(path).await;
    let tag = polled.header("etag").expect("an ETag").to_owned();
    app.stop().await;

    // As many changes, of the same item.
    let app = live("second").await;
    let content = app.content(&["orders"]).await;
    for screen in &mut screens {
        screen.moved(&app.service);
        let since = screen.id.clone().expect("a position");
        screen.connect_from(Some(&since)).await;
        let reset = screen.next().await.expect("a message");
        assert_eq!(reset.kind, "reset", "{}", reset.text);
        screen.snapshots().await;
        assert_eq!(screen.content, content);
    }
    let known = [("If-None-Match", &*tag)];
    let polled = app
        .reader("screen")
        .call(Method::GET, path, &known, "")
        .await;
    assert_eq!(polled.status, 200);
}

/// Enough data that a backup takes a while.
fn fill(process: &Process) {
    let filling = "x".repeat(2_000);
    let mut client = process.client();
    for request in 0..60 {
        let items = (0..400)
            .map(|item| format!("{{\"id\": \"{request}-{item}\", \"filling\": \"{filling}\"}}"));
        let body = format!("[{}]", items.collect::<Vec<_>>().join(","));
        let answer = client.post(ORDERS, BY_ID, &body).expect("an answer");
        assert_eq!(answer.status, 202, "{}", answer.body);
    }
    process.drained();
}

#[test]
fn one_that_is_killed_is_no_backup_and_while_it_runs_there_is_no_other() {
    if crate::setup::file_only("a node makes no backups") {
        return;
    }
    let folder = folder();
    let mut process = folder.spawn();
    fill(&process);
    let mut unfinished = None;
    // It may be done before anybody looks.
    for attempt in 0..20 {
        let dir = folder.path(&format!("backup-{attempt}"));
        let body = json!({"dir": dir}).to_string();
        let mut first = Client::connect(process.admin).expect("the daemon listens");
        let length = body.len();
        first
            .send(format!(
                "POST /api/admin/backups HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ADMIN_TOKEN}\r\n\
                 Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
            ))
            .expect("it listens");
        eventually("it begins", || dir.join("pool.db").exists().then_some(()));
        let second = make(&process, &folder.path("another"));
        process.kill();
        let complete = dir.join("manifest.json").exists();
        process = folder.spawn();
        if second.status == 409 && !complete {
            assert_eq!(second.json()["error"]["code"], "BACKUP_RUNNING");
            unfinished = Some(dir);
            break;
        }
        let _ = std::fs::remove_dir_all(folder.path("another"));
    }
    let dir = unfinished.expect("one was killed in its midst");
    assert!(!folder.path("another").exists());
    let told = restore(&folder, &dir, &folder.path("restored")).failed(1);
    assert!(told.contains("no manifest.json"), "{told}");
    assert!(!folder.path("restored").exists());

    let refused = make(&process, &dir);
    assert_eq!(refused.status, 409, "{}", refused.body);
    assert_eq!(refused.json()["error"]["code"], "FOLDER_NOT_EMPTY");
    let whole = folder.path("whole");
    made(&process, &whole);
    restore(&folder, &whole, &folder.path("restored")).ok();
    process.drained();
    assert_eq!(
        folder
            .clone()
            .data_in(folder.path("restored"))
            .items(ORDERS)
            .len(),
        60 * 400
    );
    process.stop();
}

/// A small backup.
fn backup(folder: &Setup) -> PathBuf {
    let process = folder.spawn();
    process.accepted(ORDERS, BY_ID, r#"{"id": "one"}"#);
    process.drained();
    let dir = folder.path("backup");
    made(&process, &dir);
    process.stop();
    dir
}

#[test]
fn a_backup_that_is_not_as_it_was_made_is_refused_and_nothing_is_left() {
    if crate::setup::file_only("a node makes no backups") {
        return;
    }
    let folder = folder();
    let dir = backup(&folder);
    let manifest = std::fs::read_to_string(dir.join("manifest.json")).expect("a manifest");
    let data_dir = folder.path("restored");
    let refused = |says: &str| {
        let told = restore(&folder, &dir, &data_dir).failed(1);
        assert!(told.contains(says), "{says}: {told}");
        assert!(!data_dir.exists(), "{says}");
    };
    let catalog_format = format!("\"format\": {}", catalog::FORMAT);
    for (from, to, says) in [
        ("\"headgate_backup\": 1", "\"headgate_backup\": 2", "newer"),
        ("\"pool.db\"", "\"../pool.db\"", "pool.db is not in"),
        ("\"journal.db\"", "\"other.db\"", "journal.db is not in"),
        ("\"catalog.db\"", "\"other.db\"", "catalog.db is not in"),
        (&catalog_format, "\"format\": 99", "has format 99"),
        (
            "\"files\": [",
            "\"files\": [{\"name\": \"/etc/x\", \"format\": 1, \"bytes\": 1, \"sha256\": \"\"},",
            "does not know",
        ),
        ("{", "", "damaged"),
    ] {
        assert!(manifest.contains(from), "{from}");
        let changed = manifest.replacen(from, to, 1);
        std::fs::write(dir.join("manifest.json"), changed).expect("a manifest");
        refused(says);
    }
    std::fs::write(dir.join("manifest.json"), &manifest).expect("a manifest");
    for file in ["catalog.db", "pool.db", "journal.db"] {
        let path = dir.join(file);
        let good = std::fs::read(&path).expect("a copy");
        let mut bad = good.clone();
        *bad.last_mut().expect("bytes") ^= 1;
        std::fs::write(&path, &bad).expect("a copy");
        refused(&format!("{file} is damaged"));
        std::fs::write(&path, &good[..good.len() - 1]).expect("a copy");
        refused(&format!("{file} is damaged"));
        std::fs::remove_file(&path).expect("a copy");
        refused(&format!("{file} cannot be read"));
        std::fs::write(&path, &good).expect("a copy");
    }
    restore(&folder, &dir, &data_dir).ok();
    assert_eq!(folder.clone().data_in(&data_dir).items(ORDERS).len(), 1);
}

#[test]
fn a_restore_takes_a_folder_of_its_own_only() {
    if crate::setup::file_only("a node makes no backups") {
        return;
    }
    let folder = folder();
    let dir = backup(&folder);
    let process = folder.spawn();
    let told = restore(&folder, &dir, folder.data_dir()).failed(1);
    let id = format!("process {}", process.id());
    assert!(told.contains(&id), "{told}");
    process.stop();
    let told = restore(&folder, &dir, folder.data_dir()).failed(1);
    assert!(told.contains("is not empty"), "{told}");
    assert_eq!(folder.items(ORDERS).len(), 1, "untouched");

    let empty = folder.path("empty");
    std::fs::create_dir(&empty).expect("a folder");
    restore(&folder, &dir, &empty).ok();
    // As if it had been killed before its end.
    std::fs::write(empty.join("restore-unfinished"), "").expect("a mark");
    let unfinished = crate::backup::folder().data_in(&empty);
    let ended = unfinished.try_spawn().expect_err("it must not start");
    assert_eq!(ended.status.code(), Some(1), "{}", ended.log);
    assert!(ended.log.contains("headgate restore"), "{}", ended.log);
}

#[test]
fn the_command_makes_backups_and_says_what_is_wrong() {
    if crate::setup::file_only("a node makes no backups") {
        return;
    }
    let folder = folder();
    let process = folder.spawn();
    process.accepted(ORDERS, BY_ID, r#"{"id": "one"}"#);
    process.drained();
    let backup = |args: &[&str]| operate(&process, [&["backup"], args].concat());
    // Relative to where the command runs.
    let told = backup(&["first"]).ok();
    assert!(
        told.contains(&*folder.path("first").to_string_lossy()),
        "{told}"
    );
    private(
        &folder.path("first"),
        &["catalog.db", "journal.db", "manifest.json", "pool.db"],
    );
    let told = backup(&["first"]).failed(1);
    assert!(told.contains("FOLDER_NOT_EMPTY"), "{told}");
    let told = backup(&["missing/second"]).failed(1);
    assert!(told.contains("the folder above it"), "{told}");

    std::fs::create_dir(folder.path("second")).expect("a folder");
    let told: Value =
        serde_json::from_str(&backup(&["second", "--output", "json"]).ok()).expect("JSON");
    assert_eq!(told["dir"], *folder.path("second").to_string_lossy());
    let files = told["files"].as_array().expect("a list");
    let sizes = files.iter().map(|file| {
        let path = folder
            .path("second")
            .join(file["name"].as_str().expect("a name"));
        let bytes = std::fs::metadata(path).expect("a copy").len();
        assert_eq!(file["bytes"], bytes);
        bytes
    });
    assert_eq!(told["bytes"], sizes.sum::<u64>());
    for (body, says) in [
        (r#"{"dir": ""}"#, "absolute"),
        (r#"{"dir": "relative"}"#, "absolute path"),
        (r#"{"dir": "/x", "to": 1}"#, "to"),
    ] {
        let refused = process.call("POST", "/api/admin/backups", body);
        assert_eq!(refused.status, 400, "{body}: {}", refused.body);
        assert!(refused.body.contains(says), "{body}: {}", refused.body);
    }
    process.stop();
}
