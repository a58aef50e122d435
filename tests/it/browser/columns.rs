//! The tab Feeds of a stream: its columns are dragged, moved with buttons, or numbered, and the URLs follow.

use serde_json::{Value, json};

use super::admin::{SEEN, log_without_refusals, origin, sign_in};
use super::daemon::Daemon;
use super::driver::{Window, key};

/// Each column with its number, from above.
const COLUMNS: &str = "return [...document.querySelectorAll('#columns tr')].map((row) => [row.dataset.field, row.querySelector('[name=place]').value])";
const SAID: &str = "return document.getElementById('moved').textContent";
/// The columns in the URL of vMix, and the first of the first lines.
const URL: &str = "return [new URL(document.getElementById('url-0').textContent).searchParams.get('fields'), document.querySelector('pre').textContent.split('\\n')[0]]";

fn row(field: &str) -> String {
    format!("#columns tr[data-field='{field}']")
}

#[track_caller]
fn columns(window: &Window, expected: &[(&str, &str)]) {
    let expected: Value = expected
        .iter()
        .map(|(field, place)| json!([field, place]))
        .collect();
    window.shows(COLUMNS, &expected);
}

/// Opens the tab of a stream with the fields `id`, `name` and `score`.
fn open(window: &Window, daemon: &Daemon, path: &str) {
    daemon.post("orders", r#"{"id": "m1", "name": "Reds", "score": 3}"#);
    daemon.process().drained();
    sign_in(window, &origin(daemon), path);
    window.shows(SEEN, &json!(["Feeds of orders", false]));
}

#[test]
fn columns_are_dragged_into_order_and_the_urls_follow() {
    let Some(window) = Window::open("columns_are_dragged_into_order_and_the_urls_follow") else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    open(&window, &daemon, "/streams/orders/feeds");
    let all = ["_key", "id", "name", "score", "_updated_at", "_position"].map(|field| (field, ""));
    columns(&window, &all);
    // The first move chooses what a feed has anyway.
    window.drag(&format!("{} .grip", row("score")), &row("_key"));
    let first = [("score", "1"), ("_key", "2"), ("id", "3"), ("name", "4")];
    let others = [("_updated_at", ""), ("_position", "")];
    columns(&window, &[&first[..], &others].concat());
    window.shows(SAID, &json!("score: place 1"));
    // Below what is left out, a column is left out; above what is chosen, it is chosen.
    window.drag(&format!("{} .grip", row("_key")), &row("_position"));
    window.drag(&format!("{} .grip", row("_position")), &row("name"));
    let chosen = [
        ("score", "1"),
        ("id", "2"),
        ("_position", "3"),
        ("name", "4"),
    ];
    columns(
        &window,
        &[&chosen[..], &[("_updated_at", ""), ("_key", "")]].concat(),
    );

    let name = format!("{} [name=as]", row("name"));
    window.run(
        "document.querySelector(arguments[0]).value = 'Headline.Text'",
        &json!([name]),
    );
    window.click("form[method=get] .row button");
    let fields = "score,id,_position,Headline.Text:name";
    window.shows(URL, &json!([fields, "score,id,_position,Headline.Text"]));
    // What was chosen stands there again, and is moved on from there.
    let again = [("_key", ""), ("_updated_at", "")];
    columns(&window, &[&chosen[..], &again].concat());
    let named = format!("return document.querySelector(\"{name}\").value");
    window.shows(&named, &json!("Headline.Text"));
    window.drag(&format!("{} .grip", row("name")), &row("score"));
    let last = [
        ("name", "1"),
        ("score", "2"),
        ("id", "3"),
        ("_position", "4"),
    ];
    columns(&window, &[&last[..], &again].concat());
    assert_eq!(
        log_without_refusals(&window, &origin(&daemon)),
        Vec::<String>::new()
    );
}

#[test]
fn columns_are_moved_with_the_keyboard_alone() {
    let Some(window) = Window::open("columns_are_moved_with_the_keyboard_alone") else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    open(&window, &daemon, "/streams/orders/feeds?fields=id,name");
    let others = [
        ("_key", ""),
        ("score", ""),
        ("_updated_at", ""),
        ("_position", ""),
    ];
    columns(
        &window,
        &[&[("id", "1"), ("name", "2")][..], &others].concat(),
    );
    let focus = |field: &str, button: &str| {
        let focus = "document.querySelector(arguments[0]).focus()";
        window.run(
            focus,
            &json!([format!("{} [data-move={button}]", row(field))]),
        );
    };
    // Pressed again and again, for the focus stays on the button: over the one before it, in, and up.
    focus("score", "up");
    window.keys(&key::ENTER.to_string());
    let at = |places: [&str; 6]| {
        let fields =
            "return [...document.querySelectorAll('#columns [name=place]')].map((it) => it.value)";
        window.shows(fields, &json!(places));
    };
    at(["1", "2", "", "", "", ""]);
    window.keys(&key::ENTER.to_string());
    at(["1", "2", "3", "", "", ""]);
    window.shows(SAID, &json!("score: place 3"));
    window.keys(&key::ENTER.to_string());
    window.shows(SAID, &json!("score: place 2"));
    let label = "return document.activeElement.getAttribute('aria-label')";
    window.shows(label, &json!("Move score up"));
    // Down past the last: left out.
    focus("name", "down");
    window.keys(&key::ENTER.to_string());
    window.shows(SAID, &json!("name: left out"));
    let moved = [("id", "1"), ("score", "2"), ("name", ""), ("_key", "")];
    columns(&window, &[&moved[..], &others[2..]].concat());
    // A number that is typed moves the row, and Enter sends the form.
    let place = format!("{} [name=place]", row("score"));
    window.run(
        "document.querySelector(arguments[0]).select()",
        &json!([place]),
    );
    window.keys(&format!("1{}", key::TAB));
    columns(
        &window,
        &[
            &[("score", "1"), ("id", "2")][..],
            &moved[2..],
            &others[2..],
        ]
        .concat(),
    );
    window.run(
        "document.querySelector(arguments[0]).focus()",
        &json!([place]),
    );
    window.keys(&key::ENTER.to_string());
    window.shows(URL, &json!(["score,id", "score,id"]));
}
