//! Routes that are decided by their path before the framework looks at all routes: each answer is the one that the
//! framework's routing leads to, for a path that is written in another way.

use crate::app::Raw;
use crate::setup::Setup;

/// What differs between two answers to the same request.
const DIFFER: [&str; 4] = ["date", "x-request-id", "location", "ratelimit"];

/// The answers to a request to two spellings of a path are alike, but for what differs between any two.
async fn alike(address: &str, paths: [&str; 2], head: &str, body: &str) -> u16 {
    let mut answers = Vec::new();
    for path in paths {
        let mut raw = Raw::connect(address).await;
        let length = body.len();
        raw.send(format!(
            "POST {path} HTTP/1.1\r\n{head}Content-Length: {length}\r\n\r\n{body}"
        ))
        .await;
        let mut reply = raw.reply().await;
        if reply.status == 100 {
            reply = raw.reply().await;
        }
        let id = reply.header("x-request-id").expect("the header").to_owned();
        let body = reply.text().replace(&id, "ID");
        let mut headers = reply.headers;
        for name in DIFFER {
            headers.remove(name);
        }
        answers.push((reply.status, headers, body));
    }
    assert_eq!(answers[0], answers[1], "{paths:?} {head:?}");
    answers[0].0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_path_that_is_decided_first_is_answered_as_one_that_is_not() {
    let app = Setup::shop().unlimited().start().await;
    let key = app.secret("shop").to_owned();
    let good = format!("Host: x\r\nAuthorization: Bearer {key}\r\n");
    let json = r#"{"id": "1", "name": "Ada"}"#;
    let mut statuses = Vec::new();
    for paths in [
        ["/api/ingest", "/api/%69ngest"],
        ["/api/ingest?stream=orders", "/api/%69ngest?stream=orders"],
        ["/api/ingest?stream=others", "/api/%69ngest?stream=others"],
        ["/api/webhook/orders", "/api/webhook/%6frders"],
        ["/api/webhook/others", "/api/webhook/%6fthers"],
        ["/api/webhook/orders/shop", "/api/webhook/%6frders/shop"],
        ["/api/webhook/orders/none", "/api/webhook/orders/%6eone"],
    ] {
        for (head, body) in [
            (good.clone(), json),
            (good.clone(), "{"),
            (good.clone(), ""),
            (format!("{good}X-Item-Key: id\r\n"), json),
            (format!("{good}X-Item-Key: \r\n"), json),
            (format!("{good}Content-Encoding: br\r\n"), json),
            (format!("{good}Content-Type: text/plain\r\n"), json),
            (
                format!("{good}Idempotency-Key: {}\r\n", "k".repeat(300)),
                json,
            ),
            (format!("{good}Expect: 100-continue\r\n"), json),
            (format!("{good}Connection: close\r\n"), json),
            (format!("{good}Host: y\r\n"), json),
            (format!("{good}Authorization: Bearer {key}\r\n"), json),
            ("Host: x\r\n".to_owned(), json),
            (
                "Host: x\r\nAuthorization: Bearer ik_live_none\r\n".to_owned(),
                json,
            ),
            (format!("Authorization: Bearer {key}\r\n"), json),
        ] {
            statuses.push(alike(&app.service, paths, &head, body).await);
        }
    }
    statuses.sort_unstable();
    statuses.dedup();
    assert_eq!(statuses, [202, 400, 401, 404, 415]);
}
