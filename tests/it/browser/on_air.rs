//! A screen shows data or nothing: every template of `/render/{stream}`, in every fault.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::daemon::{Daemon, READ_KEY};
use super::driver::Window;
use super::render::STATE;

pub(super) const TEMPLATES: [&str; 6] = [
    "table",
    "scoreboard",
    "ticker",
    "cards",
    "number",
    "lower-third",
];
const TITLE: &str = "Of the address";
/// Every text that can be seen, also what the style adds; parts of a line that two spaces join count each.
const SEEN: &str = "const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT); \
     const texts = []; \
     while (walker.nextNode()) { \
       const element = walker.currentNode.parentElement; \
       const style = getComputedStyle(element); \
       if (!element.getClientRects().length || style.visibility !== 'visible') continue; \
       texts.push(...walker.currentNode.data.split('  ')); \
     } \
     for (const element of document.querySelectorAll('*')) for (const pseudo of ['::before', '::after', '::marker']) { \
       const { content } = getComputedStyle(element, pseudo); \
       if (!['none', 'normal', '\"\"'].includes(content)) texts.push(content); \
     } \
     return [...new Set(texts.map((text) => text.trim()).filter(Boolean))].sort()";

fn address(daemon: &Daemon, template: &str, key: &str) -> String {
    let title = TITLE.replace(' ', "+");
    format!(
        "{}/render/orders?template={template}&title={title}#{key}",
        daemon.origin()
    )
}

fn matches() -> Value {
    json!([
        {"id": "m1", "home": {"name": "Reds", "score": 2}, "away": {"name": "Blues", "score": 1}, "status": "2nd half", "price": 10},
        {"id": "m2", "home": {"name": "Greens"}, "away": {"name": "A club with a name that no box has room for, however it is written"}},
        {"id": "m3", "venue": "Elsewhere", "price": 7.5},
    ])
}

