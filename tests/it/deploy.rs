//! The files of `examples/deploy`: a real nginx in front of a real daemon.
//!
//! **Invariant**: of nginx's file only addresses, ports and places of files are others than in the example.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::command_line::finish;
use crate::process::{BY_ID, Process, skipped};
use crate::program::{Lines, output, wait};
use crate::setup::{ADMIN_TOKEN, Setup, key_of};
use crate::wait::eventually;
use postgres_server::free_port;

const SCREEN: &str = "rk_live_for_the_screen_behind_nginx_1";

fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("examples/deploy")
        .join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Whether the machine has a program; under CI it must.
fn there_is(program: &str, argument: &str, test: &str) -> bool {
    let found = output(Command::new(program).arg(argument)).is_ok();
    if !found {
        assert!(
            std::env::var_os("CI").is_none(),
            "{program} is needed under CI"
        );
        skipped(test, &format!("there is no {program}"));
    }
    found
}

/// An nginx with the example's file, in front of a daemon; ends with this.
struct Proxy {
    nginx: Child,
    folder: PathBuf,
    port: u16,
}

impl Proxy {
    fn before(process: &Process) -> Self {
        let folder = process.setup.path("nginx");
        fs::create_dir(&folder).expect("a folder");
        let at = |name: &str| folder.join(name).display().to_string();
        let made = finish(
            Command::new("openssl")
                .args([
                    "req",
                    "-x509",
                    "-newkey",
                    "ec",
                    "-pkeyopt",
                    "ec_paramgen_curve:prime256v1",
                ])
                .args(["-nodes", "-days", "2", "-subj", "/CN=example.com"])
                .args(["-addext", "subjectAltName=DNS:*.example.com"])
                .args(["-keyout", &at("key.pem"), "-out", &at("cert.pem")]),
            "",
        );
        made.ok();
        let (plain, port) = (free_port(), free_port());
        let mut site = example("nginx.conf");
        for (from, to) in [
            ("127.0.0.1:8080", process.service.to_string()),
            ("127.0.0.1:8081", process.admin.to_string()),
            ("    listen [::]:80;\n", String::new()),
            ("    listen [::]:443 ssl http2;\n", String::new()),
            ("listen 80;", format!("listen 127.0.0.1:{plain};")),
            (
                "listen 443 ssl http2;",
                format!("listen 127.0.0.1:{port} ssl http2;"),
            ),
            ("/var/log/nginx/headgate.log", at("access.log")),
            (
                "/etc/letsencrypt/live/hooks.example.com/fullchain.pem",
                at("cert.pem"),
            ),
            (
                "/etc/letsencrypt/live/hooks.example.com/privkey.pem",
                at("key.pem"),
            ),
            (
                "/etc/letsencrypt/live/headgate.example.com/fullchain.pem",
                at("cert.pem"),
            ),
            (
                "/etc/letsencrypt/live/headgate.example.com/privkey.pem",
                at("key.pem"),
            ),
        ] {
            assert!(site.contains(from), "{from}");
            site = site.replace(from, &to);
        }
        let user = match rustix::process::geteuid().is_root() {
            true => "user root;\n",
            false => "",
        };
        let folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let temporary: String = folders
            .map(|kind| format!("{kind}_temp_path {};\n", at(kind)))
            .concat();
        let whole = format!(
            "{user}daemon off;\npid {};\nerror_log stderr info;\nevents {{}}\nhttp {{\n{temporary}{site}\n}}\n",
            at("pid")
        );
        fs::write(folder.join("nginx.conf"), whole).expect("a file");
        let mut nginx = Command::new("nginx");
        nginx.args(["-p", &at(""), "-c", &at("nginx.conf"), "-e", "stderr"]);
        let good = finish(
            Command::new("nginx").args([
                "-t",
                "-p",
                &at(""),
                "-c",
                &at("nginx.conf"),
                "-e",
                "stderr",
            ]),
            "",
        );
        assert_eq!(good.code, Some(0), "{}", good.err);
        let log = fs::File::create(folder.join("error.log")).expect("a file");
        let child = nginx
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        let proxy = Self {
            nginx: child.expect("it starts"),
            folder,
            port,
        };
        eventually("nginx listens", || {
            std::net::TcpStream::connect(("127.0.0.1", port))
                .ok()
                .map(drop)
        });
        assert_eq!(
            proxy.redirect(plain),
            format!("308 https://hooks.example.com/api/ingest?a=b")
        );
        proxy
    }

