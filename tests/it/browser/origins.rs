//! Who may read from a page: tickets are good once and where they were given, foreign pages only when listed.

use serde_json::{Value, json};

use super::daemon::{Daemon, READ_KEY};
use super::driver::Window;
use super::site::{BLANK, Site};
use super::watched::Watched;

/// Gets a ticket with `fetch`: `arguments` are the daemon's origin, the key and the body.
const TICKET: &str = "return fetch(arguments[0] + '/api/tickets', { method: 'POST', \
     headers: { Authorization: 'Bearer ' + arguments[1] }, body: JSON.stringify(arguments[2]) }) \
     .then((answer) => answer.json()).then(({ data }) => data.ticket)";
/// Follows with `arguments`: the daemon's origin, the transport, a ticket. Says what came first.
const FOLLOW: &str = "const [origin, transport, ticket] = arguments; \
     return new Promise((done) => { \
       const sse = transport === 'sse'; \
       const live = sse ? new EventSource(origin + '/api/live?token=' + ticket) \
         : new WebSocket(origin.replace('http', 'ws') + '/api/live', ['headgate', ticket]); \
       const end = (word) => { done(word); live.close(); }; \
       live.onmessage = ({ data }) => end(JSON.parse(data).type); \
       live.addEventListener('snapshot', () => end('snapshot')); \
       live[sse ? 'onerror' : 'onclose'] = () => end('refused'); \
     })";
const TRANSPORTS: [&str; 2] = ["sse", "websocket"];

fn ticket(window: &Window, daemon: &Daemon, body: Value) -> Value {
    window.run(TICKET, &json!([daemon.origin(), READ_KEY, body]))
}

fn follow(window: &Window, daemon: &Daemon, transport: &str, ticket: &Value) -> Value {
    window.run(FOLLOW, &json!([daemon.origin(), transport, ticket]))
}

/// A ticket that a program got, so that it is bound to no origin.
fn unbound_ticket(daemon: &Daemon) -> Value {
    let process = daemon.process();
    let answer = process.ask("POST", "/api/tickets", READ_KEY, "", "");
    answer.json()["data"]["ticket"].take()
}

/// Whether the page that the window shows can read: with a ticket over both transports, and with the client.
fn check_reading(window: &Window, daemon: &Daemon, allowed: bool) {
    let outcome = json!(if allowed { "snapshot" } else { "refused" });
    for transport in TRANSPORTS {
        let ticket = unbound_ticket(daemon);
        assert_eq!(
            follow(window, daemon, transport, &ticket),
            outcome,
            "{transport}"
        );
    }
    // The file itself is for everybody.
    Watched::load(window, &format!("{}/headgate.js", daemon.origin()));
    let client = Watched::open(window, "orders", &json!({"url": daemon.origin()}));
    if allowed {
        client.holds("orders", &json!([["1", [["id", "1"]]]]));
    } else {
        client.becomes("offline");
        assert_eq!(client.view("orders")["items"], json!([]));
    }
    client.close();
}

#[test]
fn a_ticket_opens_one_connection_whatever_the_transport() {
    let Some(window) = Window::open("a_ticket_opens_one_connection_whatever_the_transport") else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    window.go(&daemon.blank_page());
    for first in TRANSPORTS {
        for second in TRANSPORTS {
            let ticket = ticket(&window, &daemon, json!({"streams": ["orders"]}));
            let once = follow(&window, &daemon, first, &ticket);
            assert_eq!(once, "snapshot", "{first}");
            let twice = follow(&window, &daemon, second, &ticket);
            assert_eq!(twice, "refused", "{first}, then {second}");
        }
        let key = follow(&window, &daemon, "sse", &json!(READ_KEY));
        assert_eq!(key, "refused", "a read key in a URL");
    }
}

#[test]
fn a_ticket_is_good_only_on_pages_of_its_origin() {
    let Some(window) = Window::open("a_ticket_is_good_only_on_pages_of_its_origin") else {
        return;
    };
    let site = Site::of("examples/renderers");
    let daemon = Daemon::start_for(&["orders"], &json!([site.origin()]).to_string());
    let elsewhere = json!({"origin": "https://signage.example"});
    let there = json!({"origin": site.origin()});
    let (own, foreign) = (daemon.blank_page(), site.page(""));
    window.go(&own);
    let given_here = ticket(&window, &daemon, json!({}));
    window.go(&foreign);
    assert_eq!(follow(&window, &daemon, "sse", &given_here), "refused");
    for transport in TRANSPORTS {
        let check = |given_on: &str, body: &Value, used_on: &str, outcome: &str| {
            window.go(given_on);
            let ticket = ticket(&window, &daemon, body.clone());
            window.go(used_on);
            let came = follow(&window, &daemon, transport, &ticket);
            assert_eq!(came, outcome, "{transport}: {given_on} {body} {used_on}");
        };
        check(&own, &json!({}), &own, "snapshot");
        check(&own, &json!({}), &foreign, "refused");
        check(&foreign, &json!({}), &foreign, "snapshot");
        check(&foreign, &json!({}), &own, "refused");
        check(&own, &elsewhere, &own, "refused");
        check(&own, &there, &foreign, "snapshot");
    }
}

#[test]
fn a_foreign_page_reads_only_when_its_origin_is_listed() {
    let Some(window) = Window::open("a_foreign_page_reads_only_when_its_origin_is_listed") else {
        return;
    };
    let site = Site::of("examples/renderers");
    window.go(&site.page(""));
    let others = r#"["http://127.0.0.1", "https://signage.example", "null"]"#;
    for (origins, allowed) in [
        ("[]".to_owned(), false),
        (others.to_owned(), false),
        (json!([site.origin()]).to_string(), true),
        (r#"["*"]"#.to_owned(), true),
    ] {
        let daemon = Daemon::start_for(&["orders"], &origins);
        daemon.post("orders", r#"{"id": "1"}"#);
        check_reading(&window, &daemon, allowed);
    }
}

#[test]
fn a_page_from_a_file_reads_only_when_null_is_listed() {
    let Some(window) = Window::open("a_page_from_a_file_reads_only_when_null_is_listed") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("page.html");
    std::fs::write(&file, BLANK).expect("a file");
    window.go(&format!("file://{}", file.display()));
    for (origins, allowed) in [("[]", false), (r#"["null"]"#, true)] {
        let daemon = Daemon::start_for(&["orders"], origins);
        daemon.post("orders", r#"{"id": "1"}"#);
        check_reading(&window, &daemon, allowed);
    }
}
