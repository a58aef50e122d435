//! `config`: lines `NAME=VALUE` of the environment, an empty line, and a configuration file.
//!
//! Every text gives settings or problems, and neither shows a secret. Settings that are written out as a file are read
//! again as the same; so is what is written in the text of a host, a network or a listener.

use std::fmt::Display;
use std::fs;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::LazyLock;

use serde_json::Value;

use settings::{
    Host, Listen, Loaded, MASK, Network, Problems, Sources, explain, load, render_json, render_text,
};

use crate::request::line;

/// In every environment. No problem, setting or origin shows it.
const SECRET: (&str, &str) = ("A_KEY", "ik_live_shown-to-nobody-86d1c0f2");
/// A message quotes names and values, and lists what is known.
const MESSAGE_BYTES_MAX: usize = 32 * 1_024;

/// Where the file lies while it is read.
static FILE: LazyLock<PathBuf> = LazyLock::new(|| {
    let name = format!("headgate-fuzz-{}.toml", std::process::id());
    std::env::temp_dir().join(name)
});

/// Loads a configuration.
pub(super) fn configuration(input: &[u8]) {
    let (env, text) = environment(input);
    for word in env.iter().map(|(_, value)| value.as_str()) {
        displayed::<Host>(word);
        displayed::<Network>(word);
        displayed::<Listen>(word);
    }
    let first = loaded(text, env.clone());
    match &first {
        Ok(loaded) => written(loaded, env),
        Err(Problems(problems)) => {
            assert!(!problems.is_empty());
            for problem in problems {
                let text = problem.to_string();
                assert!(!problem.message.is_empty() && text.len() <= MESSAGE_BYTES_MAX);
                assert!(!text.contains(SECRET.1), "a secret in: {text}");
            }
        }
    }
}

/// The environment, and the file after it.
fn environment(input: &[u8]) -> (Vec<(String, String)>, &[u8]) {
    let mut env = vec![(SECRET.0.to_owned(), SECRET.1.to_owned())];
    let mut rest = input;
    loop {
        let (one, after) = line(rest);
        rest = after;
        if one.is_empty() {
            return (env, rest);
        }
        let one = String::from_utf8_lossy(one);
        let (name, value) = one.split_once('=').unwrap_or((&one, ""));
        if name != SECRET.0 {
            env.push((name.to_owned(), value.to_owned()));
        }
    }
}

fn loaded(text: &[u8], env: Vec<(String, String)>) -> Result<Loaded, Problems> {
    fs::write(&*FILE, text).expect("the folder for temporary files can be written");
    let loaded = load(&Sources {
        working_dir: PathBuf::from("/nowhere"),
        config_file: Some(FILE.clone()),
        env,
        options: Vec::new(),
    });
    fs::remove_file(&*FILE).expect("it was written");
    loaded
}

/// Settings are shown without secrets, and are the same when they are read as they are written.
fn written(loaded_first: &Loaded, mut env: Vec<(String, String)>) {
    let rows = explain(loaded_first);
    let text = render_text(&rows);
    assert!(!text.contains(SECRET.1), "a secret in: {text}");
    assert_eq!(
        render_json(&rows).as_array().map(Vec::len),
        Some(rows.len())
    );
    let settings = serde_json::to_value(&loaded_first.settings).expect("settings");
    if holds_mask(&settings) {
        return;
    }
    // What variables set stands in the file. Those that secrets name are left.
    env.retain(|(name, _)| {
        !name.starts_with("HEADGATE_")
            || name == "HEADGATE_PROFILE"
            || names_variable(&settings, name)
    });
    let mut named = settings.clone();
    for sink in named["sinks"].as_array_mut().into_iter().flatten() {
        // It starts with the state, and cannot be told to start elsewhere.
        if sink["mode"] == "latest" {
            sink.as_object_mut().map(|sink| sink.remove("start"));
        }
    }
    let sections = named.as_object().expect("an object").iter();
    let sections = sections.map(|(name, value)| format!("{name} = {}\n", toml(value)));
    let file: String = sections.collect();
    let again = match loaded(file.as_bytes(), env) {
        Ok(again) => again,
        Err(problems) => panic!("not read again: {problems}\n{file}"),
    };
    let again = serde_json::to_value(&again.settings).expect("settings");
    assert_eq!(again, settings, "{file}");
}

fn holds_mask(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(MASK),
        Value::Array(values) => values.iter().any(holds_mask),
        Value::Object(members) => members.values().any(holds_mask),
        _ => false,
    }
}

/// Whether a secret is said to be in this variable.
fn names_variable(value: &Value, name: &str) -> bool {
    match value {
        Value::Array(values) => values.iter().any(|value| names_variable(value, name)),
        Value::Object(members) => members.iter().any(|(member, value)| {
            (member == "env" && value == name) || names_variable(value, name)
        }),
        _ => false,
    }
}

/// What is absent is left out, and nothing else is null.
fn toml(value: &Value) -> toml_edit::Value {
    match value {
        Value::Null => panic!("null is no setting"),
        Value::Bool(value) => (*value).into(),
        Value::Number(number) => match number.as_i64() {
            Some(number) => number.into(),
            None => number.as_f64().expect("a number").into(),
        },
        Value::String(text) => text.into(),
        Value::Array(values) => values.iter().map(toml).collect(),
        Value::Object(members) => (members.iter())
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name, toml(value)))
            .collect(),
    }
}

/// What is displayed is read as the same.
fn displayed<T: FromStr + Display + PartialEq>(text: &str) {
    if let Ok(one) = text.parse::<T>() {
        let shown = one.to_string();
        assert!(
            shown.parse::<T>().is_ok_and(|again| again == one),
            "{shown}"
        );
    }
}
