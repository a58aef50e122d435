//! Environment variables as settings: `HEADGATE_SECTION__KEY`, and `HEADGATE_STREAMS` and the like for lists.
//!
//! Called by [`load`](super::load) after all files have been read.
//!
//! **Invariant**: every variable that begins with `HEADGATE_` is a setting, reserved, set by Kubernetes, named by a
//! secret, or a problem; none is ignored because of a typing error.

use std::collections::HashSet;

use super::SettingOption;
use super::problem;
use super::schema::{Field, ROOT, Shape};
use base::tree::{self, Data, Entry, Node};

/// What every variable of the program begins with.
pub(super) const PREFIX: &str = "HEADGATE_";

/// Variables of the program that are not settings.
pub(super) const RESERVED: &[&str] = &[
    "HEADGATE_PROFILE",
    "HEADGATE_CONFIG",
    "HEADGATE_ADMIN_URL",
    "HEADGATE_ADMIN_TOKEN",
    "HEADGATE_URL",
    "HEADGATE_KEY",
    "HEADGATE_READ_KEY",
    "HEADGATE_PLUGIN_POSTGRES",
    "HEADGATE_PLUGIN_CACHE",
    "HEADGATE_LOG",
    "HEADGATE_KILLS",
];

/// What a variable turns out to be.
pub(super) enum Meaning {
    /// A setting: the whole tree from the root, with one leaf.
    Setting(Node),
    /// Not ours to read.
    Other,
    /// A mistake: the path of the setting, empty if there is none, and what is wrong.
    Mistake(String, String),
}

/// Decides what a variable is and reads its value.
pub(super) fn read(variable: &str, value: &str, named_by_secrets: &HashSet<String>) -> Meaning {
    let Some(rest) = variable.strip_prefix(PREFIX) else {
        return Meaning::Other;
    };
    if RESERVED.contains(&variable)
        || named_by_secrets.contains(variable)
        || set_by_kubernetes(rest)
    {
        return Meaning::Other;
    }
    let path = rest.to_ascii_lowercase();
    let (section, key) = match path.split_once("__") {
        Some((section, key)) => (section, Some(key)),
        None => (path.as_str(), None),
    };
    let field = ROOT.iter().find(|field| field.name == section);
    match (field.map(|field| &field.shape), key) {
        (Some(Shape::Table(fields)), Some(key)) => {
            let Some(field) = fields.iter().find(|field| field.name == key) else {
                return unknown(variable);
            };
            match leaf(value, &field.shape) {
                Ok(data) => Meaning::Setting(nest(&[section, key], data)),
                Err(message) => Meaning::Mistake(format!("{section}.{key}"), message),
            }
        }
        (Some(shape @ Shape::Tables(_)), None) => match leaf(value, shape) {
            Ok(data) => Meaning::Setting(nest(&[section], data)),
            Err(message) => Meaning::Mistake(section.to_owned(), message),
        },
        (Some(Shape::Table(fields)), None) => Meaning::Mistake(
            section.to_owned(),
            format!(
                "set each setting of a section with its own variable, as in {}",
                variables_of(section, fields)
                    .next()
                    .unwrap_or_else(|| format!("{variable}__KEY"))
            ),
        ),
        (Some(_), Some(_)) => Meaning::Mistake(
            section.to_owned(),
            format!(
                "set a list as a whole, as in {PREFIX}{}='[{{ name = \"…\" }}]'",
                section.to_uppercase()
            ),
        ),
        _ => unknown(variable),
    }
}

/// Every variable that is a setting.
pub(super) fn known_variables() -> Vec<String> {
    ROOT.iter()
        .flat_map(|field| match &field.shape {
            Shape::Table(fields) => variables_of(field.name, fields).collect(),
            _ => vec![format!("{PREFIX}{}", field.name.to_uppercase())],
        })
        .collect()
}

fn variables_of(section: &str, fields: &[Field]) -> impl Iterator<Item = String> {
    fields.iter().map(move |field| {
        format!(
            "{PREFIX}{}__{}",
            section.to_uppercase(),
            field.name.to_uppercase()
        )
    })
}

fn unknown(variable: &str) -> Meaning {
    let settings = known_variables();
    let settings = settings.iter().map(String::as_str);
    // Without the prefix, which would make everything look near.
    let known = settings
        .chain(RESERVED.iter().copied())
        .filter_map(|name| name.strip_prefix(PREFIX));
    let word = variable.strip_prefix(PREFIX).unwrap_or(variable);
    let message = match problem::nearest(word, known) {
        Some(meant) => format!("unknown variable; did you mean {PREFIX}{meant}?"),
        None => "unknown variable; settings are HEADGATE_SECTION__KEY, and `headgate config show` lists them"
            .to_owned(),
    };
    Meaning::Mistake(String::new(), message)
}

/// Variables hold text; the schema says what the text means. What cannot be read stays text for the checker to name.
fn leaf(value: &str, shape: &Shape) -> Result<Data, String> {
    let text = || Data::Text(value.to_owned());
    let toml = || tree::parse_value(value).map_err(|fault| fault.message);
    Ok(match shape {
        Shape::Integer(..) => match value.trim().replace('_', "").parse() {
            Ok(number) => Data::Integer(number),
            Err(_) => text(),
        },
        Shape::Boolean => match value.trim() {
            "true" => Data::Boolean(true),
            "false" => Data::Boolean(false),
            _ => text(),
        },
        Shape::Tables(_) | Shape::Table(_) | Shape::List(..) | Shape::Secrets(_) | Shape::Free => {
            toml()?
        }
        Shape::Secret if value.trim_start().starts_with('{') => toml()?,
        Shape::SecretList if value.trim_start().starts_with(['{', '[']) => toml()?,
        Shape::Secret
        | Shape::SecretList
        | Shape::Text(_)
        | Shape::File
        | Shape::Plugin
        | Shape::Choice(_)
        | Shape::Digest(_)
        | Shape::Time => text(),
    })
}

/// What an option of the command line says: a text.
pub(super) fn option(option: &SettingOption) -> Node {
    nest(&option.setting, Data::Text(option.value.clone()))
}

fn nest(path: &[&str], data: Data) -> Node {
    path.iter().rev().fold(Node::bare(data), |node, name| {
        Node::bare(Data::Table(vec![Entry {
            name: (*name).to_owned(),
            line: None,
            node,
        }]))
    })
}

/// Kubernetes describes a service called `headgate` to every pod as `HEADGATE_SERVICE_HOST`, `HEADGATE_PORT` and
/// `HEADGATE_PORT_8080_TCP_ADDR`; these must not keep the daemon from starting.
fn set_by_kubernetes(rest: &str) -> bool {
    if rest.contains("__") {
        return false;
    }
    if matches!(rest, "SERVICE_HOST" | "SERVICE_PORT" | "PORT") || rest.starts_with("SERVICE_PORT_")
    {
        return true;
    }
    let Some((port, protocol)) = rest
        .strip_prefix("PORT_")
        .and_then(|rest| rest.split_once('_'))
    else {
        return false;
    };
    port.bytes().all(|byte| byte.is_ascii_digit())
        && ["TCP", "UDP", "SCTP"]
            .iter()
            .any(|name| protocol == *name || protocol.starts_with(&format!("{name}_")))
}
