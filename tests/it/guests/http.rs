//! Sinks that call others: whom they reach, what they may know, and what stops them.

use std::process::{Command, Stdio};

use super::{IMPATIENT, LIMITS, guest, nobody_else_suffers};
use crate::process::{BY_ID, Process, skipped};
use crate::program::{Lines, output};
use crate::receiver::{Receiver, Reply, answer};
use crate::setup::Setup;

pub(super) const ONCE: &str = "retry = { first_ms = 10, max_ms = 40, attempts = 1 }\n";
pub(super) const LOOPBACK: &str = "networks = [\"127.0.0.0/8\"]";

/// A daemon whose stream `hostile` goes to the sink that calls, with this `http` table.
fn calling(script: &str, retry: &str, http: &str) -> Setup {
    calling_within(LIMITS, script, retry, http)
}

/// The same with other limits.
fn calling_within(limits: &str, script: &str, retry: &str, http: &str) -> Setup {
    let more = format!("{retry}config = {{ script = {script:?} }}\nhttp = {{ {http} }}\n");
    Setup::with_streams(&["hostile", "innocent"])
        .toml(limits)
        .sink("hostile", &guest("calls"), "hostile", &more)
        .sink("pool", "pool", "innocent", "")
}

/// The same with one receiver as the only host, and with loopback allowed.
fn calling_receiver(script: &str, retry: &str, receiver: &Receiver, more: &str) -> Setup {
    let host = receiver.url("");
    calling(
        script,
        retry,
        &format!("hosts = [{host:?}], {LOOPBACK}{more}"),
    )
}

