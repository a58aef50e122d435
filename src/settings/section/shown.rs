//! What is shown of a sink: what counts, the shortest section that makes it, and what it may do.
//!
//! **Invariant**: no text here has a secret.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::IS_SET;
use crate::record::{Field, Shape};
use crate::{Secret, Sink, explain, masking};

impl Sink {
    /// All that counts for it, by the keys of a section; secrets are `{"set": true}`.
    pub fn shown(&self) -> Map<String, Value> {
        let mut shown = serde_json::to_value(self).unwrap_or_default();
        hide(&mut shown, &Shape::Table(Self::FIELDS));
        match shown {
            Value::Object(shown) => shown,
            _ => Map::new(),
        }
    }

    /// The shortest section that makes it: what it must say, and what is not as usual. Secrets as in [`Sink::shown`].
    pub fn shown_section(&self) -> Map<String, Value> {
        said(Self::FIELDS, &Value::Object(self.shown()))
    }

    /// What it may do beside taking items, in sentences.
    pub fn grants(&self) -> Vec<String> {
        let mut grants = Vec::new();
        if let Some(http) = &self.http {
            grants.extend(http.hosts.iter().map(|host| format!("may call {host}")));
            let networks = http.networks.iter();
            grants.extend(networks.map(|network| format!("may call addresses in {network}")));
        }
        let streams = self.writes().patterns(&self.streams);
        if !streams.is_empty() {
            let noun = if streams.len() == 1 {
                "stream"
            } else {
                "streams"
            };
            grants.push(format!("may write the {noun} {}", listed(&streams)));
        }
        if !self.makes.is_empty() {
            grants.push(format!("may make items of {}", listed(&self.makes)));
        }
        if let Some(postgres) = &self.postgres {
            grants.push(format!(
                "may write to the database {}",
                database(&postgres.url)
            ));
        }
        if let Some(wire) = &self.wire {
            grants.extend(wire.to.iter().map(|to| format!("may connect to {to}")));
            let networks = wire.networks.iter();
            grants.extend(networks.map(|network| format!("may connect to addresses in {network}")));
        }
        if let Some(folder) = &self.folder {
            grants.push(format!("may write files in {}", folder.shown()));
        }
        let secrets = self.secrets.keys();
        grants.extend(secrets.map(|name| format!("may read the secret {name}")));
        grants
    }
}

fn listed(names: &[String]) -> String {
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => {
            format!("{} and {last}", others.join(", "))
        }
        _ => names.concat(),
    }
}

/// Where a database is, without who calls it.
fn database(url: &Secret) -> String {
    let text = url.reveal();
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
    place.to_owned()
}

fn hide(value: &mut Value, shape: &Shape) {
    match (shape, value) {
        (_, Value::Null) => {}
        (Shape::Secret | Shape::SecretList, value) => *value = json!({ IS_SET: true }),
        (Shape::Free, value) => masking::mask(value),
        (shape, Value::Object(members)) => {
            for (name, value) in members {
                if let Some(shape) = shape.of(name) {
                    hide(value, shape);
                }
            }
        }
        _ => {}
    }
}

fn said(fields: &[Field], record: &Value) -> Map<String, Value> {
    let mut said_of = Map::new();
    for row in fields {
        let Some(value) = record.get(row.name).filter(|value| !value.is_null()) else {
            continue;
        };
        let usual = (row.default)();
        let value = match row.shape {
            Shape::Table(fields) => {
                let inner = said(fields, value);
                // One that there need not be says by being there that there is one.
                if inner.is_empty() && !usual.is_null() {
                    continue;
                }
                Value::Object(inner)
            }
            _ if *value == usual && !row.required => continue,
            _ => value.clone(),
        };
        said_of.insert(row.name.to_owned(), value);
    }
    said_of
}

/// A section, as [`Sink::shown_section`] has it, in TOML. Secrets are variables with names of their own, because nobody is
/// shown them.
pub fn section_toml(section: &Map<String, Value>) -> String {
    let mut section = Value::Object(section.clone());
    let name = section["name"].as_str().unwrap_or_default().to_owned();
    let mut variables = HashSet::new();
    by_variable(
        &mut section,
        &Shape::Table(Sink::FIELDS),
        &format!("SINK_{}", as_variable(&name)),
        &mut variables,
    );
    let mut text = String::new();
    if !variables.is_empty() {
        let mut names: Vec<&str> = variables.iter().map(String::as_str).collect();
        names.sort_unstable();
        text.push_str(&format!(
            "# Secrets are not shown. Set these environment variables: {}\n",
            names.join(", ")
        ));
    }
    text.push_str("[[sinks]]\n");
    for (key, value) in section.as_object().into_iter().flatten() {
        text.push_str(&format!("{key} = {}\n", explain::toml(value)));
    }
    text
}

fn as_variable(name: &str) -> String {
    let upper = name.chars().map(|letter| match letter {
        letter if letter.is_ascii_alphanumeric() => letter.to_ascii_uppercase(),
        _ => '_',
    });
    upper.collect()
}

fn by_variable(value: &mut Value, shape: &Shape, name: &str, taken: &mut HashSet<String>) {
    match (shape, value) {
        (Shape::Secret, value) => {
            let mut variable = name.to_owned();
            let mut count = 1;
            while !taken.insert(variable.clone()) {
                count += 1;
                variable = format!("{name}_{count}");
            }
            *value = json!({ "env": variable });
        }
        (Shape::Table(_) | Shape::Secrets(_), Value::Object(members)) => {
            for (key, value) in members {
                if let Some(shape) = shape.of(key) {
                    by_variable(value, shape, &format!("{name}_{}", as_variable(key)), taken);
                }
            }
        }
        _ => {}
    }
}
