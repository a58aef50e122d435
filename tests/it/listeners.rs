//! The two listeners: health, documents, metrics, Unix sockets, TCP, stopping.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::app::{Raw, TestApp};
use crate::setup::Setup;
use crate::wait::eventually_async;

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn health_needs_no_key() {
    let app = Setup::shop().start().await;
    for reply in [
        app.anonymous().get("/healthz").await,
        app.anonymous().get("/readyz").await,
        app.stranger().get("/healthz").await,
    ] {
        assert_eq!(reply.data()["status"], "ok");
        assert_eq!(reply.data()["version"], env!("CARGO_PKG_VERSION"));
    }
}

/// A document's operations: path, method, operation.
fn operations(document: &Value) -> Vec<(&str, &str, &Value)> {
    let paths = document["paths"].as_object().expect("paths");
    let each = paths.iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().expect("methods").iter();
        methods.map(move |(method, operation)| (path.as_str(), method.as_str(), operation))
    });
    each.collect()
}

/// Every `$ref` in a document leads somewhere.
fn check_references(document: &Value, value: &Value) {
    match value {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get("$ref") {
                let pointer = reference.strip_prefix('#').expect("within the document");
                assert!(
                    document.pointer(pointer).is_some(),
                    "{reference} leads nowhere"
                );
            }
            members
                .values()
                .for_each(|value| check_references(document, value));
        }
        Value::Array(values) => values
            .iter()
            .for_each(|value| check_references(document, value)),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_openapi_documents_describe_every_route() {
    let app = Setup::shop().start().await;
    let service = app.anonymous().get("/openapi.json").await;
    let admin = app.stranger().get("/openapi.json").await;
    for (reply, expected) in [
        (
            &service,
            &[
                ("/api/ingest", "post"),
                ("/api/live", "get"),
                ("/api/operate/{stream}", "get"),
                ("/api/operate/{stream}/items/{key}", "get"),
                ("/api/operate/{stream}/items/{key}", "put"),
                ("/api/operate/{stream}/{verb}", "post"),
                ("/api/requests/{request_id}", "get"),
                ("/api/streams/{stream}/items", "get"),
                ("/api/streams/{stream}/items/{key}", "delete"),
                ("/api/streams/{stream}/items/{key}", "get"),
                ("/api/tickets", "post"),
                ("/api/webhook/{stream}", "post"),
                ("/api/webhook/{stream}/{connector}", "get"),
                ("/api/webhook/{stream}/{connector}", "post"),
                ("/feed/{stream}.{format}", "get"),
                ("/healthz", "get"),
                ("/readyz", "get"),
            ][..],
        ),
        (
            &admin,
            &[
                ("/api/admin/audit", "get"),
                ("/api/admin/audit/verify", "get"),
                ("/api/admin/backups", "post"),
                ("/api/admin/cluster", "get"),
                ("/api/admin/cluster/nodes/{name}", "delete"),
                ("/api/admin/cluster/nodes/{name}/claim", "post"),
                ("/api/admin/connectors", "get"),
                ("/api/admin/connectors", "post"),
                ("/api/admin/connectors/{id}", "delete"),
                ("/api/admin/connectors/{id}", "get"),
                ("/api/admin/connectors/{id}", "patch"),
                ("/api/admin/connectors/{id}/keys", "get"),
                ("/api/admin/connectors/{id}/keys", "post"),
                ("/api/admin/connectors/{id}/keys/{name}", "delete"),
                ("/api/admin/connectors/{id}/keys/{name}", "get"),
                ("/api/admin/connectors/{id}/keys/{name}", "patch"),
                ("/api/admin/connectors/{id}/keys/{name}/revoke", "post"),
                ("/api/admin/connectors/{id}/keys/{name}/rotate", "post"),
                ("/api/admin/connectors/{id}/keys/{name}/take-secret", "post"),
                ("/api/admin/connectors/{id}/requests", "get"),
                ("/api/admin/connectors/{id}/trigger", "post"),
                ("/api/admin/plugins", "get"),
                ("/api/admin/plugins/{name}", "delete"),
                ("/api/admin/plugins/{name}", "get"),
                ("/api/admin/plugins/{name}", "put"),
                ("/api/admin/plugins/{name}/component", "get"),
                ("/api/admin/plugins/{name}/rollback", "post"),
                ("/api/admin/presets", "get"),
                ("/api/admin/presets/{name}", "get"),
                ("/api/admin/problems", "get"),
                ("/api/admin/read-keys", "get"),
                ("/api/admin/read-keys", "post"),
                ("/api/admin/read-keys/{name}", "delete"),
                ("/api/admin/read-keys/{name}", "get"),
                ("/api/admin/read-keys/{name}", "patch"),
                ("/api/admin/read-keys/{name}/revoke", "post"),
                ("/api/admin/renderers", "get"),
                ("/api/admin/requests/{request_id}", "get"),
                ("/api/admin/requests/{request_id}/content", "get"),
                ("/api/admin/requests/{request_id}/resend", "post"),
                ("/api/admin/requests/{request_id}/send-again", "post"),
                ("/api/admin/screens", "get"),
                ("/api/admin/screens/{name}/reload", "post"),
                ("/api/admin/search", "get"),
                ("/api/admin/sessions", "get"),
                ("/api/admin/sessions/{id}", "delete"),
                ("/api/admin/sign-in-links", "post"),
                ("/api/admin/sinks", "get"),
                ("/api/admin/sinks", "post"),
                ("/api/admin/sinks/try", "post"),
                ("/api/admin/sinks/{name}", "delete"),
                ("/api/admin/sinks/{name}", "get"),
                ("/api/admin/sinks/{name}", "patch"),
                ("/api/admin/sinks/{name}/dead-letters", "delete"),
                ("/api/admin/sinks/{name}/dead-letters", "get"),
                ("/api/admin/sinks/{name}/dead-letters/retry", "post"),
                ("/api/admin/sinks/{name}/dead-letters/{id}", "delete"),
                ("/api/admin/sinks/{name}/pause", "post"),
                ("/api/admin/sinks/{name}/refill", "post"),
                ("/api/admin/sinks/{name}/resume", "post"),
                ("/api/admin/sinks/{name}/retries", "get"),
                ("/api/admin/sinks/{name}/retries/end", "post"),
                ("/api/admin/sinks/{name}/retries/give-up", "post"),
                ("/api/admin/sinks/{name}/retries/{id}", "delete"),
                ("/api/admin/sinks/{name}/retry", "post"),
                ("/api/admin/sinks/{name}/try", "post"),
                ("/api/admin/status", "get"),
                ("/api/admin/streams", "get"),
                ("/api/admin/streams", "post"),
                ("/api/admin/streams/{name}", "delete"),
                ("/api/admin/streams/{name}", "get"),
                ("/api/admin/streams/{name}", "patch"),
                ("/api/admin/streams/{name}/acts", "get"),
                ("/api/admin/streams/{name}/add", "post"),
                ("/api/admin/streams/{name}/export.{format}", "get"),
                ("/api/admin/streams/{name}/hold", "post"),
                ("/api/admin/streams/{name}/items/{key}", "delete"),
                ("/api/admin/streams/{name}/items/{key}", "get"),
                ("/api/admin/streams/{name}/items/{key}", "put"),
                ("/api/admin/streams/{name}/items/{key}/history", "get"),
                ("/api/admin/streams/{name}/override", "post"),
                ("/api/admin/streams/{name}/release", "post"),
                ("/api/admin/streams/{name}/resume", "post"),
                ("/api/admin/streams/{name}/take", "post"),
                ("/api/admin/streams/{name}/undo", "post"),
                ("/api/admin/tickets", "post"),
                ("/healthz", "get"),
                ("/metrics", "get"),
            ],
        ),
    ] {
        assert_eq!(reply.status, 200);
        let document = reply.json();
        assert!(
            document["openapi"]
                .as_str()
                .is_some_and(|version| version.starts_with("3."))
        );
        assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
        check_references(&document, &document);
        let mut found: Vec<(&str, &str)> = Vec::new();
        for (path, method, operation) in operations(&document) {
            found.push((path, method));
            assert!(operation["summary"].is_string(), "{path} says what it does");
            assert!(operation["operationId"].is_string(), "{path}");
            assert!(operation["responses"].is_object(), "{path}");
            assert!(operation["responses"]["default"].is_object(), "{path}");
            assert!(operation["security"].is_array(), "{path} says who may");
            let parameters = operation["parameters"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let in_path = parameters.iter().filter(|one| one["in"] == "path");
            assert_eq!(in_path.count(), path.matches('{').count(), "{path}");
        }
        found.sort_unstable();
        assert_eq!(found, expected);
    }
    let service = service.json();
    for path in ["/api/ingest", "/api/webhook/{stream}"] {
        let responses = service["paths"][path]["post"]["responses"]
            .as_object()
            .expect("responses");
        for status in ["202", "400", "401", "404", "413", "429", "503"] {
            assert!(responses.contains_key(status), "{path} may answer {status}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn metrics_are_openmetrics_text() {
    let app = Setup::shop().start().await;
    app.caller("shop").ingest("[{}, {}]").await.receipt();
    app.caller("shop")
        .ingest("oops")
        .await
        .refused(400, "INVALID_PAYLOAD");
    app.drain().await;
    let reply = app.admin().get("/metrics").await;
    let kind = reply.header("content-type").expect("a type");
    assert!(kind.starts_with("application/openmetrics-text"), "{kind}");
    let text = reply.text();
    assert!(text.ends_with("# EOF\n"));
    let mut samples = 0;
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let word = comment.split(' ').next().unwrap_or_default();
            assert!(["HELP", "TYPE", "UNIT", "EOF"].contains(&word), "{line}");
            continue;
        }
        let (series, value) = line.rsplit_once(' ').expect("a sample");
        assert!(value.parse::<f64>().is_ok(), "{line}");
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        assert!(name.starts_with("headgate_"), "{line}");
        assert!(
            name.bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'_'),
            "{line}"
        );
        assert!(labels.ends_with('}'), "{line}");
        samples += 1;
    }
    assert!(samples > 20);
    let admin = app.admin();
    for (series, value) in [
        ("headgate_requests_total{outcome=\"accepted\"}", 1.0),
        ("headgate_requests_total{outcome=\"invalid_payload\"}", 1.0),
        ("headgate_items_total", 2.0),
        ("headgate_panics_total", 0.0),
    ] {
        assert_eq!(admin.metric(series).await, value, "{series}");
    }
    admin.counts("headgate_sink_items_total", 2.0).await;
}

fn with_sockets(folder: &std::path::Path) -> Setup {
    Setup::shop()
        .set(
            "server.listen",
            format!("unix:{}", folder.join("s.sock").display()),
        )
        .set(
            "admin.listen",
            format!("unix:{}", folder.join("a.sock").display()),
        )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn both_listeners_can_be_unix_sockets() {
    let folder = tempfile::tempdir().expect("a folder");
    let app = with_sockets(folder.path()).start().await;
    let sockets = [folder.path().join("s.sock"), folder.path().join("a.sock")];
    assert_eq!(app.service, format!("unix:{}", sockets[0].display()));
    app.caller("shop")
        .ingest(r#"{"by": "socket"}"#)
        .await
        .receipt();
    app.anonymous()
        .ingest("{}")
        .await
        .refused(401, "UNAUTHORIZED");
    assert_eq!(app.fields("orders").await.len(), 1);
    let log = app.admin().log("shop", "").await;
    assert_eq!(log[0]["client"], "unix");
    for socket in &sockets {
        let metadata = std::fs::metadata(socket).expect("a socket");
        assert_eq!(
            metadata.permissions().mode() & 0o007,
            0,
            "not for everybody"
        );
    }
    drop(app);
    assert!(
        sockets.iter().all(|socket| !socket.exists()),
        "removed at the end"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_socket_that_a_killed_daemon_left_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["s.sock", "a.sock"] {
        let path = folder.path().join(name);
        drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
        assert!(path.exists(), "closing does not remove it");
    }
    let app = with_sockets(folder.path()).start().await;
    app.caller("shop").ingest("{}").await.receipt();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_socket_that_is_in_use_and_a_file_that_is_none_are_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("s.sock");
    let other = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    let refused = with_sockets(folder.path()).refused().await;
    let told = refused.to_string();
    assert!(told.contains("s.sock") && told.contains("in use"), "{told}");
    assert_eq!(refused.exit_code(), 1);
    std::os::unix::net::UnixStream::connect(&path).expect("the other one still listens");
    drop(other);

    std::fs::remove_file(&path).expect("a socket");
    std::fs::write(&path, "precious").expect("a file");
    let refused = with_sockets(folder.path()).refused().await;
    let told = refused.to_string();
    assert!(told.contains("not a socket"), "{told}");
    assert_eq!(std::fs::read_to_string(&path).expect("a file"), "precious");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_tcp_address_in_use_is_refused_with_its_name() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    for listener in ["server.listen", "admin.listen"] {
        let refused = Setup::shop().set(listener, &*address).refused().await;
        let told = refused.to_string();
        assert!(told.contains(&address) && told.contains("in use"), "{told}");
    }
}

/// The daemon's end of a connection, as an open file of this process.
#[cfg(target_os = "linux")]
fn daemons_end(of: std::net::SocketAddr) -> Option<socket2::Socket> {
    use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
    let this = pidfd_open(getpid(), PidfdFlags::empty()).ok()?;
    let fds = std::fs::read_dir("/proc/self/fd").ok()?;
    fds.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|fd: i32| pidfd_getfd(&this, fd, PidfdGetfdFlags::empty()).ok())
        .map(socket2::Socket::from)
        .find(|socket| {
            socket
                .peer_addr()
                .is_ok_and(|peer| peer.as_socket() == Some(of))
        })
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn answers_on_tcp_are_not_held_back() {
    let app = Setup::shop().start().await;
    for url in [&app.service, &app.admin_url] {
        let mut raw = Raw::connect(url).await;
        raw.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert_eq!(raw.reply().await.status, 200);
        let socket = daemons_end(raw.local_address()).expect("the connection's other end");
        assert_eq!(socket.tcp_nodelay().ok(), Some(true));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_second_daemon_on_the_same_data_is_refused() {
    let app = Setup::shop().start().await;
    let twin = Setup::shop().data_in(app.data_dir());
    let refused = twin.clone().refused().await;
    let told = refused.to_string();
    assert!(told.contains("another headgate"), "{told}");
    assert!(told.contains(&std::process::id().to_string()), "{told}");
    assert!(told.contains(&*app.data_dir().to_string_lossy()), "{told}");
    assert!(told.contains("storage.data_dir"), "says what to do: {told}");
    // The first one is not disturbed, and its end frees the folder.
    app.caller("shop").ingest("{}").await.receipt();
    assert_eq!(app.fields("orders").await.len(), 1);
    let _data = app.stop().await;
    let app = twin.start().await;
    assert_eq!(app.fields("orders").await.len(), 1);
}

/// A connection whose request was found good and whose body is on its way.
async fn begun(app: &TestApp, length: usize) -> Raw {
    let mut raw = Raw::connect(&app.service).await;
    let lines = format!("Content-Length: {length}\r\nExpect: 100-continue\r\n");
    raw.post_head(app.secret("shop"), &lines).await;
    assert_eq!(raw.reply().await.status, 100);
    raw
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn stopping_finishes_what_was_begun_and_takes_nothing_new() {
    let app = Setup::shop().start().await;
    let mut raw = begun(&app, 15).await;
    raw.send("{\"begun\"").await;
    app.begin_to_stop();
    let address = app.service.strip_prefix("http://").expect("TCP").to_owned();
    eventually_async("nobody listens any more", async || {
        tokio::net::TcpStream::connect(&address)
            .await
            .is_err()
            .then_some(())
    })
    .await;
    raw.send(": true}").await;
    raw.reply().await.receipt();
    let app = app.restart().await;
    let fields = app.fields("orders").await;
    assert_eq!(fields, [("0".to_owned(), r#"{"begun":true}"#.to_owned())]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_request_that_never_ends_does_not_keep_the_daemon_from_stopping() {
    let app = Setup::shop()
        .set("server.shutdown_seconds", 1)
        .start()
        .await;
    let mut raw = begun(&app, 100).await;
    raw.send("{").await;
    let started = std::time::Instant::now();
    let stopped = app.stop().await;
    // Without the setting it is half a minute.
    assert!(started.elapsed().as_secs() < 25);
    drop(raw);
    let app = stopped.start().await;
    assert_eq!(app.fields("orders").await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn while_there_is_no_room_requests_are_503_and_readiness_is_red() {
    let app = Setup::shop().start().await;
    // The daemon looks at the disk every second and finds that there is room; so this is said again.
    let (submitted, ready) = eventually_async("it is 503", async || {
        app.parts.gate.set_disk_low(true);
        let submitted = app.caller("shop").ingest("{}").await;
        let ready = app.anonymous().get("/readyz").await;
        (submitted.status == 503 && ready.status == 503).then_some((submitted, ready))
    })
    .await;
    for reply in [submitted, ready] {
        let told = reply.refused(503, "UNAVAILABLE");
        let seconds = reply
            .header("retry-after")
            .and_then(|text| text.parse::<u32>().ok());
        assert!(seconds.is_some_and(|seconds| seconds >= 1), "{told:?}");
    }
    assert_eq!(app.anonymous().get("/healthz").await.status, 200);
    // The disk has room, so the daemon's own look at it opens the gate again.
    eventually_async("requests are taken again", async || {
        (app.caller("shop").ingest("{}").await.status == 202).then_some(())
    })
    .await;
    assert_eq!(app.anonymous().get("/readyz").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_a_proxy_could_read_in_another_way_is_refused() {
    let app = Setup::shop().start().await;
    for (hosts, says) in [
        ("", "requires a Host header"),
        ("Host: a\r\nHost: b\r\n", "more than one Host header"),
        (
            "Host: a\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b\r\n",
            "more than one Authorization header",
        ),
    ] {
        let mut raw = Raw::connect(&app.service).await;
        raw.send(format!("GET /healthz HTTP/1.1\r\n{hosts}\r\n"))
            .await;
        let reply = raw.reply().await;
        let told = reply.refused(400, "INVALID_REQUEST").message;
        assert!(told.contains(says), "{told}");
        assert!(reply.header("x-request-id").is_some());
        assert_eq!(raw.rest().await, b"", "nothing more is read");
    }
    let mut raw = Raw::connect(&app.service).await;
    raw.send("GET /healthz HTTP/1.0\r\n\r\n").await;
    assert_eq!(raw.reply().await.status, 200);

    // Of both lengths the chunks count, and what follows them is no request.
    let mut raw = Raw::connect(&app.service).await;
    let lengths = "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n";
    raw.post_head(app.secret("shop"), lengths).await;
    raw.send("2\r\n{}\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        .await;
    let first = raw.reply().await;
    assert!([202, 400].contains(&first.status), "{}", first.text());
    assert_eq!(raw.rest().await, b"", "the connection ends");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_client_is_whom_a_trusted_proxy_asks_for() {
    let forged = "198.51.100.1, 203.0.113.9";
    for (setup, expected) in [
        (Setup::shop(), "127.0.0.1"),
        (
            Setup::shop().set("server.trusted_proxies", vec!["127.0.0.0/8"]),
            "203.0.113.9",
        ),
        (
            Setup::shop().set("server.trusted_proxies", vec!["10.0.0.0/8", "unix"]),
            "127.0.0.1",
        ),
    ] {
        let app = setup.start().await;
        let shop = app.caller("shop");
        let headers = [("X-Forwarded-For", forged), ("Forwarded", "for=192.0.2.1")];
        shop.ingest_with(&headers, "{}").await.receipt();
        let log = app.admin().log("shop", "").await;
        assert_eq!(log[0]["client"], expected);
    }
}
