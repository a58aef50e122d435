//! The form of a sink, of each built-in plugin: what a section says is what its form sends.

use serde_json::{Value, json};

use super::refusal;
use crate::app::encoded;
use crate::pages::managed::leads_to;
use crate::pages::site::{Site, unescaped};
use crate::process::Process;
use crate::receiver::{Receiver, answer};
use crate::setup::Setup;

/// What a browser sends of the form of a page, but for its buttons.
fn controls(page: &str) -> Vec<(String, String)> {
    let (_, rest) = page.split_once("<form class=\"panel\"").expect("a form");
    let (form, _) = rest.split_once("</form>").expect("its end");
    let attribute = |tag: &str, name: &str| -> Option<String> {
        let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
        Some(unescaped(rest.split('"').next()?))
    };
    let mut sent: Vec<(String, String)> = Vec::new();
    let mut is_first = false;
    for part in form.split('<').skip(1) {
        let (tag, text) = part.split_once('>').expect("a whole tag");
        let kind = tag.split(' ').next().unwrap_or_default();
        let name = attribute(tag, "name").unwrap_or_default();
        let value = attribute(tag, "value").unwrap_or_default();
        match kind {
            "input" if tag.contains("type=\"checkbox\"") && !tag.contains(" checked") => {}
            "input" => sent.push((name, value)),
            "textarea" => sent.push((name, unescaped(text))),
            "select" => {
                sent.push((name, String::new()));
                is_first = true;
            }
            // Browsers choose the first one where none is.
            "option" => {
                let (_, chosen) = sent.last_mut().expect("a select");
                if tag.contains(" selected") || is_first {
                    *chosen = value;
                }
                is_first = false;
            }
            _ => {}
        }
    }
    sent
}

fn body(controls: &[(String, String)], button: &str) -> String {
    let fields = controls.iter().filter(|(name, _)| name != "form_token");
    let fields = fields.map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
    let mut fields: Vec<String> = fields.collect();
    fields.push(format!("do={button}"));
    fields.join("&")
}

fn section(process: &Process, name: &str) -> Value {
    process.sink(name)["section"].clone()
}

/// How often the sinks were changed.
fn changes(process: &Process) -> usize {
    let audit = process.list("/api/admin/audit");
    audit
        .iter()
        .filter(|entry| entry["action"] == "change")
        .count()
}

/// A section of each built-in plugin, with as many settings as it has controls of all kinds.
fn sections(receiver: &Receiver) -> Vec<Value> {
    let http = json!({
        "hosts": [receiver.url("")], "networks": ["127.0.0.0/8"], "headers": {"authorization": "Bearer hush-hush"},
        "timeout_ms": 4_000, "concurrency_max": 2,
    });
    let url = receiver.url("/in");
    vec![
        json!({
            "name": "http-forward", "plugin": "http-forward", "streams": ["orders", "sensor-*"], "except": ["sensor-x"],
            "where": "status:paid,total>=100", "fields": "id,Customer:customer.name", "leaves": "remove",
            "start": "journal", "in_flight": 2, "retry": {"first_ms": 20, "max_ms": 50, "attempts": 4},
            "batch": {"items_max": 7, "linger_ms": 0}, "limits": {"write_timeout_ms": 9_000},
            "secrets": {"token": "hush-secret"}, "http": http,
            "config": {
                "url": format!("{url}/{{_key}}"), "method": "PUT", "headers": {"x-a": "1: {id}"}, "per": "item",
                "body": {"text": "{Customer|or:nobody}", "all": ["{id|json}"]},
                "removed": {"method": "DELETE"}, "ok_if": "ok:true", "retry_statuses": [503, 429], "timeout_ms": 3_000,
            },
        }),
        json!({
            "name": "latest", "plugin": "http-forward", "streams": ["orders"], "mode": "latest", "max_rate": 5, "shown": true,
            "retry": {"first_ms": 20}, "http": {"hosts": [receiver.url("")], "networks": ["127.0.0.0/8"]},
            "config": {"url": url, "form": "field-array", "max_items": 9},
        }),
        json!({
            "name": "webhook", "plugin": "webhook", "streams": ["orders"], "ordering": "strict",
            "secrets": {"signing": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}, "http": http,
            "config": {"url": url, "type": "order.paid", "removals": false, "per": "batch"},
        }),
        json!({
            "name": "postgres", "plugin": "postgres", "streams": ["orders"],
            "postgres": {"url": "postgresql://me:hush-hush@db.example/shop", "timeout_ms": 900},
            "config": {
                "schema": "shop", "table": "Orders", "create": true, "key": ["id"],
                "columns": [{"name": "id"}, {"name": "Total", "field": "total", "type": "numeric(10, 2)"}],
            },
        }),
        json!({
            "name": "influx", "plugin": "influx", "streams": ["orders"], "http": http,
            "config": {"url": receiver.url(""), "bucket": "b", "org": "o", "tags": ["shop", "city"], "key_tag": "key", "precision": "s"},
        }),
        json!({
            "name": "filter-map", "plugin": "filter-map", "streams": ["sensor-*"], "writes": ["sensor-*", "hot"],
            "config": {
                "rules": [{"when": [{"field": "value", "above": 7.5}], "stream": "hot", "rename": {"value": "Value"}}],
                "otherwise": "drop",
            },
        }),
        json!({
            "name": "file", "plugin": "file", "streams": ["orders"], "mode": "latest", "folder": {"path": "out/live"},
            "config": {"form": "xml", "name": "all-{_stream}.xml", "sort": "-n", "limit": 10, "names": "nested", "comma": true},
        }),
        json!({
            "name": "lines", "plugin": "lines", "streams": ["orders"],
            "wire": {"to": ["tcp://10.0.0.5:5250", "ws://a.example:80"], "networks": ["10.0.0.0/8"]},
            "config": {"to": "tcp://10.0.0.5:5250", "line": "SET {_key}", "expect": "202", "timeout_ms": 500},
        }),
        json!({
            "name": "mqtt", "plugin": "mqtt", "streams": ["orders"], "wire": {"to": ["tls://a.example:8883"]},
            "config": {"to": "tls://a.example:8883", "client_id": "c", "topic": "a/{_key}", "retain": false, "user": "u"},
        }),
        json!({
            "name": "second", "plugin": "pool", "streams": ["other"], "where": "a?", "writes": ["other"], "config": {},
        }),
    ]
}

