//! Looking at a request and sending it again: what is kept and for how long, mended connectors, secrets, the command to
//! paste, and kills.

use serde_json::{Value, json};

use crate::command_line::{Done, operate};
use crate::process::{Answer, BY_ID, JSON, Process};
use crate::setup::{Setup, key_of};
use crate::wait::eventually;

const NOBODY: &str = "0192f0c1-7b3e-7c55-9a51-0c8f2f6d3a10";

/// The stream `orders` with the sink `pool`; what it has is kept.
fn folder() -> Setup {
    Setup::with_streams(&["orders"])
        .sink("pool", "pool", "*", "")
        .set("storage.payload_retention_minutes", 60)
}

/// Posts to the webhook endpoint with a secret.
fn webhook(process: &Process, secret: &str, stream: &str, headers: &str, body: &str) -> Answer {
    let path = format!("/api/webhook/{stream}");
    process.ask("POST", &path, secret, headers, body)
}

/// A connector made at run time, and the secret of its key for `orders`.
fn connector(process: &Process, settings: &Value) -> String {
    process.make("/api/admin/connectors", settings);
    let name = settings["name"].as_str().expect("a name");
    let path = format!("/api/admin/connectors/{name}/keys");
    let made = process.make(&path, &json!({"name": "main", "stream": "orders"}));
    made.secret()
}

/// A refused webhook request of the connector `hook`, whose items have no `uid`; its request id.
fn refused(process: &Process, secret: &str, headers: &str, body: &str) -> String {
    let answer = webhook(process, secret, "orders", &format!("{JSON}{headers}"), body);
    assert_eq!(answer.status, 400, "{}", answer.body);
    let id = answer.json()["error"]["request_id"].take();
    let id = id.as_str().expect("a request id").to_owned();
    process.accepted("orders", "", "[]");
    id
}

fn hook(process: &Process) -> String {
    connector(
        process,
        &json!({"name": "hook", "kind": "webhook", "item_key": "uid"}),
    )
}

