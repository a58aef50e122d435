//! The example renderers, loaded as their readme says: from files, and the module from a web server.

use serde_json::{Value, json};

use super::daemon::{Daemon, READ_KEY};
use super::driver::Window;
use super::site::{Site, project};

const MATCH: &str = "hcl-2025-r09-m3";

/// A daemon with the example's items in the stream `scoreboard`.
fn scoreboard(origins: &str) -> Daemon {
    let daemon = Daemon::start_for(&["scoreboard"], origins);
    let payload = project("examples/payloads/scoreboard.json");
    let payload = std::fs::read_to_string(payload).expect("the example");
    let process = daemon.process();
    process.accepted("scoreboard", "X-Item-Key: match_id\r\n", &payload);
    daemon
}

/// Sets the score of the match that the examples show.
fn score(daemon: &Daemon, home: u32, away: u32) {
    let item = json!({"match_id": MATCH, "status": "live", "clock": {"minute": 68},
        "home": {"name": "Musterstadt United", "short": "MUS", "score": home},
        "away": {"name": "Tidewater <b>Rovers</b>", "short": "TID", "score": away}});
    let process = daemon.process();
    process.accepted("scoreboard", "X-Item-Key: match_id\r\n", &item.to_string());
}

/// An example as a file, with the daemon behind the `#`.
fn file(name: &str, daemon: &Daemon, more: &str) -> String {
    let path = project("examples/renderers").join(name);
    let server = daemon.origin();
    format!(
        "file://{}#server={server}&key={READ_KEY}&stream=scoreboard{more}",
        path.display()
    )
}

/// Nothing that the page did is in the log as an error.
fn check_log(window: &Window, origin: &str) {
    assert_eq!(window.log(origin), Vec::<String>::new());
}

#[test]
fn the_scoreboard_shows_a_goal() {
    let Some(window) = Window::open("the_scoreboard_shows_a_goal") else {
        return;
    };
    let daemon = scoreboard(r#"["null"]"#);
    window.go(&file(
        "scoreboard.html",
        &daemon,
        &format!("&match={MATCH}"),
    ));
    let shown = "const texts = [...document.querySelectorAll('.name, .score b')].map((it) => it.textContent); \
         return [document.getElementById('graphic').className, ...texts]";
    let before = json!(["on", "Musterstadt United", "2", "1", "Tidewater Rovers"]);
    window.shows(shown, &before);
    score(&daemon, 3, 1);
    let after = json!([
        "on",
        "Musterstadt United",
        "3",
        "1",
        "Tidewater <b>Rovers</b>"
    ]);
    window.shows(shown, &after);
    window.shows(
        "return document.getElementById('problem').hidden",
        &json!(true),
    );
    check_log(&window, "scoreboard.html");
}

#[test]
fn the_ticker_runs_and_changes_what_is_running() {
    let Some(window) = Window::open("the_ticker_runs_and_changes_what_is_running") else {
        return;
    };
    let daemon = scoreboard(r#"["null"]"#);
    window.go(&file("ticker.html", &daemon, "&title=Scores&speed=10"));
    let strip = "return document.getElementById('strip').textContent";
    let contains = |part: &'static str| {
        move |text: &Value| text.as_str().is_some_and(|text| text.contains(part))
    };
    window.becomes(
        "the match",
        strip,
        &json!([]),
        contains("Musterstadt United  2 : 1"),
    );
    score(&daemon, 2, 2);
    let changed = contains("Musterstadt United  2 : 2  Tidewater <b>Rovers</b>");
    window.becomes("the new score", strip, &json!([]), changed);
    let place =
        "return new DOMMatrix(getComputedStyle(document.getElementById('strip')).transform).e";
    let before = window.run(place, &json!([]));
    let moved = |now: &Value| now.as_f64() < before.as_f64();
    window.becomes("it runs to the left", place, &json!([]), moved);
    check_log(&window, "ticker.html");
}

#[test]
fn the_casparcg_template_follows_after_update_and_play() {
    let Some(window) = Window::open("the_casparcg_template_follows_after_update_and_play") else {
        return;
    };
    let daemon = scoreboard(r#"["null"]"#);
    let template = project("examples/renderers/casparcg/template.html");
    window.go(&format!("file://{}", template.display()));
    let data = json!({"f0": daemon.origin(), "f1": READ_KEY, "f2": "scoreboard", "f3": MATCH,
        "f5": "{clock.minute}' {nothing}"});
    let given = json!([data.to_string()]);
    window.run("update(arguments[0]); play()", &given);
    let shown = "return [document.getElementById('strap').className, \
         document.getElementById('line1').textContent, document.getElementById('line2').textContent]";
    let first = "Musterstadt United 2 : 1 Tidewater Rovers";
    window.shows(shown, &json!(["on", first, "67' –"]));
    score(&daemon, 2, 2);
    let changed = "Musterstadt United 2 : 2 Tidewater <b>Rovers</b>";
    window.shows(shown, &json!(["on", changed, "68' –"]));
    // CasparCG's own form of data.
    let xml = "<templateData><componentData id=\"f5\"><data id=\"text\" value=\"&lt;i&gt; {status}\"/></componentData></templateData>";
    window.run("update(arguments[0])", &json!([xml]));
    window.shows(shown, &json!(["on", changed, "<i> live"]));
    window.run("stop()", &json!([]));
    window.shows(shown, &json!(["", changed, "<i> live"]));
    check_log(&window, "template.html");
}

#[test]
fn the_ograf_graphic_follows_its_item_until_it_is_disposed() {
    let Some(window) = Window::open("the_ograf_graphic_follows_its_item_until_it_is_disposed")
    else {
        return;
    };
    let site = Site::of("examples/renderers/ograf");
    let daemon = scoreboard(&json!([site.origin()]).to_string());
    window.go(&site.page(""));
    let host = "return fetch('/score.ograf.json').then((answer) => answer.json()) \
         .then((manifest) => import('/' + manifest.main)).then(async ({ default: Graphic }) => { \
           customElements.define('headgate-score', Graphic); \
           window.graphic = document.body.appendChild(document.createElement('headgate-score')); \
           const loaded = await graphic.load({ data: arguments[0], renderType: 'realtime' }); \
           return [loaded.statusCode, (await graphic.playAction({ skipAnimation: true })).currentStep]; \
         })";
    let data = json!({"server": daemon.origin(), "key": READ_KEY, "item": MATCH});
    assert_eq!(window.run(host, &json!([data])), json!([200, 0]));
    let shown =
        "return [...graphic.shadowRoot.querySelectorAll('#bug > *')].map((it) => it.textContent)";
    window.shows(shown, &json!(["MUS", "2", "1", "TID", "67′"]));
    score(&daemon, 2, 2);
    window.shows(shown, &json!(["MUS", "2", "2", "TID", "68′"]));

    let renderers = || daemon.process().admin("/api/admin/renderers");
    assert_eq!(renderers().as_array().map(Vec::len), Some(1));
    window.run("return graphic.dispose({})", &json!([]));
    crate::wait::eventually("it has left", || {
        renderers()
            .as_array()
            .is_some_and(Vec::is_empty)
            .then_some(())
    });
    check_log(&window, &site.origin());
}