    /// Where a plain request is led.
    fn redirect(&self, port: u16) -> String {
        let mut curl = Command::new("curl");
        curl.args([
            "--silent",
            "--noproxy",
            "*",
            "--write-out",
            "%{http_code} %{redirect_url}",
        ]);
        curl.args([
            "--output",
            "/dev/null",
            "--header",
            "Host: hooks.example.com",
            "--data",
            "{}",
        ]);
        finish(
            curl.arg(format!("http://127.0.0.1:{port}/api/ingest?a=b")),
            "",
        )
        .ok()
    }

    /// `curl` for an address below one of the two names.
    fn curl(&self, name: &str, path: &str) -> Command {
        let mut curl = Command::new("curl");
        let port = self.port;
        curl.args(["--silent", "--show-error", "--noproxy", "*"])
            .arg("--cacert")
            .arg(self.folder.join("cert.pem"))
            .args(["--resolve", &format!("{name}:{port}:127.0.0.1")])
            .arg(format!("https://{name}:{port}{path}"));
        curl
    }

    /// What a request is answered: the status, a line break, the body.
    fn answer(&self, name: &str, path: &str, more: &[&str]) -> (u16, String) {
        let mut curl = self.curl(name, path);
        curl.args(["--write-out", "\n%{http_code}"]).args(more);
        let said = finish(&mut curl, "").ok();
        let (body, status) = said.rsplit_once('\n').expect("a status");
        (status.parse().expect("a status"), body.to_owned())
    }

    /// A connection that goes on, line by line.
    fn follow(&self, more: &[&str]) -> (Child, Lines) {
        let mut curl = self.curl("hooks.example.com", "/api/live?streams=orders");
        curl.args([
            "--no-buffer",
            "--header",
            &format!("Authorization: Bearer {SCREEN}"),
        ]);
        let child = curl
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = child.expect("curl starts");
        let lines = Lines::of(child.stdout.take().expect("piped"));
        (child, lines)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let id = i32::try_from(self.nginx.id()).ok();
        if let Some(id) = id.and_then(rustix::process::Pid::from_raw) {
            // In order: a master that is killed leaves its workers.
            let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
        }
        wait(&mut self.nginx);
    }
}

