//! Traces: what a collector is sent of a request's way, and what the receivers of sinks are told of it.
//!
//! **Invariant**: the collector of a test is a real HTTP server, and what it is sent is read as OTLP in JSON says.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::app::{TestApp, Transport};
use crate::receiver::{Receiver, Seen, answer};
use crate::setup::Setup;
use crate::wait::eventually_async;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

/// A span as it came.
#[derive(Debug, Clone)]
struct Span {
    trace: String,
    id: String,
    parent: Option<String>,
    name: String,
    kind: u64,
    start: u64,
    end: u64,
    state: Option<String>,
    failed: bool,
    attributes: BTreeMap<String, String>,
}

/// Everything that a collector has taken.
fn spans(seen: &[Seen]) -> Vec<Span> {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let number = |value: &Value| text(value).parse().expect("a number as text");
    let mut spans = Vec::new();
    for request in seen {
        assert_eq!(
            (request.method.as_str(), request.path.as_str()),
            ("POST", "/v1/traces")
        );
        assert_eq!(request.header("content-type"), Some("application/json"));
        let body = request.json();
        let resource = &body["resourceSpans"][0];
        let of_resource = attributes(&resource["resource"]["attributes"]);
        assert_eq!(of_resource["service.name"], "till");
        assert_eq!(of_resource["service.version"], env!("CARGO_PKG_VERSION"));
        let scope = &resource["scopeSpans"][0];
        assert_eq!(scope["scope"]["name"], "headgate");
        for span in scope["spans"].as_array().expect("spans") {
            let optional = |name: &str| span.get(name).map(text);
            spans.push(Span {
                trace: text(&span["traceId"]),
                id: text(&span["spanId"]),
                parent: optional("parentSpanId"),
                name: text(&span["name"]),
                kind: span["kind"].as_u64().expect("a kind"),
                start: number(&span["startTimeUnixNano"]),
                end: number(&span["endTimeUnixNano"]),
                state: optional("traceState"),
                failed: span["status"]["code"] == 2,
                attributes: attributes(&span["attributes"]),
            });
        }
    }
    for span in &spans {
        assert!(is_id(&span.trace, 32) && is_id(&span.id, 16), "{span:?}");
        assert!(span.start <= span.end, "{span:?}");
    }
    spans
}

fn is_id(text: &str, digits: usize) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.len() == digits && text.bytes().all(is_digit) && text.bytes().any(|byte| byte != b'0')
}

fn attributes(list: &Value) -> BTreeMap<String, String> {
    let list = list.as_array().expect("attributes").iter();
    let pairs = list.map(|one| {
        let key = one["key"].as_str().expect("a key").to_owned();
        let value = &one["value"];
        let value = value["stringValue"].as_str().or(value["intValue"].as_str());
        (key, value.expect("a text or a number as text").to_owned())
    });
    pairs.collect()
}

/// Waits until a collector has spans of these names, as many of each as are named.
async fn collected(collector: &Receiver, names: &[&str]) -> Vec<Span> {
    eventually_async(&format!("spans {names:?}"), async || {
        let spans = spans(&collector.seen());
        let mut found: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
        for name in names {
            let at = found.iter().position(|one| one == name)?;
            found.swap_remove(at);
        }
        Some(spans)
    })
    .await
}

fn one<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let mut found = spans.iter().filter(|span| span.name == name);
    let first = found
        .next()
        .unwrap_or_else(|| panic!("no {name}: {spans:#?}"));
    assert!(found.next().is_none(), "more than one {name}: {spans:#?}");
    first
}

/// The stream `orders`, which goes to the pool and to a team, and is told to a collector.
fn followed(collector: &Receiver, team: &Receiver, more: &str) -> Setup {
    let url = team.url("/orders");
    let host = team.url("");
    let sink = format!(
        "config = {{ url = {url:?} }}\nhttp = {{ hosts = [{host:?}], networks = [\"127.0.0.0/8\"] }}\n"
    );
    Setup::screen()
        .sink("pool", "pool", "*", "")
        .sink("team", "http-forward", "orders", &sink)
        .toml(&format!(
            "[telemetry.otlp]\nendpoint = {:?}\nservice_name = \"till\"\n{more}",
            collector.url("")
        ))
}

