//! Where operators and others see what is held and overridden.

use serde_json::{Value, json};

use super::{token, with_operators};
use crate::command_line::{finish, headgate, operate};
use crate::pages::signed_in;
use crate::process::{BY_ID, Client, Process, bearer};
use crate::setup::Setup;
use crate::wait::eventually;

const BASE: &str = "/api/admin/streams/scores";
const DESK: &str = "ok_live_for_the_desk_of_this_test";

fn desk() -> Setup {
    with_operators(Setup::with_streams(&["scores"])).given_read_key(
        "desk",
        &["scores"],
        DESK,
        "operate = true",
    )
}

/// An act of the operator Anna.
fn anna(process: &Process, verb: &str, body: &Value) {
    let mut client = Client::connect(process.admin).expect("it listens");
    let path = format!("{BASE}/{verb}");
    let acted = client.call("POST", &path, &token("anna"), &body.to_string());
    acted.expect("an answer").data(202);
}

/// A text without its tags.
fn words(page: &str) -> String {
    let parts = page.split('<').map(|part| part.split_once('>'));
    let texts = parts.map(|part| part.map_or("", |(_, text)| text));
    texts.collect::<String>()
}

#[test]
fn a_text_that_is_typed_on_a_page_stays_one_and_ends_by_time() {
    let process = desk().spawn();
    let item = r#"[{"id": "m1", "note": "HT", "score": 2}]"#;
    process.processed("scores", BY_ID, item);
    let site = signed_in(&process);
    let page = site.page("/streams/scores/item?key=m1");
    let text = r#"<input type="hidden" name="text" value="yes">"#;
    assert_eq!(page.matches(text).count(), 2, "id and note: {page}");
    assert!(page.contains(r#"<option value="300">"#), "{page}");
    let act = |fields: &str| {
        let done = site.submit("/streams/scores/act", &format!("key=m1&{fields}"));
        assert_eq!(done.status, 303, "{}", done.body);
    };
    act("verb=override&field=note&value=7&text=yes&until=300");
    act("verb=override&field=score&value=7&until=");
    act("verb=hold&until=3600");
    let shown = process.admin(&format!("{BASE}/items/m1"));
    assert_eq!(
        (&shown["fields"]["note"], &shown["fields"]["score"]),
        (&json!("7"), &json!(7))
    );
    assert!(shown["overrides"]["note"]["until"].is_string(), "{shown}");
    assert_eq!(shown["overrides"]["score"]["until"], Value::Null);
    assert!(shown["held"]["until"].is_string(), "{shown}");
}

#[test]
fn what_is_held_and_overridden_is_on_pages_in_status_and_in_metrics() {
    let process = desk().spawn();
    process.processed(
        "scores",
        BY_ID,
        r#"[{"id": "m1", "n": 1, "a": 2}, {"id": "m2"}]"#,
    );
    let site = signed_in(&process);
    assert!(!site.page("/").contains("Held and overridden"));
    assert!(!site.page("/streams").contains("Operators"));
    assert_eq!(
        process.metric("headgate_stream_held{stream=\"scores\"}"),
        None
    );
    assert!(!operate(&process, ["status"]).ok().contains("overridden"));

    anna(
        &process,
        "override",
        &json!({"key": "m1", "fields": {"n": 7, "a": 8}}),
    );
    anna(&process, "hold", &json!({"keys": ["m2"]}));
    anna(&process, "hold", &json!({}));
    process.processed("scores", BY_ID, r#"[{"id": "m1", "n": 3, "a": 2}]"#);
    // A page of the operate key follows the stream.
    let mut screen = Client::connect(process.service).expect("it listens");
    let follow = screen.begin("GET", "/api/live?streams=scores", &bearer(DESK), 0);
    follow.expect("it is sent");
    let screens = eventually("it is connected", || {
        let screens = process.list("/api/admin/renderers");
        (!screens.is_empty()).then_some(screens)
    });
    assert_eq!(screens[0]["operate"], true);
    assert_eq!(screens[0]["held"]["scores"]["by"], "anna");

    let metric = |name: &str| process.metric(&format!("{name}{{stream=\"scores\"}}"));
    assert_eq!(metric("headgate_stream_held"), Some(1.0));
    assert_eq!(metric("headgate_stream_held_keys"), Some(1.0));
    assert_eq!(metric("headgate_stream_overridden_fields"), Some(2.0));
    let status = process.admin("/api/admin/status");
    let acts = &status["acts"][0];
    assert_eq!(acts["held"]["by"], "anna");
    for (member, count) in [
        ("held_keys", 1),
        ("waiting", 1),
        ("overridden", 1),
        ("overridden_fields", 2),
    ] {
        assert_eq!(acts[member], count, "{member}: {acts}");
    }
    assert_eq!(status["problems"], json!([]));
    let told = operate(&process, ["status"]).ok();
    assert!(
        told.contains("Held and overridden:") && told.contains(" by anna"),
        "{told}"
    );

    let overview = words(&site.page("/"));
    for part in [
        " by anna, 1 change waits. ",
        "2 fields of 1 item",
        "held 1 item",
        "are connected: desk",
    ] {
        assert!(overview.contains(part), "{part}: {overview}");
    }
    let streams = words(&site.page("/streams"));
    assert!(streams.contains(" by anna, 1 change waits. "), "{streams}");
    let renderers = words(&site.page("/renderers"));
    assert!(renderers.contains("desk operates"), "{renderers}");
    assert!(
        renderers.contains("held scores since ") && renderers.contains(" by anna"),
        "{renderers}"
    );
    // The pages of the stream and of the key lead to the page that acts.
    for page in ["/streams/scores", "/read-keys/desk"] {
        assert!(site.page(page).contains("/operate/scores\""), "{page}");
    }

    anna(&process, "resume", &json!({}));
    anna(&process, "resume", &json!({"keys": ["m2"]}));
    anna(&process, "release", &json!({}));
    assert_eq!(
        process.metric("headgate_stream_held{stream=\"scores\"}"),
        None
    );
    assert_eq!(process.admin("/api/admin/status")["acts"], json!([]));
}

#[test]
fn a_hold_that_comes_back_with_a_backup_is_a_problem_until_it_ends() {
    if crate::setup::file_only("a node makes no backups") {
        return;
    }
    let process = desk().spawn();
    process.processed("scores", BY_ID, r#"[{"id": "m1", "n": 1}, {"id": "m2"}]"#);
    anna(&process, "hold", &json!({}));
    anna(&process, "hold", &json!({"keys": ["m2"]}));
    assert_eq!(process.problems(), "[]");
    let backup = process.setup.path("copy");
    let body = json!({"dir": backup}).to_string();
    process.call("POST", "/api/admin/backups", &body).data(201);

    let after = desk();
    let restored = after.path("restored");
    let mut restore = headgate(&after.path(""));
    restore
        .arg("restore")
        .arg(&backup)
        .arg("--data-dir")
        .arg(&restored);
    finish(&mut restore, "").ok();
    process.kill();
    let process = after.data_in(&restored).spawn();
    let told = process.problems();
    assert!(
        told.contains("stream scores has been held since "),
        "{told}"
    );
    assert!(told.contains(" by anna, restored from a backup"), "{told}");
    assert!(told.contains("1 key of stream scores is held"), "{told}");
    let kinds = "headgate_problems{kind=\"hold_restored\"}";
    assert_eq!(process.metric(kinds), Some(2.0));
    anna(&process, "resume", &json!({}));
    anna(&process, "resume", &json!({"keys": ["m2"]}));
    anna(&process, "hold", &json!({}));
    assert_eq!(process.problems(), "[]");
}
