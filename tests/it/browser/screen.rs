//! Pages that `headgate screen` makes: one of the user's own, and one in a file that needs no daemon to start.

use std::path::Path;

use serde_json::json;

use super::daemon::{Daemon, READ_KEY};
use super::driver::Window;
use super::render::TABLE;
use crate::command_line::{Done, headgate, operate};
use crate::program::output;

/// Everything that a viewer can read.
pub(super) const SEEN: &str = "return document.body.innerText.trim()";

/// Runs `headgate screen` as somebody who has the read key.
fn screen(folder: &Path, args: &[&str]) -> Done {
    let mut command = headgate(folder);
    command.arg("screen").args(args);
    let done = output(command.env("HEADGATE_READ_KEY", READ_KEY)).expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Done {
        code: done.status.code(),
        out: text(done.stdout),
        err: text(done.stderr),
    }
}

#[test]
fn a_page_of_ones_own_shows_data() {
    let Some(window) = Window::open("a_page_of_ones_own_shows_data") else {
        return;
    };
    let daemon = Daemon::start(&["scores"]);
    let folder = tempfile::tempdir().expect("a folder");
    let data_dir = daemon.process().setup.data_dir().to_owned();
    let data_dir = data_dir.to_str().expect("UTF-8");
    let origin = daemon.origin();
    daemon.post(
        "scores",
        r#"{"id": "m1", "home": {"name": "<b>Mus", "score": 2}, "away": {"name": "Tid", "score": 0}, "clock": {"label": "67′"}}"#,
    );
    let page = |template: &str| {
        let wanted = ["new", template, "--template", template];
        let place = [
            "--stream",
            "scores",
            "--data-dir",
            data_dir,
            "--url",
            &origin,
        ];
        let made = screen(folder.path(), &[&wanted[..], &place[..]].concat());
        let url = made.ok();
        let expected = format!("{origin}/pages/{template}.html?stream=scores#READ_KEY\n");
        assert_eq!(url, expected);
        url.trim().replace("READ_KEY", READ_KEY)
    };
    window.go(&page("scoreboard"));
    let texts = "return ['home', 'score', 'away', 'clock'].map((id) => document.getElementById(id).textContent)";
    window.shows(texts, &json!(["<b>Mus", "2 : 0", "Tid", "67′"]));
    daemon.post(
        "scores",
        r#"{"id": "m1", "home": {"name": "Mus", "score": 3}, "away": {"name": "Tid", "score": 0}, "clock": {"label": "68′"}}"#,
    );
    window.shows(texts, &json!(["Mus", "3 : 0", "Tid", "68′"]));
    window.go(&page("table"));
    window.shows(
        TABLE,
        &json!([
            [
                "id",
                "home.name",
                "home.score",
                "away.name",
                "away.score",
                "clock.label"
            ],
            ["m1", "Mus", "3", "Tid", "0", "68′"]
        ]),
    );
    window.go(&page("ticker"));
    window.shows(SEEN, &json!("m1 – Mus – 3 – Tid"));
    assert_eq!(window.log(&origin), Vec::<String>::new());
}