async fn send(app: &TestApp, traceparent: &str) -> String {
    let headers = [("traceparent", traceparent), ("tracestate", "shop=1,b=2")];
    let caller = app.caller("shop");
    let receipt = caller.ingest_with(&headers, r#"{"secret-in-a-body": 1}"#);
    receipt.await.receipt().request_id
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_followed_from_its_caller_to_the_receiver_of_a_sink_and_to_a_screen() {
    let (collector, team) = (Receiver::content(), Receiver::content());
    let headers = "headers = { x-team = \"canary-for-the-collector\" }\n";
    let app = followed(&collector, &team, headers).start().await;
    let mut screen = app.renderer(Transport::Sse, &["orders"]);
    screen.connect().await;
    screen.snapshots().await;

    let id = send(&app, &format!("00-{TRACE}-{CALLER}-01")).await;
    let content = app.content(&["orders"]).await;
    screen.holds(&content).await;
    let names = [
        "POST /api/ingest",
        "receive",
        "flatten",
        "commit",
        "deliver pool",
        "deliver team",
        "push",
    ];
    let spans = collected(&collector, &names).await;
    assert_eq!(spans.len(), names.len(), "{spans:#?}");
    for span in &spans {
        assert_eq!(span.trace, TRACE, "{span:?}");
        assert_eq!(span.state.as_deref(), Some("shop=1,b=2"), "{span:?}");
        assert!(!span.failed, "{span:?}");
    }
    let root = one(&spans, "POST /api/ingest");
    assert_eq!(root.parent.as_deref(), Some(CALLER));
    assert_eq!(root.kind, 2);
    for (name, value) in [
        ("http.request.method", "POST"),
        ("http.route", "/api/ingest"),
        ("http.response.status_code", "202"),
        ("headgate.request_id", &*id),
        ("headgate.stream", "orders"),
        ("headgate.items", "1"),
    ] {
        assert_eq!(root.attributes[name], value, "{name}");
    }
    for name in [
        "receive",
        "flatten",
        "commit",
        "deliver pool",
        "deliver team",
    ] {
        let parent = one(&spans, name).parent.as_deref();
        assert_eq!(parent, Some(root.id.as_str()), "{name}");
    }
    let [pool, push] = ["deliver pool", "push"].map(|name| one(&spans, name));
    assert_eq!(push.parent.as_deref(), Some(pool.id.as_str()));
    assert_eq!(push.attributes["headgate.stream"], "orders");
    assert_eq!(pool.attributes["headgate.sink"], "pool");
    assert_eq!(pool.attributes["headgate.attempt"], "1");
    let steps = ["receive", "flatten", "commit"].map(|name| one(&spans, name));
    assert_eq!(steps[0].start, root.start);
    assert!(
        steps.windows(2).all(|two| two[0].end <= two[1].start),
        "{steps:?}"
    );
    assert!(
        steps[2].end <= root.end && steps[2].start <= pool.start,
        "{spans:#?}"
    );
    assert!(
        pool.start <= push.start && push.start <= push.end,
        "{spans:#?}"
    );

    // The receiver of the sink goes on with the trace.
    let told = team.seen();
    let delivery = &one(&spans, "deliver team").id;
    let expected = format!("00-{TRACE}-{delivery}-01");
    assert_eq!(told[0].header("traceparent"), Some(&*expected));
    assert_eq!(told[0].header("tracestate"), Some("shop=1,b=2"));
    for request in collector.seen() {
        assert_eq!(request.header("x-team"), Some("canary-for-the-collector"));
        for secret in [
            "secret-in-a-body",
            "canary-for-the-collector",
            app.secret("shop"),
        ] {
            assert!(!request.body.contains(secret), "{}", request.body);
        }
    }
    // It is counted when the collector has answered.
    eventually_async("all spans are sent", async || {
        let sent = app.admin().metric("headgate_spans_sent_total").await;
        (sent == names.len() as f64).then_some(())
    })
    .await;
    assert_eq!(
        app.admin().metric("headgate_spans_dropped_total").await,
        0.0
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_caller_a_trace_begins_here_and_refusals_are_in_it() {
    let (collector, team) = (Receiver::content(), Receiver::content());
    let app = followed(&collector, &team, "").start().await;
    let caller = app.caller("shop");
    caller.ingest("{}").await.receipt();
    caller.ingest("oops").await.refused(400, "INVALID_PAYLOAD");
    // Nobody knows this caller: no span.
    app.anonymous()
        .ingest("{}")
        .await
        .refused(401, "UNAUTHORIZED");
    // A repeat is delivered once.
    caller.ingest_once("k", r#"{"n": 1}"#).await.receipt();
    caller.ingest_once("k", r#"{"n": 1}"#).await.receipt();
    app.drain().await;
    let posts = ["POST /api/ingest"; 4];
    let deliveries = [
        "deliver pool",
        "deliver pool",
        "deliver team",
        "deliver team",
    ];
    let spans = collected(&collector, &[&posts[..], &deliveries].concat()).await;
    let all =
        |name: &str| -> Vec<&Span> { spans.iter().filter(|span| span.name == name).collect() };
    let posts = all("POST /api/ingest");
    assert_eq!(posts.len(), 4, "{posts:#?}");
    for (at, post) in posts.iter().enumerate() {
        assert_eq!(post.parent, None);
        let others = posts.iter().enumerate().filter(|(other, _)| *other != at);
        assert!(
            others
                .into_iter()
                .all(|(_, other)| other.trace != post.trace)
        );
    }
    let statuses = posts
        .iter()
        .map(|post| &*post.attributes["http.response.status_code"]);
    let mut statuses: Vec<&str> = statuses.collect();
    statuses.sort_unstable();
    assert_eq!(statuses, ["202", "202", "202", "400"]);
    let broken: Vec<_> = spans.iter().filter(|span| span.failed).collect();
    let [broken] = broken[..] else {
        panic!("{broken:#?}");
    };
    assert_eq!(broken.name, "flatten");
    assert_eq!(broken.attributes["error.type"], "INVALID_PAYLOAD");
    assert_eq!(all("deliver pool").len(), 2, "{spans:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_not_to_be_followed_is_not() {
    let (collector, team) = (Receiver::content(), Receiver::content());
    let app = followed(&collector, &team, "sample_percent = 0\n")
        .start()
        .await;
    app.caller("shop").ingest("{}").await.receipt();
    send(&app, &format!("00-{TRACE}-{CALLER}-00")).await;
    send(&app, "00-nonsense").await;
    app.drain().await;
    // Whoever follows a request wants it followed here, whatever the percentage.
    send(&app, &format!("00-{TRACE}-{CALLER}-01")).await;
    app.drain().await;
    let spans = collected(&collector, &["POST /api/ingest", "deliver team"]).await;
    assert!(spans.iter().all(|span| span.trace == TRACE), "{spans:#?}");
    one(&spans, "POST /api/ingest");
    let told = team.seen();
    let (last, before) = told.split_last().expect("requests");
    assert!(last.header("traceparent").is_some());
    assert!(
        before
            .iter()
            .all(|seen| seen.header("traceparent").is_none())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_fails_costs_no_request_and_gets_the_rest_later() {
    let collector = Receiver::start(|_, before| match before {
        0 => answer(503, "retry-after: 0\r\n", ""),
        1 => answer(400, "", "no"),
        _ => answer(
            200,
            "content-type: application/json\r\n",
            r#"{"partialSuccess":{"rejectedSpans":"1"}}"#,
        ),
    });
    let team = Receiver::content();
    let app = followed(&collector, &team, "").start().await;
    app.caller("shop").ingest("{}").await.receipt();
    app.drain().await;
    // Once more after the 503, and not after the 400: that batch is dropped.
    let dropped = "headgate_spans_dropped_total";
    eventually_async("a dropped batch", async || {
        (app.admin().metric(dropped).await > 0.0).then_some(())
    })
    .await;
    let seen = collector.seen();
    assert_eq!(seen[0].body, seen[1].body, "the same spans again");
    let lost = app.admin().metric(dropped).await;
    app.caller("shop").ingest("{}").await.receipt();
    app.drain().await;
    // One of each further batch is rejected.
    eventually_async("spans are sent", async || {
        let sent = app.admin().metric("headgate_spans_sent_total").await;
        let rejected = app.admin().metric(dropped).await > lost;
        (sent > 0.0 && rejected).then_some(())
    })
    .await;
    assert_eq!(team.seen().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_collector_nothing_is_sent_and_nothing_passed_on() {
    let (collector, team) = (Receiver::content(), Receiver::content());
    let mut setup = followed(&collector, &team, "");
    setup.change(&format!("endpoint = {:?}\n", collector.url("")), "");
    let app = setup.start().await;
    send(&app, &format!("00-{TRACE}-{CALLER}-01")).await;
    app.drain().await;
    let told = team.seen();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].header("traceparent"), None);
    assert_eq!(app.admin().metric("headgate_spans_sent_total").await, 0.0);
    app.stop().await;
    assert_eq!(collector.connections(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_is_sent_when_the_daemon_stops() {
    let (collector, team) = (Receiver::content(), Receiver::content());
    let app = followed(&collector, &team, "").start().await;
    app.caller("shop").ingest("{}").await.receipt();
    app.drain().await;
    app.stop().await;
    one(&spans(&collector.seen()), "POST /api/ingest");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_attempt_at_a_sink_is_a_span_that_its_receiver_is_told() {
    let collector = Receiver::content();
    let team = Receiver::start(|_, before| match before {
        0 => answer(503, "", "later"),
        _ => answer(200, "", ""),
    });
    let app = followed(&collector, &team, "").start().await;
    app.caller("shop").ingest("{}").await.receipt();
    let spans = collected(&collector, &["deliver team", "deliver team"]).await;
    let attempts = spans.iter().filter(|span| span.name == "deliver team");
    let attempts: Vec<&Span> = attempts.collect();
    let [first, second] = attempts[..] else {
        panic!("{attempts:#?}");
    };
    assert_eq!(first.trace, second.trace);
    assert_eq!((first.failed, second.failed), (true, false));
    assert_eq!(first.attributes["error.type"], "retry");
    assert_eq!(first.attributes["headgate.attempt"], "1");
    assert_eq!(second.attributes["headgate.attempt"], "2");
    for (seen, span) in team.seen().iter().zip(&attempts) {
        let expected = format!("00-{}-{}-01", span.trace, span.id);
        assert_eq!(seen.header("traceparent"), Some(&*expected));
    }
}
