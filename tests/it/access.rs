//! Who may call the admin listener, and from where: every operation that its document names, and every page.

use serde_json::Value;

use crate::openapi::{document, operations};
use crate::pages::site::Site;
use crate::process::{Answer, Client, Process};
use crate::setup::{ADMIN_TOKEN, Setup, key_of};

const READ_KEY: &str = "rk_live_for_the_tests_of_access_0001";

fn daemon() -> Process {
    Setup::with_streams(&["orders"])
        .sink("pool", "pool", "*", "")
        .set("admin.hosts", vec!["headgate.example"])
        .given_read_key("screen", &["orders"], READ_KEY, "")
        .spawn()
}

/// A call with these headers, whole lines that end in CRLF.
fn call(process: &Process, method: &str, path: &str, headers: &str) -> Answer {
    let mut client = Client::connect(process.admin).expect("it listens");
    let head = format!("{method} {path} HTTP/1.1\r\n{headers}Content-Length: 2\r\n\r\n{{}}");
    client.send(&head).expect("it listens");
    let answer = client.answer();
    answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
}

/// Method and path of everything that needs the token, with parameters that exist for nobody.
fn guarded(process: &Process) -> Vec<(String, String)> {
    let document = document(process.admin);
    let all = operations(&document).into_iter();
    let guarded = all.filter(|operation| operation.needs("admin_token"));
    let calls =
        guarded.map(|operation| (operation.method, operation.path.replace(['{', '}'], "_")));
    let calls: Vec<_> = calls.collect();
    assert!(calls.len() > 30, "only {}", calls.len());
    calls
}

#[test]
fn every_operation_is_401_without_the_token() {
    let process = daemon();
    let ingest_key = key_of("orders");
    let mut waits = 0;
    for (method, path) in guarded(&process) {
        for secret in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer wrong",
            &format!("Bearer {ingest_key}"),
            &format!("Bearer {READ_KEY}"),
            &format!("Bearer {}", &ADMIN_TOKEN[1..]),
            &format!("Bearer {ADMIN_TOKEN}x"),
            &format!("Basic {ADMIN_TOKEN}"),
            ADMIN_TOKEN,
        ] {
            let authorization = match secret {
                "" => String::new(),
                secret => format!("Authorization: {secret}\r\n"),
            };
            let headers = format!("Host: localhost\r\n{authorization}");
            let answer = call(&process, &method, &path, &headers);
            let what = format!("{method} {path} {secret}: {}", answer.body);
            // Who goes on with wrong ones is told to wait.
            if answer.status == 429 {
                assert!(secret.starts_with("Bearer "), "{what}");
                assert_eq!(answer.json()["error"]["code"], "RATE_LIMITED", "{what}");
                waits += 1;
                continue;
            }
            assert_eq!(answer.status, 401, "{what}");
            assert_eq!(answer.json()["error"]["code"], "UNAUTHORIZED");
            assert_eq!(answer.header("www-authenticate"), Some("bearer"));
        }
        // Nor where renderers may put theirs.
        let query = format!("{path}?token={ADMIN_TOKEN}");
        let answer = call(&process, &method, &query, "Host: localhost\r\n");
        assert_eq!(answer.status, 401, "{method} {query}");
    }
    let log = process.admin("/api/admin/audit");
    let log = log.as_array().expect("a list");
    let refused = |one: &Value| one["action"] == "sign_in_refused" && one["name"] == "127.0.0.1";
    assert!(log.iter().all(refused), "nothing was done: {log:?}");
    assert!(waits > 0 && !log.is_empty());
}

#[test]
fn no_operation_is_done_under_a_foreign_name_or_for_another_site() {
    let process = daemon();
    let token = format!("Authorization: Bearer {ADMIN_TOKEN}\r\n");
    let own = format!("http://{}", process.admin);
    let port = process.admin.port();
    for (method, path) in guarded(&process) {
        for host in [
            "evil.example",
            "x.headgate.example",
            "127.0.0.1.evil.example",
            "",
        ] {
            let headers = format!("Host: {host}:{port}\r\n{token}");
            let answer = call(&process, &method, &path, &headers);
            assert_eq!(answer.status, 403, "{method} {path} {host}");
            let message = answer.json()["error"]["message"].to_string();
            assert!(message.contains("hosts of [admin]"), "{message}");
        }
        let host = format!("Host: {}\r\n", process.admin);
        for foreign in [
            "Origin: null\r\n",
            "Origin: http://evil.example\r\n",
            "Origin: http://127.0.0.1:1\r\n",
            &format!("Origin: {own}\r\nSec-Fetch-Site: same-site\r\n"),
            "Sec-Fetch-Site: cross-site\r\n",
        ] {
            let answer = call(&process, &method, &path, &format!("{host}{token}{foreign}"));
            match method.as_str() {
                "GET" => assert_ne!(answer.status, 401, "{path}"),
                _ => assert_eq!(answer.status, 403, "{method} {path} {foreign}"),
            }
            // No page of another site may read it either.
            assert_eq!(answer.header("access-control-allow-origin"), None);
        }
    }
    let log = process.admin("/api/admin/audit");
    assert_eq!(log.as_array().map(Vec::len), Some(0), "nothing was done");

    for host in ["headgate.example", "localhost", "[::1]", "10.1.2.3"] {
        let headers = format!("Host: {host}:{port}\r\n{token}");
        let answer = call(&process, "GET", "/api/admin/status", &headers);
        assert_eq!(answer.status, 200, "{host}");
    }
    for from_here in [
        "",
        &format!("Origin: {own}\r\nSec-Fetch-Site: same-origin\r\n"),
    ] {
        let headers = format!("Host: {}\r\n{token}{from_here}", process.admin);
        let answer = call(&process, "POST", "/api/admin/tickets", &headers);
        assert_eq!(answer.status, 201, "{from_here}: {}", answer.body);
    }
}

#[test]
fn wrong_tokens_are_slowed_down_and_the_right_one_is_let_in() {
    let process = daemon();
    let mut site = Site::of(&process);
    let tries: Vec<Answer> = (0..7)
        .map(|n| site.sign_in(&format!("wrong-{n}")))
        .collect();
    let statuses: Vec<u16> = tries.iter().map(|one| one.status).collect();
    assert_eq!(statuses[..5], [401; 5]);
    let told = tries.iter().find(|one| one.status == 429).expect("a pause");
    assert!(
        told.body.contains("Too many invalid tokens"),
        "{}",
        told.body
    );
    assert!(told.header("retry-after").is_some());
    assert_eq!(site.sign_in(ADMIN_TOKEN).status, 303);
    let log = process.admin("/api/admin/audit");
    let log = log.as_array().expect("a list");
    let said = |at: usize| ["action", "who", "name"].map(|field| log[at][field].clone());
    assert_eq!(said(0), ["sign_in", "admin token", "127.0.0.1"]);
    assert_eq!(said(1), ["sign_in_refused", "link", "127.0.0.1"]);
    assert_eq!(
        process.metric("headgate_admin_auth_failures_total"),
        Some(7.0)
    );
    assert!(!process.log().contains("wrong-"), "no token is written");
}
