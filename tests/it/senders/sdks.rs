//! Providers' own SDKs: what they sign is accepted once, what they accept is what the daemon signs, and both reject the
//! same delivery when it was changed.
//!
//! The check installs ten of them; `HEADGATE_SDKS=all` asks for all of `tests/sdks/sdks.json`, which
//! `tests/sdks/install all` installs.
//!
//! **Invariant**: neither side is believed alone. A delivery is signed by one and verified by the other.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::ops::Deref;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};

use base::clock::Unix;
use reqwest::Method;
use serde_json::{Value, json};
use webhook::{Sample, preset};

use super::sender::{PUBLIC, Sender, Sent, WORD};
use crate::app::TestApp;
use crate::guide::root;
use crate::process::skipped;
use crate::program::{Lines, RUN_MAX};
use crate::setup::Setup;

const TEST: &str = "senders::sdks::deliveries_of_providers_are_those_of_their_sdks";
/// Without an id or a time in what is signed: the same bytes may be sent twice in earnest.
const WITHOUT_AN_ID: [&str; 3] = ["adyen", "airtable", "pusher"];

/// What a provider asks before it sends: method, query and body.
const QUESTIONS: [(&str, &str, &str, &str); 5] = [
    (
        "slack",
        "POST",
        "",
        r#"{"token":"x","type":"url_verification","challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P"}"#,
    ),
    (
        "discord_interactions",
        "POST",
        "",
        r#"{"id":"1","application_id":"2","type":1,"token":"x","version":1}"#,
    ),
    (
        "discord",
        "POST",
        "",
        r#"{"version":1,"application_id":"2","type":0}"#,
    ),
    (
        "zoom",
        "POST",
        "",
        r#"{"event":"endpoint.url_validation","payload":{"plainToken":"qgg8vlvZRS6UYooatFL8Aw"},"event_ts":1654503849680}"#,
    ),
    (
        "whatsapp",
        "GET",
        "hub.mode=subscribe&hub.verify_token=the-word-of-the-tests&hub.challenge=1158201444",
        "",
    ),
];

/// A program that knows the SDKs of one language.
struct Runner {
    child: Child,
    requests: ChildStdin,
    answers: Lines,
}

