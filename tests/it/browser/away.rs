//! Every page of a node of a cluster while all are there, while another node is away, and while the database is.
//!
//! **Invariant**: a page shows the last state that the node knows, says what is away, and runs without an error; a form that
//! cannot work says so.

use postgres_server::Postgres;
use serde_json::{Value, json};

use super::admin::{PAGES, log_without_refusals, sign_in};
use super::axe::{axe, findings};
use super::driver::Window;
use super::forms::is_at;
use super::render;
use crate::cluster::{READ_KEY, node, owner_first};
use crate::process::{BY_ID, Process};
use crate::wait::eventually;

/// Pages that only a daemon with requests and sessions has, or that are for viewers of something else.
const MORE: [&str; 4] = ["/sessions", "/sinks/pool", "/audit/1", "/read-keys/screen"];
/// What is only in the database, so that nothing of it can be shown.
const ONLY_THERE: [&str; 2] = ["/sessions", "/requests/"];

/// Status, heading, text, and whether the page is wider than the window.
const SEEN: &str = "const text = (document.querySelector('main') ?? document.body).innerText; \
     return [performance.getEntriesByType('navigation')[0].responseStatus, document.querySelector('h1')?.textContent ?? '', \
             text, document.documentElement.scrollWidth > innerWidth]";

/// What the database is called where it is away.
const AWAY: &str = "database of the cluster";

/// What is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum There {
    All,
    OneNode,
    NoDatabase,
}

/// The theme of the pages from now on.
fn theme(window: &Window, name: &str) {
    let features = json!({"features": [{"name": "prefers-color-scheme", "value": name}]});
    window.devtools("Emulation.setEmulatedMedia", &features);
}

/// Opens every page.
fn walk(window: &Window, origin: &str, paths: &[String], there: There) {
    for path in paths {
        window.go(&format!("{origin}{path}"));
        let seen = window.run(SEEN, &json!([]));
        let only_there = ONLY_THERE.iter().any(|begin| path.starts_with(begin));
        let status = match there {
            There::NoDatabase if only_there => 503,
            _ => 200,
        };
        assert_eq!(seen[0], status, "{there:?} {path}: {seen}");
        assert_ne!(seen[1], "", "{there:?} {path}: no heading: {seen}");
        assert_eq!(seen[3], false, "{there:?} {path} is wider than the window");
        if path.starts_with("/docs") {
            continue;
        }
        let text = seen[2].as_str().expect("a text");
        let says_so = text.contains(AWAY) && text.contains("not");
        // The overview and the settings name the database as a fact, too.
        assert!(
            says_so || there != There::NoDatabase,
            "{path} does not say that the database is away: {text}"
        );
        let is_wrong = text.contains("has not answered") || text.contains("does not answer");
        assert!(!is_wrong || there == There::NoDatabase, "{path}: {text}");
    }
    let mut log = log_without_refusals(window, origin);
    // A page that only the database has.
    log.retain(|line| there != There::NoDatabase || !line.contains("status of 503"));
    assert_eq!(log, Vec::<String>::new(), "{there:?}");
}

/// The paths of the pages of a daemon with this request.
fn pages(request: &str) -> Vec<String> {
    let known = PAGES.iter().chain(&MORE).map(|path| (*path).to_owned());
    known.chain([format!("/requests/{request}")]).collect()
}

/// What a viewer's screen shows.
fn shows_item(screen: &Window) {
    let is_shown = "return document.body.innerText.includes('Lyon')";
    screen.shows(is_shown, &json!(true));
}

/// Waits until the node knows whether its database answers.
fn database_is(process: &Process, reachable: bool) {
    eventually("the node knows of its database", || {
        let cluster = process.admin("/api/admin/cluster");
        (cluster["database"]["reachable"] == reachable).then_some(())
    });
}

#[test]
fn every_page_says_what_is_away_and_shows_the_last_state() {
    let test = "every_page_says_what_is_away_and_shows_the_last_state";
    let Some(window) = Window::open(test) else {
        return;
    };
    let Some(axe) = axe(test) else { return };
    let Some(mut server) = Postgres::start(test) else {
        return;
    };
    let [runs, waits] = owner_first(["a", "b"].map(|name| node(&server, name).spawn()));
    let item = r#"{"id": "1", "home": "Lyon", "away": "Brest"}"#;
    let paths = pages(&waits.accepted("orders", BY_ID, item));
    let origin = format!("http://{}", waits.admin);
    sign_in(&window, &origin, "/");
    let screen = window.another();
    screen.go(&format!(
        "http://{}/render/orders#{READ_KEY}",
        waits.service
    ));
    shows_item(&screen);
    theme(&window, "light");
    walk(&window, &origin, &paths, There::All);

    let name = runs.admin("/api/admin/status")["node"].take();
    runs.kill();
    eventually("the other node is away", || {
        let nodes = waits.admin("/api/admin/cluster")["nodes"].take();
        let nodes = nodes.as_array().expect("a list").clone();
        let away = |node: &Value| node["name"] == name && node["live"] == false;
        let owns = |node: &Value| node["this"] == true && node["runs_sinks"] == true;
        (nodes.iter().any(away) && nodes.iter().any(owns)).then_some(())
    });
    theme(&window, "dark");
    walk(&window, &origin, &paths, There::OneNode);
    window.go(&format!("{origin}/settings"));
    let badges = "return [...document.querySelectorAll('#live .badge, main .badge')].map((badge) => badge.textContent)";
    window.becomes("a node is away", badges, &json!([]), |badges| {
        let has = |word: &str| {
            badges
                .as_array()
                .is_some_and(|all| all.contains(&json!(word)))
        };
        has("away") && has("live")
    });

    // A page that is open says so by itself.
    window.go(&format!("{origin}/streams/orders"));
    server.crash();
    database_is(&waits, false);
    let alert = "return document.querySelector('#head [role=alert]')?.textContent ?? ''";
    window.becomes("it says so", alert, &json!([]), |alert| {
        alert.as_str().is_some_and(|alert| alert.contains(AWAY))
    });
    for name in ["light", "dark"] {
        theme(&window, name);
        walk(&window, &origin, &paths, There::NoDatabase);
    }
    let is_accessible = |page: &str| {
        let found = findings(&window, &axe, &json!({}));
        assert_eq!(found, Vec::<String>::new(), "{page}");
    };
    for path in ["/", "/settings", "/connectors", "/connectors/tests"] {
        window.go(&format!("{origin}{path}"));
        is_accessible(path);
    }
    shows_item(&screen);
    window.go(&format!("{origin}/sinks/pool"));
    is_at(&window, "pool");
    let press = "document.querySelector(\"form[action='/sinks/pool/pause'] button\").click()";
    window.run(press, &json!([]));
    is_at(&window, "Database not reachable");
    let says = "return document.body.innerText.includes('nothing was changed')";
    window.shows(says, &json!(true));
    is_accessible("the answer to a form");

    // The same page is whole again when the database is.
    window.go(&format!("{origin}/streams/orders"));
    server.resume();
    database_is(&waits, true);
    window.shows(alert, &json!(""));
    screen.shows(render::STATE, &json!("shown"));
    waits.stop();
}
