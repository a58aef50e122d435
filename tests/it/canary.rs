//! Every secret is put in every place where one goes, everything is exercised, and then everything is searched: the log
//! at its most talkative, every page, every answer, every file of the daemon, backups, and what the command line prints.
//!
//! **Invariant**: an answer that shows a secret once, to whoever made it, is not searched; it is the only one.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::command_line::{finish, headgate};
use crate::openapi::{document, operations};
use crate::process::{BY_ID, Client, Process};
use crate::receiver::{Receiver, answer};
use crate::setup::{ADMIN_TOKEN, Setup, key_of};
use crate::wait::eventually;
use postgres_server::free_port;

const SCREEN: &str = "rk_live_canary_of_the_declared_screen";
const IN_URL: &str = "rk_live_canary_of_the_player_in_a_url";
const HEADER: &str = "Bearer canary-in-a-header-of-a-sink";
const HEADER_FILE: &str = "canary-in-a-file-that-a-sink-names";
const HEADER_VARIABLE: &str = "canary-in-a-variable-of-the-process";
const CONFIG: &str = "canary-in-the-settings-of-a-plugin";
const QUERY: &str = "canary-in-the-query-of-a-url";
const SIGNING: &str = "whsec_Y2FuYXJ5LW9mLWEtc2luay10aGF0LXNpZ25z";
const PASSWORD: &str = "canary-of-the-database-password";
const SHORT: &str = "ik_canary_too_short";
const WRONG: [&str; 4] = [
    "ik_live_canary_that_nobody_has_000001",
    "rk_live_canary_that_nobody_has_000002",
    "canary-that-is-no-key-at-all-00000003",
    "once_canary_that_is_no_invitation_0004",
];

/// What is searched, each with its place.
#[derive(Debug, Default)]
struct Seen(Vec<(String, Vec<u8>)>);

impl Seen {
    fn add(&mut self, place: impl Into<String>, text: impl Into<Vec<u8>>) {
        self.0.push((place.into(), text.into()));
    }

    /// Sends a request as it is, with `Host` and the end of the head added, and keeps the answer: of a stream its head.
    fn ask(&mut self, address: SocketAddr, head: &str, body: &str) -> String {
        let line = head.lines().next().unwrap_or_default().to_owned();
        let mut client = Client::connect(address).expect("it listens");
        let length = body.len();
        client
            .send(format!(
                "{head}Host: localhost\r\nContent-Length: {length}\r\n\r\n{body}"
            ))
            .expect("it listens");
        let head = client.interim().expect("an answer");
        let lower = head.to_lowercase();
        let length = lower.split("content-length: ").nth(1);
        let length = length.and_then(|rest| rest.lines().next()?.trim().parse().ok());
        let body = client.rest(length.unwrap_or(0)).expect("a body");
        self.add(line.clone(), head.clone());
        self.add(line, body);
        head
    }

    /// Every file below a folder.
    fn files(&mut self, folder: &Path) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                self.files(&path);
            } else {
                // A log that was copied back in between is gone, with what it held.
                match std::fs::read(&path) {
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                    bytes => self.add(path.display().to_string(), bytes.expect("a file")),
                }
            }
        }
    }

    /// The places of a secret.
    fn places_of(&self, secret: &str) -> BTreeSet<&str> {
        let finder = memchr::memmem::Finder::new(secret);
        let found = self
            .0
            .iter()
            .filter(|(_, text)| finder.find(text).is_some());
        found.map(|(place, _)| place.as_str()).collect()
    }
}

/// The secret that this call shows, once.
fn made(process: &Process, path: &str, body: &Value) -> String {
    let answer = process.make(path, body);
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let data = answer.data(201);
    let secret = data["secret"].as_str().or(data["ticket"].as_str());
    secret.expect("a secret").to_owned()
}