#[test]
fn nginx_passes_everything_on_as_the_example_says() {
    let test = "nginx_passes_everything_on_as_the_example_says";
    if !there_is("nginx", "-v", test)
        || !there_is("openssl", "version", test)
        || !there_is("curl", "--version", test)
    {
        return;
    }
    let process = Setup::with_streams(&["orders"])
        .given_read_key("screen", &["orders"], SCREEN, "allow_in_url = true")
        .set("server.trusted_proxies", vec!["127.0.0.1"])
        // A heartbeat would push on what is held back.
        .set("live.heartbeat_seconds", 300)
        .set("admin.hosts", vec!["headgate.example.com"])
        .spawn();
    let proxy = Proxy::before(&process);
    let hooks = "hooks.example.com";
    let authorization = format!("Authorization: Bearer {}", key_of("orders"));
    let send = |body: &str| {
        let headers = [
            "--header",
            &authorization,
            "--header",
            "Content-Type: application/json",
            "--header",
            "X-Item-Key: id",
            "--header",
            "X-Forwarded-For: 203.0.113.9",
        ];
        proxy.answer(
            hooks,
            "/api/ingest",
            &[&headers[..], &["--data-binary", body]].concat(),
        )
    };
    let (status, body) = send(r#"{"id": "first"}"#);
    assert_eq!(status, 202, "{body}");
    process.drained();
    let receipt: Value = serde_json::from_str(&body).expect("JSON");
    let id = receipt["data"]["request_id"].as_str().expect("an id");
    let logged = process.admin(&format!("/api/admin/requests/{id}"));
    assert_eq!(
        logged["client"], "127.0.0.1",
        "not whom it said that it was"
    );

    // The largest body, one byte more, and many more: all are the daemon's to judge.
    let begin = r#"{"id": "large", "text": ""#;
    let text = "x".repeat(1_048_576 - begin.len() - 2);
    for (more, expected, says) in [
        (0, 202, "items_received"),
        (1, 413, "PAYLOAD_TOO_LARGE"),
        (6 << 20, 413, "PAYLOAD_TOO_LARGE"),
    ] {
        let more = "x".repeat(more);
        let file = proxy.folder.join("body.json");
        fs::write(&file, format!("{begin}{text}{more}\"}}")).expect("a file");
        let (status, body) = send(&format!("@{}", file.display()));
        assert_eq!(status, expected, "{body}");
        assert!(body.contains(says), "{body}");
    }

    // A stream of events: what is there, and a change as it happens.
    let (mut curl, mut lines) = proxy.follow(&[]);
    let found = lines.find(|line| line.contains("\"complete\":true"));
    assert!(
        found.is_some_and(|line| line.contains("first")),
        "a snapshot"
    );
    process.accepted("orders", BY_ID, r#"{"id": "second"}"#);
    assert!(lines.any(|line| line.starts_with("data:") && line.contains("second")));
    curl.kill().expect("a child");
    curl.wait().expect("a child");

    // A WebSocket, whose messages stand as they are between their frames.
    let upgrade = [
        "--http1.1",
        "--include",
        "--header",
        "Connection: Upgrade",
        "--header",
        "Upgrade: websocket",
        "--header",
        "Sec-WebSocket-Version: 13",
        "--header",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ];
    let said = proxy.folder.join("frames");
    let frames = fs::File::create(&said).expect("a file");
    let mut curl = proxy.curl(hooks, "/api/live?streams=orders");
    curl.args([
        "--no-buffer",
        "--header",
        &format!("Authorization: Bearer {SCREEN}"),
    ])
    .args(upgrade);
    let mut curl = curl
        .stdin(Stdio::null())
        .stdout(frames)
        .spawn()
        .expect("curl starts");
    let heard = |what: &str| {
        eventually("a message", || {
            let heard = fs::read(&said).expect("a file");
            memchr::memmem::find(&heard, what.as_bytes()).map(drop)
        });
    };
    heard("HTTP/1.1 101");
    heard("\"complete\":true");
    process.accepted("orders", BY_ID, r#"{"id": "third"}"#);
    heard("third");
    curl.kill().expect("a child");
    curl.wait().expect("a child");

    // The other name is for operators; neither gives the other's.
    let token = format!("Authorization: Bearer {ADMIN_TOKEN}");
    let admin = "headgate.example.com";
    let (status, body) = proxy.answer(admin, "/api/admin/status", &["--header", &token]);
    assert_eq!(status, 200, "{body}");
    let (status, body) = proxy.answer(admin, "/sign-in", &[]);
    assert_eq!(status, 200, "{body}");
    let (status, _) = proxy.answer(hooks, "/api/admin/status", &["--header", &token]);
    assert_eq!(status, 404);

    // A key in a query stands in no log.
    let path = format!("/api/streams/orders/items?token={SCREEN}");
    let (status, body) = proxy.answer(hooks, &path, &[]);
    assert_eq!(status, 200, "{body}");
    eventually("the request is logged", || {
        let log = fs::read_to_string(proxy.folder.join("access.log")).expect("a log");
        assert!(!log.contains(SCREEN), "{log}");
        log.contains("GET /api/streams/orders/items").then_some(())
    });
    drop(proxy);
    process.stop();
}
