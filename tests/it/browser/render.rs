//! The page `/render/{stream}`: its table, its key, its options.

use std::process::Command;

use serde_json::{Value, json};

use super::daemon::{Daemon, READ_KEY};
use super::driver::Window;
use crate::command_line::finish;
use crate::process::{JSON, skipped};
use crate::program::output;
use crate::setup::key_of;
use crate::wait::eventually;

/// The table, row by row, headings first.
pub(super) const TABLE: &str = "return [...document.querySelectorAll('tr')].map((row) => [...row.children].map((cell) => cell.textContent))";
/// What a page thinks of its connection: `shown` is live, whole and current.
pub(super) const STATE: &str = "return document.documentElement.dataset.state";
const DEBUG: &str = "return document.querySelector('.debug')?.textContent ?? ''";

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
    window.shows(STATE, &json!("shown"));
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
    let headings = json!(["id", "text", "<i>field</i>"]);
    let second = json!([script, quotes, arabic]);
    window.shows(TABLE, &json!([headings, second, ["1", image, script]]));

    let changed = r#"{"id": "1", "text": "sent", "total.amount": 12.50}"#;
    assert_eq!(curl(&daemon, changed), "202");
    window.shows(
        TABLE,
        &json!([
            ["id", "text", "<i>field</i>", "total.amount"],
            [script, quotes, arabic, ""],
            ["1", "sent", "", "12.50"],
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
    window.shows(STATE, &json!("shown"));
    assert_eq!(window.log(&daemon.origin()), Vec::<String>::new());
    let smuggled = "window.refused = []; \
         addEventListener('securitypolicyviolation', (event) => refused.push(event.effectiveDirective)); \
         const script = document.createElement('script'); \
         script.textContent = 'window.broken = 1'; document.body.append(script); \
         document.body.insertAdjacentHTML('beforeend', '<img src=//elsewhere.invalid/x onerror=\"window.broken = 1\">')";
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
fn a_page_without_the_right_key_says_so_to_who_asks() {
    let Some(window) = Window::open("a_page_without_the_right_key_says_so_to_who_asks") else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    let page = format!("{}/render/orders", daemon.origin());
    for (address, says) in [
        ("?debug", "needs a read key"),
        ("?debug#ik_live_0123456789abcdef0123", "ingest key"),
        ("#rk_live_of_somebody_else_000&debug", "refused"),
        (
            "?colour=red&size=9&debug#rk_live_of_somebody_else_000",
            "ignored: colour=red  size=9",
        ),
    ] {
        window.go("about:blank");
        window.go(&format!("{page}{address}"));
        let said = |notice: &Value| notice.as_str().is_some_and(|it| it.contains(says));
        window.becomes(says, DEBUG, &json!([]), said);
    }
    // The right key in its place, as somebody would type it.
    daemon.post("orders", r#"{"id": "1"}"#);
    window.run("location.hash = arguments[0]", &json!([READ_KEY]));
    window.shows(TABLE, &json!([["id"], ["1"]]));
}

#[test]
fn a_page_whose_key_is_revoked_keeps_what_it_shows() {
    let Some(window) = Window::open("a_page_whose_key_is_revoked_keeps_what_it_shows") else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    daemon.post("orders", r#"{"id": "1"}"#);
    window.go(&daemon.page("orders"));
    let table = json!([["id"], ["1"]]);
    window.shows(TABLE, &table);
    daemon.revoke_read_key();
    window.shows(STATE, &json!("refused"));
    daemon.post("orders", r#"{"id": "2"}"#);
    daemon.process().drained();
    window.shows(TABLE, &table);
}

/// Opens a page with these options.
pub(super) fn open(window: &Window, daemon: &Daemon, options: &str) {
    window.go("about:blank");
    window.go(&format!(
        "{}/render/orders?{options}#{READ_KEY}",
        daemon.origin()
    ));
}

#[test]
fn options_choose_fields_items_their_order_and_their_numbers() {
    let test = "options_choose_fields_items_their_order_and_their_numbers";
    let Some(window) = Window::open(test) else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    daemon.post(
        "orders",
        r#"[{"id": "m10", "team": "b", "n": 2, "price": 10.50, "big": 12345678901234567890.125},
            {"id": "m2", "team": "B", "n": 10, "price": 0.005, "big": 1e400},
            {"id": "m1", "team": "a", "n": null, "price": 1.995, "big": -0.04},
            {"id": "m9", "team": "c", "n": "7", "price": 12, "big": 3e-3}]"#,
    );
    let rows = "return [...document.querySelectorAll('tr')].map((row) => [...row.children].map((cell) => cell.textContent).join('|'))";
    for (options, expected) in [
        ("fields=id", json!(["id", "m1", "m2", "m9", "m10"])),
        (
            "fields=_position,_key,n&sort=-n",
            json!(["||n", "1|m2|10", "2|m10|2", "3|m9|7", "4|m1|"]),
        ),
        (
            "fields=Game:id,n&sort=n,id&limit=2",
            json!(["Game|n", "m10|2", "m2|10"]),
        ),
        (
            "fields=id,price,big&decimals=2&comma",
            json!([
                "id|price|big",
                "m1|2,00|-0,04",
                "m2|0,01|1e400",
                "m9|12,00|0,00",
                "m10|10,50|12345678901234567890,13"
            ]),
        ),
        (
            "fields=id,price&key=m10,m1",
            json!(["id|price", "m10|10.50", "m1|1.995"]),
        ),
        ("fields=id&where=team:a|c", json!(["id", "m1", "m9"])),
        (
            "fields=id&where=!team:a,!price:12",
            json!(["id", "m2", "m10"]),
        ),
        (
            "fields=id&where=team",
            json!(["id", "m1", "m2", "m9", "m10"]),
        ),
    ] {
        open(&window, &daemon, options);
        window.shows(rows, &expected);
    }
}

#[test]
fn pages_turn_and_begin_again() {
    let Some(window) = Window::open("pages_turn_and_begin_again") else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    let items = (0..60).map(|item| json!({"id": format!("m{item}")}));
    daemon.post("orders", &Value::from_iter(items).to_string());
    open(&window, &daemon, "page=500ms");
    let first = "return document.querySelector('tbody th')?.textContent";
    window.shows(first, &json!("m0"));
    let dots = "return [document.querySelectorAll('nav i').length > 1, document.querySelector('nav').textContent]";
    window.shows(dots, &json!([true, ""]));
    window.becomes("another page", first, &json!([]), |text| *text != "m0");
    window.shows(first, &json!("m0"));
}

#[test]
fn a_large_stream_is_drawn_once_and_only_as_far_as_it_is_seen() {
    let test = "a_large_stream_is_drawn_once_and_only_as_far_as_it_is_seen";
    let Some(window) = Window::open(test) else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    for part in 0..5 {
        let items = (0..1_000).map(
            |item| json!({"id": format!("m{}", part * 1_000 + item), "note": "x".repeat(400)}),
        );
        daemon.post("orders", &Value::from_iter(items).to_string());
    }
    daemon.process().drained();
    let counts = "return import('/templates/rows.js').then(({ counts }) => [counts.built, counts.written, document.querySelectorAll('tbody tr').length])";
    for template in ["table", "scoreboard", "cards", "number"] {
        open(&window, &daemon, &format!("template={template}&debug"));
        let whole = |text: &Value| {
            text.as_str()
                .is_some_and(|text| text.contains("5000 items, 5000 chosen"))
        };
        window.becomes("all items", DEBUG, &json!([]), whole);
        if template == "table" {
            let some = |found: &Value| found[2].as_u64().is_some_and(|rows| rows > 60);
            window.becomes("the lines below", counts, &json!([]), some);
            let first = "return [...document.querySelectorAll('tbody th')].slice(0, 12).map((cell) => cell.textContent)";
            let natural: Vec<_> = (0..12).map(|item| format!("m{item}")).collect();
            window.shows(first, &json!(natural));
        }
        let found = window.run(counts, &json!([]));
        let [built, written] =
            [&found[0], &found[1]].map(|count| count.as_u64().expect("a number"));
        // Every part of the snapshot may move what is seen, and is no reason to build any of it anew.
        assert!(built < 150, "{template}: {found}");
        assert!(written < 4_000, "{template}: {found}");
    }
    open(&window, &daemon, "");
    window.shows(STATE, &json!("shown"));
    let more = "const box = document.querySelector('.scroll'); box.scrollTop = box.scrollHeight; \
                return document.querySelectorAll('tbody tr').length";
    window.becomes("500 lines", more, &json!([]), |rows| *rows == 500);
}

#[test]
fn images_come_from_the_daemon_unless_the_address_says_otherwise() {
    let test = "images_come_from_the_daemon_unless_the_address_says_otherwise";
    let Some(window) = Window::open(test) else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    let pixel = "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw==";
    let elsewhere = format!("http://localhost:{}/healthz.png", daemon.address().port());
    let items = json!([
        {"id": "1", "name": "inline", "logo": pixel},
        {"id": "2", "name": "elsewhere", "logo": elsewhere},
        {"id": "3", "name": "code", "logo": "javascript:window.broken = 1"},
    ]);
    daemon.post("orders", &items.to_string());
    let images = "return [...document.querySelectorAll('.card img')].map((image) => image.getAttribute('src'))";
    open(&window, &daemon, "template=cards");
    window.shows(images, &json!([pixel]));
    window.shows(
        "return document.querySelector('.card img').naturalWidth",
        &json!(1),
    );
    assert_eq!(window.log(&daemon.origin()), Vec::<String>::new());
    open(&window, &daemon, "template=cards&images=any");
    window.shows(images, &json!([pixel, elsewhere]));
    // It is no image: its box is empty, and no broken one is drawn.
    let boxes = "return [...document.querySelectorAll('.card .picture')].map((box) => box.hidden)";
    window.shows(boxes, &json!([false, true, true]));
    window.shows("return window.broken === undefined", &json!(true));

    for (query, any) in [("", false), ("?images=self", false), ("?images=any", true)] {
        let path = format!("/render/orders{query}");
        let answer = daemon.process().client().request("GET", &path, JSON, "");
        let answer = answer.expect("an answer");
        let policy = answer.header("content-security-policy").expect("a policy");
        assert!(policy.contains("img-src 'self' data:"), "{policy}");
        assert_eq!(policy.contains("https:"), any, "{policy}");
    }
}

#[test]
fn the_demos_page_shows_what_its_curl_line_changes() {
    use crate::command_line::demo::{Demo, ONE_AT_A_TIME, printed_command, there_is};
    let Some(window) = Window::open("the_demos_page_shows_what_its_curl_line_changes") else {
        return;
    };
    if !there_is("curl") {
        return;
    }
    let _alone = ONE_AT_A_TIME.lock();
    let folder = tempfile::tempdir().expect("a folder");
    let demo = Demo::start(folder.path());
    let page = demo.text().lines().find(|line| line.contains("/render/"));
    window.go(page.expect("a page").trim());
    let shown = "return [...document.querySelectorAll('.match .name, .match .score b')].map((it) => it.textContent)";
    window.shows(
        shown,
        &json!(["Musterstadt United", "2", "1", "Tidewater Rovers"]),
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &printed_command(demo.text(), "curl")]);
    finish(shell.current_dir(folder.path()), "").ok();
    window.shows(
        shown,
        &json!(["Musterstadt United", "3", "1", "Tidewater Rovers"]),
    );
}