impl Runner {
    fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let requests = child.stdin.take().expect("piped");
        let answers = Lines::of(child.stdout.take().expect("piped"));
        Self {
            child,
            requests,
            answers,
        }
    }

    fn ask(&mut self, request: &Value) -> Value {
        writeln!(self.requests, "{request}").expect("it listens");
        let answer = self.answers.next_within(RUN_MAX);
        let answer = answer.unwrap_or_else(|| panic!("no answer to {request}"));
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        assert_eq!(answer.get("failed"), None, "{request}");
        answer
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A provider whose SDK is here.
struct Provider {
    own: Sender,
    is_python: bool,
    can_sign: bool,
}

impl Deref for Provider {
    type Target = Sender;

    fn deref(&self) -> &Sender {
        &self.own
    }
}

impl Provider {
    fn of(name: &str, row: &Value, runners: &mut BTreeMap<bool, Runner>) -> Self {
        let preset = preset(name).unwrap_or_else(|| panic!("no preset {name}"));
        let is_python = row.get("pip").is_some();
        let runner =
            (runners.entry(is_python)).or_insert_with(|| Runner::start(&mut program(is_python)));
        let can = runner.ask(&json!({ "sdk": name, "do": "can" }));
        let can_sign = (can["can"].as_array().into_iter().flatten()).any(|can| can == "sign");
        Self {
            own: Sender::of(preset).expect("it is signed here"),
            is_python,
            can_sign,
        }
    }

    fn signed_by_sdk(&self, runner: &mut Runner, id: &str) -> Sent {
        let sample = self.sample();
        let mut sent = Sent {
            id: id.to_owned(),
            url: format!("{PUBLIC}{}", self.target()),
            headers: sample.headers.clone(),
            body: sample.fill(id, Unix::now()),
        };
        let signed = self.ask(runner, "sign", &sent);
        if let Some(body) = signed["body"].as_str() {
            body.clone_into(&mut sent.body);
        }
        let headers = signed["headers"].as_object().expect("headers");
        let headers = headers.iter().map(|(name, value)| {
            let value = value.as_str().unwrap_or_default().to_owned();
            (name.clone(), value)
        });
        sent.headers.extend(headers);
        let content_type = ("Content-Type".to_owned(), sample.content_type.clone());
        sent.headers.push(content_type);
        sent
    }

    fn ask(&self, runner: &mut Runner, what: &str, sent: &Sent) -> Value {
        let headers: BTreeMap<String, &str> = (sent.headers.iter())
            .map(|(name, value)| (name.to_lowercase(), value.as_str()))
            .collect();
        let options: BTreeMap<&str, &str> = self.trial.options.details().into_iter().collect();
        runner.ask(&json!({
            "sdk": self.name, "do": what, "secret": self.trial.secret, "options": options,
            "verify_token": WORD, "id": sent.id, "url": sent.url, "headers": headers, "body": sent.body,
            "query": query(&sent.url),
        }))
    }

    /// Whether the SDK and the daemon accept it, and nothing that was made of it.
    async fn is_accepted(
        &self,
        app: &TestApp,
        runner: &mut Runner,
        sent: &Sent,
    ) -> Result<(), String> {
        let accepted = self.ask(runner, "verify", sent);
        ensure(accepted["valid"] == true, || {
            format!("the SDK rejects it: {accepted}")
        })?;
        let tampered = sent.tampered();
        let refused = self.ask(runner, "verify", &tampered);
        ensure(refused["valid"] == false, || {
            format!("the SDK accepts {}", tampered.body)
        })?;
        let reply = self.send(app, Method::POST, &tampered).await;
        ensure(reply.status == 401, || {
            format!("{} for {}", reply.status, tampered.body)
        })?;
        for _ in 0..2 {
            let reply = self.send(app, Method::POST, sent).await;
            let status = self.preset.answer.status;
            ensure(reply.status == status, || {
                format!("{}: {}", reply.status, reply.text())
            })?;
        }
        Ok(())
    }

    /// What became of deliveries of one sample, each sent twice.
    async fn is_stored_once(&self, app: &TestApp, ids: &[&str]) -> Result<(), String> {
        let (name, expect) = (&self.name, &self.sample().expect);
        app.drain().await;
        let log = app.admin().log(name, "").await;
        let count = |status: &str| log.iter().filter(|entry| entry["status"] == status).count();
        let (stored, repeated) = (count("processed"), count("duplicate"));
        let once = match WITHOUT_AN_ID.contains(name) {
            true => (2 * ids.len(), 0),
            false => (ids.len(), ids.len()),
        };
        ensure((stored, repeated) == once, || {
            format!("{stored} were stored, {repeated} repeated")
        })?;
        let stored = app.fields_now(name);
        for key in expect.keys.iter().flatten() {
            for id in ids {
                let key = Sample::fill_text(key, id, Unix::now());
                let is_there = stored.iter().any(|(own, _)| *own == key);
                ensure(is_there, || format!("no {key} in {stored:?}"))?;
            }
        }
        ensure(!stored.is_empty(), || "nothing is stored".to_owned())
    }

    /// Whether the daemon answers what the provider asks first as the SDK does.
    async fn answers_alike(&self, app: &TestApp, runner: &mut Runner) -> Result<(), String> {
        let found = QUESTIONS.iter().find(|(name, ..)| *name == self.name);
        let Some((_, method, query, body)) = found else {
            return Ok(());
        };
        let sample = Sample {
            body: (*body).to_owned(),
            ..self.sample().clone()
        };
        let mut asked = match *method {
            "POST" => self.signed(&sample, "1"),
            _ => Sent {
                id: String::new(),
                url: format!("{PUBLIC}{}?{query}", self.target()),
                headers: Vec::new(),
                body: String::new(),
            },
        };
        asked
            .headers
            .retain(|(name, _)| *method == "POST" || name != "Content-Type");
        let answer = self.ask(runner, "answer", &asked);
        let method: Method = method.parse().expect("a method");
        let reply = self.send(app, method, &asked).await;
        let is_same = answer["status"] == reply.status;
        ensure(is_same, || format!("{} for {answer}", reply.status))?;
        let (theirs, ours) = (answer["text"].as_str().unwrap_or_default(), reply.text());
        let read = |text: &str| serde_json::from_str::<Value>(text).ok();
        let is_same = match (read(theirs), read(&ours)) {
            (Some(theirs), Some(ours)) => theirs == ours,
            // Slack takes the challenge as JSON and as text.
            (Some(theirs), None) => theirs["challenge"] == json!(ours),
            _ => theirs == ours,
        };
        ensure(is_same, || format!("{theirs} and {ours}"))
    }

    /// All of it.
    async fn is_understood(&self, app: &TestApp, runner: &mut Runner) -> Result<(), String> {
        let mut ids = vec!["delivery-of-ours"];
        let ours = self.signed(self.sample(), ids[0]);
        let accepted = self.is_accepted(app, runner, &ours).await;
        accepted.map_err(|why| format!("signed by the daemon: {why}"))?;
        if self.can_sign {
            ids.push("delivery-of-theirs");
            let theirs = self.signed_by_sdk(runner, ids[1]);
            let accepted = self.is_accepted(app, runner, &theirs).await;
            accepted.map_err(|why| format!("signed by the SDK: {why}"))?;
        }
        self.is_stored_once(app, &ids).await?;
        let alike = self.answers_alike(app, runner).await;
        alike.map_err(|why| format!("asked: {why}"))
    }
}

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    match holds {
        true => Ok(()),
        false => Err(otherwise()),
    }
}

