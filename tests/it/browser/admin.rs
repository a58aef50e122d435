//! The pages of the admin listener in a browser.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::daemon::Daemon;
use super::driver::Window;
use crate::hostile;
use crate::process::{BY_ID, JSON};
use crate::setup::ADMIN_TOKEN;

/// Title, and whether the page is wider than the window.
pub(super) const SEEN: &str = "return [document.querySelector('h1').textContent, document.documentElement.scrollWidth > innerWidth]";

/// Signs in as people do.
pub(super) fn sign_in(window: &Window, origin: &str, path: &str) {
    sign_in_with(window, origin, path, ADMIN_TOKEN);
}

/// The same with another token.
pub(super) fn sign_in_with(window: &Window, origin: &str, path: &str, token: &str) {
    window.go(&format!("{origin}{path}"));
    window.shows(SEEN, &json!(["Sign in", false]));
    let script = "const form = document.getElementById('sign-in'); \
                  form.elements.token.value = arguments[0]; form.querySelector('button').click()";
    window.run(script, &json!([token]));
    window.becomes(
        "signed in",
        "return document.querySelector('nav') !== null",
        &json!([]),
        |value| *value == json!(true),
    );
}

/// Where the pages are.
pub(super) fn origin(daemon: &Daemon) -> String {
    format!("http://{}", daemon.process().admin)
}

#[test]
fn the_printed_link_signs_in_once_and_leaves_the_address() {
    let Some(window) = Window::open("the_printed_link_signs_in_once_and_leaves_the_address") else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    let link = daemon.process().sign_in_link();
    assert!(
        link.starts_with(&format!("{}/sign-in#once_", origin(&daemon))),
        "{link}"
    );
    window.go(&link);
    window.shows(SEEN, &json!(["Overview", false]));
    window.shows(
        "return location.href",
        &json!(format!("{}/", origin(&daemon))),
    );
    let secret = link.split('#').nth(1).expect("a fragment");
    assert!(!daemon.process().log().contains(secret));
    // The script cannot read what keeps somebody signed in.
    window.shows("return document.cookie", &json!(""));

    window.run("document.querySelector('.out button').click()", &json!([]));
    window.shows(SEEN, &json!(["Sign in", false]));
    window.go("about:blank");
    window.go(&link);
    let refused = "return document.querySelector('[role=alert]')?.textContent.includes('link')";
    window.shows(refused, &json!(true));
    assert_eq!(
        log_without_refusals(&window, &origin(&daemon)),
        Vec::<String>::new()
    );
}

/// What the browser logged, but for pages without a session, and of what is not there: a page looks for what it shows
/// every two seconds, also between its removal and the next page.
pub(super) fn log_without_refusals(window: &Window, origin: &str) -> Vec<String> {
    let mut log = window.log(origin);
    // A form with several secrets is taken for several forms to sign in with.
    let hint = "[DOM] Multiple forms should be contained";
    let refused = [
        "status of 401",
        "status of 404",
        "Status Error Code 404 ",
        hint,
    ];
    log.retain(|line| !refused.iter().any(|refused| line.contains(refused)));
    log
}

