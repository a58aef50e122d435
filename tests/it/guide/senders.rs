//! Tools that sign nothing: what the page says to enter in each is what its preset says, and those that can be had here
//! send with exactly that.
//!
//! **Invariant**: the page and the presets cannot differ, and a tool that was not tried is marked so.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use webhook::{Preset, SetupPlaces};

use super::{read, root};
use crate::command_line::demo::there_is;
use crate::command_line::operate;
use crate::process::{Process, skipped};
use crate::setup::Setup;
use crate::wait::eventually;

const PAGE: &str = "src/guide/senders.md";
/// What the page has in place of the reader's own.
const PUBLIC: &str = "https://hooks.example.com";
const KEY: &str = "ik_live_…";

/// The section of a tool: how its connector is made, and what is entered in the tool.
struct Section {
    text: String,
    connector: String,
    preset: &'static Preset,
    stream: String,
}

impl Section {
    fn all() -> Vec<Section> {
        let page = read(PAGE);
        let sections = page.split("\n## ").skip(1).map(|text| {
            let begins = "headgate connector create ";
            let (_, command) = text.split_once(begins).expect("a connector is made");
            let words: Vec<&str> = command.split_whitespace().take(5).collect();
            let [connector, "--from", preset, "--stream", stream] = words[..] else {
                panic!("{words:?}");
            };
            Section {
                text: text.to_owned(),
                connector: connector.to_owned(),
                preset: webhook::preset(preset).expect("a preset"),
                stream: stream.to_owned(),
            }
        });
        sections.collect()
    }

    fn of(preset: &str) -> Section {
        let mut all = Self::all().into_iter();
        let own = all.find(|section| section.preset.name == preset);
        own.unwrap_or_else(|| panic!("no section for {preset}"))
    }

    fn url(&self, base: &str) -> String {
        format!("{base}/api/webhook/{}/{}", self.stream, self.connector)
    }

    /// A text of the preset, as the reader enters it.
    fn filled(&self, text: &str, base: &str, key: &str) -> String {
        let url = self.url(base);
        let stream = &self.stream;
        let places = SetupPlaces {
            url: &url,
            key,
            stream,
        };
        places.fill(text).trim_matches('\n').to_owned()
    }

    /// The block of the page, for this daemon and this key.
    fn block(&self, process: &Process, key: &str) -> String {
        let (_, rest) = self.text.split_once("`:\n\n```").expect("a block");
        let (_, rest) = rest.split_once('\n').expect("a line");
        let block = rest.split("\n```").next().expect("its end");
        let base = format!("http://{}", process.service);
        let block = block.replace(PUBLIC, &base).replace(KEY, key);
        assert!(
            block.contains(&self.url(&base)) && block.contains(key),
            "{block}"
        );
        block
    }

    /// Makes the connector as the page says; returns its key.
    fn make(&self, process: &Process) -> String {
        let made = operate(
            process,
            [
                "connector",
                "create",
                &self.connector,
                "--from",
                &self.preset.name,
                "--stream",
                &self.stream,
            ],
        );
        let told = made.err.clone();
        made.ok();
        let (_, key) = told
            .split_once("?access_token=")
            .expect("the key in the URL");
        key.split_whitespace().next().expect("a key").to_owned()
    }
}

#[test]
fn what_is_entered_in_a_tool_is_what_its_preset_says() {
    let sections = Section::all();
    let names: Vec<&str> = sections
        .iter()
        .map(|section| &*section.preset.name)
        .collect();
    let expected = [
        "alertmanager",
        "grafana",
        "homeassistant",
        "nodered",
        "n8n",
        "zapier",
        "make",
        "uptimekuma",
        "telegraf",
        "fluentbit",
    ];
    assert_eq!(names, expected);
    for section in &sections {
        let (name, text) = (&section.preset.name, &section.text);
        let heading = text.lines().next().expect("a heading");
        assert_eq!(heading, section.preset.title, "{name}");
        let setup = section.preset.setup.as_ref().expect("what is entered");
        if let Some(snippet) = &setup.snippet {
            let file = setup.file.as_deref().expect("a file");
            let language = match setup.language.as_deref() {
                // Not of ours: blocks of TOML are given to the program.
                Some("toml") | None => "text",
                Some(language) => language,
            };
            let snippet = section.filled(snippet, PUBLIC, KEY);
            let block = format!("In `{file}`:\n\n```{language}\n{snippet}\n```\n");
            assert!(
                text.contains(&block),
                "{name}: not in its section:\n{block}"
            );
        }
        for (number, step) in (1..).zip(&setup.steps) {
            let line = format!("\n{number}. {}\n", section.filled(step, PUBLIC, KEY));
            assert!(text.contains(&line), "{name}: not in its section: {line}");
        }
        let is_tried = text.lines().any(|line| line.starts_with("Tried with "));
        assert_ne!(is_tried, text.contains("\nNot tried.\n"), "{name}");
    }
}

