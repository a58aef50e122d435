//! Checks secrets: as they are, or where they are.
//!
//! **Invariant**: no message shows a secret.

use super::Checker;
use crate::masking::{names_secret, shown_url};
use crate::problem;
use crate::record::{Shape, TextKind};
use base::tree::{Data, Entry, Node};

impl Checker<'_> {
    /// Checks a table of secrets, each with a name of its own choice.
    pub(super) fn secrets(
        &mut self,
        path: &str,
        entries: Vec<Entry>,
        kind: TextKind,
        line: Option<usize>,
    ) -> Node {
        let mut kept = Vec::new();
        for Entry { name, line, node } in entries {
            let path = problem::join(path, &name);
            if let Err(message) = (kind.check)(&name) {
                self.report(&path, line, message);
            } else if let Some(node) = self.value(&path, node, &Shape::Secret) {
                kept.push(Entry { name, line, node });
            }
        }
        Node {
            data: Data::Table(kept),
            line,
        }
    }

    /// Checks `{ file = "…" }` or `{ env = "…" }`.
    pub(super) fn secret(&mut self, path: &str, mut node: Node) -> Option<Node> {
        let line = node.line;
        let mut sound = true;
        for entry in node.entries() {
            if !matches!(entry.name.as_str(), "file" | "env") {
                let hint = problem::hint(&entry.name, &["file", "env"]);
                let path = problem::join(path, &entry.name);
                self.report(&path, entry.line, format!("unknown key{hint}"));
                sound = false;
            }
        }
        let Data::Table(entries) = &mut node.data else {
            return None;
        };
        if !sound {
            return None;
        }
        let [entry] = entries.as_mut_slice() else {
            self.report(path, line, "expected either `file` or `env`".to_owned());
            return None;
        };
        let path = problem::join(path, &entry.name);
        let Data::Text(place) = &mut entry.node.data else {
            let message = format!("expected a string, found {}", entry.node.found());
            self.report(&path, entry.line, message);
            return None;
        };
        let unusable = place.is_empty() || place.contains('\0');
        if entry.name == "file" && !unusable {
            *place = self.resolved(place);
        } else if entry.name == "env" && !unusable && !place.contains('=') {
            // A key put here by mistake must not turn up in the message about a variable that is not set.
            if problem::looks_like_key(place) {
                let message =
                    "expected the name of an environment variable, found a key".to_owned();
                self.report(&path, entry.line, message);
                return None;
            }
            self.variables.insert(place.clone());
        } else {
            let wants = match entry.name.as_str() {
                "file" => "a path",
                _ => "the name of an environment variable",
            };
            self.report(&path, entry.line, format!("expected {wants}"));
            return None;
        }
        Some(node)
    }
}

/// Whether settings of a plugin hold what must not be shown.
pub(super) fn holds_secret(node: &Node, named: bool) -> bool {
    match &node.data {
        Data::Text(text) => named || shown_url(text) != *text,
        Data::List(elements) => elements.iter().any(|node| holds_secret(node, named)),
        Data::Table(entries) => entries.iter().any(|entry| {
            let named = named || names_secret(&entry.name);
            holds_secret(&entry.node, named)
        }),
        _ => false,
    }
}