/// The secrets of a section, as they are typed: at their names, which are there.
fn with_secrets(controls: &mut [(String, String)], section: &Value) {
    for (what, secrets) in [
        ("http.headers", &section["http"]["headers"]),
        ("secrets", &section["secrets"]),
    ] {
        let mut text = None;
        for (control, value) in controls.iter_mut() {
            if *control == format!("{what}.name") {
                text = secrets[value.as_str()].as_str();
            } else if *control == format!("{what}.value") {
                text.take().unwrap_or_default().clone_into(value);
            }
        }
    }
    let url = section["postgres"]["url"].as_str();
    let field = controls.iter_mut().find(|(name, _)| name == "postgres.url");
    if let (Some(url), Some((_, value))) = (url, field) {
        url.clone_into(value);
    }
}

#[test]
fn the_form_of_each_built_in_plugin_says_what_the_section_says() {
    let receiver = Receiver::start(|_, _| answer(200, "", ""));
    let process = Setup::with_streams(&["orders", "other"]).spawn();
    let site = Site::signed_in(&process);
    for wanted in sections(&receiver) {
        let name = wanted["name"].as_str().expect("a name");
        process.make("/api/admin/sinks", &wanted).data(201);
        let said = section(&process, name);
        let path = format!("/sinks/{name}/change");
        let page = site.page(&path);
        assert!(!page.contains("hush"), "no secret is on the page of {name}");
        let mut typed = controls(&page);

        // Nothing was changed, so nothing is sent.
        let before = changes(&process);
        let answer = site.submit(&path, &body(&typed, "save"));
        leads_to(&answer, &format!("/sinks/{name}"));
        assert_eq!(section(&process, name), said);
        assert_eq!(changes(&process), before, "{name}");

        // The same form makes the same sink.
        with_secrets(&mut typed, &wanted);
        typed.push(("name".to_owned(), format!("{name}-copy")));
        let answer = site.submit("/new/sink", &body(&typed, "save"));
        assert_eq!(answer.status, 303, "{name}: {}", answer.body);
        let mut copy = section(&process, &format!("{name}-copy"));
        copy["name"] = json!(name);
        assert_eq!(copy, said, "{name}");
        let gone = format!("/api/admin/sinks/{name}-copy?discard=true");
        process.call("DELETE", &gone, "").data(200);
    }
    process.stop();
}

#[test]
fn a_change_by_the_form_sends_what_was_changed_and_keeps_secrets() {
    let receiver = Receiver::start(|_, _| answer(200, "", ""));
    let process = Setup::with_streams(&["orders"]).spawn();
    let site = Site::signed_in(&process);
    let wanted = &sections(&receiver)[0];
    process.make("/api/admin/sinks", wanted).data(201);
    let path = "/sinks/http-forward/change";
    assert!(
        site.page("/sinks/http-forward")
            .contains(&format!("href=\"{path}\""))
    );
    let mut typed = controls(&site.page(path));
    for (name, value) in &mut typed {
        match name.as_str() {
            "retry.attempts" => "9".clone_into(value),
            "where" => "status:open".clone_into(value),
            _ => {}
        }
    }
    let answer = site.submit(path, &body(&typed, "save"));
    leads_to(&answer, "/sinks/http-forward");
    let sink = process.sink("http-forward");
    assert_eq!(sink["retry"]["attempts"], 9);
    assert_eq!(sink["where"], "status:open");
    assert_eq!(sink["http"]["headers"]["authorization"]["set"], true);
    let audit = &process.list("/api/admin/audit")[0];
    assert_eq!(audit["action"], "change");
    assert!(
        !audit.to_string().contains("changed\"}"),
        "no secret changed: {audit}"
    );
    // The header is what was sent once.
    process.accepted("orders", "", r#"{"id": 1, "status": "open"}"#);
    process.drained();
    let seen = receiver.seen();
    assert_eq!(seen[0].header("authorization"), Some("Bearer hush-hush"));

    // What cannot be is said at its control, and nothing is changed.
    for (name, value) in &mut typed {
        if name == "retry.max_ms" {
            "1".clone_into(value);
        }
    }
    let answer = site.submit(path, &body(&typed, "save"));
    assert_eq!(answer.status, 400);
    assert!(
        answer.body.contains("shorter than the first pause"),
        "{}",
        answer.body
    );
    assert_eq!(process.sink("http-forward")["retry"]["max_ms"], 50);
    // What is declared is changed in its file.
    let declared = site.get("/sinks/pool/change");
    assert_eq!(declared.status, 409, "{}", declared.body);
    let told = process.call("PATCH", "/api/admin/sinks/pool", "{}");
    assert_eq!(refusal(&told, 409).0, "DECLARED");
    process.stop();
}