#[test]
fn the_command_line_says_what_to_enter_with_the_key() {
    let process = Setup::with_streams(&["orders"]).spawn();
    for section in Section::all() {
        let made = operate(
            &process,
            [
                "connector",
                "create",
                &section.preset.name,
                "--from",
                &section.preset.name,
                "--stream",
                "all",
            ],
        );
        let (told, name) = (made.err.clone(), &section.preset.name);
        made.ok();
        let (_, key) = told
            .split_once("?access_token=")
            .expect("the key in the URL");
        let key = key.split_whitespace().next().expect("a key");
        let url = format!("https://YOUR.PUBLIC.ADDRESS/api/webhook/all/{name}");
        let stream = "all";
        let places = SetupPlaces {
            url: &url,
            key,
            stream,
        };
        let setup = section.preset.setup.as_ref().expect("what is entered");
        for text in setup.snippet.iter().chain(&setup.steps) {
            let text = places.fill(text);
            assert!(told.contains(text.trim_matches('\n')), "{name}: {told}");
        }
    }
    process.stop();
}

/// A program that ends with the test.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Self(child.expect("it starts"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}

/// Gives Alertmanager an alert, once it listens.
fn alert(port: u16, ends: &str) {
    let body = format!(
        r#"[{{"labels": {{"alertname": "ScreenDown", "screen": "gate 9"}}, "startsAt": "2026-01-01T00:00:00Z"{ends}}}]"#
    );
    eventually("Alertmanager takes an alert", || {
        let mut curl = Command::new("curl");
        let url = format!("http://127.0.0.1:{port}/api/v2/alerts");
        curl.args([
            "--silent",
            "--fail",
            "-H",
            "Content-Type: application/json",
            "-d",
            &body,
            &url,
        ]);
        let done = curl.output().expect("curl starts");
        done.status.success().then_some(())
    });
}

#[test]
fn alertmanager_sends_what_fires_and_what_is_resolved() {
    if !there_is("prometheus-alertmanager") || !there_is("curl") {
        return;
    }
    let process = Setup::with_streams(&["orders"]).spawn();
    let section = Section::of("alertmanager");
    let key = section.make(&process);
    // At once, for a test does not wait for half a minute.
    let settings = section.block(&process, &key).replacen(
        "  receiver: headgate\n",
        "  receiver: headgate\n  group_wait: 0s\n  group_interval: 1s\n",
        1,
    );
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("alertmanager.yml");
    fs::write(&file, settings).expect("a file");
    let port = free_port();
    let mut command = Command::new("prometheus-alertmanager");
    command
        .arg(format!("--config.file={}", file.display()))
        .arg(format!("--storage.path={}", folder.path().display()))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .arg("--cluster.listen-address=");
    let _running = Running::start(&mut command);
    alert(port, "");
    let item = eventually("the alert is an item", || {
        process.setup.rows("alerts").into_iter().next()
    });
    assert!(
        item.fields.contains(r#""labels.screen":"gate 9""#)
            && item.fields.contains(r#""status":"firing""#),
        "{}",
        item.fields
    );
    assert!(
        item.fields
            .contains(&format!(r#""fingerprint":"{}""#, item.key)),
        "{}",
        item.fields
    );
    alert(port, r#", "endsAt": "2026-01-01T00:00:01Z""#);
    eventually("the resolved alert is removed", || {
        process.setup.rows("alerts").is_empty().then_some(())
    });
    process.stop();
}

/// Node-RED, where `.ci/run` puts it.
fn node_red() -> Option<PathBuf> {
    let program = root().join("target/node-red/node_modules/node-red/red.js");
    if program.is_file() && there_is("node") {
        return Some(program);
    }
    let reason = "there is no Node-RED (`npm install node-red@4.1.0` in target/node-red)";
    assert!(std::env::var_os("CI").is_none(), "{reason}");
    skipped("guide::senders::node_red", reason);
    None
}

/// A flow that sends a message each second, with the settings that the page names.
fn write_flow(folder: &Path, url: &str, key: &str) {
    let flow = serde_json::json!([
        {"id": "t", "type": "tab", "label": "Doors"},
        {"id": "i", "type": "inject", "z": "t", "props": [{"p": "payload"}], "repeat": "1", "once": true,
         "onceDelay": 0.1, "payload": r#"{"id":"door","open":true}"#, "payloadType": "json", "wires": [["h"]]},
        {"id": "h", "type": "http request", "z": "t", "method": "POST", "ret": "obj", "paytoqs": "ignore",
         "url": url, "persist": false, "authType": "bearer", "wires": [[]]}
    ]);
    let write = |name: &str, text: String| fs::write(folder.join(name), text).expect("a file");
    write("flows.json", flow.to_string());
    write(
        "flows_cred.json",
        serde_json::json!({"h": {"password": key}}).to_string(),
    );
    write(
        "settings.js",
        format!(
            "module.exports = {{ uiPort: {}, uiHost: '127.0.0.1', flowFile: 'flows.json', credentialSecret: false }}",
            free_port()
        ),
    );
}

#[test]
fn node_red_sends_its_messages() {
    let Some(program) = node_red() else {
        return;
    };
    let process = Setup::with_streams(&["orders"]).spawn();
    let section = Section::of("nodered");
    let key = section.make(&process);
    let folder = tempfile::tempdir().expect("a folder");
    write_flow(
        folder.path(),
        &section.url(&format!("http://{}", process.service)),
        &key,
    );
    let mut command = Command::new("node");
    command.arg(program).arg("--userDir").arg(folder.path());
    let _running = Running::start(&mut command);
    let item = eventually("the message is an item", || {
        process.setup.rows("flows").into_iter().next()
    });
    assert_eq!(item.key, "door");
    assert_eq!(item.fields, r#"{"id":"door","open":true}"#);
    process.stop();
}
