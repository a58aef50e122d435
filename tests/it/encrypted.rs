//! Encrypted listeners: certificates of the daemon and of its clients, made with `openssl`, tried with `curl`.

mod garbage;

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::command_line::demo::there_is;
use crate::command_line::{Done, finish, headgate};
use crate::process::{Process, skipped};
use crate::program::output;
use crate::setup::Setup;
use crate::wait::eventually;

/// A certificate and its key, in two files.
pub(crate) struct Pair {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// A certificate that this machine's names and addresses may be called by, signed by its own key.
pub(crate) fn pair(setup: &Setup, name: &str) -> Pair {
    pair_for(setup, name, 60)
}

/// One that ends in so many days.
fn pair_for(setup: &Setup, name: &str, days: u32) -> Pair {
    let pair = Pair {
        certificate: setup.path(&format!("{name}.pem")),
        key: setup.path(&format!("{name}-key.pem")),
    };
    let mut openssl = Command::new("openssl");
    openssl
        .args(["req", "-x509", "-newkey", "ec", "-nodes", "-days"])
        .arg(days.to_string())
        .args(["-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj"])
        .arg(format!("/CN={name}"))
        .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-keyout")
        .arg(&pair.key)
        .arg("-out")
        .arg(&pair.certificate);
    let made = output(&mut openssl).expect("openssl runs");
    assert!(made.status.success(), "{made:?}");
    pair
}

/// Ends a certificate yesterday.
fn end(pair: &Pair) {
    let signing = pair.certificate.with_extension("csr");
    let run = |arguments: &[&str]| {
        let done = output(Command::new("openssl").args(arguments)).expect("openssl runs");
        assert!(done.status.success(), "{done:?}");
    };
    let [certificate, key, signing] =
        [&pair.certificate, &pair.key, &signing].map(|path| shown(path));
    let name = [
        "-subj",
        "/CN=ended",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
    ];
    run(&[&["req", "-new", "-key", key, "-out", signing], &name[..]].concat());
    let days = ["-days", "-1", "-copy_extensions", "copyall"];
    let request = [
        "x509",
        "-req",
        "-in",
        signing,
        "-signkey",
        key,
        "-out",
        certificate,
    ];
    run(&[&request[..], &days].concat());
}

/// As `openssl` prints it.
fn fingerprint(pair: &Pair) -> String {
    let mut openssl = Command::new("openssl");
    openssl
        .args(["x509", "-noout", "-fingerprint", "-sha256", "-in"])
        .arg(&pair.certificate);
    let said = output(&mut openssl).expect("openssl runs").stdout;
    let said = String::from_utf8(said).expect("text");
    let (_, digits) = said.trim().split_once('=').expect("a fingerprint");
    digits.to_owned()
}

/// What `curl` was answered, or how it failed: a status, or 0; and the body.
fn curl(trusted: &Path, arguments: &[&str]) -> (u16, String) {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--write-out", "\n%{http_code}", "--cacert"])
        .arg(trusted)
        .args(arguments);
    let said = output(&mut curl).expect("curl runs").stdout;
    let said = String::from_utf8(said).expect("text");
    let (body, status) = said.rsplit_once('\n').expect("a status");
    (status.parse().expect("a status"), body.to_owned())
}

fn shown(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn tls(listener: &str, pair: &Pair, more: &str) -> String {
    format!(
        "[{listener}.tls]\ncertificate = {:?}\nkey = {:?}\n{more}",
        pair.certificate, pair.key
    )
}

fn is_there(test: &str) -> bool {
    let is_there = there_is("curl") && there_is("openssl");
    if !is_there {
        skipped(test, "curl or openssl is missing");
    }
    is_there
}

fn url(process: &Process, path: &str) -> String {
    format!("https://{}{path}", process.service)
}

#[test]
fn what_is_sent_is_encrypted_and_a_new_certificate_counts_at_once() {
    if !is_there("what_is_sent_is_encrypted_and_a_new_certificate_counts_at_once") {
        return;
    }
    let setup = Setup::shop();
    let server = pair(&setup, "server");
    let setup = setup
        .toml(&tls("server", &server, ""))
        .toml(&tls("admin", &server, ""));
    let process = setup.spawn();
    let url = |path: &str| url(&process, path);
    let (status, body) = curl(&server.certificate, &[&url("/healthz")]);
    assert_eq!(status, 200, "{body}");
    let bearer = format!("Authorization: Bearer {}", process.setup.secret("shop", 0));
    let json = "Content-Type: application/json";
    let posted = [&url("/api/ingest"), "-H", &bearer, "-H", json, "-d", "{}"];
    assert_eq!(curl(&server.certificate, &posted).0, 202);
    let plain = format!("http://{}/healthz", process.service);
    assert_eq!(curl(&server.certificate, &[&plain]).0, 0);
    let stranger = pair(&process.setup, "stranger");
    assert_eq!(curl(&stranger.certificate, &[&url("/healthz")]).0, 0);
    // The command line believes what the system believes, or what this variable names.
    let listed = Command::new(env!("CARGO_BIN_EXE_headgate"))
        .args(["stream", "list", "--admin-url"])
        .arg(format!("https://localhost:{}", process.admin.port()))
        .arg("--data-dir")
        .arg(process.setup.data_dir())
        .env("HEADGATE_ADMIN_TOKEN", process.setup.admin_token())
        .env("SSL_CERT_FILE", &server.certificate)
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&listed.stdout);
    assert!(text.contains("orders"), "{text}{listed:?}");
    // One that does not fit its key changes nothing; the whole pair does.
    std::fs::copy(&stranger.certificate, &server.certificate).expect("a copy");
    eventually("the old one stays", || {
        (process.log().contains("keeping the previous certificate")).then_some(())
    });
    std::fs::copy(&stranger.key, &server.key).expect("a copy");
    eventually("the new one counts", || {
        (curl(&stranger.certificate, &[&url("/healthz")]).0 == 200).then_some(())
    });
}

#[test]
fn handshakes_that_stop_half_way_give_way_to_others_of_their_address() {
    if !is_there("handshakes_that_stop_half_way_give_way_to_others_of_their_address") {
        return;
    }
    let setup = Setup::shop();
    let server = pair(&setup, "server");
    let setup = setup
        .toml(&tls("server", &server, ""))
        .set("server.connections_per_address_max", 8);
    let process = setup.spawn();
    let hello = b"\x16\x03\x01\x02\x00\x01";
    let mut half: Vec<_> = (0..8)
        .map(|_| {
            let mut socket = std::net::TcpStream::connect(process.service).expect("it listens");
            socket.write_all(hello).expect("it is sent");
            socket
        })
        .collect();
    eventually("a request is answered", || {
        let url = url(&process, "/api/ingest");
        (curl(&server.certificate, &[&url]).0 == 405).then_some(())
    });
    // The others end as well: a handshake has its time.
    let mut rest = Vec::new();
    let _ = half[7].read_to_end(&mut rest);
    assert!(!rest.starts_with(b"HTTP"), "{rest:?}");
}

#[test]
fn the_cookie_of_a_session_is_of_this_host_and_of_tls_alone() {
    if !is_there("the_cookie_of_a_session_is_of_this_host_and_of_tls_alone") {
        return;
    }
    let setup = Setup::shop();
    let server = pair(&setup, "server");
    let process = setup.toml(&tls("admin", &server, "")).spawn();
    let origin = format!("https://localhost:{}", process.admin.port());
    let (url, kept) = (format!("{origin}/sign-in"), process.setup.path("cookies"));
    let (token, kept) = (process.setup.admin_token(), shown(&kept));
    let from = format!("Origin: {origin}");
    let form = format!("token={token}&next=/");
    let sent = ["--include", "-c", kept, "-H", &from, "-d", &form, &url];
    let (status, head) = curl(&server.certificate, &sent);
    assert_eq!(status, 303, "{head}");
    let cookie = head
        .lines()
        .find_map(|line| line.strip_prefix("set-cookie: "));
    let cookie = cookie.expect("a cookie").trim();
    let name = format!("__Host-headgate_{}=", process.admin.port());
    assert!(cookie.starts_with(&name), "{cookie}");
    let (_, attributes) = cookie.split_once("; ").expect("attributes");
    let expected = "Path=/; Max-Age=43200; HttpOnly; SameSite=Strict; Secure";
    assert_eq!(attributes, expected);
    let overview = format!("{origin}/");
    assert_eq!(curl(&server.certificate, &["-b", kept, &overview]).0, 200);
    assert_eq!(curl(&server.certificate, &[&overview]).0, 401);
}

#[test]
fn a_client_certificate_stands_for_a_key() {
    if !is_there("a_client_certificate_stands_for_a_key") {
        return;
    }
    let setup = Setup::new().stream("orders");
    let [server, machine, screen, other] =
        ["server", "machine", "screen", "other"].map(|name| pair(&setup, name));
    let setup = setup
        .toml(&tls("server", &server, "client_certificates = \"optional\""))
        .toml(&format!(
            "[[connectors]]\nname = \"shop\"\nkind = \"ingest\"\nkeys = [{{ name = \"machine\", stream = \"orders\", certificate = \"{}\" }}]",
            fingerprint(&machine)
        ))
        .toml(&format!(
            "[[read_keys]]\nname = \"screen\"\nstreams = [\"orders\"]\ncertificate = \"{}\"",
            fingerprint(&screen).replace(':', "").to_lowercase()
        ));
    let process = setup.spawn();
    let call = |path: &str, pair: Option<&Pair>, more: &[&str]| {
        let url = url(&process, path);
        let mut arguments = vec![&*url];
        if let Some(pair) = pair {
            arguments.extend(["--cert", shown(&pair.certificate)]);
            arguments.extend(["--key", shown(&pair.key)]);
        }
        arguments.extend(more);
        curl(&server.certificate, &arguments)
    };
    let send = ["-H", "Content-Type: application/json", "-d", "{\"a\":1}"];
    let (status, body) = call("/api/ingest", Some(&machine), &send);
    assert_eq!(status, 202, "{body}");
    for pair in [None, Some(&screen), Some(&other)] {
        assert_eq!(call("/api/ingest", pair, &send).0, 401);
    }
    // A key that is sent counts before the certificate.
    let wrong = [&send[..], &["-H", "Authorization: Bearer ik_live_wrong"]].concat();
    assert_eq!(call("/api/ingest", Some(&machine), &wrong).0, 401);
    let items = "/api/streams/orders/items";
    assert_eq!(call(items, Some(&screen), &[]).0, 200);
    assert_eq!(call(items, Some(&machine), &[]).0, 401);
    // What the key is known by cannot be sent as a text.
    let digest = format!("Authorization: Bearer {}", fingerprint(&machine));
    let named = [&send[..], &["-H", &digest]].concat();
    assert_eq!(call("/api/ingest", None, &named).0, 401);
}

#[test]
fn without_the_certificate_that_is_required_there_is_no_connection() {
    if !is_there("without_the_certificate_that_is_required_there_is_no_connection") {
        return;
    }
    let setup = Setup::shop();
    let [server, known, other] = ["server", "known", "other"].map(|name| pair(&setup, name));
    let required = format!(
        "client_certificates = \"required\"\nclient_ca = {:?}",
        known.certificate
    );
    let process = setup.toml(&tls("server", &server, &required)).spawn();
    let health = url(&process, "/healthz");
    let with = |pair: &Pair| {
        let (certificate, key) = (shown(&pair.certificate), shown(&pair.key));
        curl(
            &server.certificate,
            &[&health, "--cert", certificate, "--key", key],
        )
    };
    assert_eq!(with(&known).0, 200);
    assert_eq!(with(&other).0, 0);
    assert_eq!(curl(&server.certificate, &[&health]).0, 0);
}

#[test]
fn a_listener_without_a_usable_certificate_does_not_start() {
    if !is_there("a_listener_without_a_usable_certificate_does_not_start") {
        return;
    }
    let setup = Setup::shop();
    let [one, other] = ["one", "other"].map(|name| pair(&setup, name));
    let mixed = Pair {
        certificate: one.certificate,
        key: other.key,
    };
    let ended = setup.toml(&tls("server", &mixed, "")).try_spawn();
    let log = ended.expect_err("it cannot start").log;
    assert!(log.contains("cannot be used together"), "{log}");
}

#[test]
fn check_says_what_is_wrong_with_each_file_and_what_to_do() {
    if !is_there("check_says_what_is_wrong_with_each_file_and_what_to_do") {
        return;
    }
    let setup = Setup::shop();
    let [one, other] = ["one", "other"].map(|name| pair(&setup, name));
    let junk = setup.path("junk.pem");
    std::fs::write(&junk, "nothing\n").expect("a file");
    let cut = setup.path("cut.pem");
    let whole = std::fs::read_to_string(&one.certificate).expect("a file");
    std::fs::write(&cut, &whole[..whole.len() / 2]).expect("a file");
    let gone = Pair {
        certificate: setup.path("gone.pem"),
        key: junk,
    };
    let clients = format!("client_certificates = \"optional\"\nclient_ca = {cut:?}");
    let mixed = Pair {
        certificate: one.certificate.clone(),
        key: other.key,
    };
    let bad = setup
        .toml(&tls("server", &gone, &clients))
        .toml(&tls("admin", &mixed, ""));
    let told = check(&bad).failed(2);
    for words in [
        "server.tls: certificate: ",
        "gone.pem cannot be read: No such file",
        "let the daemon's user read it",
        "server.tls: key: ",
        "junk.pem has nothing of the expected kind; this setting requires a private key",
        "server.tls: client_ca: ",
        "cut.pem is damaged",
        "admin.tls: ",
        "cannot be used together",
        "put the key there that the first certificate of the file was issued for",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
}

#[test]
fn a_certificate_that_ends_is_told_until_its_file_is_replaced() {
    if !is_there("a_certificate_that_ends_is_told_until_its_file_is_replaced") {
        return;
    }
    let setup = Setup::shop();
    let soon = pair_for(&setup, "soon", 9);
    let ended = pair(&setup, "ended");
    end(&ended);
    let good = pair(&setup, "good");
    let setup = setup
        .toml(&tls("server", &soon, ""))
        .toml(&tls("admin", &ended, ""));
    let expires = format!(
        "the certificate of the service listener, {}, expires on ",
        shown(&soon.certificate)
    );
    let expired = format!(
        "the certificate of the admin listener, {}, expired on ",
        shown(&ended.certificate)
    );
    let told = check(&setup).ok();
    assert!(told.contains("in 8 days"), "{told}");
    for words in [&expires, &expired] {
        assert!(told.contains(&format!("warning: {words}")), "{told}");
    }
    let process = setup.spawn();
    let problems = || {
        let url = format!("https://{}/api/admin/status", process.admin);
        let token = format!("Authorization: Bearer {}", process.setup.admin_token());
        let (_, body) = curl(&good.certificate, &["--insecure", &url, "-H", &token]);
        let status: Value = serde_json::from_str(&body).expect("JSON");
        status["data"]["problems"].to_string()
    };
    let told = problems();
    assert!(told.contains(&expires) && told.contains(&expired), "{told}");
    process.says(&expired);
    for old in [&soon, &ended] {
        std::fs::copy(&good.certificate, &old.certificate).expect("a copy");
        std::fs::copy(&good.key, &old.key).expect("a copy");
    }
    eventually("nothing ends", || (problems() == "[]").then_some(()));
}

fn check(setup: &Setup) -> Done {
    let mut command = headgate(&setup.path(""));
    finish(command.args(["check", "--config"]).arg(setup.write()), "")
}
