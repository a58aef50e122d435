//! The cases of `operate-vectors.json`: what is shown, told, stored and handed to sinks after each step.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use reqwest::Method;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{act, done, operator, with_operators};
use crate::app::{Caller, Renderer, TestApp, Transport};
use crate::setup::Setup;
use crate::wait::eventually_async;

const CASES: &str = include_str!("../../fixtures/operate-vectors.json");
/// Seconds of the cases take so many times longer, so that a busy machine changes nothing.
const SLOWER: u64 = 3;

fn cases(wanted: impl Fn(&Value) -> bool) -> Vec<(usize, Value)> {
    let mut all: Value = serde_json::from_str(CASES).expect("the file is JSON");
    let all = std::mem::take(all["cases"].as_array_mut().expect("cases"));
    let all = all.into_iter().enumerate();
    all.filter(|(_, case)| wanted(case)).collect()
}

fn does(case: &Value, what: &str) -> bool {
    let steps = case["steps"].as_array().expect("steps");
    steps.iter().any(|step| step["do"] == what)
}

fn name(number: usize) -> String {
    format!("c{number}")
}

/// A stream, a connector and an operate key for each case.
async fn daemon(cases: &[(usize, Value)]) -> TestApp {
    let mut setup = Setup::new().unlimited();
    for (number, case) in cases {
        let (stream, given) = (name(*number), &case["settings"]);
        let mut settings = Vec::new();
        for setting in ["on_update", "version"] {
            if given[setting].is_string() {
                settings.push(format!("{setting} = {}", given[setting]));
            }
        }
        if let Some(field) = given["delete_when"]["field"].as_str() {
            let is = &given["delete_when"]["is"];
            settings.push(format!("delete_when = {{ field = {field:?}, is = {is} }}"));
        }
        if let Some(seconds) = given["expire_after_seconds"].as_u64() {
            settings.push(format!("expire_after_seconds = {}", seconds * SLOWER));
        }
        let connector = "may_delete = true";
        setup = setup
            .stream_with(&stream, &settings.join("\n"))
            .connector(&stream, connector)
            .key(&stream, &stream)
            .read_key(&format!("{stream}-reads"), &[&stream], "")
            .read_key(&format!("{stream}-acts"), &[&stream], "operate = true");
    }
    let stray = setup
        .stream("other")
        .read_key("other-acts", &["other"], "operate = true");
    let stray = stray.connector("other", "").key("other", "other");
    let app = with_operators(stray).start().await;
    // Who stands at number 0 is told everything afresh.
    app.caller("other").ingest("{}").await.receipt();
    app.drain().await;
    app
}

struct Play<'a> {
    app: &'a TestApp,
    case: &'a Value,
    stream: String,
    follower: Option<Renderer>,
    /// What it stood at.
    id: Option<String>,
}

/// Everything as it is written, digit by digit.
fn texts(fields: &str) -> BTreeMap<String, String> {
    let fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(fields).expect("an object");
    let texts = fields
        .into_iter()
        .map(|(name, value)| (name, value.get().to_owned()));
    texts.filter(|(name, _)| name != "row_key").collect()
}

/// The items of an answer: fields, and the names of those that are overridden.
fn items(answer: &str) -> Value {
    #[derive(serde::Deserialize)]
    struct Answer {
        data: Vec<Item>,
    }
    #[derive(serde::Deserialize)]
    struct Item {
        key: String,
        fields: Box<RawValue>,
        overridden: Option<Vec<String>>,
    }
    let answer: Answer = serde_json::from_str(answer).expect("a page");
    let item = |item: Item| {
        assert_ne!(item.overridden, Some(Vec::new()));
        let value = json!({"fields": texts(item.fields.get()), "overridden": item.overridden.unwrap_or_default()});
        (item.key, value)
    };
    answer.data.into_iter().map(item).collect()
}

impl<'a> Play<'a> {
    async fn new(app: &'a TestApp, number: usize, case: &'a Value) -> Self {
        let stream = name(number);
        let mut play = Self {
            app,
            case,
            stream,
            follower: None,
            id: None,
        };
        play.follow().await;
        play
    }

    fn reads(&self) -> Caller {
        self.app.reader(&format!("{}-reads", self.stream))
    }

