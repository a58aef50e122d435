//! The page `/operate/{stream}`: acts by a thumb, what they show, and what it says when they fail.

use serde_json::{Value, json};

use super::daemon::Daemon;
use super::driver::Window;

/// What the page says of the stream, its state, and what waits or went wrong.
const ABOUT: &str = "return document.querySelector('#about').textContent";
const LAST: &str = "return document.querySelector('#last').textContent";
const TROUBLE: &str = "return document.querySelector('#trouble').textContent";
const UNDO: &str = "return document.querySelector('#undo').textContent";
/// What a card shows of the home side's score.
const SCORE: &str = "return document.querySelector('[data-key=m1] .side[data-field=\"home.score\"] .value').innerText.split(/\\s+/).join(' ')";
const PLUS: &str = "[data-key=m1] .side[data-field='home.score'] .plus";

/// Brings an element out from behind the bars that stay, as a thumb does, and presses it.
#[track_caller]
fn press(window: &Window, selector: &str) {
    let to_middle = "document.querySelector(arguments[0]).scrollIntoView({block: 'center'})";
    window.run(to_middle, &json!([selector]));
    window.click(selector);
}

/// Waits until the text of an element has this.
#[track_caller]
fn says(window: &Window, script: &str, what: &str) {
    let has = |text: &Value| text.as_str().is_some_and(|text| text.contains(what));
    window.becomes(what, script, &json!([]), has);
}

/// Opens all fields of the item.
#[track_caller]
fn open(window: &Window) {
    press(window, "[data-key=m1] summary");
    let fields = "return document.querySelectorAll('[data-key=m1] .field').length";
    window.shows(fields, &json!(6));
}

fn score(daemon: &Daemon, home: u32) {
    let item = json!({"id": "m1", "home": {"name": "Reds", "score": home}, "away": {"name": "<b>Blues</b>", "score": 1}, "note": "HT"});
    daemon.post("scores", &item.to_string());
}

/// What screens are shown of an item.
fn shown(daemon: &Daemon, field: &str) -> Value {
    let item = daemon.read("/api/streams/scores/items/m1");
    item["fields"][field].clone()
}

#[test]
fn a_thumb_adds_overrides_holds_takes_resumes_and_undoes() {
    let Some(window) = Window::open("a_thumb_adds_overrides_holds_takes_resumes_and_undoes") else {
        return;
    };
    let daemon = Daemon::start_operated(&["scores"]);
    score(&daemon, 2);
    window.resize(390, 844);
    window.go(&daemon.operate_page("scores"));
    window.shows(SCORE, &json!("2"));
    let names =
        "return [...document.querySelectorAll('.side .name')].map((name) => name.textContent)";
    window.shows(names, &json!(["Reds", "<b>Blues</b>"]));

    press(&window, PLUS);
    window.shows(SCORE, &json!("3 source: 2"));
    window.shows(UNDO, &json!("Undo +1"));
    assert_eq!(shown(&daemon, "home.score"), 3);
    says(&window, LAST, "m1 home.score +1: 3 is shown.");

    open(&window);
    let note = "[data-key=m1] .field[data-field=note]";
    let type_note = "const input = document.querySelector(arguments[0] + ' input'); input.value = '7'; input.focus()";
    window.run(type_note, &json!([note]));
    window.press_enter();
    let value = "return document.querySelector('.field[data-field=note] .value').innerText.split(/\\s+/).join(' ')";
    window.shows(value, &json!("7 source: HT"));
    // What is shown as a text stays one.
    assert_eq!(shown(&daemon, "note"), "7");

    press(&window, "#hold");
    says(&window, ABOUT, "by desk. No change waits.");
    score(&daemon, 5);
    says(&window, ABOUT, "by desk. 1 change waits.");
    window.shows(SCORE, &json!("3 source: 5"));
    press(&window, ".field[data-field='home.score'] .release");
    window.shows(SCORE, &json!("2"));
    press(&window, "#take");
    window.shows(SCORE, &json!("5"));
    says(&window, ABOUT, "by desk. No change waits.");
    score(&daemon, 6);
    says(&window, ABOUT, "1 change waits.");
    press(&window, "#resume");
    window.shows(SCORE, &json!("6"));
    window.shows(ABOUT, &json!("1 item, 1 with overrides."));

    for label in [
        "Undo resume",
        "Undo take",
        "Undo release",
        "Undo hold",
        "Undo override",
        "Undo +1",
    ] {
        window.shows(UNDO, &json!(label));
        press(&window, "#undo");
    }
    window.shows(UNDO, &json!("Undo"));
    window.shows(ABOUT, &json!("1 item."));
    assert_eq!(shown(&daemon, "note"), "HT");
    assert_eq!(window.log(&daemon.origin()), Vec::<String>::new());
    press(&window, "#undo");
    window.shows(TROUBLE, &json!("There is nothing left to undo.Close"));
    // The browser notes every answer that refuses something.
    assert_eq!(window.log(&daemon.origin()).len(), 1);
    let wide = "return document.documentElement.scrollWidth <= innerWidth";
    window.shows(wide, &json!(true));
}

