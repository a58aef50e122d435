//! The forms of the admin pages in a browser: a whole story, with the keyboard only, and with hostile texts.

use serde_json::{Value, json};

use super::admin::{SEEN, log_without_refusals, origin, sign_in};
use super::daemon::Daemon;
use super::driver::{Window, key};
use crate::process::{Answer, Client};
use crate::wait::eventually;

/// Waits for the page with this heading.
#[track_caller]
pub(super) fn is_at(window: &Window, heading: &str) {
    window.shows(SEEN, &json!([heading, false]));
}

/// Puts a value into a field, as somebody who types it.
#[track_caller]
pub(super) fn fill(window: &Window, id: &str, value: &str) {
    let script = "const field = document.getElementById(arguments[0]); field.value = arguments[1]; return field.value === arguments[1]";
    assert_eq!(window.run(script, &json!([id, value])), true, "{id}");
}

/// The text of an element.
#[track_caller]
pub(super) fn text(window: &Window, selector: &str) -> String {
    let script = "return document.querySelector(arguments[0])?.textContent.trim() ?? null";
    let there = |value: &Value| value.is_string();
    let text = window.becomes(selector, script, &json!([selector]), there);
    text.as_str().expect("a text").to_owned()
}

/// Submits with a key, to the address that a page names.
fn post(url: &str, secret: &str, body: &str) -> Answer {
    let (address, path) = url
        .strip_prefix("http://")
        .and_then(|rest| rest.split_once('/'))
        .expect("an address and a path");
    let mut client = Client::connect(address.parse().expect("an address")).expect("it listens");
    let answer = client.call("POST", &format!("/{path}"), secret, body);
    answer.expect("an answer")
}