/// A daemon with three sinks that fail: one whose receiver repeats what it was sent, one that signs, one without its
/// database. Its log goes into a file.
fn daemon() -> (Setup, Process, Receiver) {
    let receiver = Receiver::start(|seen, _| {
        let mut headers: Vec<String> = (seen.headers.iter())
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        // Those with secrets first: only the beginning of an answer is kept.
        headers.sort_by_key(|line| !line.starts_with("authorization") && !line.starts_with("x-"));
        answer(400, "", &headers.join(", "))
    });
    let host = receiver.url("");
    let http = format!("hosts = [\"{host}\"], networks = [\"127.0.0.0/8\"]");
    let url = format!("config = {{ url = \"{host}/?token={QUERY}\" }}\n");
    let url_and_header = format!(
        "config = {{ url = \"{host}/?token={QUERY}\", headers = {{ x-api-key = \"{CONFIG}\" }} }}\n"
    );
    let closed = free_port();
    let folder = Setup::with_streams(&["orders"])
        .sink("pool", "pool", "*", "")
        .sink(
            "repeats",
            "http-forward",
            "*",
            &format!(
                "{url_and_header}http = {{ {http}, headers = {{ authorization = \"{HEADER}\", x-file = {{ file = \"header.secret\" }}, \
                 x-variable = {{ env = \"CANARY\" }} }} }}\n"
            ),
        )
        .sink(
            "signs",
            "webhook",
            "*",
            &format!("{url}secrets = {{ signing = \"{SIGNING}\" }}\nhttp = {{ {http} }}\nretry = {{ attempts = 1 }}\n"),
        )
        .sink(
            "stores",
            "postgres",
            "*",
            &format!(
                "config = {{ table = \"canary\" }}\npostgres = {{ url = \"postgresql://canary:{PASSWORD}@127.0.0.1:{closed}/canary\", timeout_ms = 500 }}\n\
                 retry = {{ first_ms = 10, max_ms = 20, attempts = 2 }}\n"
            ),
        )
        .given_read_key("screen", &["orders"], SCREEN, "")
        .given_read_key("player", &["orders"], IN_URL, "allow_in_url = true");
    std::fs::write(folder.path("header.secret"), HEADER_FILE).expect("a file");
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            "exec \"$0\" serve --config headgate.toml 2> serve.log",
        ])
        .arg(env!("CARGO_BIN_EXE_headgate"))
        .env("HEADGATE_LOG__LEVEL", "trace")
        .env("HEADGATE_LOG__REQUESTS", "true")
        .env("CANARY", HEADER_VARIABLE);
    let process = folder.spawn_as(command).expect("it starts");
    (folder, process, receiver)
}

