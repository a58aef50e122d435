//! Sinks that send lines: over TCP, TLS, UDP and WebSockets, to servers of the test's own.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};

use serde_json::{Value, json};

use super::refusal;
use crate::guests::http::certificate;
use crate::process::{BY_ID, Process, skipped};
use crate::program::Lines;
use crate::setup::Setup;
use crate::wait::PROCESS_DEADLINE;

/// A sink that sends lines to a place.
fn lines(name: &str, to: &str, config: Value) -> Value {
    let mut section = json!({
        "name": name,
        "plugin": "lines",
        "streams": ["orders"],
        "batch": {"linger_ms": 0},
        "retry": {"first_ms": 1, "max_ms": 20, "attempts": 1000},
        "config": {"to": to, "line": "SET {_key} {n|or:-}", "removed": "DEL {_key}"},
        "wire": {"to": [to.split('/').take(3).collect::<Vec<_>>().join("/")], "networks": ["127.0.0.0/8"]},
    });
    let members = section["config"].as_object_mut().expect("an object");
    members.extend(config.as_object().expect("an object").clone());
    section
}

/// A server that notes each line, with the number of its connection, and answers what `answer` makes of it.
fn server(
    answer: impl Fn(&str) -> Option<String> + Send + Copy + 'static,
) -> (String, Receiver<(u64, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = format!("tcp://{}", listener.local_addr().expect("an address"));
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for (number, stream) in (1..).zip(listener.incoming().flatten()) {
            let sender = sender.clone();
            std::thread::spawn(move || talk(&stream, number, &sender, answer));
        }
    });
    (to, lines)
}

/// Notes lines until one is answered by `None`, or the connection ends.
fn talk(
    mut stream: &TcpStream,
    number: u64,
    sender: &Sender<(u64, String)>,
    answer: impl Fn(&str) -> Option<String>,
) {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|length| length > 0) {
        let Some(said) = answer(&line) else {
            return;
        };
        if sender.send((number, std::mem::take(&mut line))).is_err()
            || stream.write_all(said.as_bytes()).is_err()
        {
            return;
        }
    }
}

fn next(lines: &Receiver<(u64, String)>, process: &Process) -> (u64, String) {
    let line = lines.recv_timeout(PROCESS_DEADLINE);
    line.unwrap_or_else(|_| panic!("no line: {}", process.log()))
}

