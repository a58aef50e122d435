//! Checks one source against the schema and keeps what fits.
//!
//! Called by [`load`](super::load) for each source, before anything is merged.
//!
//! **Invariant**: what is kept deserialises into [`Settings`](super::Settings), whatever the source said; what was
//! refused leaves a mark, so that nothing says later that it is missing. List elements keep their index even if nothing
//! of them fits.

mod lists;
mod secrets;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use super::BUILT_IN_PLUGINS;
use super::problem::{self, Origin, Problem};
use super::record::{Field, Shape};
use super::{ValidationError, looks_secret};
use base::tree::{Data, Entry, Node};
use secrets::holds_secret;

/// Checks one source; collects the problems of all.
pub(super) struct Checker<'a> {
    pub(super) rank: usize,
    pub(super) source: Arc<str>,
    /// What relative paths of secrets and plugins start from.
    pub(super) folder: &'a Path,
    pub(super) problems: &'a mut Vec<Problem>,
    /// Environment variables that secrets refer to: these are not settings, whatever they are called.
    pub(super) variables: &'a mut HashSet<String>,
    /// Whether a secret stands in the source as it is.
    pub(super) holds_secret: bool,
    /// The source is a body: its tables are whole, its secrets are texts, and what begins like a key is refused.
    pub(super) is_body: bool,
    /// The meaning of null for the field that is checked.
    pub(super) none: &'static str,
}

