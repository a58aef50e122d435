//! Renderers that follow some of the items, or some of their fields: `key`, `where` and `fields`.

use futures_util::future::join_all;
use live::{Cut, ItemFilter, Subscribe, Subscription};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::app::{TestApp, Transport};
use crate::setup::Setup;
use crate::wait::DEADLINE;

const CASES: &str = include_str!("../../fixtures/select.json");

/// One case of how a filter is followed.
struct Case(Value);

impl Case {
    fn text(&self, name: &str) -> &str {
        self.0[name].as_str().unwrap_or_default()
    }

    /// The conditions are those of the key, and not of the request.
    fn is_limited(&self) -> bool {
        self.0["limited"] == true
    }

    async fn app(&self) -> TestApp {
        let limits = match self.is_limited() {
            true => format!("where = \"{}\"\n", self.text("where")),
            false => String::new(),
        };
        let setup = Setup::shop()
            .read_key("screen", &["orders"], &limits)
            .set("live.heartbeat_seconds", 1);
        setup.unlimited().start().await
    }

    fn subscribe(&self, app: &TestApp, since: Option<String>) -> Subscription {
        let reader = app.parts.catalog.reader(app.read_secret("screen"));
        let reader = reader.expect("a read key");
        let conditions = if self.is_limited() {
            ""
        } else {
            self.text("where")
        };
        app.parts.live.subscribe(Subscribe {
            filter: ItemFilter::parse(conditions, self.text("fields")).expect("a filter"),
            permit: app.parts.live.permit(&reader).expect("a seat"),
            reader,
            streams: vec!["orders".into()],
            since,
            max_rate: None,
            transport: live::Transport::Sse,
            agent: None,
            screen: None,
            client: "test".to_owned(),
            cut: Cut(Box::new(|| {})),
        })
    }

    /// What the client is told, as the case writes it.
    async fn told(&self) -> Vec<Value> {
        let app = self.app().await;
        let shop = app.caller("shop");
        let mut following: Option<Subscription> = None;
        let (mut last_id, mut told) = (String::new(), Vec::new());
        for step in self.0["steps"].as_array().expect("steps") {
            let text = |at: usize| step[at].as_str().unwrap_or_default();
            match text(0) {
                "have" | "put" => {
                    let mut item: Value = serde_json::from_str(text(2)).expect("an item");
                    item["id"] = text(1).into();
                    shop.ingest_by("id", item.to_string()).await.receipt();
                    app.drain().await;
                }
                "drop" => {
                    app.remove("shop", "orders", text(1)).await;
                    app.drain().await;
                }
                "disconnect" => following = None,
                step @ ("connect" | "resume") => {
                    let since = (step == "resume").then(|| last_id.clone());
                    following = Some(self.subscribe(&app, since));
                }
                "send" | "send slow" => {}
                other => panic!("the step {other}"),
            }
            if let Some(subscription) = &mut following
                && matches!(text(0), "connect" | "resume" | "send" | "send slow")
            {
                last_id = caught_up(&app, subscription, &mut told).await;
            }
        }
        told
    }
}

