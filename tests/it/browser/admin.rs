//! The pages of the admin listener in a browser.

use serde_json::{Value, json};

use super::daemon::Daemon;
use super::driver::Window;
use crate::process::ADMIN_TOKEN;

/// Title, and whether the page is wider than the window.
const SEEN: &str = "return [document.querySelector('h1').textContent, document.documentElement.scrollWidth > innerWidth]";

/// Signs in as people do.
pub(super) fn sign_in(window: &Window, origin: &str, path: &str) {
    window.go(&format!("{origin}{path}"));
    window.shows(SEEN, &json!(["Sign in", false]));
    let script = "const form = document.getElementById('sign-in'); \
                  form.elements.token.value = arguments[0]; form.querySelector('button').click()";
    window.run(script, &json!([ADMIN_TOKEN]));
    window.becomes(
        "signed in",
        "return document.querySelector('nav') !== null",
        &json!([]),
        |value| *value == json!(true),
    );
}

fn origin(daemon: &Daemon) -> String {
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

/// What the browser logged, but for the 401 that a page without a session is.
fn log_without_refusals(window: &Window, origin: &str) -> Vec<String> {
    let mut log = window.log(origin);
    log.retain(|line| !line.contains("status of 401"));
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
    let chart =
        "return document.querySelectorAll('.chart')[1].querySelectorAll('rect:not(.floor)').length";
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

const PAGES: [&str; 1] = ["/"];