#[test]
fn an_item_is_held_by_itself_and_every_control_has_a_name() {
    let Some(window) = Window::open("an_item_is_held_by_itself_and_every_control_has_a_name")
    else {
        return;
    };
    let daemon = Daemon::start_operated(&["scores"]);
    score(&daemon, 2);
    window.go(&daemon.operate_page("scores"));
    window.shows(SCORE, &json!("2"));
    open(&window);
    window.run(
        "document.getElementById('until').value = '10800'",
        &json!([]),
    );
    press(&window, "[data-key=m1] .hold");
    let held = "return document.querySelector('[data-key=m1] .held-by').textContent";
    says(&window, held, "by desk, until ");
    let never = "document.getElementById('until').value = ''";
    window.run(never, &json!([]));
    score(&daemon, 9);
    let waits = "return !document.querySelector('[data-key=m1] .waits').hidden";
    window.shows(waits, &json!(true));
    press(&window, "[data-key=m1] .resume");
    window.shows(SCORE, &json!("9"));
    let nameless = "return [...document.querySelectorAll('button, input')] \
         .filter((it) => it.checkVisibility() && !(it.textContent || it.ariaLabel || it.labels?.length)).length";
    window.shows(nameless, &json!(0));
    // The keyboard alone: from the field that finds, over the time, to the first button.
    window.run("document.querySelector('#find').focus()", &json!([]));
    window.keys(&super::driver::key::TAB.to_string().repeat(3));
    let focused = "return document.activeElement.ariaLabel";
    window.shows(focused, &json!("Reds: plus 1"));
    window.press_enter();
    window.shows(SCORE, &json!("10 source: 9"));
}

#[test]
fn a_key_that_is_revoked_and_a_daemon_that_is_away_are_said() {
    let Some(window) = Window::open("a_key_that_is_revoked_and_a_daemon_that_is_away_are_said")
    else {
        return;
    };
    let mut daemon = Daemon::start_operated(&["scores"]);
    score(&daemon, 2);
    window.go(&daemon.operate_page("scores"));
    window.shows(SCORE, &json!("2"));
    daemon.kill();
    press(&window, PLUS);
    says(
        &window,
        TROUBLE,
        "Nobody knows whether “m1 home.score +1” was done.",
    );
    daemon.start_again();
    press(&window, "#trouble button");
    window.shows(SCORE, &json!("3 source: 2"));
    window.shows(TROUBLE, &json!(""));

    daemon.revoke_operate_key();
    says(&window, TROUBLE, "This key is refused");
    let disabled = "return document.querySelector('fieldset').disabled";
    window.shows(disabled, &json!(true));

    // A stream of no such name, a key that only reads, and none.
    let other = daemon.operate_page("scores").replace("/scores#", "/other#");
    for (address, what) in [
        (
            other.replace("#ok_live", "#ok_live_of_nobody"),
            "This key is refused",
        ),
        (
            daemon.page("scores").replace("/render/", "/operate/"),
            "This is a read key.",
        ),
        (
            format!("{}/operate/scores", daemon.origin()),
            "It begins with ok_.",
        ),
    ] {
        window.go("about:blank");
        window.go(&address);
        says(&window, "return document.body.innerText", what);
    }
    // The log, which other tests expect to be empty, tells of requests that were refused.
    window.log(&daemon.origin());
}