fn query(url: &str) -> BTreeMap<String, String> {
    let (_, query) = url.split_once('?').unwrap_or_default();
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn tools() -> PathBuf {
    root().join("target/sdks")
}

/// What runs the SDKs of a language.
fn program(is_python: bool) -> Command {
    if is_python {
        let mut command = Command::new("python3");
        command.args(["-B"]).arg(root().join("tests/sdks/sdks.py"));
        command.arg(tools().join("python"));
        return command;
    }
    // Packages are looked for beside the program that names them.
    let file = tools().join("sdks.mjs");
    fs::copy(root().join("tests/sdks/sdks.mjs"), &file).expect("a file");
    let mut command = Command::new("node");
    command.arg(file);
    command
}

/// The rows whose SDKs are wanted and there.
fn rows() -> Vec<(String, Value)> {
    let file = fs::read_to_string(root().join("tests/sdks/sdks.json")).expect("a file");
    let file: Value = serde_json::from_str(&file).expect("JSON");
    let wants_all = std::env::var_os("HEADGATE_SDKS").is_some_and(|of| of == "all");
    let rows = file.as_object().expect("rows").iter();
    let rows = rows.filter(|(_, row)| wants_all || row["check"] == true);
    let rows: Vec<_> = rows
        .map(|(name, row)| (name.clone(), row.clone()))
        .collect();
    assert!(
        rows.len() >= if wants_all { 30 } else { 10 },
        "{}",
        rows.len()
    );
    let is_there = |(name, row): &(String, Value)| {
        let lacks = ["npm", "pip"]
            .into_iter()
            .find_map(|registry| lacks(registry, &row[registry]));
        if let Some(package) = &lacks {
            let reason = format!("{name}: there is no {package}; run tests/sdks/install");
            assert!(std::env::var_os("CI").is_none(), "{TEST}: {reason}");
            skipped(TEST, &reason);
        }
        lacks.is_none()
    };
    rows.into_iter().filter(is_there).collect()
}

/// A package that is not installed in this version.
fn lacks(registry: &str, packages: &Value) -> Option<String> {
    let installed = fs::read_to_string(tools().join(registry)).unwrap_or_default();
    let packages = packages.as_array().into_iter().flatten();
    let mut names = packages.filter_map(Value::as_str);
    let lacks = |name: &&str| !installed.lines().any(|own| own == *name);
    names.find(lacks).map(ToOwned::to_owned)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn deliveries_of_providers_are_those_of_their_sdks() {
    let mut runners = BTreeMap::new();
    let rows = rows();
    let providers: Vec<Provider> = (rows.iter())
        .map(|(name, row)| Provider::of(name, row, &mut runners))
        .collect();
    let setup = Setup::new().unlimited().set("server.public_url", PUBLIC);
    let setup = (providers.iter()).fold(setup, |setup, provider| provider.with(setup));
    let app = setup.start().await;
    let mut wrong = Vec::new();
    for provider in &providers {
        let runner = runners.get_mut(&provider.is_python).expect("it runs");
        if let Err(why) = provider.is_understood(&app, runner).await {
            wrong.push(format!("{}: {why}", provider.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
