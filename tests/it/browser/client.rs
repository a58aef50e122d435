//! `headgate.js` against the daemon: resuming, storage, transports, values.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use serde_json::{Value, json};

use super::daemon::Daemon;
use super::driver::Window;
use super::proxy::Proxy;
use super::site::Site;
use super::watched::Watched;
use crate::process::{BY_ID, Client};

/// How the renderers of a daemon are connected.
fn transports(daemon: &Daemon) -> Vec<String> {
    let renderers = daemon.process().admin("/api/admin/renderers");
    let renderers = renderers.as_array().expect("a list").iter();
    let transport = |renderer: &Value| Some(renderer["transport"].as_str()?.to_owned());
    renderers.filter_map(transport).collect()
}

#[test]
fn a_page_that_was_offline_resumes_where_it_was() {
    let Some(window) = Window::open("a_page_that_was_offline_resumes_where_it_was") else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    daemon.post("orders", r#"[{"id": "1", "n": 1}, {"id": "2", "n": 1}]"#);
    for transport in ["websocket", "sse"] {
        let proxy = Proxy::to(daemon.address());
        window.go(&format!("{}/render/nothing", proxy.origin()));
        Watched::load(&window, "/headgate.js");
        let client = Watched::open(&window, "orders", &json!({"transport": transport}));
        client.view_becomes("both items", "orders", |view| {
            let items = view["items"].as_array().expect("items").iter();
            let keys = items.filter(|item| item[0] == "1" || item[0] == "2");
            view["stale"] == false && keys.count() == 2
        });
        let before = client.becomes("live")["id"].take();
        let before = before.as_str().expect("a position").to_owned();

        proxy.cut();
        client.becomes("offline");
        assert_eq!(client.view("orders")["stale"], true);
        daemon.post(
            "orders",
            &json!([{"id": "1", "n": transport}, {"id": transport}]).to_string(),
        );
        daemon.remove("orders", "2");
        proxy.mend(daemon.address());
        // As a browser says when the network is back.
        window.run("dispatchEvent(new Event('online'))", &json!([]));

        client.view_becomes("resumed", "orders", |view| {
            let items = view["items"].as_array().expect("items");
            let has = |item: Value| items.contains(&item);
            view["stale"] == false
                && has(json!(["1", [["id", "1"], ["n", transport]]]))
                && has(json!([transport, [["id", transport]]]))
                && !items.iter().any(|item| item[0] == "2")
        });
        assert_eq!(client.snapshots(), 1, "{}", client.state());
        let follows = proxy.follows();
        let since = format!("since={before}");
        assert!(!follows[0].contains("since="), "{follows:?}");
        assert!(
            follows.last().is_some_and(|line| line.contains(&since)),
            "{since} {follows:?}"
        );
        client.close();
        daemon.post("orders", r#"{"id": "2", "n": 2}"#);
    }
}

#[test]
fn the_last_state_is_shown_as_stale_while_the_daemon_is_down() {
    let Some(window) = Window::open("the_last_state_is_shown_as_stale_while_the_daemon_is_down")
    else {
        return;
    };
    // The page comes with its own copy of the client, so it loads without the daemon.
    let site = Site::of("src/http/pages");
    let mut daemon = Daemon::start_for(&["orders"], &json!([site.origin()]).to_string());
    daemon.post("orders", r#"[{"id": "1", "n": 1}, {"id": "2", "n": 1}]"#);
    let options = json!({"url": daemon.origin()});
    let both = json!([
        ["1", [["id", "1"], ["n", 1]]],
        ["2", [["id", "2"], ["n", 1]]]
    ]);
    window.go(&site.page(""));
    Watched::load(&window, "/headgate.js");
    Watched::open(&window, "orders", &options).holds("orders", &both);
    // A kill takes nothing from what leaving the page stores.
    daemon.kill();
    window.go("about:blank");

    window.go(&site.page(""));
    Watched::load(&window, "/headgate.js");
    let at_once =
        "const number = watched.open(arguments[0]); return watched.view(number, 'orders')";
    let all =
        json!({"url": daemon.origin(), "streams": ["orders"], "key": super::daemon::READ_KEY});
    let found = window.run(at_once, &json!([all]));
    assert_eq!(
        found,
        json!({"complete": true, "stale": true, "items": both})
    );
    let client = Watched::open(&window, "orders", &options);
    client.becomes("offline");

    daemon.start_again();
    daemon.remove("orders", "1");
    daemon.post("orders", r#"[{"id": "2", "n": 2}, {"id": "3"}]"#);
    let now = json!([["2", [["id", "2"], ["n", 2]]], ["3", [["id", "3"]]]]);
    client.holds("orders", &now);
}

#[test]
fn a_daemon_that_lost_its_data_is_followed_from_the_beginning() {
    let Some(window) = Window::open("a_daemon_that_lost_its_data_is_followed_from_the_beginning")
    else {
        return;
    };
    let mut daemon = Daemon::start(&["orders"]);
    daemon.post("orders", r#"[{"id": "1"}, {"id": "2"}, {"id": "3"}]"#);
    window.go(&daemon.blank_page());
    Watched::load(&window, "/headgate.js");
    let client = Watched::open(&window, "orders", &json!({}));
    let three = json!([
        ["1", [["id", "1"]]],
        ["2", [["id", "2"]]],
        ["3", [["id", "3"]]]
    ]);
    client.holds("orders", &three);
    let before = client.state()["id"].take();
    daemon.kill();
    std::fs::remove_dir_all(daemon.data_dir()).expect("it can be removed");
    daemon.start_again();
    daemon.post("orders", r#"{"id": "4"}"#);
    client.holds("orders", &json!([["4", [["id", "4"]]]]));
    assert_ne!(client.state()["id"], before);
}

#[test]
fn a_large_stream_arrives_whole() {
    let Some(window) = Window::open("a_large_stream_arrives_whole") else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    for part in 0..4 {
        let items = (0..1_000).map(|item| json!({"id": format!("{part}-{item}"), "n": item}));
        daemon.post("orders", &Value::from_iter(items).to_string());
    }
    daemon.process().drained();
    window.go(&daemon.blank_page());
    Watched::load(&window, "/headgate.js");
    for transport in ["websocket", "sse"] {
        let options = json!({"transport": transport, "storage": false});
        let client = Watched::open(&window, "orders", &options);
        let view = client.view_becomes("complete", "orders", |view| view["complete"] == true);
        let items = view["items"].as_array().expect("items").iter();
        let keys: BTreeSet<_> = items.filter_map(|item| item[0].as_str()).collect();
        assert_eq!(keys.len(), 4_000, "{transport}");
        assert!(client.snapshots() > 1, "it came in parts");
        client.close();
    }
}

#[test]
fn values_arrive_as_they_were_sent() {
    let Some(window) = Window::open("values_arrive_as_they_were_sent") else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    window.go(&daemon.blank_page());
    Watched::load(&window, "/headgate.js");
    let client = Watched::open(&window, "orders", &json!({}));
    client.becomes("live");
    daemon.post(
        "orders",
        r#"[
            {"id": "9007199254740991", "big": 9007199254740993, "small": -9007199254740993, "exact": 9007199254740991},
            {"id": "__proto__", "__proto__": "a", "constructor": "b", "toString": 1},
            {"id": "text", "digits": "9007199254740993", "quoted": "\" 9007199254740993 \\", "list": [9007199254740993, {"a": 1}]},
            {"id": "rest", "none": null, "yes": true, "half": 0.5, "many": 1e300, "empty": "", "nested": {"\u00fc.\u6f22": "\ud83d\ude00\u2028"}}
        ]"#,
    );
    let view = client.view_becomes("four items", "orders", |view| {
        view["items"]
            .as_array()
            .is_some_and(|items| items.len() == 4)
    });
    let found: BTreeMap<&str, &Value> = view["items"]
        .as_array()
        .expect("items")
        .iter()
        .map(|item| (item[0].as_str().expect("a key"), &item[1]))
        .collect();
    let check = |key: &str, expected: Value| assert_eq!(*found[key], expected, "{key}");
    check(
        "9007199254740991",
        json!([
            ["id", "9007199254740991"],
            ["big", "9007199254740993"],
            ["small", "-9007199254740993"],
            ["exact", 9_007_199_254_740_991_u64],
        ]),
    );
    check(
        "__proto__",
        json!([
            ["id", "__proto__"],
            ["__proto__", "a"],
            ["constructor", "b"],
            ["toString", 1]
        ]),
    );
    check(
        "text",
        json!([
            ["id", "text"],
            ["digits", "9007199254740993"],
            ["quoted", "\" 9007199254740993 \\"],
            ["list", ["9007199254740993", {"a": 1}]],
        ]),
    );
    check(
        "rest",
        json!([
            ["id", "rest"],
            ["none", null],
            ["yes", true],
            ["half", 0.5],
            ["many", 1e300],
            ["empty", ""],
            ["nested.ü.漢", "😀\u{2028}"],
        ]),
    );
    window.shows(
        "return Object.prototype.constructor === Object",
        &json!(true),
    );
}

#[test]
fn numbers_have_the_text_that_was_sent_also_after_a_reload() {
    let Some(window) = Window::open("numbers_have_the_text_that_was_sent_also_after_a_reload")
    else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    daemon.post(
        "orders",
        r#"[{"id": "1", "price": 10.50, "huge": 1e400, "zero": -0, "tiny": 0.0000001, "long": 0.12345678901234567890,
             "big": 12345678901234567890, "list": [1.10, {"a\"b": [2.50, "3.50"]}], "plain": 7, "half": 0.5,
             "text": "4.50, 1e5", "quoted": "\",\"x\":1.50,\"", "yes": true, "none": null, "empty": {}, "__proto__": 8.0}]"#,
    );
    let expected = json!({
        "price": "10.50", "huge": "1e400", "zero": "-0", "tiny": "0.0000001", "long": "0.12345678901234567890",
        "big": "12345678901234567890", "list": r#"[1.10,{"a\"b":[2.50,"3.50"]}]"#, "plain": "7", "half": "0.5",
        "text": "4.50, 1e5", "quoted": r#"","x":1.50,""#, "yes": "true", "none": "", "empty": "{}", "id": "1", "absent": "",
    });
    let texts = "return Object.fromEntries(Object.keys(arguments[1]).map((field) => [field, watched.text(arguments[0], 'orders', '1', field)]))";
    let values = "const { fields } = watched.item(arguments[0], 'orders', '1'); \
         return [fields.price === 10.5, fields.huge === Infinity, Object.is(fields.zero, -0), fields.big === '12345678901234567890', \
         JSON.stringify(fields.list), Object.keys(fields).includes('__proto__'), watched.text(arguments[0], 'orders', '1', '__proto__')]";
    // The second time from storage, and nothing changed since.
    for life in ["sent", "stored"] {
        window.go(&daemon.blank_page());
        Watched::load(&window, "/headgate.js");
        let client = Watched::open(&window, "orders", &json!({}));
        client.view_becomes("one item", "orders", |view| {
            view["stale"] == false && view["items"][0][0] == "1"
        });
        let found = window.run(texts, &json!([client.number(), expected]));
        assert_eq!(found, expected, "{life}");
        let found = window.run(values, &json!([client.number()]));
        let list = r#"[1.1,{"a\"b":[2.5,"3.50"]}]"#;
        assert_eq!(
            found,
            json!([true, true, true, true, list, true, "8.0"]),
            "{life}"
        );
        assert_eq!(client.snapshots(), usize::from(life == "sent"), "{life}");
        client.close();
    }
}

#[test]
fn server_sent_events_take_over_where_websockets_cannot_be_opened() {
    let test = "server_sent_events_take_over_where_websockets_cannot_be_opened";
    let Some(window) = Window::open(test) else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    let proxy = Proxy::without_websockets(daemon.address());
    window.go(&daemon
        .page("orders")
        .replace(&daemon.origin(), &proxy.origin()));
    window.shows(super::render::STATE, &json!("shown"));
    assert_eq!(transports(&daemon), ["sse"]);
    daemon.post("orders", r#"{"id": "1"}"#);
    let keys = "return [...document.querySelectorAll('tbody th')].map((cell) => cell.textContent)";
    window.shows(keys, &json!(["1"]));

    // Told to use nothing else, it stays without.
    window.go(&format!("{}/render/nothing", proxy.origin()));
    Watched::load(&window, "/headgate.js");
    let client = Watched::open(
        &window,
        "orders",
        &json!({"transport": "websocket", "storage": false}),
    );
    client.becomes("offline");
    assert_eq!(client.view("orders")["items"], json!([]));
}

#[test]
fn hundreds_of_updates_a_second_end_in_the_right_values() {
    let Some(window) = Window::open("hundreds_of_updates_a_second_end_in_the_right_values") else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    window.go(&daemon.blank_page());
    Watched::load(&window, "/headgate.js");
    let began = Instant::now();
    let clients = [
        json!({"transport": "websocket", "storage": false}),
        json!({"transport": "sse", "storage": false}),
        json!({"transport": "websocket", "storage": false, "maxRate": 2}),
    ]
    .map(|options| Watched::open(&window, "orders", &options));
    for client in &clients {
        client.becomes("live");
    }
    let page = window.another();
    page.go(&daemon.page("orders"));

    let mut sender = Client::connect(daemon.address()).expect("it listens");
    let mut last = BTreeMap::new();
    for number in 0..1_500_u64 {
        let key = format!("{:02}", number * 7 % 60);
        let body = json!({"id": key, "n": number}).to_string();
        let answer = sender.post("orders", BY_ID, &body);
        assert_eq!(answer.expect("an answer").status, 202);
        last.insert(key, number);
    }
    let expected = json!(last);
    for client in &clients {
        client.view_becomes("the last values", "orders", |view| {
            let items = view["items"].as_array().expect("items").iter();
            let items = items.map(|item| (item[0].as_str(), item[1][1][1].as_u64()));
            let found: BTreeMap<_, _> = items.collect();
            json!(
                last.iter()
                    .all(|(key, n)| found.get(&Some(key)) == Some(&Some(*n)))
            ) == true
                && found.len() == last.len()
        });
        assert_eq!(client.snapshots(), 1);
    }
    let rows = "return Object.fromEntries([...document.querySelectorAll('tbody tr')].map((row) => \
         [row.children[0].textContent, Number(row.children[1].textContent)]))";
    page.shows(rows, &expected);
    // The slow one was sent the newest values, not each: its snapshot, and two messages a second.
    let changes = |client: &Watched| client.state()["changes"].as_array().map_or(0, Vec::len);
    let [fast, _, slow] = &clients;
    let (few, many) = (changes(slow), changes(fast));
    let most = 4 + 2 * usize::try_from(began.elapsed().as_secs()).expect("it fits");
    assert!(few <= most, "{few}, at most {most}");
    assert!(few <= many, "{few} {many}");
}

#[test]
fn an_orderly_restart_says_bye_and_the_page_comes_back() {
    let Some(window) = Window::open("an_orderly_restart_says_bye_and_the_page_comes_back") else {
        return;
    };
    let mut daemon = Daemon::start(&["orders"]);
    daemon.post("orders", r#"{"id": "1"}"#);
    window.go(&daemon.blank_page());
    Watched::load(&window, "/headgate.js");
    let clients = ["websocket", "sse"].map(|transport| {
        let options = json!({"transport": transport, "storage": false});
        Watched::open(&window, "orders", &options)
    });
    for client in &clients {
        client.holds("orders", &json!([["1", [["id", "1"]]]]));
    }
    daemon.stop();
    for client in &clients {
        let state = client.becomes("offline");
        let said = json!({"state": "offline", "reason": "server stopped"});
        assert!(
            state["states"]
                .as_array()
                .is_some_and(|all| all.contains(&said)),
            "{state}"
        );
    }
    daemon.start_again();
    daemon.post("orders", r#"{"id": "2"}"#);
    for client in &clients {
        client.holds(
            "orders",
            &json!([["1", [["id", "1"]]], ["2", [["id", "2"]]]]),
        );
        assert_eq!(client.snapshots(), 1);
    }
}