#[test]
fn the_overview_follows_the_daemon_without_a_reload() {
    let Some(window) = Window::open("the_overview_follows_the_daemon_without_a_reload") else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    sign_in(&window, &origin(&daemon), "/");
    window.run("window.loadedOnce = true", &json!([]));
    let requests = "return [...document.querySelectorAll('.tile .number')].map((tile) => tile.textContent).slice(0, 2)";
    window.shows(requests, &json!(["0", "0"]));
    daemon.post("orders", r#"[{"id": "1"}, {"id": "2"}]"#);
    window.shows(requests, &json!(["1", "2"]));
    window.shows("return window.loadedOnce", &json!(true));
    let chart = "return document.querySelectorAll('.chart .bar').length";
    window.shows(chart, &json!(1));
    assert_eq!(
        log_without_refusals(&window, &origin(&daemon)),
        Vec::<String>::new()
    );
}

#[test]
fn no_page_is_wider_than_a_phone() {
    let Some(window) = Window::open("no_page_is_wider_than_a_phone") else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    daemon.post("orders", r#"{"id": "1", "name": "A name"}"#);
    window.resize(360, 740);
    sign_in(&window, &origin(&daemon), "/");
    for path in PAGES {
        window.go(&format!("{}{path}", origin(&daemon)));
        let wide = "return [innerWidth, document.documentElement.scrollWidth]";
        let seen: Value = window.run(wide, &json!([]));
        assert!(seen[1].as_u64() <= seen[0].as_u64(), "{path}: {seen}");
    }
}

/// The pages of a daemon with the stream `orders`, its item `1` and the connector `tests`.
pub(super) const PAGES: [&str; 24] = [
    "/",
    "/settings",
    "/docs",
    "/docs/api",
    "/docs/configure",
    "/docs?q=key",
    "/connectors",
    "/connectors/tests",
    "/sinks",
    "/sinks/pool",
    "/renderers",
    "/streams",
    "/streams/orders",
    "/streams/orders/feeds",
    "/streams/orders/item?key=1",
    "/new/connector",
    "/new/connector?tool=shopify",
    "/new/connector?tool=hmac",
    "/new/tool",
    "/presets",
    "/new/stream",
    "/new/read-key",
    "/audit",
    "/search?q=1",
];

#[test]
fn a_request_appears_in_the_log_of_its_connector_by_itself() {
    let Some(window) = Window::open("a_request_appears_in_the_log_of_its_connector_by_itself")
    else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    sign_in(&window, &origin(&daemon), "/connectors/tests");
    let state = "return document.querySelector('#live [role=status]')?.textContent.trim()";
    window.shows(state, &json!("Waiting for the first request."));
    window.run("window.loadedOnce = true", &json!([]));
    let id = daemon
        .process()
        .accepted("orders", BY_ID, r#"[{"id": "1"}, {"id": "2"}]"#);
    let row = "const row = document.querySelector('#live tbody tr'); \
               const cell = (name) => row?.querySelector(`[data-label=${name}]`).textContent; \
               return [row?.querySelector('.key').textContent, cell('Status'), cell('Items'), cell('Errors'), cell('Stream')]";
    window.shows(row, &json!([id, "processed", "2", "–", "orders"]));
    window.shows("return window.loadedOnce", &json!(true));

    // Its way, and from there its item, which the page removes after a question.
    window.run("document.querySelector('#live .key a').click()", &json!([]));
    window.shows(SEEN, &json!([format!("Request {id}"), false]));
    let steps = "return document.querySelectorAll('ol.way li.good').length";
    window.shows(steps, &json!(4));
    window.go(&format!("{}/streams/orders/item?key=1", origin(&daemon)));
    window.run(
        "window.confirm = () => false; document.querySelector('button.danger').click()",
        &json!([]),
    );
    window.shows(SEEN, &json!(["1", false]));
    window.run(
        "window.confirm = () => true; document.querySelector('button.danger').click()",
        &json!([]),
    );
    let said = "return document.querySelector('p.said')?.textContent";
    window.shows(said, &json!("The item 1 is removed."));
    let keys = "return [...document.querySelectorAll('.grid tbody .key')].map((key) => key.textContent.trim())";
    window.shows(keys, &json!(["2"]));
    assert_eq!(
        log_without_refusals(&window, &origin(&daemon)),
        Vec::<String>::new()
    );
}

#[test]
fn hostile_texts_are_shown_and_never_run() {
    let Some(window) = Window::open("hostile_texts_are_shown_and_never_run") else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    let markup = "<img src=x onerror='window.broken = 1'><script>window.broken = 1</script>";
    let controls = "\u{1b}[31mred \u{202e}turned";
    let body = json!([
        {"id": markup, "<b>field</b>": controls, "quotes": "\"'`</td>", "long": "w".repeat(10_000)},
        {"id": controls, "<b>field</b>": markup},
    ]);
    let process = daemon.process();
    process.accepted("orders", BY_ID, &body.to_string());
    process.drained();
    // A field that is missing is named in the refusal.
    let refused = process.post(
        "orders",
        "X-Item-Key: <script>window.broken=1</script>\r\n",
        "{}",
    );
    assert_eq!(refused.status, 400);
    sign_in(&window, &origin(&daemon), "/streams/orders");
    let encoded = "%3Cimg%20src%3Dx%20onerror%3D%27window.broken%20%3D%201%27%3E%3Cscript%3Ewindow.broken%20%3D%201%3C%2Fscript%3E";
    for path in [
        "/streams/orders".to_owned(),
        format!("/streams/orders/item?key={encoded}"),
        "/connectors/tests".to_owned(),
        format!("/connectors/tests?text={encoded}"),
        format!("/connectors/{encoded}"),
    ] {
        window.go(&format!("{}{path}", origin(&daemon)));
        let seen = "return [document.querySelectorAll('main img, main script, main b').length, window.broken === undefined, \
                    /[\\u001b\\u202e]/.test(document.body.textContent), document.documentElement.scrollWidth <= innerWidth]";
        assert_eq!(
            window.run(seen, &json!([])),
            json!([0, true, false, true]),
            "{path}"
        );
    }
    window.go(&format!("{}/streams/orders", origin(&daemon)));
    let keys = "return [...document.querySelectorAll('.grid tbody .key')].map((key) => key.textContent.trim())";
    let shown = window.run(keys, &json!([])).to_string();
    assert!(
        shown.contains("<img src=x onerror=") && shown.contains("u{1b}[31mred"),
        "{shown}"
    );
    assert_eq!(
        log_without_refusals(&window, &origin(&daemon)),
        Vec::<String>::new()
    );
}

#[test]
fn a_request_is_copied_as_curl_and_sent_again_with_the_keyboard() {
    let Some(window) = Window::open("a_request_is_copied_as_curl_and_sent_again_with_the_keyboard")
    else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    let process = daemon.process();
    let create = |path: &str, body: Value| process.make(path, &body).data(201);
    let path = "/api/admin/connectors";
    create(
        path,
        json!({"name": "hook", "kind": "webhook", "item_key": "uid"}),
    );
    let key = create(
        "/api/admin/connectors/hook/keys",
        json!({"name": "main", "stream": "orders"}),
    );
    let secret = key["secret"].as_str().expect("a secret");
    let body = r#"{"id": "<img src=x onerror='window.broken = 1'>"}"#;
    let refused = process.ask("POST", "/api/webhook/orders", secret, JSON, body);
    assert_eq!(refused.status, 400, "{}", refused.body);
    let id = refused.json()["error"]["request_id"].take();
    let id = id.as_str().expect("a request id");
    // What is committed after the entry of the refusal.
    daemon.post("orders", "[]");

    sign_in(&window, &origin(&daemon), &format!("/requests/{id}"));
    window.shows(SEEN, &json!([format!("Request {id}"), false]));
    let shown = "return [document.querySelectorAll('main img').length, window.broken === undefined, \
                 document.querySelector('#body code').textContent]";
    window.shows(shown, &json!([0, true, body]));

    let focus = "document.getElementById(arguments[0]).focus()";
    window.run(focus, &json!(["copy-curl"]));
    window.listens_to("#copy-curl");
    window.press_enter();
    window.becomes(
        "it says what it did",
        "return window.said[0]",
        &json!([]),
        |label| *label == json!("Copied") || *label == json!("Selected"),
    );
    window.shows(
        "return document.getElementById('copy-curl').textContent",
        &json!("Copy as curl"),
    );
    let command = window.run(
        "return document.getElementById('curl').textContent",
        &json!([]),
    );
    let mend = process.call(
        "PATCH",
        "/api/admin/connectors/hook",
        r#"{"item_key": "id"}"#,
    );
    assert_eq!(mend.status, 200, "{}", mend.body);
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", command.as_str().expect("a command")]);
    shell.env("HEADGATE_KEY", secret).env("NO_PROXY", "*");
    let done = crate::command_line::finish(&mut shell, "").ok();
    assert!(done.starts_with("HTTP/1.1 202"), "{done}");

    window.run("getSelection().removeAllRanges()", &json!([]));
    window.run(focus, &json!(["resend"]));
    window.press_enter();
    let said = "return document.querySelector('p.said')?.textContent";
    window.shows(said, &json!("Resent; this is the new request."));
    let from = "return document.querySelector('ol.way li a').textContent";
    window.shows(from, &json!(format!("request {id}")));
    assert_eq!(
        log_without_refusals(&window, &origin(&daemon)),
        Vec::<String>::new()
    );
}

#[test]
fn no_page_that_a_link_leads_to_runs_a_hostile_text() {
    let Some(window) = Window::open("no_page_that_a_link_leads_to_runs_a_hostile_text") else {
        return;
    };
    let process = hostile::daemon();
    let origin = format!("http://{}", process.admin);
    sign_in(&window, &origin, "/");
    let mut waiting = vec![format!("{origin}/")];
    let mut seen = BTreeSet::new();
    while let Some(url) = waiting.pop() {
        // Filters add up without end, and each filter in each order would be a thousand times the same page.
        let filters = url.matches("filter=").count();
        let is_deep = filters > 1 || filters == 1 && url.contains("sort=");
        if is_deep || url.ends_with("/openapi.json") || !seen.insert(url.clone()) {
            continue;
        }
        window.go(&url);
        let looked = window.run(
            "return [window.broken === undefined, document.querySelectorAll('img:not([src^=\"/docs/\"]), iframe, object, h1 ~ h1').length, \
             document.documentElement.scrollWidth <= innerWidth, \
             [...document.querySelectorAll('a[href]')].map((link) => link.href.split('#')[0])]",
            &json!([]),
        );
        assert_eq!(looked[0], true, "{url} ran it");
        assert_eq!(looked[1], 0, "{url} has what it should not");
        assert_eq!(looked[2], true, "{url} is wider than the window");
        let links = looked[3].as_array().expect("a list").iter();
        let links = links.filter_map(Value::as_str).map(str::to_owned);
        waiting.extend(links.filter(|link| link.starts_with(&origin)));
    }
    assert!(seen.len() > hostile::texts().len(), "{seen:?}");
    assert_eq!(
        log_without_refusals(&window, &origin),
        Vec::<String>::new(),
        "no breach of the policy"
    );
}

#[test]
fn the_key_of_the_search_box_moves_the_cursor_into_it_and_enter_searches() {
    let Some(window) =
        Window::open("the_key_of_the_search_box_moves_the_cursor_into_it_and_enter_searches")
    else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    daemon.post("orders", r#"{"id": "a/1", "name": "Ada"}"#);
    daemon.process().drained();
    sign_in(&window, &origin(&daemon), "/streams/orders");
    window.keys("/");
    let focused = "return [document.activeElement.name, document.activeElement.value]";
    window.shows(focused, &json!(["q", ""]));
    // Now it is a letter like any other.
    window.keys("a/1");
    window.shows(focused, &json!(["q", "a/1"]));
    window.press_enter();
    window.shows(SEEN, &json!(["Search: a/1", false]));
    let hits = "return [...document.querySelectorAll('.found li')].map((hit) => [hit.querySelector('a').textContent, hit.querySelector('.about').textContent])";
    window.shows(hits, &json!([["a/1", "orders · Ada"]]));
    window.run("document.querySelector('.found a').click()", &json!([]));
    window.shows(SEEN, &json!(["a/1", false]));
    assert_eq!(
        log_without_refusals(&window, &origin(&daemon)),
        Vec::<String>::new()
    );
}
