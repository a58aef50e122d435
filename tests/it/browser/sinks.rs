//! A sink made by its page: chosen, tried, saved, changed, paused and deleted.

use serde_json::{Value, json};

use super::daemon::Daemon;
use super::driver::Window;
use super::forms::{fill, is_at, text};
use crate::receiver::{Receiver, answer};
use crate::wait::eventually;

#[test]
fn a_sink_is_chosen_tried_saved_paused_and_deleted_by_its_pages() {
    let Some(window) = Window::open("a_sink_is_chosen_tried_saved_paused_and_deleted_by_its_pages")
    else {
        return;
    };
    let receiver = Receiver::start(|_, _| answer(200, "", ""));
    let daemon = Daemon::start(&["orders"]);
    let process = daemon.process();
    process.processed("orders", "", r#"{"number": 1}"#);
    window.go(&process.sign_in_link());
    is_at(&window, "Overview");
    window.click("nav a[href='/sinks']");
    is_at(&window, "Sinks");
    window.click("a[href='/new/sink']");
    is_at(&window, "Add a sink");
    window.click("a[href='/new/sink?plugin=http-forward']");
    is_at(&window, "Add a sink with http-forward");
    window.shows("return document.activeElement.id", &json!("name"));
    fill(&window, "name", "team");
    window.click("input[name='streams'][value='orders']");
    fill(&window, "config.url", &receiver.url("/in"));
    fill(&window, "http.networks", "127.0.0.0/8");
    // The host is no grant yet; it is offered, and one click gives it.
    window.click("button[value='try']");
    let offer = format!("input[name='grant'][value='{}']", receiver.url(""));
    window.click(&offer);
    window.click("button[value='try']");
    assert!(text(&window, "section.panel").contains("1 item reached the plugin"));
    assert!(text(&window, "section.panel pre").contains("idempotency-key"));
    assert_eq!(receiver.seen().len(), 0, "nothing was sent");
    let granted = text(&window, "#grants");
    assert!(granted.contains("may call http://127.0.0.1"), "{granted}");
    window.click("button[value='save']");
    is_at(&window, "team");
    process.accepted("orders", "", r#"{"number": 2}"#);
    eventually("the item is at its receiver", || {
        (!receiver.seen().is_empty()).then_some(())
    });
    // Its form has what it is, and changes that alone.
    window.click("#head .more summary");
    window.click("a[href='/sinks/team/change']");
    is_at(&window, "Change team");
    window.shows(
        "return document.getElementById('http.networks').value",
        &json!("127.0.0.0/8"),
    );
    fill(&window, "where", "number>=3");
    window.click("#more summary");
    fill(&window, "retry.attempts", "4");
    window.click("button[value='try']");
    assert!(text(&window, "section.panel").contains("0 items reached the plugin"));
    window.click("button[value='save']");
    is_at(&window, "team");
    let sink = process.sink("team");
    assert_eq!(
        (&sink["where"], &sink["retry"]["attempts"]),
        (&json!("number>=3"), &json!(4))
    );
    window.click("form[action='/sinks/team/pause'] button");
    window.shows(
        "return document.querySelector(\"form[action='/sinks/team/resume']\") !== null",
        &json!(true),
    );
    assert_eq!(process.sink("team")["paused_by"], "admin page");
    window.click("#head .more summary");
    window.click("a[href='/sinks/team/delete']");
    is_at(&window, "Delete team?");
    window.click("button.danger");
    is_at(&window, "Sinks");
    let sinks: Vec<Value> = process.list("/api/admin/sinks");
    assert_eq!(sinks.len(), 1, "{sinks:?}");
}