#[test]
fn a_connector_lives_from_its_form_to_its_end() {
    let Some(window) = Window::open("a_connector_lives_from_its_form_to_its_end") else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    window.go(&daemon.process().sign_in_link());
    is_at(&window, "Overview");
    window.click("nav a[href='/connectors']");
    is_at(&window, "Connectors");
    window.click("a[href='/new/connector']");
    is_at(&window, "New connector");
    window.shows("return document.activeElement.id", &json!("name"));
    fill(&window, "name", "shop");
    fill(&window, "new_stream", "sales & more");
    fill(&window, "item_key", "id");
    window.click("form.panel button");
    is_at(&window, "shop");

    // The key, once: copied by its button, pasted to see what was copied.
    let first = text(&window, "#secret");
    assert!(first.starts_with("ik_live_"), "{first}");
    window.shows("return document.activeElement.id", &json!("made"));
    window.listens_to("[data-copy=secret]");
    window.click("button[data-copy=secret]");
    window.shows("return window.said[0]", &json!("Copied"));
    window.run("document.getElementById('text').focus()", &json!([]));
    window.control('v');
    window.shows(
        "return document.getElementById('text').value",
        &json!(first),
    );
    window.shows("return location.href.includes('ik_')", &json!(false));
    let url = text(&window, "#url-0");
    let path = "/api/webhook/sales%20%26%20more/";
    assert!(url.contains(path), "{url}");

    // The first request is seen without a reload, with the key still on the page.
    assert_eq!(text(&window, "#first"), "Waiting for your first request.");
    window.run("window.loadedOnce = true", &json!([]));
    let answer = post(&url, &first, r#"[{"id": 7, "price": 1.10}, {"id": 8}]"#);
    assert_eq!(answer.status, 202, "{}", answer.body);
    let id = answer.request_id();
    let green = "const line = document.querySelector('#first.good'); \
                 return [line?.querySelector('a').getAttribute('href'), line?.textContent.startsWith('Your first request came at'), line?.role]";
    let seen = json!([format!("/requests/{id}"), true, "status"]);
    window.shows(green, &seen);
    let row = "const row = document.querySelector('#live tbody tr'); \
               const cell = (name) => row?.querySelector(`[data-label=${name}]`).textContent; \
               return [row?.querySelector('.key').textContent, cell('Status'), cell('Items'), cell('Errors'), cell('Stream'), cell('From')]";
    let seen = json!([id, "processed", "2", "–", "sales & more", "127.0.0.1"]);
    window.shows(row, &seen);
    window.shows(
        "return [window.loadedOnce, document.getElementById('secret').textContent]",
        &json!([true, first]),
    );
    window.click("#first a");
    is_at(&window, &format!("Request {id}"));
    let steps = "return document.querySelectorAll('ol.way li.good').length";
    window.shows(steps, &json!(4));

    // Back, and loaded again: the key is gone.
    let no_key = "return document.querySelector('h1').textContent === 'shop' && !document.documentElement.outerHTML.includes(arguments[0])";
    window.run("history.back()", &json!([]));
    let gone = |value: &Value| *value == true;
    window.becomes("no key after going back", no_key, &json!([first]), gone);
    window.go(&format!("{}/connectors/shop", origin(&daemon)));
    window.becomes("no key after a reload", no_key, &json!([first]), gone);

    // Rotated with two seconds of grace: then the old one is refused.
    window.click(".tabs a[href$='?tab=keys']");
    window.click("a[href='/connectors/shop/keys/main']");
    is_at(&window, "Key main of shop");
    fill(&window, "grace", "2");
    fill(&window, "grace_unit", "seconds");
    window.click("form[action$='/rotate'] button");
    is_at(&window, "shop");
    let second = text(&window, "#secret");
    assert_ne!(first, second);
    let grace =
        "return [...document.querySelectorAll('td .badge')].map((badge) => badge.textContent)";
    window.becomes("a grace", grace, &json!([]), |badges| {
        let badges = badges.to_string();
        badges.contains("grace until") || badges.contains("ended")
    });
    assert_eq!(post(&url, &second, r#"{"id": 9}"#).status, 202);
    eventually("the grace ends", || {
        (post(&url, &first, r#"{"id": 9}"#).status == 401).then_some(())
    });
    assert_eq!(post(&url, &second, r#"{"id": 9}"#).status, 202);

    // Revoked after a question: refused.
    window.click("a[href='/connectors/shop/keys/main']");
    is_at(&window, "Key main of shop");
    window.click("a[href$='/revoke']");
    is_at(&window, "Revoke main?");
    window.shows(
        "return document.activeElement.textContent",
        &json!("Cancel"),
    );
    assert_eq!(post(&url, &second, r#"{"id": 9}"#).status, 202);
    window.click("button.danger");
    is_at(&window, "shop");
    assert_eq!(text(&window, "p.said"), "The key main is revoked.");
    window.shows("return document.activeElement.className", &json!("said"));
    assert_eq!(post(&url, &second, r#"{"id": 9}"#).status, 401);

    window.click(".tabs a[href$='?tab=setup']");
    window.click("a[href='/connectors/shop/delete']");
    is_at(&window, "Delete shop?");
    window.click("button.danger");
    is_at(&window, "Connectors");
    assert_eq!(
        text(&window, "p.said"),
        "The connector shop and its keys are deleted."
    );
    window.click("nav a[href='/audit']");
    is_at(&window, "Audit log");
    let what = "return [...document.querySelectorAll('.grid tbody .key')].map((cell) => cell.textContent).filter((text) => !/sign|session/.test(text))";
    let all = [
        "delete connector",
        "revoke key",
        "rotate key",
        "create key",
        "create connector",
        "create stream",
    ];
    window.shows(what, &json!(all));
    assert_eq!(
        log_without_refusals(&window, &origin(&daemon)),
        Vec::<String>::new()
    );
    let log = daemon.process().log();
    assert!(!log.contains(&first) && !log.contains(&second));
}

/// What has the focus, by its id or text, and whether that can be seen.
const FOCUS: &str = "const one = document.activeElement; const style = getComputedStyle(one); \
    return [one.id || one.textContent.trim(), one.matches(':focus-visible') && style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2]";

/// Presses Tab until this has the focus, which must be seen at every step.
#[track_caller]
fn tab_to(window: &Window, wanted: &str) {
    let mut passed = Vec::new();
    for _ in 0..60 {
        window.keys(&key::TAB.to_string());
        let focus = window.run(FOCUS, &json!([]));
        // Once round it is the page itself.
        if focus[0] == wanted {
            assert_eq!(focus[1], true, "not seen: {focus}");
            return;
        }
        passed.push(focus);
    }
    panic!("no {wanted} among {passed:?}");
}

#[test]
fn a_connector_is_made_with_the_keyboard_alone() {
    let Some(window) = Window::open("a_connector_is_made_with_the_keyboard_alone") else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    window.go(&origin(&daemon));
    is_at(&window, "Sign in");
    window.shows("return document.activeElement.id", &json!("token"));
    window.keys(crate::setup::ADMIN_TOKEN);
    tab_to(&window, "Sign in");
    window.keys(" ");
    is_at(&window, "Overview");
    tab_to(&window, "Connectors");
    window.keys(&key::ENTER.to_string());
    is_at(&window, "Connectors");
    tab_to(&window, "New connector");
    window.keys(&key::ENTER.to_string());
    is_at(&window, "New connector");

    // A name that is taken: the focus comes back to it, with the message.
    window.shows("return document.activeElement.id", &json!("name"));
    window.keys("tests");
    tab_to(&window, "kind");
    window.keys(&key::DOWN.to_string());
    tab_to(&window, "stream");
    window.keys(&key::DOWN.to_string());
    tab_to(&window, "new_stream");
    tab_to(&window, "item_key");
    tab_to(&window, "requests_per_second");
    window.keys("12");
    tab_to(&window, "burst");
    tab_to(&window, "Create connector");
    window.keys(&key::ENTER.to_string());
    let at_error = "const one = document.activeElement; return [one.id, one.getAttribute('aria-invalid'), document.getElementById(one.getAttribute('aria-describedby').split(' ')[0]).textContent]";
    let message = "There is already a connector with this name; choose another name.";
    window.shows(at_error, &json!(["name", "true", message]));
    let kept = "return ['name', 'kind', 'stream', 'requests_per_second'].map((id) => document.getElementById(id).value)";
    window.shows(kept, &json!(["tests", "ingest", "orders", "12"]));
    window.control('a');
    window.keys("keyboard");
    window.keys(&key::ENTER.to_string());
    is_at(&window, "keyboard");
    window.shows("return document.activeElement.id", &json!("made"));
    let secret = text(&window, "#secret");
    tab_to(&window, "Copy");
    window.listens_to("[data-copy=secret]");
    window.keys(" ");
    window.shows("return window.said[0]", &json!("Copied"));
    let url = format!("{}/api/ingest", daemon.origin());
    assert_eq!(post(&url, &secret, "{}").status, 202);
    window.shows(
        "return document.querySelector('#first.good') !== null",
        &json!(true),
    );
    let made = daemon.process().admin("/api/admin/connectors/keyboard");
    assert_eq!(made["kind"], "ingest", "{made}");
    assert_eq!(made["requests_per_second"], 12, "{made}");
}

#[test]
fn hostile_texts_in_any_field_come_back_and_never_run() {
    let Some(window) = Window::open("hostile_texts_in_any_field_come_back_and_never_run") else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    let origin = origin(&daemon);
    sign_in(&window, &origin, "/");
    let process = daemon.process();
    let make = |path: &str, body: Value| {
        let made = process.call("POST", path, &body.to_string());
        assert_eq!(made.status, 201, "{}", made.body);
    };
    make("/api/admin/connectors", json!({"name": "shop"}));
    make(
        "/api/admin/connectors/shop/keys",
        json!({"name": "main", "stream": "orders"}),
    );
    make(
        "/api/admin/read-keys",
        json!({"name": "wall", "streams": ["orders"]}),
    );
    // A stream may be called almost anything.
    let markup = "\"'><img src=x onerror='window.broken=1'><script>window.broken=1</script>";
    let turned = "\u{202e}turned\u{200f} \u{2066}& <b>";
    for name in [markup, turned] {
        make("/api/admin/streams", json!({"name": name}));
    }
    let texts = [
        markup.to_owned(),
        format!("</textarea></select></form>{markup}"),
        turned.to_owned(),
        "\u{202e}".repeat(10_000),
        "x".repeat(10_000),
        markup.repeat(130),
    ];
    let forms = [
        ("/new/connector", "form.panel"),
        ("/new/connector?tool=shopify", "form.panel"),
        ("/new/stream", "form.panel"),
        ("/new/read-key", "form.panel"),
        ("/connectors/shop/change", "form.panel"),
        ("/connectors/shop/new-key", "form.panel"),
        ("/connectors/shop/keys/main", "form[action$='/rotate']"),
        ("/connectors/shop/keys/main", "form[action$='/change']"),
        ("/read-keys/wall", "form[action='/read-keys/wall']"),
        (
            "/streams/%22%27%3E%3Cimg%20src%3Dx%20onerror%3D%27window.broken%3D1%27%3E%3Cscript%3Ewindow.broken%3D1%3C%2Fscript%3E/change",
            "form.panel",
        ),
    ];
    // Every field but the token becomes a line of text, so that nothing keeps the text from being sent.
    let send = "const form = document.querySelector(arguments[0]); form.noValidate = true; window.broken ??= undefined; \
        for (const field of [...form.elements].filter((field) => field.name && field.name !== 'form_token')) { \
          const line = document.createElement('input'); line.name = field.name; line.value = arguments[1]; field.replaceWith(line); } \
        window.sent = true; form.requestSubmit(form.querySelector('button'))";
    let seen = "return [window.sent === undefined && document.readyState === 'complete', window.broken === undefined, \
        document.querySelectorAll('main img, main script, main b').length, document.querySelectorAll('header.top nav > a').length, \
        document.documentElement.scrollWidth <= innerWidth, document.querySelector('[role=alert]') !== null]";
    for (path, form) in forms {
        for text in &texts {
            window.go(&format!("{origin}{path}"));
            window.run(send, &json!([form, text]));
            let what = format!("{path} {form} with {:.40}", text);
            window.becomes(&what, seen, &json!([]), |value| {
                *value == json!([true, true, 0, 7, true, true])
            });
        }
    }
    // Nothing of it was made.
    for (list, count) in [("connectors", 2), ("streams", 3), ("read-keys", 2)] {
        let all = process.admin(&format!("/api/admin/{list}"));
        assert_eq!(all.as_array().map(Vec::len), Some(count), "{all}");
    }
    // What does have such a name is shown.
    let clean = "return [document.querySelectorAll('main img, main script, main b').length, window.broken === undefined, \
        /[\\u202e\\u200f\\u2066]/.test(document.body.textContent), document.documentElement.scrollWidth <= innerWidth]";
    let encoded = "%E2%80%AEturned%E2%80%8F%20%E2%81%A6%26%20%3Cb%3E";
    for path in [
        "/new/connector".to_owned(),
        "/new/read-key".to_owned(),
        "/streams".to_owned(),
        "/audit".to_owned(),
        format!("/streams/{encoded}"),
        format!("/streams/{encoded}/change"),
        format!("/streams/{encoded}/delete"),
    ] {
        window.go(&format!("{origin}{path}"));
        let shown = window.run(clean, &json!([]));
        assert_eq!(shown, json!([0, true, false, true]), "{path}");
    }
    let log = window.log(&origin);
    let breaches: Vec<&String> = log
        .iter()
        .filter(|line| {
            !["401", "404", "400", "409"]
                .iter()
                .any(|code| line.contains(&format!("status of {code}")))
        })
        .collect();
    assert!(breaches.is_empty(), "{breaches:?}");
}