#[test]
fn a_saved_file_starts_without_the_daemon_and_shows_the_last_state() {
    let Some(window) =
        Window::open("a_saved_file_starts_without_the_daemon_and_shows_the_last_state")
    else {
        return;
    };
    let mut daemon = Daemon::start(&["orders"]);
    let folder = tempfile::tempdir().expect("a folder");
    let origin = daemon.origin();
    let wanted = ["screen", "save", "orders", "--url", &origin];
    let more = ["--option", "fields=id,text", "--key", "lobby-file"];
    let saved = operate(daemon.process(), wanted.into_iter().chain(more));
    let made = daemon.process().admin("/api/admin/read-keys/lobby-file");
    assert_eq!(made["origins"], json!(["null"]));
    assert!(saved.err.contains("contains the read key"), "{}", saved.err);
    let file = folder.path().join("lobby.html");
    std::fs::write(&file, saved.ok()).expect("a file");
    let url = format!("file://{}", file.display());

    // It has seen nothing yet, and says nothing.
    daemon.stop();
    window.go(&url);
    let offline = "return document.documentElement.dataset.state";
    window.shows(offline, &json!("offline"));
    window.shows(SEEN, &json!(""));

    daemon.start_again();
    daemon.post("orders", r#"{"id": "1", "text": "</script>first"}"#);
    let first = json!([["id", "text"], ["1", "</script>first"]]);
    window.shows(TABLE, &first);
    window.shows(
        "return document.fonts.check('500 16px \"Barlow Condensed\"')",
        &json!(true),
    );
    let refused = window.log("lobby.html");
    let refused: Vec<&String> = refused
        .iter()
        .filter(|line| line.contains("Content Security Policy"))
        .collect();
    assert!(refused.is_empty(), "{refused:?}");

    // The player is switched off, and starts while the daemon is away.
    window.go("about:blank");
    daemon.stop();
    window.go(&url);
    window.shows(TABLE, &first);
    window.shows(offline, &json!("offline"));
    window.shows(TABLE, &first);
    daemon.start_again();
    daemon.post("orders", r#"{"id": "1", "text": "second"}"#);
    window.shows(TABLE, &json!([["id", "text"], ["1", "second"]]));
}

#[test]
fn pages_start_from_what_was_kept_when_the_daemon_is_away_and_are_new_again_after() {
    let test = "pages_start_from_what_was_kept_when_the_daemon_is_away_and_are_new_again_after";
    let Some(window) = Window::open(test) else {
        return;
    };
    let mut daemon = Daemon::start(&["orders"]);
    let folder = tempfile::tempdir().expect("a folder");
    let data_dir = daemon.process().setup.data_dir().to_owned();
    let place = ["new", "own", "--stream", "orders", "--data-dir"];
    let named = [data_dir.to_str().expect("UTF-8"), "--url", &daemon.origin()];
    let own = screen(folder.path(), &[&place[..], &named[..]].concat()).ok();
    let own = own.trim().replace("READ_KEY", READ_KEY);
    let table = json!([["id", "text"], ["1", "value-of-an-item"]]);
    daemon.post("orders", r#"{"id": "1", "text": "value-of-an-item"}"#);
    // What is kept, by path, and whether a key, an option or a value is in it.
    let kept = "const key = arguments[0]; \
         return (async () => { \
           const cache = await caches.open('headgate-pages-1'); \
           const all = await cache.keys(); \
           const texts = await Promise.all(all.map(async (one) => one.url + ' ' + await (await cache.match(one)).text())); \
           const told = texts.some((text) => text.includes(key) || text.includes('value-of-an-item') || /[?#]/.test(text.split(' ')[0])); \
           return [all.map((one) => new URL(one.url).pathname), told]; \
         })()";
    for (url, needed) in [
        (
            daemon.page("orders"),
            &[
                "/render/orders",
                "/render.css",
                "/render.js",
                "/templates/page.js",
                "/templates/table.js",
                "/headgate.js",
            ][..],
        ),
        (
            own.clone(),
            &["/pages/own.html", "/headgate.js", "/offline.js"],
        ),
    ] {
        window.go(&url);
        window.shows(TABLE, &table);
        window.becomes("all of it is kept", kept, &json!([READ_KEY]), |found| {
            let paths = found[0].as_array().expect("paths");
            assert_eq!(found[1], false, "{found}");
            assert!(
                !paths.iter().any(|path| path.to_string().contains("/api/")),
                "{found}"
            );
            needed.iter().all(|path| paths.contains(&json!(path)))
        });
    }
    window.go("about:blank");
    daemon.stop();
    for url in [&daemon.page("orders"), &own] {
        window.go(url);
        window.shows(TABLE, &table);
    }
    std::fs::write(data_dir.join("pages/own.html"), "<p>new").expect("a page");
    daemon.start_again();
    window.go("about:blank");
    window.go(&own);
    window.shows(SEEN, &json!("new"));
}
