//! An operator's day: a wrong score is corrected in the grid with two clicks, whatever the source sends beneath and however
//! often the daemon is killed; the stream is held, shown and resumed; and the audit log says who did it.

use serde_json::{Value, json};

use super::admin::{origin, sign_in_with};
use super::daemon::{Daemon, READ_KEY};
use super::driver::Window;
use super::render::TABLE;

const TOKEN: &str = "token-of-the-operator-anna";
/// The score of m1 as the grid shows it.
const SCORE: &str = "return document.querySelector('[data-row=m1] td[data-label=score]')?.innerText.split(/\\s+/).join(' ')";
const SAID: &str = "return document.querySelector('.said[role=status]')?.textContent ?? ''";
const HELD: &str = "return document.querySelector('div.hold')?.textContent ?? ''";

fn score(daemon: &Daemon, score: u32) {
    daemon.post("scores", &json!({"id": "m1", "score": score}).to_string());
    daemon.process().drained();
}

/// What the screen, the feed and the item show.
#[track_caller]
fn is_shown(daemon: &Daemon, screen: &Window, score: u32) {
    let text = score.to_string();
    screen.shows(TABLE, &json!([["id", "score"], ["m1", text]]));
    let item = daemon.read("/api/streams/scores/items/m1");
    assert_eq!(item["fields"]["score"], score);
    let mut client = daemon.process().client();
    let feed = client.get("/feed/scores.csv?fields=id,score", READ_KEY);
    let feed = feed.expect("a feed");
    assert!(feed.body.contains(&format!("m1,{score}")), "{}", feed.body);
}

/// Waits until a text has this in it.
#[track_caller]
fn says(window: &Window, script: &str, what: &str) {
    let has = |text: &Value| text.as_str().is_some_and(|text| text.contains(what));
    window.becomes(what, script, &json!([]), has);
}

#[test]
fn an_operator_corrects_holds_takes_undoes_and_releases_and_a_kill_changes_nothing() {
    let test = "an_operator_corrects_holds_takes_undoes_and_releases_and_a_kill_changes_nothing";
    let Some(screen) = Window::open(test) else {
        return;
    };
    let mut daemon = Daemon::start_with_operator(&["scores"], "anna");
    score(&daemon, 2);
    screen.go(&daemon.page("scores"));
    is_shown(&daemon, &screen, 2);

    // The wrong score: two clicks, and what is typed between them.
    let desk = screen.another();
    let enter = |daemon: &Daemon, path: &str| sign_in_with(&desk, &origin(daemon), path, TOKEN);
    enter(&daemon, "/streams/scores");
    desk.shows(SCORE, &json!("2"));
    desk.click("[data-row=m1] a.edit[data-field=score]");
    desk.keys("3");
    desk.click("#editor button:not([type])");
    says(&desk, SAID, "The value is shown.");
    desk.shows(SCORE, &json!("3 source: 2"));
    is_shown(&daemon, &screen, 3);

    // The source goes on beneath, and a kill changes nothing.
    daemon.kill();
    daemon.start_again();
    score(&daemon, 5);
    is_shown(&daemon, &screen, 3);
    enter(&daemon, "/streams/scores");
    desk.shows(SCORE, &json!("3 source: 5"));

    // Held: the release of the override waits with everything else.
    desk.click(".actions form.inline:last-child button");
    says(&desk, HELD, "by anna. No change waits.");
    score(&daemon, 6);
    says(&desk, HELD, "1 changed item wait");
    daemon.kill();
    daemon.start_again();
    enter(&daemon, "/streams/scores");
    is_shown(&daemon, &screen, 3);
    desk.go(&format!("{}/streams/scores/item?key=m1", origin(&daemon)));
    desk.click("td.can form.inline:last-child button");
    says(&desk, SAID, "source's values are shown again");
    is_shown(&daemon, &screen, 5);
    desk.click("div.hold form:first-child button");
    says(&desk, SAID, "The waiting changes are shown.");
    is_shown(&daemon, &screen, 6);
    desk.click("div.hold form:last-child button");
    desk.shows(HELD, &json!(""));

    // The acts are undone, newest first: resume, take, release.
    for (undone, shown) in [("resume", 6), ("take", 5), ("release", 3)] {
        desk.click("#head .more summary");
        desk.click("#head .more form button");
        says(&desk, SAID, &format!("Undone: {undone}"));
        is_shown(&daemon, &screen, shown);
    }
    daemon.kill();
    daemon.start_again();
    is_shown(&daemon, &screen, 3);

    enter(&daemon, "/audit");
    let acts = "return [...document.querySelectorAll('.grid tbody tr')].map((row) => row.textContent).filter((text) => text.includes('anna')).length";
    let by_anna = |count: &Value| count.as_u64() >= Some(8);
    desk.becomes("eight acts of anna", acts, &json!([]), by_anna);
}