fn mend(process: &Process) {
    let path = "/api/admin/connectors/hook";
    let changed = process.call("PATCH", path, r#"{"item_key": "id"}"#);
    changed.data(200);
}

fn send_again(process: &Process, id: &str) -> Answer {
    process.call("POST", &format!("/api/admin/requests/{id}/resend"), "")
}

#[track_caller]
fn sent_again(process: &Process, id: &str) -> String {
    let answer = send_again(process, id);
    assert_eq!(answer.status, 202, "{}", answer.body);
    assert_eq!(answer.json()["data"]["sent_again_from"], id);
    answer.request_id()
}

#[track_caller]
fn not_sent(process: &Process, id: &str, status: u16, code: &str) -> String {
    let answer = send_again(process, id);
    assert_eq!(answer.status, status, "{}", answer.body);
    let error = answer.json()["error"].take();
    assert_eq!(error["code"], code, "{error}");
    error["message"].as_str().expect("a message").to_owned()
}

fn content(process: &Process, id: &str) -> Value {
    process.admin(&format!("/api/admin/requests/{id}/content"))
}

#[test]
fn a_refused_webhook_is_kept_and_accepted_once_its_connector_is_mended() {
    let folder = folder();
    let process = folder.spawn();
    let secret = hook(&process);
    let id = refused(
        &process,
        &secret,
        "X-GitHub-Event: push\r\n",
        r#"{"id": 7, "a": {"b": 1.50}}"#,
    );
    let kept = content(&process, &id);
    assert_eq!(kept["kept"], "body");
    assert_eq!(kept["body"], r#"{"id": 7, "a": {"b": 1.50}}"#);
    assert_eq!(
        process.request(&id)["headers"],
        json!([{"name": "content-type", "value": "application/json"}, {"name": "x-github-event", "value": "push"}])
    );

    let told = not_sent(&process, &id, 400, "INVALID_PAYLOAD");
    assert!(told.contains("uid"), "{told}");
    mend(&process);
    let became = sent_again(&process, &id);
    let new = process.request_becomes(&became, "processed");
    assert_eq!(new["sent_again_from"], id);
    assert_eq!(
        (&new["item_key"], &new["connector"]),
        (&json!("id"), &json!("hook"))
    );
    assert_eq!(process.request(&id)["sent_again_as"], json!([became]));
    let stored = folder.items("orders");
    assert_eq!(
        stored,
        [(
            "7".to_owned(),
            json!({"id": 7, "a.b": 1.50}),
            became.clone()
        )]
    );

    let audit = process.admin("/api/admin/audit?limit=1");
    assert_eq!(
        (&audit[0]["action"], &audit[0]["kind"], &audit[0]["name"]),
        (&json!("resend"), &json!("request"), &json!(id))
    );
    assert_eq!(audit[0]["after"]["request_id"], became);
}

#[test]
fn what_was_over_its_rate_or_for_another_stream_is_kept_too() {
    let folder = folder();
    let process = folder.spawn();
    let secret = connector(
        &process,
        &json!({"name": "hook", "kind": "webhook", "requests_per_second": 1, "burst": 1}),
    );
    let over = eventually("one is over the rate", || {
        let sent = webhook(&process, &secret, "orders", JSON, r#"{"n": 2}"#);
        (sent.status == 429).then_some(sent)
    });
    let over = over.json()["error"]["request_id"]
        .as_str()
        .expect("an id")
        .to_owned();
    process.accepted("orders", "", "[]");
    assert_eq!(content(&process, &over)["body"], r#"{"n": 2}"#);
    sent_again(&process, &over);

    let stranger = connector(&process, &json!({"name": "other", "kind": "webhook"}));
    let lost = webhook(&process, &stranger, "bookings", JSON, r#"{"n": 3}"#);
    assert_eq!(lost.status, 404);
    let lost = lost.json()["error"]["request_id"]
        .as_str()
        .expect("an id")
        .to_owned();
    process.accepted("orders", "", "[]");
    let told = not_sent(&process, &lost, 409, "STREAM_GONE");
    assert!(told.contains("bookings"), "{told}");
    process.call("POST", "/api/admin/streams", r#"{"name": "bookings"}"#);
    not_sent(&process, &lost, 409, "STREAM_GONE");
    let key = json!({"name": "bookings", "stream": "bookings"}).to_string();
    process.call("POST", "/api/admin/connectors/other/keys", &key);
    let became = sent_again(&process, &lost);
    process.request_becomes(&became, "processed");
    assert_eq!(folder.items("bookings").len(), 1);
}

#[test]
fn an_accepted_request_is_sent_again_while_its_items_are_kept() {
    let folder = folder();
    let process = folder.spawn();
    let key = "X-Item-Key: id\r\nIdempotency-Key: once\r\nUser-Agent: tester/1\r\n";
    let id = process.accepted(
        "orders",
        key,
        r#"[{"id": "a", "n": 1}, {"id": "b", "n": 1}]"#,
    );
    let repeat = process.post(
        "orders",
        key,
        r#"[{"id": "a", "n": 1}, {"id": "b", "n": 1}]"#,
    );
    assert_eq!(repeat.request_id(), id);
    process.accepted("orders", BY_ID, r#"{"id": "a", "n": 2}"#);
    process.drained();
    let kept = content(&process, &id);
    assert_eq!(kept["items"][1]["key"], "b");
    assert_eq!(
        kept["items"][1]["fields"],
        json!([{"name": "id", "value": "\"b\"", "bytes_left_out": 0}, {"name": "n", "value": "1", "bytes_left_out": 0}])
    );
    assert_eq!(
        process.request(&id)["headers"],
        json!([{"name": "content-type", "value": "application/json"}, {"name": "user-agent", "value": "tester/1"}])
    );

    // What is newer is left.
    let answer = send_again(&process, &id);
    assert_eq!(answer.status, 202, "{}", answer.body);
    let data = answer.json()["data"].take();
    assert_eq!(
        (&data["items_received"], &data["items_left"]),
        (&json!(1), &json!(1))
    );
    let became = data["request_id"].as_str().expect("an id");
    let new = process.request_becomes(became, "processed");
    assert_eq!(new["items_received"], 1);
    let stored = folder.items("orders");
    let held: Vec<_> = (stored.iter())
        .map(|(key, fields, _)| (key.as_str(), fields["n"].as_i64()))
        .collect();
    assert_eq!(held, [("a", Some(2)), ("b", Some(1))]);
    assert_eq!(stored[1].2, became);

    // Everything is sent where that is asked for.
    let path = format!("/api/admin/requests/{id}/resend");
    let wrong = process.call("POST", &path, r#"{"overwrit": true}"#);
    assert_eq!(wrong.status, 400, "{}", wrong.body);
    let answer = process.call("POST", &path, r#"{"overwrite": true}"#);
    assert_eq!(answer.status, 202, "{}", answer.body);
    assert_eq!(answer.json()["data"]["items_left"], 0);
    let became = answer.request_id();
    assert_ne!(became, id);
    process.request_becomes(&became, "processed");
    let stored = folder.items("orders");
    let of = |key: &str| {
        stored
            .iter()
            .find(|(found, ..)| found == key)
            .map(|(_, fields, by)| (fields["n"].clone(), by.clone()))
    };
    assert_eq!(
        of("a"),
        Some((json!(1), became.clone())),
        "accepted later, so it counts"
    );
    assert_eq!(of("b"), Some((json!(1), became.clone())));

    // A repeat leads to its first request.
    let log = process.admin("/api/admin/connectors/tests/requests?status=duplicate");
    let duplicate = log[0]["request_id"].as_str().expect("an id").to_owned();
    let told = not_sent(&process, &duplicate, 409, "DUPLICATE");
    assert!(told.contains(&id), "{told}");
    not_sent(&process, NOBODY, 404, "REQUEST_NOT_FOUND");
    not_sent(&process, "nothing", 404, "REQUEST_NOT_FOUND");
}

#[test]
fn an_old_request_that_is_sent_again_leaves_what_is_newer_and_what_was_removed() {
    let folder = folder();
    let process = folder.spawn();
    let put = |body: &str| process.accepted("orders", BY_ID, body);
    let old = put(r#"[{"id": "a", "n": 1}, {"id": "b", "n": 1}]"#);
    put(r#"{"id": "a", "n": 2}"#);
    process.drained();
    let site = crate::pages::signed_in(&process);
    assert_eq!(site.submit("/streams/orders/remove", "key=b").status, 303);
    process.drained();
    let held = || folder.items("orders");
    let before = held();
    assert_eq!(before.len(), 1);
    let answer = send_again(&process, &old);
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(
        answer.json()["data"],
        json!({"request_id": null, "sent_again_from": old, "stream": "orders", "items_received": 0, "items_left": 2, "replayed": false})
    );
    let again = |more: &[&str]| {
        let verb = ["requests", "resend", &old];
        operate(&process, [&verb[..], more].concat())
    };
    assert_eq!(again(&[]).ok(), "");
    let page = site.page(&format!("/requests/{old}"));
    assert!(page.contains("name=\"overwrite\""), "{page}");
    let answer = site.submit(&format!("/requests/{old}/resend"), "");
    let shown = site.page(answer.header("location").expect("a page"));
    assert!(shown.contains("Nothing was sent. 2 items left"), "{shown}");
    process.drained();
    assert_eq!(held(), before, "nothing was touched");

    let became = again(&["--overwrite"]).ok();
    process.request_becomes(became.trim(), "processed");
    let values: Vec<_> = (held().iter())
        .map(|(_, fields, _)| fields["n"].as_i64())
        .collect();
    assert_eq!(values, [Some(1), Some(1)]);
    // A second click sends the same values once more.
    assert_eq!(send_again(&process, &old).json()["data"]["items_left"], 0);
}

#[test]
fn a_senders_own_retry_and_the_operators_are_one_request() {
    let process = folder().spawn();
    let secret = hook(&process);
    let id = refused(&process, &secret, "Idempotency-Key: k1\r\n", r#"{"id": 1}"#);
    mend(&process);
    let became = sent_again(&process, &id);
    let retry = webhook(
        &process,
        &secret,
        "orders",
        &format!("{JSON}Idempotency-Key: k1\r\n"),
        r#"{"id": 1}"#,
    );
    assert_eq!((retry.status, retry.request_id()), (202, became.clone()));
    let again = send_again(&process, &id);
    assert_eq!(again.json()["data"]["replayed"], true);
    assert_eq!(again.request_id(), became);
}

#[test]
fn what_is_not_kept_any_more_is_gone_and_says_why() {
    let process = folder()
        .set("storage.rejected_retention_bytes", 3000)
        .spawn();
    let secret = hook(&process);
    let body = |n: u32| format!(r#"{{"id": {n}, "text": "{}"}}"#, "x".repeat(900));
    let ids: Vec<String> = (0..6)
        .map(|n| refused(&process, &secret, "", &body(n)))
        .collect();
    let large = refused(
        &process,
        &secret,
        "",
        &format!(r#"{{"text": "{}"}}"#, "x".repeat(4_000)),
    );
    mend(&process);
    let kept = |id: &String| content(&process, id)["kept"] == "body";
    eventually("the oldest are given up", || {
        let left: Vec<bool> = ids.iter().map(kept).collect();
        (left == [false, false, false, true, true, true]).then_some(())
    });
    assert!(!kept(&large), "larger than all may be together");
    let told = not_sent(&process, &ids[0], 410, "NOT_KEPT");
    assert!(told.contains("rejected_retention_bytes"), "{told}");
    sent_again(&process, &ids[5]);

    // Refused at /api/ingest: nothing is kept.
    let answer = process.post("orders", "", "{");
    let id = answer.json()["error"]["request_id"]
        .as_str()
        .expect("an id")
        .to_owned();
    // It is in the log when what came later is.
    process.accepted("orders", "", r#"{"n": 1}"#);
    let told = not_sent(&process, &id, 410, "NOT_KEPT");
    assert!(told.contains("/api/webhook"), "{told}");
}

#[test]
fn a_payload_that_is_not_kept_is_gone_and_says_why() {
    if crate::setup::file_only("the database keeps payloads for some hours") {
        return;
    }
    let process = folder().set("storage.payload_retention_minutes", 0).spawn();
    let first = process.accepted("orders", "", r#"{"n": 1}"#);
    process.request_becomes(&first, "processed");
    eventually("the payload is released", || {
        (content(&process, &first)["kept"] == Value::Null).then_some(())
    });
    let told = not_sent(&process, &first, 410, "NOT_KEPT");
    assert!(told.contains("payload_retention_minutes"), "{told}");
}

#[test]
fn kept_bodies_survive_a_kill_and_what_was_sent_again_too() {
    let folder = folder();
    let process = folder.spawn();
    let secret = hook(&process);
    let id = refused(&process, &secret, "", r#"{"id": 1}"#);
    process.kill();
    let process = folder.spawn();
    assert_eq!(content(&process, &id)["body"], r#"{"id": 1}"#);
    mend(&process);
    let became: Vec<String> = (0..5).map(|_| sent_again(&process, &id)).collect();
    process.kill();
    let process = folder.spawn();
    for became in &became {
        let request = process.request_becomes(became, "processed");
        assert_eq!(request["sent_again_from"], id);
    }
    assert_eq!(folder.items("orders")[0].2, became[4]);
}

#[test]
fn no_secret_of_a_header_reaches_a_file() {
    let folder = folder();
    let process = folder.spawn();
    let secret = hook(&process);
    let headers = "Cookie: sid=5ec4e7-cookie\r\nX-Api-Key: 5ec4e7-key\r\nX-Hub-Signature-256: sha256=5ec4e7-sign\r\n\
                   Webhook-Signature: v1,5ec4e7-hook\r\nX-Auth-Token-Event: 5ec4e7-token\r\nX-Odd-Event: Bearer 5ec4e7-bearer\r\n\
                   X-Unknown: 5ec4e7-unknown\r\nWebhook-Id: msg_1\r\n";
    let id = refused(&process, &secret, headers, r#"{"id": 1}"#);
    let good = format!("{JSON}{headers}");
    assert_eq!(
        webhook(&process, &secret, "orders", &good, r#"{"uid": 1}"#).status,
        202
    );
    let noted = process.request(&id)["headers"].take();
    let noted = noted.as_array().expect("a list");
    let value = |name: &str| {
        noted
            .iter()
            .find(|header| header["name"] == name)
            .map(|header| header["value"].clone())
    };
    assert_eq!(value("webhook-id"), Some(json!("msg_1")));
    for name in [
        "cookie",
        "x-api-key",
        "webhook-signature",
        "x-odd-event",
        "x-unknown",
    ] {
        assert_eq!(value(name), Some(Value::Null), "{name}");
    }
    process.stop();
    for entry in std::fs::read_dir(folder.data_dir()).expect("the data folder") {
        let path = entry.expect("an entry").path();
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        if path.is_dir() || name == "lock" {
            continue;
        }
        let bytes = std::fs::read(&path).expect("a file");
        let holds = |needle: &str| {
            bytes
                .windows(needle.len())
                .any(|found| found == needle.as_bytes())
        };
        assert!(!holds("5ec4e7"), "{name}");
        assert!(!holds(&secret[17..]), "{name}");
        assert!(
            name != "journal.db" || holds("msg_1"),
            "what is noted is found like this"
        );
    }
}

/// The command on a page, as a browser shows it.
fn command(page: &str) -> String {
    let (_, rest) = page.split_once(r#"<code id="curl">"#).expect("a command");
    let (command, _) = rest.split_once("</code>").expect("its end");
    let plain = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&amp;", "&"),
    ];
    plain
        .iter()
        .fold(command.to_owned(), |text, (escaped, plain)| {
            text.replace(escaped, plain)
        })
}

/// Runs a command in a shell; the status that curl saw.
fn in_a_shell(folder: &Setup, command: &str, secret: &str) -> Done {
    let mut shell = std::process::Command::new("sh");
    shell
        .args(["-c", command])
        .env("HEADGATE_KEY", secret)
        .env("NO_PROXY", "*");
    crate::command_line::finish(shell.current_dir(folder.path("")), "")
}

#[test]
fn the_page_shows_everything_escaped_and_its_command_is_accepted() {
    let folder = folder();
    let process = folder.spawn();
    let site = crate::pages::signed_in(&process);
    let hostile = json!({
        "id": "it's `id` $HOME \\ \"x\" <script>alert(1)</script>",
        "<b>name</b>": "\u{1b}[31m\u{202e}\u{9b}\n@x ü漢",
        "long": "w".repeat(10_000),
    });
    let many = Value::Array(vec![hostile.clone(); 60]);
    let id = process.accepted(
        "orders",
        "X-Item-Key: id\r\nUser-Agent: <i>\r\n",
        &json!([hostile]).to_string(),
    );
    let big = process.accepted("orders", BY_ID, &many.to_string());
    process.drained();
    let page = site.page(&format!("/requests/{id}"));
    for raw in [
        "<script>alert",
        "<b>name",
        "<i>",
        "\u{1b}",
        "\u{202e}",
        "\u{9b}",
    ] {
        assert!(!page.contains(raw), "{raw:?}");
    }
    assert!(
        page.contains("&lt;script&gt;alert") && page.contains("more bytes"),
        "{page}"
    );
    assert!(page.contains("&lt;i&gt;"), "{page}");
    let before = folder.items("orders");
    assert_eq!(before.len(), 1);
    let done = in_a_shell(&folder, &command(&page), &key_of("orders")).ok();
    assert!(done.starts_with("HTTP/1.1 202"), "{done}");
    process.drained();
    let after = folder.items("orders");
    assert_eq!((&before[0].0, &before[0].1), (&after[0].0, &after[0].1));
    assert_ne!(before[0].2, after[0].2);
    let page = site.page(&format!("/requests/{big}"));
    assert!(
        page.contains("10 more items") && !page.contains("data-copy"),
        "{page}"
    );

    let secret = hook(&process);
    let body = "{\"id\": \"it's\", \"x\": \"<img src=x>\u{202e}\u{7f}\"}";
    let id = refused(&process, &secret, "", body);
    let page = site.page(&format!("/requests/{id}"));
    assert!(
        !page.contains("<img") && !page.contains('\u{202e}') && page.contains("&lt;img"),
        "{page}"
    );
    assert!(!page.contains(&secret), "{page}");
    mend(&process);
    let done = in_a_shell(&folder, &command(&page), &secret).ok();
    assert!(done.starts_with("HTTP/1.1 202"), "{done}");

    let answer = site.submit(&format!("/requests/{id}/resend"), "");
    assert_eq!(answer.status, 303, "{}", answer.body);
    let new = answer.header("location").expect("a page").to_owned();
    let page = site.page(&new);
    assert!(
        page.contains("Resent; this is the new request.") && page.contains(&id),
        "{page}"
    );
    assert!(
        site.page(&format!("/requests/{id}")).contains(&new),
        "the old one leads to it"
    );
    assert_eq!(
        site.post(&format!("/requests/{id}/resend"), "").status,
        403,
        "without the form's token"
    );
}

#[test]
fn the_command_line_shows_a_request_and_sends_it_again() {
    let folder = folder();
    let process = folder.spawn();
    let requests = |args: &[&str]| operate(&process, [&["requests"], args].concat());
    let body = json!({"id": "\u{1b}[31m\u{202e}", "n": 1}).to_string();
    let id = process.accepted("orders", "User-Agent: tester/1\r\n", &body);
    process.drained();
    for args in [&["show", &id][..], &[&id]] {
        let shown = requests(args).ok();
        assert!(
            shown.contains("tester/1") && shown.contains("n: 1"),
            "{shown}"
        );
        assert!(
            !shown.contains('\u{1b}') && !shown.contains('\u{202e}'),
            "{shown:?}"
        );
    }
    let shown = requests(&["show", &id, "--output", "json"]).ok();
    assert!(
        !shown.contains('\u{1b}') && !shown.contains('\u{202e}'),
        "{shown:?}"
    );
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(shown["content"]["items"][0]["fields"][1]["value"], "1");

    let became = requests(&["resend", &id]).ok();
    assert_eq!(process.request(became.trim())["sent_again_from"], id);
    let told = requests(&["resend", NOBODY]).failed(1);
    assert!(told.contains("no request"), "{told}");
}

#[test]
fn a_request_is_resent_by_the_names_of_version_0_1_too() {
    let folder = folder();
    let process = folder.spawn();
    let id = process.accepted("orders", "", r#"{"n": 1}"#);
    process.drained();
    let path = format!("/api/admin/requests/{id}/send-again");
    let answer = process.call("POST", &path, "");
    assert_eq!(answer.status, 202, "{}", answer.body);
    assert_eq!(answer.json()["data"]["sent_again_from"], id);
    let verb = ["requests", "send-again", &id, "--overwrite"];
    operate(&process, verb).ok();
    let site = crate::pages::signed_in(&process);
    let path = format!("/requests/{id}/send-again");
    let answer = site.submit(&path, "overwrite=yes");
    assert_eq!(answer.status, 303, "{}", answer.body);
    for action in ["resend", "send_again"] {
        let found = process.list(&format!("/api/admin/audit?action={action}"));
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found.iter().all(|entry| entry["action"] == "resend"));
        let shown = operate(&process, ["audit", "--action", action]).ok();
        assert_eq!(shown.matches(" resend ").count(), 3, "{shown}");
        let page = site.page(&format!("/audit?action={action}"));
        assert!(page.contains("3 entries"), "{page}");
    }
}

#[test]
fn a_deleted_connector_keeps_its_log_and_its_requests() {
    let folder = folder();
    let process = folder.spawn();
    let secret = connector(&process, &json!({"name": "gone", "kind": "webhook"}));
    let sent = webhook(&process, &secret, "orders", JSON, "{}");
    let id = sent.request_id();
    assert_eq!(
        process
            .call("DELETE", "/api/admin/connectors/gone", "")
            .status,
        200
    );
    assert_eq!(process.request(&id)["connector"], "gone");
    let log = process.admin("/api/admin/connectors/gone/requests");
    assert_eq!(log[0]["request_id"], id);
    let told = not_sent(&process, &id, 409, "CONNECTOR_GONE");
    assert!(told.contains("gone"), "{told}");
    let site = crate::pages::signed_in(&process);
    assert!(
        site.page("/connectors")
            .contains(r#"<a href="/connectors/gone">"#)
    );
    let page = site.page("/connectors/gone");
    assert!(page.contains("was deleted") && page.contains(&id), "{page}");
    assert!(site.page(&format!("/requests/{id}")).contains("(deleted)"));
    let found = operate(&process, ["requests", "--connector", "gone"]).ok();
    assert!(found.contains(&id));
    connector(&process, &json!({"name": "gone", "kind": "webhook"}));
    sent_again(&process, &id);
}

#[test]
fn a_journal_of_format_1_is_taken_over() {
    if crate::setup::file_only("it changes or watches the file of the journal") {
        return;
    }
    let folder = folder();
    let process = folder.spawn();
    let id = process.accepted("orders", "", r#"{"n": 1}"#);
    process.drained();
    process.stop();
    folder.tamper(
            "journal.db",
            "DROP TABLE claim_log; DROP TABLE claims; DROP TABLE claim_runs; DROP TABLE timeline;
             DROP TABLE log_spans; DROP TABLE log_marks; DROP TABLE log_mark_names; DROP TABLE log_late; DROP TABLE log_sent_again;
             ALTER TABLE payloads DROP COLUMN request; ALTER TABLE quarantine DROP COLUMN request;
             CREATE UNIQUE INDEX requests_by_id ON requests (request_id);
             CREATE INDEX requests_by_connector ON requests (connector);
             CREATE INDEX requests_not_accepted ON requests (connector, outcome) WHERE outcome <> 0;
             DROP TABLE bodies; ALTER TABLE requests DROP COLUMN headers;
             ALTER TABLE requests DROP COLUMN sent_again_from; ALTER TABLE requests DROP COLUMN sender;
             PRAGMA user_version = 1;",
    );
    let process = folder.spawn();
    assert_eq!(process.request(&id)["headers"], json!([]));
    let became = sent_again(&process, &id);
    process.request_becomes(&became, "processed");
}

#[test]
fn what_is_kept_of_one_connector_is_not_pushed_out_by_another() {
    let process = folder()
        .set("storage.rejected_retention_bytes", 3_000)
        .spawn();
    let victim = connector(
        &process,
        &json!({"name": "victim", "kind": "webhook", "item_key": "uid"}),
    );
    let body = |n: u32| format!(r#"{{"id": {n}, "text": "{}"}}"#, "x".repeat(900));
    let first = refused(&process, &victim, "", &body(0));
    let secret = hook(&process);
    let flood: Vec<String> = (0..6)
        .map(|n| refused(&process, &secret, "", &body(n)))
        .collect();
    let kept = |id: &String| content(&process, id)["kept"] == "body";
    eventually("the oldest of the flood are given up", || {
        let left: Vec<bool> = flood.iter().map(kept).collect();
        (left == [false, false, false, false, true, true]).then_some(())
    });
    assert!(kept(&first), "that of the other connector stays");
}
