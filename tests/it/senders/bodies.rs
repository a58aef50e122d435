//! Bodies as tools are used to send them.

use std::io::Write as _;

use super::{GitHub, SECRET, address, daemon, hex, mac};
use crate::setup::Setup;

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(body).expect("memory");
    encoder.finish().expect("memory")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_signature_is_over_what_came_and_both_sizes_are_bounded() {
    let app = super::verifying(Setup::new().unlimited(), "repo", "github")
        .set("limits.max_body_bytes", 4_096)
        .start()
        .await;
    let (anyone, path) = (app.anonymous(), address("repo"));
    let send = |delivery: &'static str, body: Vec<u8>| {
        let (anyone, path) = (app.anonymous(), path.clone());
        async move {
            let signature = format!("sha256={}", hex(&mac(SECRET, &body)));
            let headers = [
                ("X-Hub-Signature-256", &*signature),
                ("X-GitHub-Delivery", delivery),
                ("Content-Encoding", "gzip"),
            ];
            anyone.post(&path, &headers, body).await
        }
    };
    send("d-1", gzip(br#"{"n": 1}"#)).await.receipt();
    let bomb = format!("{{\"n\": \"{}\"}}", "x".repeat(1 << 20));
    let bomb = gzip(bomb.as_bytes());
    assert!(bomb.len() < 4_096);
    send("d-2", bomb).await.refused(413, "PAYLOAD_TOO_LARGE");
    send("d-3", gzip(b"{}")[..12].to_vec())
        .await
        .refused(400, "INVALID_PAYLOAD");
    let large = GitHub {
        secret: SECRET,
        delivery: "d-4",
        event: "push",
    };
    let reply = large
        .send(&anyone, &path, "application/json", &[b' '; 5_000])
        .await;
    reply.refused(413, "PAYLOAD_TOO_LARGE");
    app.drain().await;
    assert_eq!(app.fields("repo").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn forms_lines_and_texts_are_items() {
    let app = Setup::new()
        .stream("s")
        .connector("c", "kind = \"webhook\"\nitem_key = \"id\"")
        .key("c", "s")
        .start()
        .await;
    let caller = app.caller("c");
    let path = "/api/webhook/s/c";
    for (kind, body, items) in [
        (
            "application/x-www-form-urlencoded",
            "id=form&a=1&b=x+y&b=%C3%BC",
            1,
        ),
        (
            "application/x-ndjson",
            "{\"id\": \"l1\"}\n\n{\"id\": \"l2\"}\r\n",
            2,
        ),
        ("text/plain", "\u{feff} {\"id\": \"text\"} ", 1),
        (
            "application/cloudevents-batch+json",
            "[{\"id\": \"b1\"}]",
            1,
        ),
    ] {
        let reply = caller.post(path, &[("Content-Type", kind)], body).await;
        assert_eq!(reply.receipt().items, items, "{kind}");
    }
    let multipart = [("Content-Type", "multipart/form-data; boundary=x")];
    let refused = caller.post(path, &multipart, "--x--").await;
    assert!(
        refused
            .refused(400, "INVALID_PAYLOAD")
            .message
            .contains("JSON")
    );
    // Where no connector is named, a request is what the contract says.
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let refused = caller.post("/api/webhook/s", &form, "id=1").await;
    refused.refused(400, "INVALID_PAYLOAD");
    app.drain().await;
    let fields = app.fields("s").await;
    let form = fields
        .iter()
        .find(|(key, _)| key == "form")
        .expect("the form");
    assert_eq!(form.1, r#"{"id":"form","a":"1","b":["x y","ü"]}"#);
    assert_eq!(fields.len(), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn items_may_lie_deeper_and_a_secret_in_them_is_left_out() {
    let graph = format!("verify = {{ scheme = \"graph\", secret = \"{SECRET}\" }}");
    let app = Setup::new()
        .stream("g")
        .signing_key("g", "main", "g", &graph)
        .stream("deep")
        .connector(
            "deep",
            "kind = \"webhook\"\nitems = \"data.rows\"\nitem_key = \"k\"",
        )
        .key("deep", "deep")
        .start()
        .await;
    let body = format!(
        r#"{{"value": [{{"id": "n1", "clientState": "{SECRET}", "resource": "r"}}, {{"id": "n2", "clientState": "{SECRET}"}}]}}"#
    );
    app.anonymous()
        .post("/api/webhook/g/g", &[], body)
        .await
        .receipt();
    let rows = r#"{"at": 1, "data": {"rows": [{"k": 1.50, "v": 1e3}, {"k": "b"}]}}"#;
    let deep = app.caller("deep");
    deep.post("/api/webhook/deep/deep", &[], rows)
        .await
        .receipt();
    let missing = deep
        .post("/api/webhook/deep/deep", &[], r#"{"data": {}}"#)
        .await;
    assert!(
        missing
            .refused(400, "INVALID_PAYLOAD")
            .message
            .contains("data.rows")
    );
    app.drain().await;
    let all = app.fields("g").await;
    assert_eq!(
        all[0],
        ("n1".to_owned(), r#"{"id":"n1","resource":"r"}"#.to_owned())
    );
    assert_eq!(app.fields("deep").await[0].1, r#"{"k":1.50,"v":1e3}"#);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_identifies_nothing_is_said_and_lost_by_nobody() {
    let app = daemon("repo", "github").await;
    let repo = GitHub {
        secret: SECRET,
        delivery: "d-1",
        event: "push",
    };
    let sent = repo
        .send(
            &app.anonymous(),
            &address("repo"),
            "application/json",
            b"{}",
        )
        .await;
    assert_eq!(sent.header("x-headgate-notice"), None);
    // A preset's field that is not there: each delivery is an item.
    let shop = daemon("shop", "shopify").await;
    for delivery in ["w-1", "w-2"] {
        let odd = super::Shopify {
            delivery,
            topic: "shop/update",
        };
        let body = format!(r#"{{"name": "{delivery}"}}"#);
        odd.send(&shop.anonymous(), &address("shop"), &body)
            .await
            .receipt();
    }
    shop.drain().await;
    let keys: Vec<_> = shop
        .fields("shop")
        .await
        .into_iter()
        .map(|(key, _)| key)
        .collect();
    assert_eq!(keys, ["w-1", "w-2"]);
    let log = shop.admin().log("shop", "").await;
    let said = log[0]["errors"][0].as_str().expect("a note");
    assert!(said.contains("the preset shopify"), "{said}");
    // Nothing is configured, nothing is sent: the answer says so.
    let bare = Setup::new()
        .stream("s")
        .connector("c", "kind = \"webhook\"")
        .key("c", "s")
        .start()
        .await;
    let sent = bare.caller("c").post("/api/webhook/s", &[], "{}").await;
    let notice = sent.header("x-headgate-notice").expect("a notice");
    assert!(notice.contains("item_key"), "{notice}");
    let sent = bare.caller("c").post("/api/webhook/s", &[], "[{}]").await;
    assert_eq!(sent.header("x-headgate-notice"), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_a_tool_names_in_two_ways_is_found_in_both() {
    let app = Setup::new()
        .unlimited()
        .stream("texts")
        .connector("texts", "kind = \"webhook\"\npreset = \"twilio\"")
        .key("texts", "texts")
        .stream("grid")
        .connector("grid", "kind = \"webhook\"\npreset = \"eventgrid\"")
        .key("grid", "grid")
        .start()
        .await;
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let twilio = app.caller("texts");
    for body in [
        "MessageSid=SM1&Body=hello",
        "CallSid=CA1&CallStatus=ringing",
        "CallSid=CA1&CallStatus=completed",
        "MessageSid=SM2&CallSid=CA2",
        "AccountSid=AC1",
    ] {
        let sent = twilio.post(&address("texts"), &form, body).await;
        assert_eq!(sent.status, 204, "{}", sent.text());
    }
    let stored = app.fields("texts").await;
    assert_eq!(stored.len(), 4, "{stored:?}");
    let of = |key: &str| stored.iter().find(|(own, _)| own == key);
    for key in ["SM1", "SM2"] {
        assert!(of(key).is_some(), "{stored:?}");
    }
    let (_, call) = of("CA1").expect("the call");
    assert!(call.contains("completed"), "{call}");
    let log = app.admin().log("texts", "").await;
    let keys: Vec<&str> = log
        .iter()
        .filter_map(|one| one["item_key"].as_str())
        .collect();
    let expected = [
        "MessageSid",
        "MessageSid",
        "CallSid",
        "CallSid",
        "MessageSid",
    ];
    assert_eq!(keys, expected, "{log:?}");

    let own = r#"[{"id": "e-1", "eventType": "Microsoft.Storage.BlobCreated", "subject": "a", "data": {}, "dataVersion": "1"}]"#;
    let cloud = r#"{"id": "e-2", "type": "Microsoft.Storage.BlobDeleted", "source": "b", "specversion": "1.0"}"#;
    for (body, event) in [
        (own, "Microsoft.Storage.BlobCreated"),
        (cloud, "Microsoft.Storage.BlobDeleted"),
    ] {
        let json = [("Content-Type", "application/json")];
        let sent = app.caller("grid").post(&address("grid"), &json, body).await;
        sent.receipt();
        assert_eq!(app.admin().log("grid", "").await[0]["event"], event);
    }
}
