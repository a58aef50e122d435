//! Two nodes of a cluster in a browser: the sinks move from one to the other, and a sink is operated where it does not run.

use std::sync::atomic::Ordering;

use postgres_server::Postgres;
use serde_json::json;

use super::driver::Window;
use super::forms::is_at;
use crate::cluster::{ids, node, owner, owner_first, with_a_receiver};
use crate::process::{BY_ID, Process};
use crate::wait::eventually;

const SAID: &str = "return document.querySelector('p.said')?.textContent ?? null";

/// Waits for the button of a form, presses it, and gives this answer to its question, which is kept in `window.asked`.
fn press(window: &Window, action: &str, answer: bool) {
    let button = format!("form[action='{action}'] button");
    window.becomes(
        &format!("there is {button}"),
        "return document.querySelector(arguments[0]) !== null",
        &json!([button]),
        |there| *there == true,
    );
    let press = "window.confirm = (question) => { window.asked = question; return arguments[1]; }; \
                 document.querySelector(arguments[0]).click()";
    window.run(press, &json!([button, answer]));
}

/// Waits until the page says how it ended.
fn is_said(window: &Window, beginning: &str) {
    window.becomes(beginning, SAID, &json!([]), |said| {
        said.as_str()
            .is_some_and(|said| said.starts_with(beginning))
    });
}

#[test]
fn the_sinks_are_moved_and_a_sink_is_operated_from_the_node_without_them() {
    let Some(window) =
        Window::open("the_sinks_are_moved_and_a_sink_is_operated_from_the_node_without_them")
    else {
        return;
    };
    let Some(server) = Postgres::start("the_sinks_are_moved_in_a_browser") else {
        return;
    };
    let (taken, status, sink) = with_a_receiver();
    let [runs, waits] = owner_first(["a", "b"].map(|name| node(&server, name).spawn()));
    waits.make("/api/admin/sinks", &sink);
    runs.sink_becomes("copy", "running", |sink| sink["state"] == "running");
    let before = owner(&waits);
    let name = if before == "a" { "b" } else { "a" };

    // Asked first, and only done if the answer is yes.
    window.go(&waits.sign_in_link());
    is_at(&window, "Overview");
    window.click("nav a[href='/settings']");
    is_at(&window, "Settings");
    let claim = format!("/settings/nodes/{name}/claim");
    press(&window, &claim, false);
    let question = format!("Run the sinks on node {name}? Node {before} stops them first.");
    window.shows("return window.asked", &json!(question));
    assert_eq!(owner(&waits), before);
    press(&window, &claim, true);
    is_said(&window, &format!("Node {name} runs the sinks."));
    assert_eq!(owner(&waits), name);
    is_at(&window, "Settings");
    let form = format!("form[action='/settings/nodes/{before}/claim']");
    window.becomes(
        "now the other node has the button",
        "return document.querySelector(arguments[0]) !== null",
        &json!([form]),
        |there| *there == true,
    );

    // The node that ran them does not any more.
    window.go(&runs.sign_in_link());
    is_at(&window, "Overview");
    runs.sink_becomes("copy", "elsewhere", |sink| sink["state"] == "elsewhere");
    runs.accepted("orders", BY_ID, r#"{"id": "one"}"#);
    window.go(&format!("http://{}/sinks/copy", runs.admin));
    is_at(&window, "copy");
    window.shows(
        "return document.querySelector('#head .state').textContent.includes('elsewhere on node')",
        &json!(true),
    );
    window.shows(
        "return document.querySelector(\"form[action='/sinks/copy/end-retries']\") !== null",
        &json!(true),
    );
    status.store(200, Ordering::Relaxed);
    press(&window, "/sinks/copy/retry", true);
    is_said(&window, "1 batch is being retried.");
    eventually("it is delivered", || (ids(&taken) == ["one"]).then_some(()));
    press(&window, "/sinks/copy/refill", true);
    is_said(&window, "The sink is being refilled with");
    window.shows(
        "return document.querySelector('#head .state').textContent.includes('up to date')",
        &json!(true),
    );
    [runs, waits].into_iter().for_each(Process::stop);
}
