//! Tests of the client with addresses, responses and missing responses.
//!
//! Run by `cargo test`. **Invariant**: only sockets of this machine are used.

use super::stand_in::{Received, Reply, StandIn};
use super::*;
use crate::error::WRONG_USE;

fn answering(status: u16, headers: &'static str, body: &'static str) -> StandIn {
    StandIn::start(move |_, _| Reply::Answer(status, headers.to_owned(), body.to_owned()))
}

fn client(server: &StandIn) -> Client {
    Client::new(&server.url(), "token-of-the-test\n").expect("a good address")
}

async fn error_of(server: &StandIn) -> String {
    let error = client(server)
        .get::<Value>("/api/admin/status")
        .await
        .expect_err("an error");
    CliError::from(error).message
}

#[test]
fn addresses_are_checked_before_anything_is_sent() {
    let good = |url: &str, base: &str| {
        let client = Client::new(url, "token").expect("a good address");
        assert_eq!(client.base, base, "{url}");
    };
    good("http://127.0.0.1:8080", "http://127.0.0.1:8080");
    good("http://[::1]:8080/", "http://[::1]:8080");
    good(
        "https://gate.example/behind/a/proxy/",
        "https://gate.example/behind/a/proxy",
    );
    good("unix:/run/headgate.sock", "http://localhost");
    good("unix:///run/headgate.sock", "http://localhost");

    let bad = |url: &str| match Client::new(url, "token") {
        Ok(_) => panic!("{url} was let through"),
        Err(error) => {
            assert_eq!(error.code, WRONG_USE, "{url}");
            assert!(!error.message.contains("hunter2"), "{error}");
        }
    };
    bad("");
    bad("127.0.0.1:8080");
    bad("localhost:8080");
    bad("ftp://127.0.0.1");
    bad("unix:");
    bad("http://me:hunter2@127.0.0.1:8080");
    bad("http://127.0.0.1:8080/?a=b");
    assert!(Client::new("http://127.0.0.1", "line\nbreak").is_err());
}

#[test]
fn this_machine_is_never_asked_through_a_proxy() {
    let check = |url: &str, expected| {
        let url = Url::parse(url).expect("a URL");
        assert_eq!(is_this_machine(&url), expected, "{url}");
    };
    check("http://127.0.0.1:8080", true);
    check("http://127.8.8.8", true);
    check("http://[::1]:80", true);
    check("http://localhost:80", true);
    check("http://10.0.0.1", false);
    check("http://localhost.example", false);
}

#[tokio::test]
async fn the_secret_travels_in_the_header_and_shows_nowhere_else() {
    let server = answering(200, "", r#"{"success":true,"data":[1],"next":"c2"}"#);
    let client = client(&server);
    let page = client.page("/api/admin/streams").await;
    let envelope: Envelope<Value> = page.expect("an answer");
    assert_eq!(
        (envelope.data, envelope.next),
        (serde_json::json!([1]), Some("c2".to_owned()))
    );
    let received = server.received();
    assert_eq!(received[0].target, "GET /api/admin/streams");
    assert_eq!(
        received[0].header("authorization"),
        Some("Bearer token-of-the-test")
    );
    assert!(!format!("{:?}{:?}", client.http, client.bearer).contains("token-of"));
}

#[tokio::test]
async fn a_change_carries_its_body() {
    let server = answering(200, "", r#"{"success":true,"data":"done"}"#);
    let body = serde_json::json!({"name": "orders"});
    let change = client(&server);
    let change = change
        .change(Method::PATCH, "/api/admin/streams", Some(&body))
        .await;
    let done: String = change.expect("an answer");
    assert_eq!(done, "done");
    let Received { target, body, .. } = &server.received()[0];
    assert_eq!(
        (target.as_str(), body.as_str()),
        ("PATCH /api/admin/streams", r#"{"name":"orders"}"#)
    );
}

#[tokio::test]
async fn an_error_envelope_becomes_a_readable_text_without_control_characters() {
    let server = answering(
        400,
        "",
        r#"{"success":false,"error":{"code":"INVALID_PAYLOAD","message":"no \u001b[31mfield",
            "request_id":"0192","details":[{"item":3,"field":"id"}]}}"#,
    );
    assert_eq!(
        error_of(&server).await,
        "400 INVALID_PAYLOAD: no \\u{1b}[31mfield (request 0192)\n  {\"item\":3,\"field\":\"id\"}"
    );
}

#[tokio::test]
async fn answers_of_strangers_are_recognised() {
    let check = async |server: StandIn, expected: &str| {
        let text = error_of(&server).await;
        assert!(text.contains(expected), "{text}");
    };
    let page = "<html>\u{1b}[2JBad gateway</html>";
    check(
        answering(502, "", page),
        "502: not a response from Headgate: <html>\\u{1b}[2JBad",
    )
    .await;
    check(answering(500, "", ""), "500: an empty response").await;
    check(answering(200, "", "<html>"), "check the address").await;
    let moved = answering(301, "location: https://elsewhere.example/\r\n", "");
    check(moved, "301: redirected to https://elsewhere.example/").await;
}

#[tokio::test]
async fn silence_names_the_address_and_the_cause() {
    let server = StandIn::start(|_, _| Reply::HangUp);
    let text = error_of(&server).await;
    assert!(
        text.starts_with(&format!("no answer from {}: ", server.url())),
        "{text}"
    );
    let gone = client(&server);
    drop(server);
    let error = gone.get::<Value>("/").await.expect_err("nobody listens");
    let text = error.to_string();
    assert!(
        text.contains("cannot connect: ") && text.contains("refused"),
        "{text}"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn a_unix_socket_is_spoken_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("gate.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    let server = std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a connection");
        super::stand_in::serve(stream, |request| {
            assert_eq!(request.target, "GET /api/admin/status");
            Reply::Answer(
                200,
                String::new(),
                r#"{"success":true,"data":"up"}"#.to_owned(),
            )
        });
    });
    let client = Client::new(&format!("unix:{}", path.display()), "token").expect("an address");
    let answer: String = client.get("/api/admin/status").await.expect("an answer");
    assert_eq!(answer, "up");
    server.join().expect("the server saw what it expected");
}

#[test]
fn the_token_comes_from_its_option_or_from_the_data_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut args = AdminArgs {
        admin_url: Some("http://127.0.0.1:8081".to_owned()),
        data_dir: Some(folder.path().to_owned()),
        ..AdminArgs::default()
    };
    let error = args.client().err().expect("there is no token");
    assert_eq!(error.code, WRONG_USE);
    assert!(error.message.contains("admin.token"), "{error}");
    std::fs::write(folder.path().join("admin.token"), "from-file\n").expect("written");
    let bearer = |args: &AdminArgs| args.client().expect("a client").bearer.expect("a secret");
    assert_eq!(bearer(&args), "Bearer from-file");
    args.token = Some("given".to_owned());
    assert!(!format!("{args:?}").contains("given"));
    assert_eq!(bearer(&args), "Bearer given");
}