fn submit(process: &Process) -> String {
    process.accepted("hostile", BY_ID, r#"{"id": "a"}"#)
}

/// Why the only batch was given up.
fn reason(process: &Process) -> String {
    let id = submit(process);
    process.request_becomes(&id, "failed");
    let letters = process.dead_letters("hostile");
    letters[0]["reason"].as_str().expect("text").to_owned()
}

#[test]
fn only_listed_hosts_are_called() {
    let receiver = Receiver::content();
    let other = Receiver::content();
    let port = receiver.address.port();
    let script = format!(
        "post http://localhost:{port}/a;post {};post https://127.0.0.1:{port}/c;post http://u:p@127.0.0.1:{port}/d;trace {};post {}",
        other.url("/b"),
        receiver.url("/e"),
        receiver.url("/f?x=1")
    );
    let process = calling_receiver(&script, ONCE, &receiver, "").spawn();
    let id = submit(&process);
    process.request_becomes(&id, "processed");
    let seen = receiver.seen();
    let [only] = &seen[..] else {
        panic!("one request was expected: {seen:?}");
    };
    assert_eq!(
        (only.method.as_str(), only.path.as_str()),
        ("POST", "/f?x=1")
    );
    assert_eq!(only.body, r#"[{"id":"a"}]"#);
    assert_eq!(
        only.header("host"),
        Some(receiver.address.to_string().as_str())
    );
    assert_eq!(only.header("content-type"), Some("application/json"));
    assert_eq!(other.connections(), 0);
    let log = process.log();
    for host in [
        format!("http://localhost:{port}"),
        other.url(""),
        format!("127.0.0.1:{port}"),
    ] {
        let told =
            |line: &str| line.contains("http.hosts") && line.contains(&format!("host={host} "));
        assert!(log.lines().any(told), "{host}: {log}");
    }
    assert!(log.contains("f?x=1: 200 thanks"), "{log}");
    nobody_else_suffers(process);
}

#[test]
fn addresses_that_are_not_public_are_refused_in_every_form() {
    let receiver = Receiver::content();
    let port = receiver.address.port();
    let forms = [
        "127.0.0.1",
        "localhost",
        "[::ffff:127.0.0.1]",
        "[::1]",
        "127.1",
        "2130706433",
        "0x7f.0.0.1",
        "0.0.0.0",
        "169.254.169.254",
    ];
    let urls = forms.map(|form| format!("http://{form}:{port}"));
    let script = urls.each_ref().map(|url| format!("post {url}/")).join(";");
    let hosts = urls.each_ref().map(|url| format!("{url:?}")).join(", ");
    let folder = calling(&script, ONCE, &format!("hosts = [{hosts}]"));
    let process = folder.spawn();
    let words = "not allowed: the host is not at a public address";
    assert_eq!(reason(&process), words);
    assert_eq!(receiver.connections(), 0);
    let log = process.log();
    for url in &urls {
        assert!(
            log.contains(&format!("post {url}/: {words}")),
            "{url}: {log}"
        );
        let told =
            |line: &str| line.contains("http.networks") && line.contains(&format!("host={url} "));
        assert!(log.lines().any(told), "{url}: {log}");
    }
    nobody_else_suffers(process);

    // It is the address that is refused, not how it is written.
    let hosts = format!("hosts = [{hosts}], {LOOPBACK}");
    let process = calling(&script, ONCE, &hosts).spawn();
    assert_eq!(reason(&process), words, "the last one is link-local");
    let reached = receiver.seen().len();
    assert!(reached >= 5, "{reached} of the forms: {}", process.log());
    nobody_else_suffers(process);
}

#[test]
fn a_redirect_is_not_followed_and_its_target_is_checked_like_any_other() {
    let place = "http://169.254.169.254/latest/meta-data";
    let receiver = Receiver::start(move |_, _| answer(302, &format!("location: {place}\r\n"), ""));
    let script = format!("follow {}", receiver.url("/"));
    let folder = calling_receiver(&script, ONCE, &receiver, "");
    let process = folder.spawn();
    assert_eq!(
        reason(&process),
        "not allowed: the settings do not allow this request"
    );
    assert_eq!(receiver.seen().len(), 1);
    nobody_else_suffers(process);

    let hosts = format!(
        "hosts = [{:?}, \"http://169.254.169.254\"], {LOOPBACK}",
        receiver.url("")
    );
    let process = calling(&script, ONCE, &hosts).spawn();
    assert_eq!(
        reason(&process),
        "not allowed: the host is not at a public address"
    );
    nobody_else_suffers(process);
}

#[test]
fn secret_headers_arrive_and_nobody_else_sees_them() {
    let receiver = Receiver::content();
    let script = format!(
        "forge {};tell {};get {}",
        receiver.url("/forge"),
        receiver.url("/tell"),
        receiver.url("/fail")
    );
    let headers = ", headers = { Authorization = { file = \"secret\" }, x-team = \"blue team\" }";
    let folder = calling_receiver(&script, ONCE, &receiver, headers);
    let secret = "Bearer 0123456789canary";
    std::fs::write(folder.path("secret"), secret).expect("a file");
    let process = folder.spawn();
    let id = submit(&process);
    process.request_becomes(&id, "processed");
    let seen = receiver.seen();
    assert_eq!(seen.len(), 3);
    for request in &seen {
        assert_eq!(request.header("authorization"), Some(secret));
        assert_eq!(request.header("x-team"), Some("blue team"));
        assert!(!request.body.contains("canary"), "{request:?}");
    }
    assert!(seen[1].body.contains("thanks"), "{:?}", seen[1]);
    assert_eq!(seen[0].header("idempotency-key"), Some("my own"));
    assert_eq!(
        seen[2].header("idempotency-key"),
        None,
        "reading needs none"
    );
    assert!(!process.log().contains("canary"), "{}", process.log());
    let shown = process.admin("/api/admin/sinks").to_string();
    assert!(!shown.contains("canary"), "{shown}");
    nobody_else_suffers(process);
}

#[test]
fn receivers_that_stall_cost_a_retry_and_not_the_instance() {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc";
    for (bytes, timeout) in [
        ("", ", timeout_ms = 200"),
        (head, ", timeout_ms = 200"),
        ("", ""),
        (head, ""),
    ] {
        let receiver = Receiver::start(move |_, _| Reply::Stall(bytes.to_owned()));
        let script = format!("post {}", receiver.url("/"));
        let http = format!("hosts = [{:?}], {LOOPBACK}{timeout}", receiver.url(""));
        let process = calling_within(IMPATIENT, &script, ONCE, &http).spawn();
        let reason = reason(&process);
        assert!(reason.starts_with("no answer: "), "{reason}");
        nobody_else_suffers(process);
    }
}

#[test]
fn bodies_are_bounded_in_both_directions() {
    let long = "x".repeat(70_000);
    let chunk = format!("{:x}\r\n{long}\r\n", long.len());
    let endless = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunk}{chunk}");
    let receiver = Receiver::start(move |request, _| match request.path.as_str() {
        "/declared" => answer(200, "", &"x".repeat(200_000)),
        "/endless" => Reply::Stall(endless.clone()),
        "/head" => answer(200, &format!("x-long: {long}{long}{long}\r\n"), ""),
        _ => answer(200, "", &"x".repeat(100_000)),
    });
    let limits = ", response_bytes_max = 100_000, request_bytes_max = 2_000_000";
    for (step, words) in [
        ("get /declared", "answers with more than the settings allow"),
        ("get /endless", "answers with more than the settings allow"),
        ("get /head", "answers with more than the settings allow"),
        (
            "large /",
            "was sent a body that is larger than the settings allow",
        ),
    ] {
        let (verb, path) = step.split_once(' ').expect("two words");
        let script = format!("{verb} {}", receiver.url(path));
        let process = calling_receiver(&script, ONCE, &receiver, limits).spawn();
        let reason = reason(&process);
        assert!(reason.contains(words), "{step}: {reason}");
        nobody_else_suffers(process);
    }
    let script = format!("get {}", receiver.url("/fits"));
    let process = calling_receiver(&script, ONCE, &receiver, limits).spawn();
    let id = submit(&process);
    process.request_becomes(&id, "processed");
    nobody_else_suffers(process);
}

#[test]
fn requests_of_one_call_are_counted() {
    let receiver = Receiver::content();
    let script = vec![format!("post {}", receiver.url("/")); 4].join(";");
    let process = calling_receiver(&script, ONCE, &receiver, ", requests_max = 3").spawn();
    assert!(reason(&process).starts_with("not allowed"));
    assert_eq!(receiver.seen().len(), 3);
    process.says("http.requests_max");
    nobody_else_suffers(process);
}

#[test]
fn a_request_that_is_left_behind_is_dropped_with_the_instance() {
    let receiver = Receiver::start(|request, _| match request.method.as_str() {
        "GET" => Reply::Stall(String::new()),
        _ => answer(200, "", ""),
    });
    let script = format!("keep {}", receiver.url("/"));
    let process = calling_receiver(&script, ONCE, &receiver, ", concurrency_max = 2").spawn();
    for _ in 0..4 {
        let id = submit(&process);
        process.request_becomes(&id, "processed");
    }
    nobody_else_suffers(process);
}

#[test]
fn a_sink_is_not_started_without_the_grant_and_calls_nobody_while_it_starts() {
    let more = "config = { script = \"get http://127.0.0.1/\" }\n";
    let folder = super::beside_a_good_sink("calls", more);
    let process = folder.spawn();
    let id = submit(&process);
    process.sink_becomes("hostile", "paused", |sink| {
        let reason = sink["reason"].as_str().unwrap_or_default();
        sink["state"] == "paused" && reason.contains("http = { hosts = [")
    });
    assert_eq!(process.request(&id)["status"], "accepted");
    nobody_else_suffers(process);

    let receiver = Receiver::content();
    let script = format!("at open {}", receiver.url("/"));
    let process = calling_receiver(&script, ONCE, &receiver, "").spawn();
    submit(&process);
    process.sink_becomes("hostile", "paused", |sink| {
        let reason = sink["reason"].as_str().unwrap_or_default();
        sink["state"] == "paused" && reason.contains("not allowed")
    });
    assert_eq!(receiver.connections(), 0);
    nobody_else_suffers(process);
}

#[test]
fn requests_by_wasi_http_are_judged_in_the_same_way() {
    let receiver = Receiver::content();
    let other = Receiver::content();
    let private = "http://169.254.169.254";
    let script = format!(
        "wasi {};wasi {private}/;wasi {}",
        other.url("/"),
        receiver.url("/in")
    );
    let http = format!(
        "hosts = [{:?}, {private:?}], {LOOPBACK}, headers = {{ Authorization = \"canary\" }}",
        receiver.url("")
    );
    let process = calling(&script, ONCE, &http).spawn();
    let id = submit(&process);
    process.request_becomes(&id, "processed");
    let seen = receiver.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].header("authorization"), Some("canary"));
    assert_eq!(other.connections(), 0);
    let log = process.log();
    for words in [
        format!("wasi {}: 901", other.url("/")),
        format!("wasi {private}/: 902"),
        format!("wasi {}: 200", receiver.url("/in")),
    ] {
        assert!(log.contains(&words), "{words}: {log}");
    }
    nobody_else_suffers(process);
}