    /// What is told since it was there last: keys of updates, and of removals.
    async fn follow(&mut self) -> [BTreeSet<String>; 2] {
        let secret = self
            .app
            .read_secret(&format!("{}-reads", self.stream))
            .to_owned();
        let mut renderer =
            Renderer::new(&self.app.service, Transport::Sse, &secret, &[&self.stream]);
        let follower = &self.case["follower"];
        if let Some(field) = follower["where"]["field"].as_str() {
            let is = follower["where"]["is"][0].as_str().expect("a value");
            renderer.asks(&format!("where={field}:{is}"));
        }
        if let Some(fields) = follower["fields"].as_array() {
            let fields: Vec<&str> = fields.iter().filter_map(Value::as_str).collect();
            renderer.asks(&format!("fields={}", fields.join(",")));
        }
        if let Some(before) = self.follower.take() {
            renderer.content = before.content;
        }
        let mut told = [BTreeSet::new(), BTreeSet::new()];
        renderer.connect_from(self.id.as_deref()).await;
        let messages = match self.id {
            None => renderer.snapshots().await,
            Some(_) => renderer.caught_up().await,
        };
        for message in messages {
            let at = match &*message.kind {
                "update" => 0,
                "remove" => 1,
                _ => continue,
            };
            told[at].extend(message.keys().into_iter().map(str::to_owned));
        }
        renderer.disconnect();
        self.id.clone_from(&renderer.id);
        self.follower = Some(renderer);
        told
    }

    async fn act(&self, step: &Value) {
        let text = |member: &str| step[member].as_str().unwrap_or_default().to_owned();
        let (who, verb) = (text("who"), text("verb"));
        let body = match does(self.case, "time") {
            false => text("body"),
            true => slower(&text("body")),
        };
        let admin = format!("/api/admin/streams/{}", self.stream);
        let service = format!("/api/operate/{}", self.stream);
        let secret = |name: &str| self.app.caller_with(self.app.read_secret(name));
        let (caller, base) = match &*who {
            "ok_scores" => (secret(&format!("{}-acts", self.stream)), service),
            "ok_other" => (secret("other-acts"), service),
            "ok_revoked" => (
                self.app.caller_with("ok_live_of_nobody_any_more_000000"),
                service,
            ),
            name => (operator(self.app, name), admin),
        };
        let reply = act(
            &caller,
            &base,
            (&verb, &body),
            step["idempotency_key"].as_str(),
        )
        .await;
        let expect = &step["expect"];
        let what = format!("{}: {step}: {}", self.case["name"], reply.text());
        assert_eq!(json!(reply.status), expect["status"], "{what}");
        if let Some(code) = expect["code"].as_str() {
            assert_eq!(reply.json()["error"]["code"], code, "{what}");
            return;
        }
        let replayed = reply.header("idempotent-replayed") == Some("true");
        assert_eq!(replayed, expect["replayed"] == true, "{what}");
        let data = done(&reply);
        assert!(
            data["seq"].is_u64() && data["request_id"].is_string(),
            "{what}"
        );
        for (member, value) in expect["answer"].as_object().expect("an answer") {
            match member.as_str() {
                "value" => assert!(
                    reply
                        .text()
                        .contains(&format!("\"value\":{}", value.as_str().expect("a text"))),
                    "{what}"
                ),
                _ => assert_eq!(data[member], *value, "{what}"),
            }
        }
    }

    async fn step(&mut self, step: &Value) {
        match step["do"].as_str().expect("a verb") {
            "source" => {
                let items = step["items"].as_array().expect("items").iter().map(|item| {
                    let (key, body) = (&item[0], item[1].as_str().expect("a body"));
                    let begin = format!("{{\"row_key\":{key}");
                    match &body[1..] {
                        "}" => format!("{begin}}}"),
                        rest => format!("{begin},{rest}"),
                    }
                });
                let body = format!("[{}]", items.collect::<Vec<_>>().join(","));
                let sent = self
                    .app
                    .caller(&self.stream)
                    .ingest_by("row_key", body)
                    .await;
                sent.receipt();
            }
            "remove" => {
                for key in step["keys"].as_array().expect("keys") {
                    let key = key.as_str().expect("a key");
                    let path = format!("/api/streams/{}/items/{key}", self.stream);
                    let caller = self.app.caller(&self.stream);
                    caller.call(Method::DELETE, &path, &[], "").await.receipt();
                }
            }
            "act" => self.act(step).await,
            "time" => {
                let seconds = step["seconds"].as_u64().expect("seconds");
                tokio::time::sleep(Duration::from_secs(seconds * SLOWER)).await;
            }
            "look" => {
                let path = format!(
                    "/api/admin/streams/{}/items/{}",
                    self.stream,
                    step["key"].as_str().expect("a key")
                );
                let found = operator(self.app, "guest").get(&path).await.data();
                let overrides = found["overrides"].as_object().expect("overrides").iter();
                let overrides = overrides.map(|(field, own)| {
                    let text = |member: &str| own.get(member).map(Value::to_string);
                    (
                        field.clone(),
                        json!([text("value"), text("source"), own["by"]]),
                    )
                });
                let overrides: Value = overrides.collect();
                assert_eq!(
                    overrides, step["expect"]["overrides"],
                    "{}",
                    self.case["name"]
                );
            }
            _ => {}
        }
        self.app.drain().await;
        self.check(step).await;
    }

