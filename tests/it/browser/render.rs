//! The page `/render/{stream}`.

use std::process::Command;

use serde_json::json;

use super::daemon::{Daemon, READ_KEY};
use super::driver::Window;
use crate::command_line::finish;
use crate::process::skipped;
use crate::program::output;
use crate::setup::key_of;
use crate::wait::eventually;

/// The table, row by row, headings first.
const TABLE: &str = "return [...document.querySelectorAll('tr')].map((row) => [...row.children].map((cell) => cell.textContent))";
const STATE: &str = "return document.getElementById('state').dataset.state";
const NOTICE: &str = "const notice = document.getElementById('notice'); return notice.hidden ? '' : notice.textContent";

/// Posts as people do; the status.
fn curl(daemon: &Daemon, body: &str) -> String {
    let mut curl = Command::new("curl");
    curl.args(["-sS", "-o", "/dev/null", "-w", "%{http_code}", "-d", "@-"])
        .args([
            "-H",
            "Content-Type: application/json",
            "-H",
            "X-Item-Key: id",
        ])
        .args(["-H", &format!("Authorization: Bearer {}", key_of("orders"))])
        .arg(format!("{}/api/webhook/orders", daemon.origin()));
    finish(&mut curl, body).ok()
}

#[test]
fn what_is_posted_appears_without_a_reload_and_as_text() {
    let test = "what_is_posted_appears_without_a_reload_and_as_text";
    let Some(window) = Window::open(test) else {
        return;
    };
    if output(Command::new("curl").arg("--version")).is_err() {
        return skipped(test, "there is no curl");
    }
    let daemon = Daemon::start(&["orders"]);
    window.go(&daemon.page("orders"));
    window.shows(STATE, &json!("live"));
    window.run("window.loadedOnce = true", &json!([]));

    let image = "<img src=x onerror='window.broken = 1'>";
    let script = "<script>window.broken = 1</script>";
    let quotes = r#""' ` &amp; \ </td>"#;
    let arabic = "مرحبا (7)";
    let body = json!([
        {"id": "1", "text": image, "<i>field</i>": script},
        {"id": script, "text": quotes, "<i>field</i>": arabic},
    ]);
    assert_eq!(curl(&daemon, &body.to_string()), "202");
    let headings = json!(["key", "id", "text", "<i>field</i>"]);
    let second = json!([script, script, quotes, arabic]);
    window.shows(TABLE, &json!([headings, ["1", "1", image, script], second]));

    let changed = json!({"id": "1", "text": "sent", "total.amount": 12.50});
    assert_eq!(curl(&daemon, &changed.to_string()), "202");
    window.shows(
        TABLE,
        &json!([
            ["key", "id", "text", "<i>field</i>", "total.amount"],
            ["1", "1", "sent", "", "12.5"],
            [script, script, quotes, arabic, ""],
        ]),
    );
    daemon.remove("orders", "1");
    let keys = "return [...document.querySelectorAll('tbody th')].map((cell) => cell.textContent)";
    window.shows(keys, &json!([script]));

    let elements = "return document.querySelectorAll('table img, table script, table i').length";
    window.shows(elements, &json!(0));
    let left_to_right = "const at = (cell) => cell.getBoundingClientRect().left; \
         const cells = [...document.querySelector('tbody tr').children]; \
         return cells.every((cell, i) => !i || at(cell) > at(cells[i - 1]))";
    window.shows(left_to_right, &json!(true));
    let traces = "return [window.loadedOnce === true, window.broken === undefined]";
    window.shows(traces, &json!([true, true]));
    assert_eq!(window.log(&daemon.origin()), Vec::<String>::new());
}

#[test]
fn the_page_lets_no_script_in_but_its_own() {
    let Some(window) = Window::open("the_page_lets_no_script_in_but_its_own") else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    window.go(&daemon.page("orders"));
    window.shows(STATE, &json!("live"));
    assert_eq!(window.log(&daemon.origin()), Vec::<String>::new());
    let smuggled = "window.refused = []; \
         addEventListener('securitypolicyviolation', (event) => refused.push(event.effectiveDirective)); \
         const script = document.createElement('script'); \
         script.textContent = 'window.broken = 1'; document.body.append(script); \
         document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.broken = 1\">')";
    window.run(smuggled, &json!([]));
    let directives = json!(["img-src", "script-src-attr", "script-src-elem"]);
    window.shows("return [...new Set(refused)].sort()", &directives);
    window.shows("return window.broken === undefined", &json!(true));
    // And the log, which other tests expect to be empty, tells of it.
    eventually("the log tells of it", || {
        let log = window.log(&daemon.origin());
        let told = |line: &String| line.contains("Content Security Policy");
        log.iter().any(told).then_some(())
    });
}

#[test]
fn a_page_without_the_right_key_says_so() {
    let Some(window) = Window::open("a_page_without_the_right_key_says_so") else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    let page = format!("{}/render/orders", daemon.origin());
    for (key, says) in [
        ("", "needs a read key"),
        ("#ik_live_0123456789abcdef0123", "ingest key"),
        ("#rk_live_of_somebody_else_000", "refused"),
    ] {
        window.go("about:blank");
        window.go(&format!("{page}{key}"));
        let said = |notice: &serde_json::Value| notice.as_str().is_some_and(|it| it.contains(says));
        window.becomes(says, NOTICE, &json!([]), said);
    }
    // The right key in its place, as somebody would type it.
    daemon.post("orders", r#"{"id": "1"}"#);
    window.run("location.hash = arguments[0]", &json!([READ_KEY]));
    window.shows(TABLE, &json!([["key", "id"], ["1", "1"]]));
    window.shows(NOTICE, &json!(""));
}

#[test]
fn a_page_whose_key_is_revoked_keeps_what_it_shows_and_says_so() {
    let test = "a_page_whose_key_is_revoked_keeps_what_it_shows_and_says_so";
    let Some(window) = Window::open(test) else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    daemon.post("orders", r#"{"id": "1"}"#);
    window.go(&daemon.page("orders"));
    let table = json!([["key", "id"], ["1", "1"]]);
    window.shows(TABLE, &table);
    daemon.revoke_read_key();
    window.shows(STATE, &json!("refused"));
    daemon.post("orders", r#"{"id": "2"}"#);
    daemon.process().drained();
    window.shows(TABLE, &table);
}