impl Checker<'_> {
    /// Checks a section and keeps the entries that fit, and marks of those that do not, under the names that were meant.
    pub(super) fn table(&mut self, path: &str, node: Node, fields: &[Field]) -> Node {
        let mut kept: Vec<Entry> = Vec::new();
        let mut refused = Vec::new();
        let names: Vec<&'static str> = fields.iter().map(|field| field.name).collect();
        if let Data::Table(entries) = node.data {
            for Entry { name, line, node } in entries {
                let path = problem::join(path, &name);
                let Some(field) = fields.iter().find(|field| field.name == name) else {
                    let hint = problem::hint(&name, &names);
                    let message = match self.is_body {
                        true => format!("is not a field{hint}"),
                        false => format!("unknown key{hint}"),
                    };
                    self.report(&path, line, message);
                    let meant = problem::nearest(&name, names.iter().copied());
                    refused.push((meant.unwrap_or(&name).to_owned(), line));
                    continue;
                };
                self.none = field.none;
                match self.value(&path, node, &field.shape) {
                    Some(node) => kept.push(Entry { name, line, node }),
                    None => refused.push((name, line)),
                }
            }
        } else {
            self.mismatch(path, &node, &Shape::Table(&[]));
            refused.extend(names.iter().map(|name| ((*name).to_owned(), node.line)));
        }
        if self.is_body {
            self.complete(path, fields, &kept, &refused);
        }
        for (name, line) in refused {
            if !kept.iter().any(|entry| entry.name == name) {
                let node = Node::refused(line);
                kept.push(Entry { name, line, node });
            }
        }
        Node {
            data: Data::Table(kept),
            line: node.line,
        }
    }

    /// What is wrong with a table of a body that lacks a field: nothing else will bring it.
    fn complete(
        &mut self,
        path: &str,
        fields: &[Field],
        kept: &[Entry],
        refused: &[(String, Option<usize>)],
    ) {
        for field in fields.iter().filter(|field| field.required) {
            let is_kept = kept.iter().any(|entry| entry.name == field.name);
            if !is_kept && !refused.iter().any(|(name, _)| name == field.name) {
                self.report(path, None, format!("must have the field `{}`", field.name));
            }
        }
    }

    /// Checks one setting; none if it does not fit.
    pub(super) fn value(&mut self, path: &str, mut node: Node, shape: &Shape) -> Option<Node> {
        match (shape, &mut node.data) {
            (Shape::Table(fields), Data::Table(_)) => Some(self.table(path, node, fields)),
            (Shape::Tables(element), Data::List(_)) => Some(self.tables(path, node, element)),
            (Shape::List(..) | Shape::SecretList, Data::List(elements)) => {
                let elements = std::mem::take(elements);
                self.list(path, elements, shape, node.line)
            }
            (Shape::Integer(min, max), Data::Integer(number)) => {
                let checked = self.in_range(*number, *min, *max);
                self.fits(path, node.line, checked).then_some(node)
            }
            (Shape::Boolean, Data::Boolean(_)) => Some(node),
            (Shape::Free, Data::Table(_)) => {
                self.holds_secret |= holds_secret(&node, false);
                let Some((path, line, number)) = not_finite(path, &node) else {
                    return Some(node);
                };
                let message = format!("the plugin reads JSON, which has no number {number}");
                self.report(&path, line, message);
                None
            }
            (Shape::Text(kind), Data::Text(text))
                if self.is_body && !kind.any_start && looks_secret(text) =>
            {
                self.report(path, node.line, ValidationError::Secret.to_string());
                None
            }
            (Shape::Text(kind), Data::Text(text)) => {
                let checked = (kind.check)(text);
                self.fits(path, node.line, checked).then_some(node)
            }
            (Shape::Choice(choices), Data::Text(text))
                if self.is_body && !choices.contains(&text.as_str()) =>
            {
                self.mismatch(path, &node, shape);
                None
            }
            (Shape::Choice(choices), Data::Text(text)) => {
                let checked = one_of(text, choices, shape);
                self.fits(path, node.line, checked).then_some(node)
            }
            (Shape::File, Data::Text(text)) => {
                let checked = super::checks::path(text);
                *text = self.resolved(text);
                self.fits(path, node.line, checked).then_some(node)
            }
            (Shape::Plugin, Data::Text(text)) => {
                let checked = plugin(text);
                // A bare name is a built-in plugin, or a file in the plugins folder.
                if text.contains('/') || text.ends_with(".wasm") {
                    *text = self.resolved(text);
                }
                self.fits(path, node.line, checked).then_some(node)
            }
            (Shape::Time, Data::Text(text) | Data::Time(text)) => {
                let text = std::mem::take(text);
                let mut checked = super::checks::rfc3339(&text);
                if self.is_body {
                    checked = checked.map_err(|_| format!("must be {}", shape.wants_in_body()));
                }
                node.data = Data::Text(text);
                self.fits(path, node.line, checked).then_some(node)
            }
            (Shape::Digest(kind), Data::Text(text)) => {
                let checked = (kind.check)(text);
                text.make_ascii_lowercase();
                self.fits(path, node.line, checked).then_some(node)
            }
            (Shape::SecretList, Data::Text(_) | Data::Table(_)) => {
                self.value(path, node, &Shape::Secret)
            }
            (Shape::Secret, Data::Text(_)) => {
                self.holds_secret = true;
                Some(node)
            }
            // It would name a file or a variable of the daemon's machine.
            (Shape::Secret, Data::Table(_)) if !self.is_body => self.secret(path, node),
            (Shape::Secrets(kind), Data::Table(entries)) => {
                let entries = std::mem::take(entries);
                Some(self.secrets(path, entries, *kind, node.line))
            }
            _ => {
                self.mismatch(path, &node, shape);
                None
            }
        }
    }

    fn in_range(&self, number: i64, min: u64, max: u64) -> Result<(), String> {
        if u64::try_from(number).is_ok_and(|number| (min..=max).contains(&number)) {
            return Ok(());
        }
        Err(match (self.is_body, self.none) {
            (false, _) => format!("{number} is out of range; expected {min} to {max}"),
            (true, "") => format!("must be from {min} to {max}"),
            (true, none) => format!("must be from {min} to {max}, or null for {none}"),
        })
    }

    /// Whether a check was passed; otherwise the problem is reported.
    fn fits(&mut self, path: &str, line: Option<usize>, checked: Result<(), String>) -> bool {
        match checked {
            Ok(()) => true,
            Err(message) => {
                self.report(path, line, message);
                false
            }
        }
    }

    /// A path of this source, from the working directory or the root.
    fn resolved(&self, path: &str) -> String {
        // The folder came from the command line or the system and may not be UTF-8; settings are.
        self.folder.join(path).to_string_lossy().into_owned()
    }

    fn mismatch(&mut self, path: &str, node: &Node, shape: &Shape) {
        if self.is_body {
            self.report(path, None, format!("must be {}", shape.wants_in_body()));
            return;
        }
        let wants = shape.wants();
        let found = node.found();
        let hint = match (shape, &node.data) {
            (Shape::Tables(_), Data::Table(_)) => {
                let name = path.rsplit('.').next().unwrap_or(path);
                format!("; write [[{name}]] for each, or {name} = [{{ … }}]")
            }
            _ => String::new(),
        };
        self.report(
            path,
            node.line,
            format!("expected {wants}, found {found}{hint}"),
        );
    }

    fn report(&mut self, path: &str, line: Option<usize>, message: String) {
        self.problems.push(Problem {
            origin: Origin {
                line,
                ..Origin::of(self.rank, &self.source)
            },
            path: path.to_owned(),
            message,
        });
    }
}

/// The first number of a table that JSON does not have, with its place.
fn not_finite(path: &str, node: &Node) -> Option<(String, Option<usize>, f64)> {
    match &node.data {
        Data::Float(number) if !number.is_finite() => Some((path.to_owned(), node.line, *number)),
        Data::List(elements) => {
            let mut elements = elements.iter().enumerate();
            elements.find_map(|(index, node)| not_finite(&format!("{path}[{index}]"), node))
        }
        Data::Table(entries) => {
            let mut entries = entries.iter();
            entries.find_map(|entry| not_finite(&problem::join(path, &entry.name), &entry.node))
        }
        _ => None,
    }
}

fn one_of(text: &str, choices: &[&str], shape: &Shape) -> Result<(), String> {
    if choices.contains(&text) {
        return Ok(());
    }
    let meant = match problem::nearest(text, choices.iter().copied()) {
        Some(meant) => format!("; did you mean \"{meant}\"?"),
        None => format!("; expected {}", shape.wants()),
    };
    Err(format!("unknown value {}{meant}", problem::quoted(text)))
}

fn plugin(text: &str) -> Result<(), String> {
    if !text.is_empty() && !text.contains('\0') {
        return Ok(());
    }
    let built_in = BUILT_IN_PLUGINS.join("\" or \"");
    Err(format!(
        "expected the path or the name of a plugin; built in: \"{built_in}\""
    ))
}