#[test]
fn lines_are_sent_in_order_over_one_connection_and_answers_count() {
    let setup = Setup::with_streams(&["orders"]).unlimited();
    let process = setup.spawn();
    let (to, seen) = server(|line| {
        Some(match line.contains(" 13") {
            true => "403 ERROR\r\n".to_owned(),
            false => "202 OK\r\nan event that nobody asked for\r\n".to_owned(),
        })
    });
    let config = json!({"expect": "202", "hello": "HELLO\r\n"});
    process
        .make("/api/admin/sinks", &lines("asks", &to, config))
        .data(201);
    let items = json!([{"id": "a", "n": 1}, {"id": "b\r\nQUIT", "n": 2}, {"id": "c", "n": 13}, {"id": "d"}]);
    process.failed("orders", BY_ID, &items.to_string());
    process.removed("orders", "a");
    process.drained();
    let expected = [
        "HELLO\r\n",
        "SET a 1\r\n",
        "SET b QUIT 2\r\n",
        "SET c 13\r\n",
        "SET d -\r\n",
        "DEL a\r\n",
    ];
    for line in expected {
        assert_eq!(next(&seen, &process), (1, line.to_owned()));
    }
    let letter = process.dead_letter("asks");
    assert!(
        letter.to_string().contains("it was answered `403 ERROR`"),
        "{letter}"
    );
    // The connection outlives a pause.
    process
        .call("POST", "/api/admin/sinks/asks/pause", "")
        .data(200);
    process
        .call("POST", "/api/admin/sinks/asks/resume", "")
        .data(200);
    process.processed("orders", BY_ID, r#"[{"id": "e", "n": 3}]"#);
    assert_eq!(next(&seen, &process), (1, "SET e 3\r\n".to_owned()));
    // A trial sends nothing, and shows what it would.
    let body = json!({"items": [{"id": "t"}]}).to_string();
    let tried = process.call("POST", "/api/admin/sinks/asks/try", &body);
    let tried = tried.data(200);
    assert_eq!(tried["ok"], true, "{tried}");
    assert!(tried.to_string().contains("SET 0 -"), "{tried}");
    assert!(seen.try_recv().is_err());
}

#[test]
fn a_connection_that_ends_is_opened_anew_and_half_a_line_never_stays() {
    let setup = Setup::with_streams(&["orders"]).unlimited();
    let process = setup.spawn();
    // What is sent as number 2 ends the first connection, and is not answered.
    let first = std::sync::atomic::AtomicBool::new(true);
    let first: &'static std::sync::atomic::AtomicBool = Box::leak(Box::new(first));
    let (to, seen) = server(|line| {
        let ends =
            line.ends_with(" 2\n") && first.swap(false, std::sync::atomic::Ordering::Relaxed);
        (!ends).then(|| "OK\n".to_owned())
    });
    let config = json!({"expect": "OK", "end": "\n", "timeout_ms": 5000});
    process
        .make("/api/admin/sinks", &lines("asks", &to, config))
        .data(201);
    for n in 1..4 {
        process.processed("orders", BY_ID, &json!([{"id": "a", "n": n}]).to_string());
    }
    let told: Vec<(u64, String)> = (0..3).map(|_| next(&seen, &process)).collect();
    let line = |number: u64, n: u64| (number, format!("SET a {n}\n"));
    assert_eq!(told, [line(1, 1), line(2, 2), line(2, 3)]);
    assert!(seen.try_recv().is_err(), "each line is there once");
}

#[test]
fn datagrams_and_messages_of_web_sockets_have_a_line_each() {
    let setup = Setup::with_streams(&["orders"]).unlimited();
    let process = setup.spawn();
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket
        .set_read_timeout(Some(PROCESS_DEADLINE))
        .expect("a time");
    let to = format!("udp://{}", socket.local_addr().expect("an address"));
    process
        .make(
            "/api/admin/sinks",
            &lines("datagrams", &to, json!({"end": ""})),
        )
        .data(201);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"));
    let listener = listener.expect("a port");
    let to = format!(
        "ws://{}/control",
        listener.local_addr().expect("an address")
    );
    let (sender, messages) = channel();
    runtime.spawn(async move {
        use futures_util::{SinkExt as _, StreamExt as _};
        let (stream, _) = listener.accept().await.expect("a connection");
        let mut socket = tokio_tungstenite::accept_async(stream)
            .await
            .expect("a greeting");
        while let Some(Ok(message)) = socket.next().await {
            sender
                .send((1, message.to_string()))
                .expect("somebody listens");
            socket
                .send("{\"ok\":true}".into())
                .await
                .expect("it is there");
        }
    });
    process
        .make(
            "/api/admin/sinks",
            &lines("messages", &to, json!({"end": "", "expect": "{\"ok\""})),
        )
        .data(201);
    process.processed(
        "orders",
        BY_ID,
        r#"[{"id": "a", "n": 1}, {"id": "b", "n": 2}]"#,
    );
    for line in ["SET a 1", "SET b 2"] {
        let mut bytes = [0; 100];
        let length = socket.recv(&mut bytes).expect("a datagram");
        assert_eq!(&bytes[..length], line.as_bytes());
        assert_eq!(next(&messages, &process), (1, line.to_owned()));
    }
}

#[test]
fn places_that_are_not_listed_are_not_dialled() {
    let setup = Setup::with_streams(&["orders"]).unlimited();
    let process = setup.spawn();
    let (to, seen) = server(|_| Some(String::new()));
    let port = to.rsplit_once(':').expect("a port").1;
    let reason = |name: &str, section: &Value| {
        process.make("/api/admin/sinks", section).data(201);
        process.accepted("orders", BY_ID, r#"[{"id": "a"}]"#);
        let sink = process.sink_becomes(name, "not sending", |sink| !sink["last_error"].is_null());
        sink["last_error"].to_string()
    };
    let mut other = lines("other", &to, json!({}));
    other["wire"]["to"] = json!([
        format!("tcp://localhost:{port}"),
        format!("tls://127.0.0.1:{port}")
    ]);
    let told = reason("other", &other);
    assert!(told.contains("is not in `wire.to`"), "{told}");
    process.says("wire.to");
    let mut private = lines("private", &to, json!({}));
    private["wire"]
        .as_object_mut()
        .expect("an object")
        .remove("networks");
    let told = reason("private", &private);
    assert!(told.contains("127.0.0.1 may not be called"), "{told}");
    assert!(seen.try_recv().is_err());
    for to in ["http://a:1", "tcp://a", "tcp://a:1/x", "ws://a:1/x"] {
        let mut section = lines("wrong", "tcp://127.0.0.1:1", json!({}));
        section["wire"]["to"] = json!([to]);
        let (_, message) = refusal(
            &process.call("POST", "/api/admin/sinks", &section.to_string()),
            400,
        );
        assert!(message.contains("wire.to"), "{to}: {message}");
    }
    let mut without = lines("without", &to, json!({}));
    without.as_object_mut().expect("an object").remove("wire");
    let (_, message) = refusal(
        &process.call("POST", "/api/admin/sinks", &without.to_string()),
        400,
    );
    assert!(message.contains("wire = { to"), "{message}");
}

#[test]
fn certificates_of_places_are_verified() {
    let setup = Setup::with_streams(&["orders"]).unlimited();
    if certificate(&setup, "known").is_none() {
        skipped("certificates_of_places", "there is no openssl");
        return;
    }
    let mut server = Command::new("openssl")
        .args(["s_server", "-accept", "127.0.0.1:0", "-cert"])
        .arg(setup.path("known.pem"))
        .arg("-key")
        .arg(setup.path("known.key"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl starts");
    let mut said = Lines::of(server.stdout.take().expect("piped"));
    let port = said.find_map(|line| {
        let (_, port) = line.strip_prefix("ACCEPT ")?.rsplit_once(':')?;
        Some(port.to_owned())
    });
    let port = port.expect("a port");
    let mut command = Command::new(env!("CARGO_BIN_EXE_headgate"));
    command.args(["serve", "--config", "headgate.toml"]);
    command.env("SSL_CERT_FILE", setup.path("known.pem"));
    command.env_remove("SSL_CERT_DIR");
    let process = setup.spawn_as(command).expect("the daemon starts");
    // Reached, but not what the certificate is for.
    let wrong = lines("wrong", &format!("tls://127.0.0.1:{port}"), json!({}));
    process.make("/api/admin/sinks", &wrong).data(201);
    process.accepted("orders", BY_ID, r#"[{"id": "a", "n": 1}]"#);
    let sink = process.sink_becomes("wrong", "not sending", |sink| !sink["last_error"].is_null());
    let told = sink["last_error"].to_string();
    assert!(told.contains("certificate"), "{told}");
    let path = "/api/admin/sinks/wrong?discard=true";
    process.call("DELETE", path, "").data(200);
    let right = lines("right", &format!("tls://localhost:{port}"), json!({}));
    process.make("/api/admin/sinks", &right).data(201);
    process.processed("orders", BY_ID, r#"[{"id": "b", "n": 2}]"#);
    let line = said.find(|line| line.starts_with("SET "));
    assert_eq!(line.as_deref().map(str::trim_end), Some("SET b 2"));
    server.kill().expect("a child");
    server.wait().expect("a child");
}