    async fn check(&mut self, step: &Value) {
        let expect = &step["expect"];
        let what = format!("{}: {step}", self.case["name"]);
        let path = format!("/api/streams/{}/items", self.stream);
        let shown = async || items(&self.reads().get(&path).await.text());
        // What ends at a time ends a moment later.
        if step["do"] == "time" {
            eventually_async(&what, async || {
                (shown().await == expect["shown"]).then_some(())
            })
            .await;
        }
        assert_eq!(shown().await, expect["shown"], "{what}");
        let stored = self.app.fields(&self.stream).await.into_iter();
        let stored: Value = stored
            .map(|(key, fields)| (key, json!(texts(&fields))))
            .collect();
        assert_eq!(stored, expect["sink"], "{what}");
        let acts = format!("/api/admin/streams/{}/acts", self.stream);
        let acts = operator(self.app, "guest").get(&acts).await.data();
        let mut held: Vec<String> = Vec::new();
        held.extend((!acts["held"].is_null()).then(|| "*".to_owned()));
        let keys = acts["held_keys"].as_array().expect("holds").iter();
        held.extend(keys.filter_map(|held| held["key"].as_str().map(str::to_owned)));
        let expected: Vec<String> =
            serde_json::from_value(expect["held"].clone()).unwrap_or_default();
        assert_eq!(held, expected, "{what}");
        if step["expect"].get("update").is_some() {
            let [update, remove] = self.follow().await;
            assert_eq!(
                json!([update, remove]),
                json!([expect["update"], expect["remove"]]),
                "{what}"
            );
        }
        if expect["screen"].is_object() {
            let follower = self.follower.as_ref().expect("it follows");
            let held: Value = follower
                .items(&self.stream)
                .iter()
                .map(|(key, item)| {
                    let fields = texts(&item["fields"].to_string());
                    let names = item.get("overridden").cloned().unwrap_or(json!([]));
                    (key.clone(), json!({"fields": fields, "overridden": names}))
                })
                .collect();
            assert_eq!(held, expect["screen"], "{what}");
        }
    }
}

/// With all seconds slower.
fn slower(body: &str) -> String {
    let mut body: Value = serde_json::from_str(body).expect("JSON");
    if let Some(seconds) = body["until"].as_u64() {
        body["until"] = json!(seconds * SLOWER);
    }
    body.to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn every_case_without_a_clock_goes_as_it_says() {
    let cases = cases(|case| !does(case, "time") && !does(case, "restart"));
    assert!(cases.len() > 110);
    let app = daemon(&cases).await;
    for (number, case) in &cases {
        let mut play = Play::new(&app, *number, case).await;
        for step in case["steps"].as_array().expect("steps") {
            play.step(step).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_case_with_a_clock_goes_as_it_says() {
    let cases = cases(|case| does(case, "time") && !does(case, "restart"));
    assert!(cases.len() > 8);
    let app = daemon(&cases).await;
    let plays = cases.iter().map(async |(number, case)| {
        let mut play = Play::new(&app, *number, case).await;
        for step in case["steps"].as_array().expect("steps") {
            play.step(step).await;
        }
    });
    futures_util::future::join_all(plays).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn every_case_with_a_restart_goes_as_it_says() {
    let cases = cases(|case| does(case, "restart"));
    assert!(cases.len() > 4);
    let mut app = daemon(&cases).await;
    for (number, case) in &cases {
        let (mut id, mut follower) = (None, None);
        for step in case["steps"].as_array().expect("steps") {
            if step["do"] == "restart" {
                app = app.restart().await;
            }
            let mut play = match &id {
                None => Play::new(&app, *number, case).await,
                Some(_) => Play {
                    app: &app,
                    case,
                    stream: name(*number),
                    follower,
                    id,
                },
            };
            play.step(step).await;
            (id, follower) = (play.id, play.follower);
        }
    }
}