#[test]
fn idempotency_keys_stay_the_same_when_a_batch_is_sent_again() {
    let receiver = Receiver::start(|_, before| match before {
        0..6 => answer(503, "", "busy"),
        _ => answer(200, "", ""),
    });
    let script = format!(
        "post {};post {};post {}",
        receiver.url("/a"),
        receiver.url("/b"),
        receiver.url("/a?again")
    );
    let retries = "retry = { first_ms = 10, max_ms = 40, attempts = 5 }\n";
    let run = |expected: usize| {
        let process = calling_receiver(&script, retries, &receiver, "").spawn();
        let id = submit(&process);
        process.request_becomes(&id, "processed");
        let id = submit(&process);
        process.request_becomes(&id, "processed");
        nobody_else_suffers(process);
        let seen = receiver.seen();
        assert_eq!(seen.len(), expected);
        let keys = seen.iter().map(|seen| seen.header("idempotency-key"));
        keys.map(|key| key.expect("a key").to_owned()).collect()
    };
    // Three attempts at the first batch, one at the second.
    let keys: Vec<String> = run(12);
    let calls: Vec<&[String]> = keys.chunks(3).collect();
    assert_eq!((calls[0], calls[1]), (calls[1], calls[2]));
    assert_eq!(calls[0][2], format!("{}-2", calls[0][0]));
    let all = |calls: &[&[String]]| {
        calls
            .concat()
            .into_iter()
            .collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(all(&calls[2..]).len(), 6, "{keys:?}");
    // Another daemon's first batch of the same sink is another batch.
    let keys = run(18);
    let calls: Vec<&[String]> = keys.chunks(3).collect();
    assert_eq!(all(&calls[2..]).len(), 12, "{keys:?}");
}

#[test]
fn connections_are_used_again() {
    let receiver = Receiver::content();
    let script = format!("post {}", receiver.url("/"));
    let process = calling_receiver(&script, ONCE, &receiver, "").spawn();
    for _ in 0..20 {
        let id = submit(&process);
        process.request_becomes(&id, "processed");
    }
    assert_eq!((receiver.seen().len(), receiver.connections()), (20, 1));
    nobody_else_suffers(process);
}

/// A certificate of `localhost` with its key, in the folder; none where there is no openssl.
pub(crate) fn certificate(folder: &Setup, name: &str) -> Option<()> {
    let made = output(
        Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt"])
            .args(["ec_paramgen_curve:prime256v1", "-nodes", "-subj"])
            .arg(format!("/CN={name}"))
            .args(["-addext", "subjectAltName=DNS:localhost"])
            .args(["-addext", "basicConstraints=critical,CA:FALSE"])
            .arg("-out")
            .arg(folder.path(&format!("{name}.pem")))
            .arg("-keyout")
            .arg(folder.path(&format!("{name}.key"))),
    )
    .ok()?;
    assert!(made.status.success(), "{made:?}");
    Some(())
}

#[test]
fn hosts_are_called_over_tls_and_their_certificates_are_checked() {
    let certificates = Setup::with_streams(&[]);
    let made = ["known", "unknown"].map(|name| certificate(&certificates, name));
    if made != [Some(()), Some(())] {
        skipped("hosts_are_called_over_tls", "there is no openssl");
        return;
    }
    let mut server = Command::new("openssl")
        .args(["s_server", "-accept", "127.0.0.1:0", "-www", "-cert"])
        .arg(certificates.path("known.pem"))
        .arg("-key")
        .arg(certificates.path("known.key"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl starts");
    let mut lines = Lines::of(server.stdout.take().expect("piped"));
    let port = lines.find_map(|line| {
        let (_, port) = line.strip_prefix("ACCEPT ")?.rsplit_once(':')?;
        Some(port.to_owned())
    });
    let port = port.expect("a port");
    for (authority, host, expected) in [
        ("known", "localhost", Ok("200 ")),
        (
            "unknown",
            "localhost",
            Err("has a certificate that is not trusted"),
        ),
        // Listed and reached, but not what the certificate is for.
        (
            "known",
            "127.0.0.1",
            Err("has a certificate that is not trusted"),
        ),
    ] {
        let folder = calling(
            &format!("get https://{host}:{port}/"),
            ONCE,
            &format!("hosts = [\"{host}:{port}\"], {LOOPBACK}"),
        );
        let mut command = Command::new(env!("CARGO_BIN_EXE_headgate"));
        command.args(["serve", "--config", "headgate.toml"]);
        command.env(
            "SSL_CERT_FILE",
            certificates.path(&format!("{authority}.pem")),
        );
        command.env_remove("SSL_CERT_DIR");
        let process = folder.spawn_as(command).expect("the daemon starts");
        match expected {
            Ok(words) => {
                let id = submit(&process);
                process.request_becomes(&id, "processed");
                process.says(words);
            }
            Err(words) => assert!(reason(&process).contains(words), "{}", process.log()),
        }
        nobody_else_suffers(process);
    }
    server.kill().expect("a child");
    server.wait().expect("a child");
}