#[test]
fn no_secret_is_found_anywhere() {
    if crate::setup::file_only("a node makes no backups") {
        return;
    }
    let (mut folder, process, receiver) = daemon();
    let mut seen = Seen::default();
    let mut secrets: Vec<String> = [
        SCREEN,
        IN_URL,
        HEADER_FILE,
        HEADER_VARIABLE,
        CONFIG,
        QUERY,
        SIGNING,
        PASSWORD,
        SHORT,
        ADMIN_TOKEN,
    ]
    .iter()
    .chain(&WRONG)
    .map(|secret| (*secret).to_owned())
    .collect();
    secrets.push(HEADER.replace("Bearer ", ""));
    secrets.push(key_of("orders"));

    // Keys that are made, rotated and revoked at run time.
    let connector = json!({"name": "crm", "kind": "webhook"});
    assert_eq!(
        process
            .call("POST", "/api/admin/connectors", &connector.to_string())
            .status,
        201
    );
    let keys = "/api/admin/connectors/crm/keys";
    let live = made(&process, keys, &json!({"name": "main", "stream": "orders"}));
    let test = made(
        &process,
        keys,
        &json!({"name": "test", "stream": "orders", "test": true}),
    );
    let rotated = made(
        &process,
        &format!("{keys}/main/rotate"),
        &json!({"grace_seconds": 3600}),
    );
    let revoked = made(&process, keys, &json!({"name": "gone", "stream": "orders"}));
    assert_eq!(
        process
            .call("POST", &format!("{keys}/gone/revoke"), "")
            .status,
        200
    );
    let read = made(
        &process,
        "/api/admin/read-keys",
        &json!({"name": "wall", "streams": ["orders"], "allow_in_url": true}),
    );
    let tickets: Vec<String> = (0..4)
        .map(|_| {
            made(
                &process,
                "/api/admin/tickets",
                &json!({"streams": ["orders"]}),
            )
        })
        .collect();

    // The pages: the link, the token, a wrong one; the cookie is a secret too.
    let invitation = process.sign_in_link();
    let (_, invitation) = invitation.split_once('#').expect("a fragment");
    let origin = "Origin: http://localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n";
    let mut cookies = Vec::new();
    for token in [invitation, ADMIN_TOKEN, WRONG[3], invitation, &live, ""] {
        let head = format!("POST /sign-in HTTP/1.1\r\n{origin}");
        let answered = seen.ask(process.admin, &head, &format!("token={token}&next=/"));
        if let Some((_, cookie)) = answered.split_once("headgate=") {
            let cookie = cookie.split(';').next().expect("a value").to_owned();
            // Its own answer is the one that shows it.
            seen.0.truncate(seen.0.len() - 2);
            cookies.push(cookie);
        }
    }
    assert_eq!(cookies.len(), 2, "the link and the token");
    let cookie = format!("Cookie: headgate={}\r\n", cookies[0]);

    secrets.extend([
        live.clone(),
        test.clone(),
        rotated,
        revoked.clone(),
        read.clone(),
    ]);
    secrets.extend(tickets.iter().cloned());
    secrets.extend(cookies.iter().cloned());
    secrets.push(invitation.to_owned());

    // Each secret as each kind of credential, on both listeners, with good and bad endings.
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    for secret in &secrets {
        let bearer =
            format!("Authorization: Bearer {secret}\r\nContent-Type: application/json\r\n");
        for (line, body) in [
            ("POST /api/ingest", r#"[{"id": "1"}]"#),
            ("POST /api/ingest", "{"),
            ("POST /api/ingest?stream=other", "{}"),
            ("POST /api/webhook/orders", "{}"),
            ("POST /api/webhook/other", "{}"),
            ("POST /api/tickets", ""),
            ("POST /api/tickets", "{\"origin\": 1}"),
            ("GET /api/streams/orders/items", ""),
            ("GET /api/live?streams=orders", ""),
            ("GET /api/live?streams=other", ""),
            ("DELETE /api/streams/orders/items/none", ""),
        ] {
            // What a good key submits is the item, not the key.
            if line == "POST /api/tickets" && body.is_empty() {
                continue;
            }
            seen.ask(
                process.service,
                &format!("{line} HTTP/1.1\r\n{bearer}"),
                body,
            );
        }
        for path in [
            "/api/live",
            "/api/streams/orders/items",
            "/render/orders",
            "/nothing",
        ] {
            for more in ["", "&max_rate=0", "&streams=nothing"] {
                let line = format!("GET {path}?token={secret}{more} HTTP/1.1\r\n");
                seen.ask(process.service, &line, "");
                seen.ask(process.service, &format!("{line}{upgrade}"), "");
            }
            let offer = format!(
                "GET {path} HTTP/1.1\r\n{upgrade}Sec-WebSocket-Protocol: headgate, {secret}\r\n"
            );
            seen.ask(process.service, &offer, "");
        }
        if secret != ADMIN_TOKEN {
            for path in ["/api/admin/status", "/metrics", "/", "/nothing"] {
                seen.ask(
                    process.admin,
                    &format!("GET {path} HTTP/1.1\r\n{bearer}"),
                    "",
                );
                let line =
                    format!("GET {path}?token={secret} HTTP/1.1\r\nCookie: headgate={secret}\r\n");
                // The sign-in page leads back to what was asked for.
                if path == "/api/admin/status" {
                    seen.ask(process.admin, &line, "");
                }
            }
        }
    }
    for (key, status) in [(&live, 202), (&test, 202), (&revoked, 401)] {
        let head = format!(
            "POST /api/ingest HTTP/1.1\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"
        );
        // All the wrong keys before came from this address, too: a revoked one may have to wait.
        let answered = eventually("the address may try again", || {
            let answered = seen.ask(process.service, &head, "{}");
            (!answered.starts_with("HTTP/1.1 429")).then_some(answered)
        });
        assert!(
            answered.starts_with(&format!("HTTP/1.1 {status}")),
            "{answered}"
        );
    }

    // Sinks fail, and what they were told is kept as a reason.
    process.failed("orders", BY_ID, r#"{"id": "canary"}"#);
    for sink in ["repeats", "signs"] {
        eventually("the sink gives something up", || {
            (!process.dead_letters(sink).is_empty()).then_some(())
        });
    }
    process.sink_becomes("stores", "failing", |sink| !sink["last_error"].is_null());
    let repeated = receiver.seen();
    let got = |secret: &str| {
        repeated
            .iter()
            .any(|one| one.headers.iter().any(|(_, value)| value == secret))
    };
    assert!(
        got(HEADER) && got(CONFIG) && got(HEADER_FILE) && got(HEADER_VARIABLE),
        "the sink sends its headers"
    );

    let letters = process.dead_letters("repeats");
    let reason = letters[0]["reason"].as_str().expect("a reason");
    for covered in ["authorization: Bearer ********", "x-api-key: ********"] {
        assert!(reason.contains(covered), "{reason}");
    }
    search_the_admin_listener(&process, &mut seen, &cookie, &["/", "/docs"]);
    let backup = folder.path("backup");
    let body = json!({"dir": backup}).to_string();
    let answer = process.call("POST", "/api/admin/backups", &body);
    assert_eq!(answer.status, 201, "{}", answer.body);
    seen.add("the answer of a backup", answer.body);
    command_line(&folder, &process, &mut seen, &live);

    // Changes of the configuration that cannot be used are told everywhere, but not the secrets in them.
    for (good, bad) in [
        (SCREEN, format!("{SHORT}\"\nsecret = \"{SHORT}")),
        ("burst = 1000000", format!("burst = \"{SHORT}\"")),
        (
            "[[read_keys]]",
            format!("secret = \"{SHORT}\"\n[[read_keys]]"),
        ),
    ] {
        let before = process.problems();
        folder.change(good, &bad);
        process.hang_up();
        eventually("the change is refused", || {
            let problems = process.problems();
            (problems != before && problems.contains("cannot be used")).then_some(())
        });
        // The guide says the same whatever is configured.
        search_the_admin_listener(&process, &mut seen, &cookie, &["/"]);
        for verb in [&["check"][..], &["config", "show"], &["serve"]] {
            let mut command = headgate(&folder.path(""));
            command
                .args(verb)
                .args(["--config", "headgate.toml"])
                .env("CANARY", HEADER_VARIABLE);
            let done = finish(&mut command, "");
            assert_eq!(done.code, Some(2), "{}{}", done.out, done.err);
            seen.add(
                format!("headgate {verb:?} of a bad file"),
                done.out + &done.err,
            );
        }
        folder.change(&bad, good);
    }

    process.terminate();
    seen.files(folder.data_dir());
    let ended = process.ended();
    assert_eq!(ended.status.code(), Some(0));
    seen.files(folder.data_dir());
    seen.files(&backup);
    let log = std::fs::read(folder.path("serve.log")).expect("a log");
    assert!(
        memchr::memmem::find(&log, b"TRACE").is_some(),
        "it says everything"
    );
    assert!(
        memchr::memmem::find(&log, b"/api/live").is_some(),
        "requests are logged"
    );
    seen.add("the log", log);

    assert!(!seen.places_of("canary").is_empty(), "a search finds");
    let mut found = Vec::new();
    for secret in &secrets {
        found.extend(
            seen.places_of(secret)
                .into_iter()
                .map(|place| format!("{secret} in {place}")),
        );
        // Also cut off, and the rest of a key without the part that may be shown.
        for part in [secret.get(..22), secret.get(17..)] {
            let part = part.filter(|part| part.len() > 20).unwrap_or(secret);
            let places = seen.places_of(part).into_iter();
            found.extend(places.map(|place| format!("{part} in {place}")));
        }
    }
    assert_eq!(found, Vec::<String>::new());
}

/// Every `GET` of the admin API, and every page that a link leads to from these; pages of the guide only if one of these is.
fn search_the_admin_listener(process: &Process, seen: &mut Seen, cookie: &str, from: &[&str]) {
    let document = document(process.admin);
    seen.add("the document", document.to_string());
    let bearer = format!("Authorization: Bearer {ADMIN_TOKEN}\r\n");
    for operation in operations(&document) {
        if operation.method != "GET" {
            continue;
        }
        for (id, name) in [
            ("crm", "main"),
            ("tests", "orders"),
            ("none", "repeats"),
            ("none", "wall"),
            ("none", "signs"),
            ("none", "stores"),
        ] {
            let path = operation.path.replace("{id}", id).replace("{name}", name);
            let path = path.replace("{request_id}", "none");
            seen.ask(
                process.admin,
                &format!("GET {path} HTTP/1.1\r\n{bearer}"),
                "",
            );
        }
    }
    let mut waiting: Vec<String> = from.iter().map(|path| (*path).to_owned()).collect();
    let mut visited = BTreeSet::new();
    while let Some(path) = waiting.pop() {
        // A few of the requests, of which there are hundreds.
        let requests = visited
            .iter()
            .filter(|path: &&String| path.starts_with("/requests/"))
            .count();
        let is_enough = path.starts_with("/requests/") && requests > 20;
        let is_left_out = path.starts_with("/docs") && !from.contains(&"/docs");
        if is_enough || is_left_out || !visited.insert(path.clone()) {
            continue;
        }
        let before = seen.0.len();
        seen.ask(
            process.admin,
            &format!("GET {path} HTTP/1.1\r\n{cookie}"),
            "",
        );
        for (_, text) in &seen.0[before..] {
            let text = String::from_utf8_lossy(text);
            for link in text.split(" href=\"").skip(1) {
                let link = link.split(['"', '#']).next().unwrap_or_default();
                if link.starts_with('/') {
                    waiting.push(link.replace("&amp;", "&"));
                }
            }
        }
    }
    assert!(
        visited.contains("/settings") && visited.contains("/sinks/repeats"),
        "{visited:?}"
    );
}

/// What the verbs print, with good secrets and with wrong ones.
fn command_line(folder: &Setup, process: &Process, seen: &mut Seen, key: &str) {
    let admin = format!("http://{}", process.admin);
    let service = format!("http://{}", process.service);
    for token in [ADMIN_TOKEN, WRONG[2]] {
        for args in [
            &["requests", "--limit", "500"][..],
            &["requests", "--output", "json"],
            &["connector", "list"],
            &["connector", "list", "--output", "json"],
            &["key", "list", "crm"],
            &["key", "list", "tests", "--output", "json"],
            &["read-key", "list"],
            &["stream", "list"],
            &["sink", "list"],
            &["sink", "dead-letters", "repeats"],
            &["sink", "dead-letters", "repeats", "--output", "json"],
            &["sink", "dead-letters", "stores"],
        ] {
            let mut command = headgate(&folder.path(""));
            command
                .args(args)
                .args(["--admin-url", &admin, "--token", token]);
            let done = finish(&mut command, "");
            assert_eq!(
                done.code,
                Some(if token == ADMIN_TOKEN { 0 } else { 1 }),
                "{args:?}: {}",
                done.err
            );
            seen.add(format!("headgate {args:?}"), done.out + &done.err);
        }
    }
    for key in [key, WRONG[0], WRONG[1], SHORT] {
        let mut command = headgate(&folder.path(""));
        command.args(["send", "-", "--url", &service, "--key", key]);
        let done = finish(&mut command, "{}");
        seen.add("headgate send", done.out + &done.err);
        let mut command = headgate(&folder.path(""));
        command.args([
            "tail", "orders", "--url", &service, "--key", key, "--count", "1",
        ]);
        if key != WRONG[1] {
            let done = finish(&mut command, "");
            seen.add("headgate tail", done.out + &done.err);
        }
    }
    for verb in [
        &["check"][..],
        &["config", "show"],
        &["config", "show", "--output", "json"],
    ] {
        let mut command = headgate(&folder.path(""));
        command
            .args(verb)
            .args(["--config", "headgate.toml"])
            .env("CANARY", HEADER_VARIABLE);
        let done = finish(&mut command, "");
        assert_eq!(done.code, Some(0), "{verb:?}: {}{}", done.out, done.err);
        seen.add(format!("headgate {verb:?}"), done.out + &done.err);
    }
}