/// Takes messages until the client stands where the pool does; returns that position.
async fn caught_up(app: &TestApp, from: &mut Subscription, told: &mut Vec<Value>) -> String {
    let head = app.position().seq;
    loop {
        let next = tokio::time::timeout(DEADLINE, from.next()).await;
        let frame = next.expect("a message in time").expect("it goes on");
        let message: Value = serde_json::from_slice(&frame.json()).expect("JSON");
        let kind = message["type"].as_str().expect("a kind");
        let items = message["items"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|item| {
                let mut fields = item["fields"].clone();
                fields.as_object_mut().expect("fields").remove("id");
                json!({"key": item["key"], "fields": fields})
            });
        match kind {
            "heartbeat" => {
                let id = message["id"].as_str().expect("an id");
                let (_, seq) = id.split_once(':').expect("a position");
                if seq.parse::<u64>().expect("a number") >= head.get() {
                    return id.to_owned();
                }
            }
            "snapshot" => told.push(json!(["snapshot", items.collect::<Vec<_>>()])),
            "update" => told.extend(items.map(|item| json!(["update", item]))),
            "remove" => {
                let keys = message["keys"].as_array().expect("keys");
                told.extend(keys.iter().map(|key| json!(["remove", key])));
            }
            kind => told.push(json!([kind])),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cases_of_filters_that_are_followed() {
    let cases: Value = serde_json::from_str(CASES).expect("JSON");
    let cases = cases["cases"].as_array().expect("cases");
    let live = cases.iter().filter(|case| case["kind"] == "live");
    let cases: Vec<Case> = live.cloned().map(Case).collect();
    assert_eq!(cases.len(), 13);
    // Read keys have no limits yet.
    let cases: Vec<Case> = cases
        .into_iter()
        .filter(|case| !case.is_limited())
        .collect();
    let told = join_all(cases.iter().map(Case::told)).await;
    for (case, told) in cases.iter().zip(told) {
        assert_eq!(json!(told), case.0["expected"], "{}", case.text("name"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_screen_of_one_item_is_sent_that_item_alone() {
    let setup = Setup::screen().set("live.heartbeat_seconds", 1);
    let app = setup.start().await;
    let shop = app.caller("shop");
    let all = |round: usize| {
        let items =
            (0..500).map(|n| format!(r#"{{"id": "{n}", "round": {round}, "name": "someone"}}"#));
        format!("[{}]", items.collect::<Vec<_>>().join(","))
    };
    shop.ingest_by("id", all(0)).await.receipt();
    app.drain().await;
    for transport in Transport::ALL {
        let mut renderer = app.renderer(transport, &["orders"]);
        renderer.asks("key=7&fields=round");
        renderer.connect().await;
        let first = renderer.snapshots().await;
        assert_eq!(first.len(), 1, "{first:?}");
        assert!(first[0].text.len() < 300, "{}", first[0].text);
        shop.ingest_by("id", all(1)).await.receipt();
        app.drain().await;
        let update = renderer.next().await.expect("an update");
        assert!(update.text.len() < 300, "{}", update.text);
        assert_eq!(update.items()[0]["fields"], json!({"round": 1}));
        // The position of all goes on where nothing of its own changes.
        shop.ingest_by("id", r#"{"id": "8", "round": 2}"#)
            .await
            .receipt();
        app.drain().await;
        let head = app.position().seq.get();
        renderer
            .until("the position of all", |message| {
                message.kind == "heartbeat" && message.place().1 >= head
            })
            .await;
    }
}

/// Bytes that come until a message with this text has ended.
async fn bytes_through(stream: &mut TcpStream, text: &str) -> usize {
    let mut read = Vec::new();
    let reading = async {
        let has = |read: &[u8]| {
            let so_far = String::from_utf8_lossy(read);
            so_far.contains(text) && so_far.ends_with("\n\n\r\n")
        };
        while !has(&read) {
            stream.read_buf(&mut read).await.expect("it stays");
        }
    };
    tokio::time::timeout(DEADLINE, reading).await.expect(text);
    read.len()
}

/// On the wire, with heads and frames; the rest of the stream costs nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_item_of_5_000_that_all_change_is_few_bytes() {
    let setup = Setup::screen().set("live.heartbeat_seconds", 300);
    let app = setup.start().await;
    let shop = app.caller("shop");
    let all = |round: usize| {
        let items = (0..5_000).map(|n| {
            json!({"id": n.to_string(), "home.name": "FC Example", "away.name": "SV Sample",
                "home.score": round, "away.score": 0, "clock": "45:00", "period": "first half"})
        });
        Value::from_iter(items).to_string()
    };
    shop.ingest_by("id", all(0)).await.receipt();
    app.drain().await;
    let address = app.service.strip_prefix("http://").expect("TCP");
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let head = format!(
        "GET /api/live?streams=orders&key=7 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\r\n",
        app.read_secret("screen")
    );
    stream.write_all(head.as_bytes()).await.expect("it listens");
    let at_connect = bytes_through(&mut stream, "\"complete\":true").await;
    shop.ingest_by("id", all(1)).await.receipt();
    let of_change = bytes_through(&mut stream, "\"type\":\"update\"").await;
    eprintln!("{at_connect} bytes at connect, {of_change} for the change");
    assert!(at_connect <= 1_000, "{at_connect} bytes at connect");
    assert!(of_change <= 400, "{of_change} bytes for the change");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn items_are_listed_by_key_condition_and_field() {
    let app = Setup::screen().start().await;
    let items = (0..30).map(|n| format!(r#"{{"id": "{n:02}", "n": {n}, "name": "x"}}"#));
    let body = format!("[{}]", items.collect::<Vec<_>>().join(","));
    app.caller("shop").ingest_by("id", body).await.receipt();
    app.drain().await;
    let screen = app.caller_with(app.read_secret("screen"));
    let read = async |path: &str| screen.get(path).await.json();
    let get = async |query: &str| read(&format!("/api/streams/orders/items?{query}")).await;
    let keys = |answer: &Value| -> Vec<String> {
        let items = answer["data"].as_array().expect("items").iter();
        items
            .map(|item| item["key"].as_str().expect("a key").to_owned())
            .collect()
    };
    let answer = get("key=29,05,99&fields=n").await;
    assert_eq!(keys(&answer), ["05", "29"]);
    assert_eq!(answer["data"][0]["fields"], json!({"n": 5}));
    assert_eq!(keys(&get("key=").await), [""; 0]);
    let (mut cursor, mut all) = (String::new(), Vec::new());
    loop {
        let answer = get(&format!("where=n%3E%3D10,n%3C17&limit=3&cursor={cursor}")).await;
        all.extend(keys(&answer));
        match answer["next"].as_str() {
            Some(next) => next.clone_into(&mut cursor),
            None => break,
        }
    }
    assert_eq!(all, ["10", "11", "12", "13", "14", "15", "16"]);
    for (query, expected) in [
        ("were=n:1", "did you mean `where`?"),
        ("where=n", "where, character 2"),
        ("fields=a,-b", "not both"),
        ("where=_request_id:r", "_request_id"),
    ] {
        for path in ["/api/streams/orders/items", "/api/live"] {
            let answer = read(&format!("{path}?{query}")).await;
            let message = answer["error"]["message"].as_str().unwrap_or_default();
            assert!(message.contains(expected), "{path}?{query}: {answer}");
        }
    }
}
