//! Every page that a link leads to, checked by axe-core for people who read with their ears or with little light.
//!
//! axe-core lies in `target/axe`, where `.ci/run` puts it. Where it is missing the test is skipped and says so; with `CI`
//! set that is a failure.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::admin::sign_in;
use super::daemon::Daemon;
use super::driver::Window;
use super::grid;
use crate::process::skipped;

const AXE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/axe/package/axe.min.js");

/// Shortens the reference of the API, in which operations that one function wrote are alike: of an operation without any
/// kind of element that those before it do not have, the title and the call are left. The whole page is checked for half a
/// minute.
const SHORTEN: &str = "const kinds = new Set(); let cut = 0; \
     for (const article of document.querySelectorAll('article.panel')) { \
       const own = [...article.querySelectorAll('*')].map((one) => `${one.parentElement.tagName} ${one.tagName}.${one.className}`); \
       if (own.every((kind) => kinds.has(kind))) { cut += 1; [...article.children].slice(2).forEach((one) => one.remove()); } \
       own.forEach((kind) => kinds.add(kind)); \
     } \
     return cut > 0 && document.querySelectorAll('article.panel').length > cut";

/// The source of axe-core.
pub(super) fn axe(test: &str) -> Option<String> {
    let source = std::fs::read_to_string(AXE).ok();
    if source.is_none() {
        let reason = "there is no axe-core (`npm pack axe-core@4.14.1` in target/axe, unpacked)";
        assert!(std::env::var_os("CI").is_none(), "{test}: {reason}");
        skipped(test, reason);
    }
    source
}

/// What axe-core finds on the page that is open, by all rules in the light and by the contrast in the dark.
pub(super) fn findings(window: &Window, axe: &str, rules: &Value) -> Vec<String> {
    let script = format!(
        "{axe}; return axe.run(document, arguments[0]).then(({{ violations }}) => violations.map(({{ id, nodes }}) => \
         `${{id}}: ${{nodes.map((node) => `${{node.target.join(' ')}} ${{node.failureSummary}}`).join('; ')}}`));"
    );
    let contrast = json!({"runOnly": ["color-contrast"]});
    let mut found = Vec::new();
    for (scheme, rules) in [("light", rules), ("dark", &contrast)] {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        window.devtools("Emulation.setEmulatedMedia", &features);
        let seen = window.run(&script, &json!([rules]));
        let seen = seen.as_array().expect("a list").iter();
        found.extend(seen.map(|one| format!("{scheme}: {one}")));
    }
    found
}

#[test]
fn axe_finds_nothing_on_any_page() {
    let Some(window) = Window::open("axe_finds_nothing_on_any_page") else {
        return;
    };
    let Some(axe) = axe("axe_finds_nothing_on_any_page") else {
        return;
    };
    let process = grid::daemon();
    let origin = format!("http://{}", process.admin);
    sign_in(&window, &origin, "/");
    let mut waiting = vec![format!("{origin}/"), format!("{origin}/search?q=m1")];
    let (mut seen, mut found) = (BTreeSet::new(), Vec::new());
    while let Some(url) = waiting.pop() {
        let is_page = !url.ends_with(".json") && !url.ends_with(".toml");
        if !is_page || url.contains("/export.") || !seen.insert(url.clone()) {
            continue;
        }
        window.go(&url);
        if url.ends_with("/docs/api") {
            assert_eq!(window.run(SHORTEN, &json!([])), true, "{url}");
        }
        let here = findings(&window, &axe, &json!({}));
        found.extend(here.iter().map(|one| format!("{url} {one}")));
        let links = "return [...document.querySelectorAll('a[href]')].map((link) => link.href.split('#')[0])";
        let links = window.run(links, &json!([]));
        let links = links.as_array().expect("a list").iter();
        let links = links.filter_map(Value::as_str).map(str::to_owned);
        // A list that is filtered or sorted is the same page.
        waiting.extend(links.filter(|link| {
            link.starts_with(&origin) && (!link.contains('?') || link.contains("/item?key="))
        }));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(seen.len() > 40, "{seen:?}");
}

#[test]
fn axe_finds_nothing_on_the_pages_for_screens_and_thumbs() {
    let Some(window) = Window::open("axe_finds_nothing_on_the_pages_for_screens_and_thumbs") else {
        return;
    };
    let Some(axe) = axe("axe_finds_nothing_on_the_pages_for_screens_and_thumbs") else {
        return;
    };
    let daemon = Daemon::start_operated(&["scores"]);
    let match_ =
        r#"{"id": "m1", "home": "Lyon", "away": "Brest", "home_score": 2, "away_score": 1}"#;
    daemon.post("scores", match_);
    let root = format!("{}/", daemon.origin());
    for url in [root, daemon.page("scores"), daemon.operate_page("scores")] {
        window.go(&url);
        if url.contains('#') {
            let script = "return document.body.innerText.includes('Lyon')";
            window.shows(script, &json!(true));
        }
        // What is on air has no headings.
        let heading =
            json!({"rules": {"page-has-heading-one": {"enabled": !url.contains("/render/")}}});
        let found = findings(&window, &axe, &heading);
        assert_eq!(found, Vec::<String>::new(), "{url}");
    }
}
