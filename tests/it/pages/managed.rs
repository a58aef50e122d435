//! What the forms of the pages make, change and refuse.

use std::process::Command;

use serde_json::Value;

use super::site::{Site, unescaped};
use crate::process::{Answer, JSON, Process, skipped};
use crate::program::output;
use crate::setup::Setup;

/// The secret that a page shows once.
pub(crate) fn secret(page: &str) -> Option<String> {
    let (_, rest) = page.split_once(r#"<code id="secret">"#)?;
    Some(rest.split('<').next()?.to_owned())
}

/// Where an answer leads.
#[track_caller]
pub(crate) fn leads_to(answer: &Answer, path: &str) {
    let location = answer.header("location");
    // The head is in lower case.
    let path = &path.to_lowercase();
    assert_eq!(
        (answer.status, location),
        (303, Some(path.as_str())),
        "{}",
        answer.body
    );
}

/// The message at a field, and that the field has the focus.
#[track_caller]
pub(super) fn is_wrong(answer: &Answer, status: u16, field: &str, message: &str) {
    assert_eq!(answer.status, status, "{}", answer.body);
    let at_field = format!(r#"id="{field}-wrong">{message}"#);
    assert!(
        answer.body.contains(&at_field),
        "{at_field}: {}",
        answer.body
    );
    let listed = format!("<a href=\"#{field}\">{message}");
    assert!(answer.body.contains(&listed), "{}", answer.body);
    let control = answer.body.split(&format!(r#"id="{field}""#)).nth(1);
    let control = control.and_then(|rest| rest.split('>').next());
    let control = control.expect("the control");
    assert!(
        control.contains("autofocus") && control.contains("aria-invalid"),
        "{control}"
    );
    assert_eq!(answer.header("cache-control"), Some("no-store"));
}

fn send(process: &Process, secret: &str, stream: &str) -> u16 {
    let path = format!("/api/webhook/{stream}");
    let answer = process.ask("POST", &path, secret, JSON, r#"{"id": 1}"#);
    answer.status
}

fn names(process: &Process, list: &str) -> Vec<String> {
    let all = process.admin(&format!("/api/admin/{list}"));
    let all = all.as_array().expect("a list").iter();
    all.map(|one| one["name"].as_str().expect("a name").to_owned())
        .collect()
}

/// Action, kind and name of the audit log, oldest first.
fn trail(process: &Process) -> Vec<[String; 3]> {
    let all = process.admin("/api/admin/audit");
    let all = all.as_array().expect("a list").iter().rev();
    let changes = all.filter(|entry| entry["kind"] != "session");
    changes
        .map(|entry| {
            assert_eq!(entry["who"], "admin page", "{entry}");
            assert_eq!(entry["client"], "127.0.0.1", "{entry}");
            ["action", "kind", "name"]
                .map(|field| entry[field].as_str().expect("a text").to_owned())
        })
        .collect()
}

#[test]
fn one_form_makes_a_connector_its_stream_and_a_key_that_is_shown_once() {
    let process = Setup::with_streams(&["orders"]).spawn();
    let site = Site::signed_in(&process);
    let form = site.page("/new/connector");
    assert!(
        form.contains(r#"<option value="orders">orders</option>"#),
        "{form}"
    );
    let fields =
        "name=shop&kind=webhook&stream=&new_stream=&item_key=id&requests_per_second=&burst=";
    leads_to(&site.submit("/new/connector", fields), "/connectors/shop");

    let first = site.get("/connectors/shop");
    assert_eq!(first.header("cache-control"), Some("no-store"));
    assert_eq!(first.header("etag"), None);
    let key = secret(&first.body).expect("the key");
    assert!(key.starts_with("ik_live_"), "{key}");
    // The key itself, and one in each of the five snippets and of the four with a library.
    assert_eq!(first.body.matches(&key).count(), 10);
    assert!(!first.body.contains("HEADGATE_KEY"));
    for url in ["/api/webhook/shop/shop", "/api/ingest"] {
        let url = format!("http://{}{url}<", process.service);
        assert!(first.body.contains(&url), "{url}");
    }
    assert!(first.body.contains("Waiting for your first request."));
    let again = site.page("/connectors/shop");
    assert_eq!(secret(&again), None);
    assert!(!again.contains(&key) && again.contains("HEADGATE_KEY"));

    assert_eq!(send(&process, &key, "shop"), 202);
    let page = site.page("/connectors/shop");
    assert!(
        page.contains(r#"<p id="first-came" hidden>Your first request came"#),
        "{page}"
    );
    let made = ["stream", "connector", "key"];
    let expected: Vec<[String; 3]> = made
        .into_iter()
        .zip(["shop", "shop", "main"])
        .map(|(kind, name)| ["create", kind, name].map(str::to_owned))
        .collect();
    assert_eq!(trail(&process), expected);
    assert!(!process.log().contains(&key));
    for path in ["/audit", "/connectors", "/", "/connectors/shop/keys/main"] {
        assert!(!site.page(path).contains(&key), "{path}");
    }
    // For a stream that there is, by its name.
    let fields = "name=other&kind=ingest&stream=orders&new_stream=&requests_per_second=5&burst=6";
    leads_to(&site.submit("/new/connector", fields), "/connectors/other");
    let made = process.admin("/api/admin/connectors/other");
    assert_eq!(made["requests_per_second"], 5, "{made}");
    assert_eq!(made["keys"][0]["stream"], "orders", "{made}");
    // A poll of the page is not the page that shows the key.
    let polled = site.send("GET", "/connectors/other", &[("HX-Request", "true")], "");
    let shown = secret(&site.page("/connectors/other")).expect("it is shown once");
    assert!(!polled.body.contains(&shown), "{}", polled.body);
}

#[test]
fn the_snippets_with_the_key_are_ready_to_run() {
    let process = Setup::with_streams(&[]).spawn();
    let site = Site::signed_in(&process);
    let fields = "name=shop&kind=webhook&new_stream=it%27s+%22new%22";
    leads_to(&site.submit("/new/connector", fields), "/connectors/shop");
    let page = site.page("/connectors/shop");
    for (place, program, arguments) in [
        (0, "sh", &["-c"][..]),
        (1, "node", &["--input-type=module", "-e"]),
        (2, "python3", &["-c"]),
    ] {
        let begin = format!(r#"<code id="snippet-{place}">"#);
        let (_, rest) = page.split_once(&begin).expect("a snippet");
        let (code, _) = rest.split_once("</code>").expect("its end");
        let code = unescaped(code);
        let ran = output(Command::new(program).args(arguments).arg(code));
        let Ok(ran) = ran else {
            skipped("the_snippets_with_the_key_are_ready_to_run", program);
            continue;
        };
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(
            said.contains("202") && said.contains("items_received"),
            "{program}: {ran:?}"
        );
    }
}

#[test]
fn a_form_that_is_refused_comes_back_as_it_was_sent_and_makes_nothing() {
    let process = Setup::with_streams(&["orders"]).spawn();
    let site = Site::signed_in(&process);
    let good = [
        ("name", "shop"),
        ("kind", "webhook"),
        ("stream", ""),
        ("new_stream", "fresh"),
        ("item_key", "order.id"),
        ("requests_per_second", "7"),
        ("burst", "8"),
    ];
    let long = "x".repeat(129);
    for (field, value, status, message) in [
        ("name", "", 400, "Enter a name."),
        ("name", "a%20b", 400, "Expected 1 to 64 letters"),
        ("name", "..", 400, "Must not be"),
        (
            "name",
            "tests",
            409,
            "There is already a connector with this name",
        ),
        ("name", "ik_live_1", 400, "Begins like a secret"),
        ("kind", "magic", 400, "Choose one of these."),
        ("stream", "orders", 400, ""),
        (
            "new_stream",
            "orders",
            409,
            "There is already a stream with this name",
        ),
        ("new_stream", long.as_str(), 400, "Expected 1 to 128"),
        (
            "item_key",
            long.repeat(9).as_str(),
            400,
            "Expected the name of a field",
        ),
        (
            "requests_per_second",
            "many",
            400,
            "Enter a whole number from 1",
        ),
        (
            "requests_per_second",
            "0",
            400,
            "Enter a whole number from 1",
        ),
        ("burst", "-1", 400, "Enter a whole number from 1"),
        ("burst", "5000000000", 400, "Enter a whole number from 1"),
    ] {
        let fields = good.map(|(name, good)| {
            let value = if name == field { value } else { good };
            format!("{name}={value}")
        });
        let answer = site.submit("/new/connector", &fields.join("&"));
        // Both streams: the second is to blame.
        let wrong = if field == "stream" {
            "new_stream"
        } else {
            field
        };
        is_wrong(&answer, status, wrong, message);
        for (name, good) in good {
            if name != field && !good.is_empty() && name != "kind" {
                let typed = format!(r#"value="{good}""#);
                assert!(answer.body.contains(&typed), "{name}: {}", answer.body);
            }
        }
        if !value.is_empty() && !value.contains('%') && field != "kind" && field != "stream" {
            let repeated = answer.body.contains(&format!(r#"value="{value}""#));
            assert_eq!(repeated, !value.starts_with("ik_"), "{value}");
        }
    }
    assert_eq!(names(&process, "connectors"), ["tests"]);
    assert_eq!(names(&process, "streams"), ["orders"]);
    assert_eq!(trail(&process), Vec::<[String; 3]>::new());

    // Larger than any form.
    let huge = site.submit("/new/connector", &format!("name={}", "x".repeat(2 << 20)));
    assert_eq!(huge.status, 413, "{}", huge.body);
}

#[test]
fn a_write_of_another_site_or_without_the_token_does_nothing() {
    let process = Setup::with_streams(&["orders"]).spawn();
    let site = Site::signed_in(&process);
    leads_to(
        &site.submit("/new/connector", "name=shop&kind=webhook&stream=orders"),
        "/connectors/shop",
    );
    leads_to(
        &site.submit("/new/stream", "name=own&on_update=merge"),
        "/streams/own",
    );
    leads_to(
        &site.submit("/new/read-key", "name=wall&streams=orders"),
        "/read-keys/wall",
    );
    let before = trail(&process).len();
    let token = site.form_token();
    let own = format!("http://{}", process.admin);
    for path in [
        "/new/connector",
        "/new/stream",
        "/new/read-key",
        "/connectors/shop/change",
        "/connectors/shop/delete",
        "/connectors/shop/new-key",
        "/connectors/shop/keys/main/change",
        "/connectors/shop/keys/main/rotate",
        "/connectors/shop/keys/main/revoke",
        "/connectors/shop/keys/main/delete",
        "/streams/own/change",
        "/streams/own/delete",
        "/read-keys/wall",
        "/read-keys/wall/revoke",
        "/read-keys/wall/delete",
    ] {
        let fields = "name=x&kind=webhook&on_update=merge&streams=orders&stream=orders&mode=live&grace=0&grace_unit=days";
        let with_token = format!("form_token={token}&{fields}");
        for headers in [
            &[("Origin", "http://evil.example")][..],
            &[("Origin", &own), ("Sec-Fetch-Site", "cross-site")],
            &[],
        ] {
            let answer = site.send("POST", path, headers, &with_token);
            assert_eq!(answer.status, 403, "{path} {headers:?}");
        }
        assert_eq!(site.post(path, fields).status, 403, "{path}");
        let stranger = Site::of(&process).post(path, &with_token);
        assert_eq!(stranger.status, 401, "{path}");
    }
    assert_eq!(trail(&process).len(), before);
}

#[test]
fn keys_are_made_rotated_revoked_and_deleted() {
    let process = Setup::with_streams(&["orders"]).spawn();
    let site = Site::signed_in(&process);
    leads_to(
        &site.submit("/new/connector", "name=shop&kind=webhook&stream=orders"),
        "/connectors/shop",
    );
    let first = secret(&site.page("/connectors/shop")).expect("a key");
    let key_page = site.page("/connectors/shop/keys/main");
    assert!(key_page.contains("no use recorded"), "{key_page}");
    assert_eq!(send(&process, &first, "orders"), 202);
    let key_page = site.page("/connectors/shop/keys/main");
    assert!(!key_page.contains("no use recorded"), "{key_page}");

    // A test key with an end; the same name twice is refused.
    let fields = "name=trial&stream=orders&mode=test&expires_at=2999-01-31T12%3A00";
    leads_to(
        &site.submit("/connectors/shop/new-key", fields),
        "/connectors/shop",
    );
    let page = site.page("/connectors/shop");
    assert!(secret(&page).expect("a key").starts_with("ik_test_"));
    assert!(
        page.contains(">2999-01-31 12:00:00<") && page.contains(">test<"),
        "{page}"
    );
    let twice = site.submit("/connectors/shop/new-key", fields);
    is_wrong(&twice, 409, "name", "There is already a key with this name");
    let past = fields.replace("2999", "1999").replace("trial", "late");
    let past = site.submit("/connectors/shop/new-key", &past);
    is_wrong(&past, 400, "expires_at", "Is in the past");
    let odd = site.submit(
        "/connectors/shop/new-key",
        "name=a&stream=orders&mode=test&expires_at=soon",
    );
    is_wrong(&odd, 400, "expires_at", "Enter a time such as");
    assert!(
        odd.body.contains(r#"type="text" value="soon""#),
        "{}",
        odd.body
    );
    let nowhere = site.submit("/connectors/shop/new-key", "name=a&stream=none&mode=live");
    let message = "There is no stream &quot;none&quot;. Create it first: the page Streams has the button New stream.";
    is_wrong(&nowhere, 400, "stream", message);

    // A day of grace: both work. None: the old one ends.
    let rotate = "/connectors/shop/keys/main/rotate";
    for (fields, message) in [
        ("grace=&grace_unit=days", "Enter a whole number"),
        ("grace=31&grace_unit=days", "Enter a whole number"),
        (
            "grace=99999999999999999999&grace_unit=days",
            "Enter a whole number",
        ),
        (
            "grace=9999999999999999&grace_unit=days",
            "Enter a whole number",
        ),
    ] {
        is_wrong(&site.submit(rotate, fields), 400, "grace", message);
    }
    leads_to(
        &site.submit(rotate, "grace=24&grace_unit=hours"),
        "/connectors/shop",
    );
    let page = site.page("/connectors/shop");
    let second = secret(&page).expect("a key");
    assert!(page.contains("grace until"), "{page}");
    assert_eq!(send(&process, &first, "orders"), 202);
    assert_eq!(send(&process, &second, "orders"), 202);
    leads_to(
        &site.submit(rotate, "grace=0&grace_unit=seconds"),
        "/connectors/shop",
    );
    let third = secret(&site.page("/connectors/shop")).expect("a key");
    assert_eq!(send(&process, &second, "orders"), 401);
    assert_eq!(send(&process, &third, "orders"), 202);

    // When it ends.
    let change = "/connectors/shop/keys/main/change";
    is_wrong(
        &site.submit(change, "expires_at=soon"),
        400,
        "expires_at",
        "Enter a time such as",
    );
    leads_to(
        &site.submit(change, "expires_at=2999-12-31T00%3A00%3A01"),
        "/connectors/shop",
    );
    let page = site.page("/connectors/shop/keys/main");
    assert!(page.contains(r#"value="2999-12-31T00:00:01""#), "{page}");

    let question = site.page("/connectors/shop/keys/main/revoke");
    assert!(question.contains("This cannot be undone."), "{question}");
    assert_eq!(send(&process, &third, "orders"), 202);
    leads_to(
        &site.submit("/connectors/shop/keys/main/revoke", ""),
        "/connectors/shop",
    );
    assert_eq!(send(&process, &third, "orders"), 401);
    assert!(site.page("/connectors/shop?tab=keys").contains(">revoked<"));
    assert!(!site.page("/connectors/shop/keys/main").contains("Rotate"));
    let revoked = site.submit(rotate, "grace=0&grace_unit=seconds");
    assert_eq!(revoked.status, 409);
    assert!(
        revoked.body.contains("this key is revoked"),
        "{}",
        revoked.body
    );
    leads_to(
        &site.submit("/connectors/shop/keys/main/delete", ""),
        "/connectors/shop",
    );
    assert_eq!(site.get("/connectors/shop/keys/main").status, 404);

    leads_to(&site.submit("/connectors/shop/delete", ""), "/connectors");
    assert!(
        site.page("/connectors")
            .contains("The connector shop and its keys are deleted.")
    );
    assert_eq!(send(&process, &first, "orders"), 401);
    // One of the same name begins anew: the log of the first is not its own.
    leads_to(
        &site.submit("/new/connector", "name=shop&kind=webhook&stream=orders"),
        "/connectors/shop",
    );
    assert!(
        site.page("/connectors/shop")
            .contains("Waiting for your first request.")
    );
}

#[test]
fn a_connector_and_a_stream_are_changed_and_a_stream_in_use_stays_unless_told() {
    let process = Setup::with_streams(&[]).spawn();
    let site = Site::signed_in(&process);
    leads_to(
        &site.submit(
            "/new/stream",
            "name=a%2Fb+%3C&on_update=replace&stale_after_seconds=60",
        ),
        "/streams/a%2Fb%20%3C",
    );
    let page = site.page("/streams/a%2Fb%20%3C?tab=setup");
    assert!(page.contains("after 60 seconds without data"), "{page}");
    let stale = site.submit(
        "/streams/a%2Fb%20%3C/change",
        "on_update=merge&stale_after_seconds=0",
    );
    is_wrong(
        &stale,
        400,
        "stale_after_seconds",
        "Enter a whole number from 1",
    );
    leads_to(
        &site.submit(
            "/streams/a%2Fb%20%3C/change",
            "on_update=merge&stale_after_seconds=",
        ),
        "/streams/a%2Fb%20%3C",
    );
    let streams = process.admin("/api/admin/streams");
    assert_eq!(streams[0]["on_update"], "merge", "{streams}");
    assert_eq!(streams[0]["stale_after_seconds"], Value::Null, "{streams}");

    // What decides over its items.
    let when = "on_update=replace&version=updated_at&delete_field=status";
    let path = "/streams/a%2Fb%20%3C/change";
    is_wrong(
        &site.submit(path, when),
        400,
        "delete_values",
        "Fill in both",
    );
    let whole = format!("{when}&delete_values=gone,+sold&expire_after_seconds=60");
    leads_to(&site.submit(path, &whole), "/streams/a%2Fb%20%3C");
    let form = site.page(path);
    for kept in ["updated_at", "status", "gone, sold", "60"] {
        assert!(
            form.contains(&format!(r#"value="{kept}""#)),
            "{kept}: {form}"
        );
    }
    let streams = process.admin("/api/admin/streams");
    let gone = serde_json::json!({"field": "status", "is": ["gone", "sold"]});
    assert_eq!(streams[0]["delete_when"], gone, "{streams}");
    assert_eq!(streams[0]["expire_after_seconds"], 60, "{streams}");

    leads_to(
        &site.submit(
            "/new/connector",
            "name=shop&kind=webhook&stream=a%2Fb+%3C&burst=9",
        ),
        "/connectors/shop",
    );
    let form = site.page("/connectors/shop/change");
    assert!(form.contains(r#"value="9""#), "{form}");
    let changed = "kind=ingest&item_key=id&requests_per_second=3&burst=&bytes_per_second=0&bytes_per_day=5000000000000";
    leads_to(
        &site.submit("/connectors/shop/change", changed),
        "/connectors/shop",
    );
    let shop = process.admin("/api/admin/connectors/shop");
    assert_eq!(
        (
            &shop["kind"],
            &shop["item_key"],
            &shop["requests_per_second"],
            &shop["burst"]
        ),
        (&"ingest".into(), &"id".into(), &3.into(), &Value::Null)
    );
    assert_eq!(
        (&shop["bytes_per_second"], &shop["bytes_per_day"]),
        (&0.into(), &5_000_000_000_000_u64.into())
    );
    let page = site.page("/connectors/shop");
    assert!(page.contains("GB per day"), "{page}");
    let wrong = site.submit(
        "/connectors/shop/change",
        "kind=ingest&item_key=&requests_per_second=x&burst=2",
    );
    is_wrong(&wrong, 400, "requests_per_second", "Enter a whole number");

    let used = site.submit("/streams/a%2Fb%20%3C/delete", "");
    assert_eq!(used.status, 409);
    assert!(
        used.body.contains("keys name this stream") && used.body.contains(r#"name="force""#),
        "{}",
        used.body
    );
    assert_eq!(names(&process, "streams").len(), 1);
    leads_to(
        &site.submit("/streams/a%2Fb%20%3C/delete", "force=yes"),
        "/streams",
    );
    assert_eq!(names(&process, "streams").len(), 0);
    assert_eq!(site.get("/streams/a%2Fb%20%3C/change").status, 404);
}

#[test]
fn read_keys_are_made_changed_and_revoked() {
    let process = Setup::with_streams(&["orders", "prices"]).spawn();
    let site = Site::signed_in(&process);
    let reads = |secret: &str, stream: &str| {
        let path = format!("/api/streams/{stream}/items");
        process.ask("GET", &path, secret, "", "").status
    };
    let none = site.submit("/new/read-key", "name=wall");
    is_wrong(&none, 400, "streams", "Choose at least one stream.");
    let unknown = site.submit("/new/read-key", "name=wall&streams=none");
    is_wrong(&unknown, 400, "streams", "There is no stream");
    let fields =
        "name=wall&streams=orders&streams=prices&allow_in_url=yes&origins=null,+https://a.example";
    leads_to(&site.submit("/new/read-key", fields), "/read-keys/wall");
    let page = site.page("/read-keys/wall");
    let key = secret(&page).expect("the key");
    assert!(key.starts_with("rk_live_"), "{key}");
    let render = format!("http://{}/render/orders#{key}", process.service);
    assert!(
        page.contains(&render) && !page.contains(&format!("href=\"{render}")),
        "{page}"
    );
    assert!(!site.page("/read-keys/wall").contains(&key));
    assert_eq!((reads(&key, "orders"), reads(&key, "prices")), (200, 200));

    let origins = || process.admin("/api/admin/read-keys/wall")["origins"].take();
    assert_eq!(origins(), serde_json::json!(["null", "https://a.example"]));
    let shown = site.page("/read-keys/wall");
    let unticked = r#"<input type="hidden" name="allow_in_url" value="no">"#;
    for control in ["value=\"null, https://a.example\"", unticked] {
        assert!(shown.contains(control), "{control}: {shown}");
    }
    let wrong = site.submit("/read-keys/wall", "streams=prices&origins=http://a/path");
    assert_eq!(wrong.status, 400);
    leads_to(
        &site.submit("/read-keys/wall", "streams=prices&origins=&allow_in_url=no"),
        "/renderers",
    );
    assert_eq!((reads(&key, "orders"), reads(&key, "prices")), (404, 200));
    assert_eq!(
        process.admin("/api/admin/read-keys/wall")["allow_in_url"],
        false
    );
    assert_eq!(origins(), serde_json::json!([]));
    leads_to(&site.submit("/read-keys/wall/revoke", ""), "/renderers");
    assert_eq!(reads(&key, "prices"), 401);
    assert!(site.page("/renderers").contains(">revoked<"));
    let changed = site.submit("/read-keys/wall", "streams=prices");
    assert_eq!(changed.status, 409, "{}", changed.body);
    leads_to(&site.submit("/read-keys/wall/delete", ""), "/renderers");
    assert_eq!(site.get("/read-keys/wall").status, 404);
}

#[test]
fn what_is_declared_says_where_and_has_no_buttons() {
    let process = Setup::with_streams(&["orders"])
        .given_read_key(
            "screen",
            &["orders"],
            "rk_live_for_the_screen_of_a_file",
            "",
        )
        .spawn();
    let site = Site::signed_in(&process);
    for (path, list) in [
        ("/connectors/tests", "connectors"),
        ("/streams/orders?tab=setup", "streams"),
        ("/read-keys/screen", "read_keys"),
    ] {
        let page = site.page(path);
        let where_it_is = format!("in <code>headgate.toml</code> under <code>[[{list}]]</code>");
        assert!(page.contains(&where_it_is), "{page}");
        for button in ["/change\"", "/delete\"", "/revoke\"", "keys/orders"] {
            assert!(!page.contains(button), "{path} {button}");
        }
    }
    for path in [
        "/connectors/tests/change",
        "/connectors/tests/delete",
        "/connectors/tests/keys/orders/revoke",
        "/connectors/tests/keys/orders/delete",
        "/streams/orders/change",
        "/streams/orders/delete",
        "/read-keys/screen/revoke",
        "/read-keys/screen/delete",
    ] {
        let (shown, sent) = (
            site.get(path),
            site.submit(path, "on_update=merge&kind=ingest"),
        );
        assert_eq!((shown.status, sent.status), (409, 409), "{path}");
        assert!(
            sent.body.contains("defined in the configuration"),
            "{}",
            sent.body
        );
    }
    let rotated = site.submit(
        "/connectors/tests/keys/orders/rotate",
        "grace=0&grace_unit=days",
    );
    assert_eq!(rotated.status, 409);
    assert_eq!(
        site.submit("/read-keys/screen", "streams=orders").status,
        409
    );
    assert_eq!(trail(&process), Vec::<[String; 3]>::new());
    // A declared connector may have keys that are made here.
    let fields = "name=extra&stream=orders&mode=live";
    leads_to(
        &site.submit("/connectors/tests/new-key", fields),
        "/connectors/tests",
    );
    let page = site.page("/connectors/tests");
    assert!(page.contains("/connectors/tests/keys/extra\""), "{page}");
}

#[test]
fn the_audit_trail_is_a_page_newest_first_and_paged() {
    let process = Setup::with_streams(&[]).spawn();
    let site = Site::signed_in(&process);
    for number in 0..60 {
        let fields = format!("name=stream-{number}&on_update=replace");
        assert_eq!(site.submit("/new/stream", &fields).status, 303);
    }
    let numbers = |page: &str| -> Vec<u32> {
        let rows = page.split("data-label=\"Name\" title=\"stream-").skip(1);
        rows.map(|row| {
            row.split('"')
                .next()
                .and_then(|n| n.parse().ok())
                .expect("a number")
        })
        .collect()
    };
    let page = site.page("/audit");
    assert!(page.contains("title=\"admin page\""), "{page}");
    assert_eq!(numbers(&page), (10..60).rev().collect::<Vec<u32>>());
    let (_, rest) = page.split_once("href=\"/audit?before=").expect("a link");
    let before = rest.split('"').next().expect("a number");
    let older = site.page(&format!("/audit?before={before}"));
    assert_eq!(numbers(&older), (0..10).rev().collect::<Vec<u32>>());
    assert!(!older.contains("Older"));
    // Filters stay on the way back.
    let page = site.page("/audit?action=create&kind=stream&who=admin+page&name=&since=&until=");
    assert_eq!(numbers(&page), (10..60).rev().collect::<Vec<u32>>());
    let filters = "&amp;action=create&amp;kind=stream&amp;who=admin%20page\"";
    assert!(page.contains(filters), "{page}");
    let (_, rest) = page.split_once("href=\"/audit?before=").expect("a link");
    let next = rest
        .split('"')
        .next()
        .expect("a query")
        .replace("&amp;", "&");
    let older = site.page(&format!("/audit?before={next}"));
    assert_eq!(numbers(&older), (0..10).rev().collect::<Vec<u32>>());
    let page = site.page("/audit?name=stream-7");
    assert_eq!(numbers(&page), [7]);
    assert!(page.contains("value=\"stream-7\""), "{page}");
    let page = site.page("/audit?until=2000-01-01T00:00");
    assert!(page.contains("No matching entries."), "{page}");
    for wrong in [
        "kind=streams",
        "action=creat",
        "since=yesterday",
        "before=x",
    ] {
        assert_eq!(site.get(&format!("/audit?{wrong}")).status, 400, "{wrong}");
    }
}
