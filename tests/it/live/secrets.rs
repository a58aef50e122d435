//! No secret in a log or an answer, whatever is asked and however much is logged.

use std::process::Command;

use serde_json::Value;

use crate::process::Client;
use crate::setup::{ADMIN_TOKEN, Setup, key_of};

const SCREEN: &str = "rk_live_for_the_lobby_screen_000001";
const IN_URL: &str = "rk_live_for_the_old_player_00000002";
const UNKNOWN: &str = "rk_live_that_nobody_has_000000000003";

/// Sends a request as it is and returns the whole answer, of a stream of events the head.
fn ask(client: &mut Client, head: &str) -> String {
    client
        .send(format!("{head}Host: tests\r\n\r\n"))
        .expect("it listens");
    client.interim().expect("an answer")
}

#[test]
fn no_secret_is_logged_or_answered() {
    let folder = Setup::with_streams(&["orders"])
        .sink("pool", "pool", "orders", "")
        .given_read_key("screen", &["orders"], SCREEN, "")
        .given_read_key("player", &["orders"], IN_URL, "allow_in_url = true");
    let mut command = Command::new(env!("CARGO_BIN_EXE_headgate"));
    command
        .args(["serve", "--config", "headgate.toml"])
        .env("HEADGATE_LOG__LEVEL", "trace")
        .env("HEADGATE_LOG__REQUESTS", "true");
    let process = folder.spawn_as(command).expect("it starts");
    process.accepted("orders", "", "{}");
    let connect = || process.client();
    let mut answers = String::new();
    let mut tickets = Vec::new();
    for (line, to_admin) in [("/api/tickets", false), ("/api/admin/tickets", true)] {
        let (address, secret) = match to_admin {
            true => (process.admin, ADMIN_TOKEN),
            false => (process.service, SCREEN),
        };
        for _ in 0..2 {
            let mut client = Client::connect(address).expect("it listens");
            client
                .send(format!(
                    "POST {line} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {secret}\r\nContent-Length: 0\r\n\r\n"
                ))
                .expect("it listens");
            let answer = client.answer().expect("an answer");
            assert_eq!(answer.status, 201, "{}", answer.body);
            let ticket = match answer.json()["data"]["ticket"].take() {
                Value::String(ticket) => ticket,
                other => panic!("no ticket: {other}"),
            };
            tickets.push(ticket);
        }
    }
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let mut secrets = vec![SCREEN, IN_URL, UNKNOWN, ADMIN_TOKEN];
    let ingest_key = key_of("orders");
    secrets.push(&ingest_key);
    secrets.extend(tickets.iter().map(String::as_str));
    for secret in &secrets {
        for path in [
            "/api/live",
            "/api/live/x",
            "/api/streams/orders/items",
            "/render/orders",
        ] {
            // With a good ending and with a bad one.
            for more in ["", "&max_rate=0", "&streams=nothing", "&since=x"] {
                let line = format!("GET {path}?token={secret}{more} HTTP/1.1\r\n");
                answers += &ask(&mut connect(), &line);
                answers += &ask(&mut connect(), &format!("{line}{upgrade}"));
            }
            let header = format!("GET {path} HTTP/1.1\r\nAuthorization: Bearer {secret}\r\n");
            answers += &ask(&mut connect(), &header);
            let offer = format!(
                "GET {path} HTTP/1.1\r\n{upgrade}Sec-WebSocket-Protocol: headgate, {secret}\r\n"
            );
            answers += &ask(&mut connect(), &offer);
            let removal = format!("DELETE {path}/{secret} HTTP/1.1\r\n");
            answers += &ask(&mut connect(), &removal);
        }
    }
    assert!(answers.contains("HTTP/1.1 101"), "some were admitted");
    assert!(answers.contains("HTTP/1.1 200"), "some were admitted");
    assert!(answers.contains("HTTP/1.1 401"), "some were refused");
    let renderers = process.admin("/api/admin/renderers");
    answers += &renderers.to_string();
    process.terminate();
    let log = process.ended().log;
    assert!(log.contains("/api/live"), "requests are logged");
    for secret in secrets {
        assert!(!answers.contains(secret), "an answer has {secret}");
        let line = log.lines().find(|line| {
            // A path is logged, and what stands in it is no secret's place.
            line.contains(secret) && !line.contains("method=DELETE")
        });
        assert_eq!(line, None, "logged");
    }
}
