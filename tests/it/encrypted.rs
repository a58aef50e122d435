//! Encrypted listeners: certificates of the daemon and of its clients, made with `openssl`, tried with `curl`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command_line::demo::there_is;
use crate::process::{Process, skipped};
use crate::program::output;
use crate::setup::Setup;
use crate::wait::eventually;

/// A certificate and its key, in two files.
struct Pair {
    certificate: PathBuf,
    key: PathBuf,
}

/// A certificate that this machine's names and addresses may be called by, signed by its own key.
fn pair(setup: &Setup, name: &str) -> Pair {
    let pair = Pair {
        certificate: setup.path(&format!("{name}.pem")),
        key: setup.path(&format!("{name}-key.pem")),
    };
    let mut openssl = Command::new("openssl");
    openssl
        .args(["req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"])
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
        (process.log().contains("the certificate before it stays")).then_some(())
    });
    std::fs::copy(&stranger.key, &server.key).expect("a copy");
    eventually("the new one counts", || {
        (curl(&stranger.certificate, &[&url("/healthz")]).0 == 200).then_some(())
    });
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
