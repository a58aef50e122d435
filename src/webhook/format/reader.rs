//! The fields of a table, each read once.
//!
//! **Invariant**: [`Reader::finish`] refuses what nobody asked for, with the nearest name that there is.

use base::text::nearest;
use base::tree::{Data, Node};
use serde_json::Value;

use super::{FormatError, LIST_MAX};

/// A table that is being read.
pub(super) struct Reader<'n> {
    node: &'n Node,
    /// What stands before a name in messages: `verify.`.
    within: &'static str,
    /// Names are noted as they are asked for, so that the list in a message is never out of date.
    known: Vec<&'static str>,
}

impl<'n> Reader<'n> {
    pub(super) fn of(node: &'n Node, within: &'static str) -> Self {
        Reader {
            node,
            within,
            known: Vec::new(),
        }
    }

    /// These names are read elsewhere, and would otherwise be refused as unknown.
    pub(super) fn skip(&mut self, names: &[&'static str]) {
        self.known.extend(names);
    }

    pub(super) fn get(&mut self, name: &'static str) -> Option<&'n Node> {
        self.known.push(name);
        self.node.get(name)
    }

    /// Hands over the value of a field, if it is there.
    pub(super) fn set(
        &mut self,
        name: &'static str,
        then: impl FnOnce(&'n Node) -> Result<(), FormatError>,
    ) -> Result<(), FormatError> {
        let within = self.within;
        match self.get(name) {
            Some(node) => then(node).map_err(|mut error| {
                let is_named = match within {
                    "" => error.message.starts_with(name),
                    within => error.message.starts_with(within),
                };
                if !is_named {
                    error.message = format!("{within}{name}: {}", error.message);
                }
                error
            }),
            None => Ok(()),
        }
    }

    pub(super) fn text(&mut self, name: &'static str, to: &mut String) -> Result<(), FormatError> {
        self.set(name, |node| text_of(node).map(|text| *to = text))
    }

    pub(super) fn optional(
        &mut self,
        name: &'static str,
        to: &mut Option<String>,
    ) -> Result<(), FormatError> {
        self.set(name, |node| text_of(node).map(|text| *to = Some(text)))
    }

    pub(super) fn texts(
        &mut self,
        name: &'static str,
        to: &mut Vec<String>,
    ) -> Result<(), FormatError> {
        self.set(name, |node| texts_of(node).map(|texts| *to = texts))
    }

    pub(super) fn boolean(&mut self, name: &'static str, to: &mut bool) -> Result<(), FormatError> {
        self.set(name, |node| match node.data {
            Data::Boolean(value) => {
                *to = value;
                Ok(())
            }
            _ => Err(wrong(node, "true or false")),
        })
    }

    pub(super) fn number(&mut self, name: &'static str, to: &mut u64) -> Result<(), FormatError> {
        self.set(name, |node| match node.data {
            Data::Integer(value) if value >= 0 => {
                *to = value.unsigned_abs();
                Ok(())
            }
            _ => Err(wrong(node, "an integer of 0 or more")),
        })
    }

    pub(super) fn choice<T: Copy>(
        &mut self,
        name: &'static str,
        of: &[(&'static str, T)],
        to: &mut T,
    ) -> Result<(), FormatError> {
        self.set(name, |node| choice(node, of).map(|value| *to = value))
    }

    /// # Errors
    /// A field that is not known.
    pub(super) fn finish(self) -> Result<(), FormatError> {
        if !matches!(self.node.data, Data::Table(_)) {
            return Err(wrong(self.node, "a table"));
        }
        for entry in self.node.entries() {
            let name = entry.name.as_str();
            if self.known.contains(&name) {
                continue;
            }
            let hint = match nearest(name, self.known.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("known here: {}", self.known.join(", ")),
            };
            let message = format!(
                "{}{} is not a field; {hint}",
                self.within,
                name.escape_debug()
            );
            return Err(FormatError::new(entry.line, message));
        }
        Ok(())
    }
}

pub(super) fn wrong(node: &Node, wanted: &str) -> FormatError {
    FormatError::new(
        node.line,
        format!("expected {wanted}, found {}", node.found()),
    )
}

pub(super) fn missing(node: &Node, name: &str, wanted: &str) -> FormatError {
    FormatError::new(
        node.line,
        format!("`{name}` is missing or empty; expected {wanted}"),
    )
}

pub(super) fn text_of(node: &Node) -> Result<String, FormatError> {
    match &node.data {
        Data::Text(text) => Ok(text.clone()),
        _ => Err(wrong(node, "a string")),
    }
}

pub(super) fn texts_of(node: &Node) -> Result<Vec<String>, FormatError> {
    match &node.data {
        Data::List(nodes) if nodes.len() <= LIST_MAX => nodes.iter().map(text_of).collect(),
        _ => Err(wrong(node, "a list of strings")),
    }
}

pub(super) fn choice<T: Copy>(node: &Node, of: &[(&'static str, T)]) -> Result<T, FormatError> {
    let names = || of.iter().map(|(name, _)| *name);
    let Data::Text(text) = &node.data else {
        let all: Vec<&str> = names().collect();
        return Err(wrong(node, &format!("one of {}", all.join(", "))));
    };
    match of.iter().find(|(name, _)| name == text) {
        Some((_, value)) => Ok(*value),
        None => {
            let hint = match nearest(text, names()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("there are {}", names().collect::<Vec<_>>().join(", ")),
            };
            let message = format!("`{}` is unknown; {hint}", text.escape_debug());
            Err(FormatError::new(node.line, message))
        }
    }
}

/// The elements of a list.
pub(super) fn each<T>(
    node: &Node,
    read: impl Fn(&Node) -> Result<T, FormatError>,
) -> Result<Vec<T>, FormatError> {
    match &node.data {
        Data::List(nodes) if nodes.len() <= LIST_MAX => nodes.iter().map(read).collect(),
        _ => Err(wrong(node, "a list of tables")),
    }
}

/// The fields of a table whose names are not ours.
pub(super) fn pairs<T>(
    node: &Node,
    read: impl Fn(&Node) -> Result<T, FormatError>,
) -> Result<Vec<(String, T)>, FormatError> {
    match &node.data {
        Data::Table(entries) if entries.len() <= LIST_MAX => (entries.iter())
            .map(|entry| Ok((entry.name.clone(), read(&entry.node)?)))
            .collect(),
        _ => Err(wrong(node, "a table")),
    }
}

/// A text, a number or a truth value as text.
pub(super) fn scalar_text(node: &Node) -> Result<String, FormatError> {
    match &node.data {
        Data::Text(text) => Ok(text.clone()),
        Data::Integer(number) => Ok(number.to_string()),
        Data::Float(number) => Ok(number.to_string()),
        Data::Boolean(value) => Ok(value.to_string()),
        _ => Err(wrong(node, "a string, a number, true or false")),
    }
}

pub(super) fn json(node: &Node) -> Result<Value, FormatError> {
    Ok(match &node.data {
        Data::Text(text) => text.as_str().into(),
        Data::Integer(number) => (*number).into(),
        Data::Float(number) if number.is_finite() => (*number).into(),
        Data::Boolean(value) => (*value).into(),
        Data::List(nodes) => nodes
            .iter()
            .map(json)
            .collect::<Result<Vec<_>, _>>()?
            .into(),
        Data::Table(entries) => {
            let fields = entries
                .iter()
                .map(|entry| Ok((entry.name.clone(), json(&entry.node)?)));
            Value::Object(fields.collect::<Result<_, FormatError>>()?)
        }
        Data::Float(_) | Data::Time(_) | Data::Refused => {
            return Err(wrong(node, "a value of JSON"));
        }
    })
}