/// Adds an object to it; names of fields of an object in it begin with `parent`.
fn add(allowed: &mut BTreeSet<String>, parent: &str, value: &Value) {
    for (name, value) in value.as_object().expect("an object") {
        allowed.extend([name.clone(), format!("{parent}{name}"), format!("{name}.")]);
        let text = match value {
            Value::Object(_) => {
                add(allowed, &format!("{parent}{name}."), value);
                continue;
            }
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        // A name is written word by word.
        allowed.extend(text.split_whitespace().map(str::to_owned));
        allowed.insert(text);
    }
}

/// What may be seen of items: keys, values, names of fields and the parts of these names, the title.
fn allowed(items: &Value) -> BTreeSet<String> {
    let mut allowed = BTreeSet::from([TITLE.to_owned()]);
    for item in items.as_array().expect("a list") {
        add(&mut allowed, "", item);
    }
    allowed
}

/// Nothing else than this is seen; and something is, if there is something.
#[track_caller]
fn shows_only(window: &Window, template: &str, allowed: &BTreeSet<String>) {
    let found = window.run(SEEN, &json!([]));
    let found = found.as_array().expect("a list");
    for text in found {
        let text = text.as_str().expect("a text");
        assert!(
            allowed.contains(text),
            "{template} says {text:?}: {found:?}"
        );
    }
    let data = |text: &Value| text != TITLE;
    assert_eq!(
        allowed.len() > 1,
        found.iter().any(data),
        "{template}: {found:?}"
    );
}

#[test]
fn without_a_key_that_reads_or_without_items_nothing_is_seen() {
    let test = "without_a_key_that_reads_or_without_items_nothing_is_seen";
    let Some(window) = Window::open(test) else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    for template in TEMPLATES {
        for (key, state) in [
            ("", "keyless"),
            ("ik_live_0123456789abcdef0123", "keyless"),
            ("rk_live_of_somebody_else_000", "refused"),
            (READ_KEY, "shown"),
        ] {
            window.go("about:blank");
            window.go(&address(&daemon, template, key));
            window.shows(STATE, &json!(state));
            // Of an empty stream not even the title.
            assert_eq!(window.run(SEEN, &json!([])), json!([]), "{template} {key}");
        }
    }
    // The same look finds what `debug` says.
    window.go("about:blank");
    window.go(&(address(&daemon, "table", "rk_live_of_somebody_else_000") + "&debug"));
    let told = |texts: &Value| texts.to_string().contains("refused");
    window.becomes("debug", SEEN, &json!([]), told);
}

#[test]
fn what_is_seen_stays_data_when_the_daemon_dies_or_the_key_is_revoked() {
    let test = "what_is_seen_stays_data_when_the_daemon_dies_or_the_key_is_revoked";
    let Some(first) = Window::open(test) else {
        return;
    };
    let mut daemon = Daemon::start(&["orders"]);
    daemon.post("orders", &matches().to_string());
    daemon.process().drained();
    let allowed = allowed(&matches());
    let others: Vec<Window> = (1..TEMPLATES.len()).map(|_| first.another()).collect();
    let windows: Vec<(&str, &Window)> = TEMPLATES
        .into_iter()
        .zip(std::iter::once(&first).chain(&others))
        .collect();
    let all = |state: &str| {
        for (template, window) in &windows {
            window.shows(STATE, &json!(state));
            shows_only(window, template, &allowed);
        }
    };
    for (template, window) in &windows {
        window.go(&address(&daemon, template, READ_KEY));
    }
    all("shown");
    daemon.kill();
    all("offline");
    daemon.start_again();
    all("shown");
    daemon.revoke_read_key();
    all("refused");
}

#[test]
fn five_thousand_items_are_seen_as_data() {
    let Some(window) = Window::open("five_thousand_items_are_seen_as_data") else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    let items: Vec<Value> = (0..5_000)
        .map(|item| json!({"id": format!("m{item}"), "name": format!("n{item}"), "value": item}))
        .collect();
    for part in items.chunks(1_000) {
        daemon.post("orders", &json!(part).to_string());
    }
    daemon.process().drained();
    let allowed = allowed(&json!(items));
    for template in TEMPLATES {
        window.go("about:blank");
        window.go(&address(&daemon, template, READ_KEY));
        window.shows(STATE, &json!("shown"));
        shows_only(&window, template, &allowed);
        let wide = "return document.documentElement.scrollWidth <= innerWidth && document.documentElement.scrollHeight <= innerHeight";
        window.shows(wide, &json!(true));
    }
}

#[test]
fn what_may_be_old_is_hidden_or_dimmed_where_the_address_says_so() {
    let test = "what_may_be_old_is_hidden_or_dimmed_where_the_address_says_so";
    let Some(window) = Window::open(test) else {
        return;
    };
    let mut daemon = Daemon::start(&["orders"]);
    daemon.post("orders", r#"{"id": "m1"}"#);
    let dimmed = window.another();
    for (window, option) in [(&window, "hide"), (&dimmed, "dim")] {
        let address = format!(
            "{}/render/orders?stale={option}#{READ_KEY}",
            daemon.origin()
        );
        window.go(&address);
        window.shows(SEEN, &json!(["id", "m1"]));
    }
    let opacity = "return getComputedStyle(document.querySelector('main')).opacity === '1'";
    dimmed.shows(opacity, &json!(true));
    daemon.kill();
    window.shows(SEEN, &json!([]));
    dimmed.shows(opacity, &json!(false));
    dimmed.shows(SEEN, &json!(["id", "m1"]));
    daemon.start_again();
    window.shows(SEEN, &json!(["id", "m1"]));
    dimmed.shows(opacity, &json!(true));
}

#[test]
fn a_screen_that_was_loaded_in_part_begins_again() {
    let Some(window) = Window::open("a_screen_that_was_loaded_in_part_begins_again") else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    daemon.post("orders", r#"{"id": "m1"}"#);
    window.devtools("Network.enable", &json!({}));
    for part in ["/templates/text.js", "/templates/table.js", "/render.css"] {
        let blocked = json!({"urls": [format!("*{part}")]});
        window.devtools("Network.setBlockedURLs", &blocked);
        window.go("about:blank");
        window.go(&format!("{}/render/orders#{READ_KEY}", daemon.origin()));
        window.shows("return document.body.hidden", &json!(true));
        assert_eq!(window.run(SEEN, &json!([])), json!([]), "{part}");
        window.devtools("Network.setBlockedURLs", &json!({"urls": []}));
        window.shows(SEEN, &json!(["id", "m1"]));
        window.shows(STATE, &json!("shown"));
    }
}
