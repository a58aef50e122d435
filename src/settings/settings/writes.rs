//! `writes` of a sink: the streams that it may write in the data pool; `makes`: those that it has for itself.
//!
//! **Invariant**: a plugin from a file may write what its section lists, and nothing without it.

use std::fmt;

use super::Sink;
use crate::BUILT_IN_PLUGINS;
use crate::checks::is_daemons;
use crate::problem::quoted;
use crate::routing_gaps::{FILTER, POOL};

/// The streams that a sink may write in the data pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Writes {
    /// The items that it is given, in the streams that they are in.
    given: bool,
    names: Vec<String>,
    /// What names may begin with.
    prefixes: Vec<String>,
    /// Nobody has said so: the section of a plugin from a file does not speak of it.
    unsaid: bool,
}

/// Whether a stream is among those that a sink may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listed {
    /// By its name.
    ByName,
    /// By a pattern, which allows streams that nobody has thought of.
    ByPattern,
    /// It is not.
    No,
}

impl Writes {
    /// Whether it may write nothing at all.
    pub fn is_empty(&self) -> bool {
        !self.given && self.names.is_empty() && self.prefixes.is_empty()
    }

    /// Whether nobody has said what a plugin from a file may write.
    pub fn is_unsaid(&self) -> bool {
        self.unsaid
    }

    /// Whether it may write the items that it is given, in the streams that they are in.
    pub fn given(&self) -> bool {
        self.given
    }

    /// Names, and patterns with `*` at the end, for a sink that takes these.
    pub fn patterns(&self, taken: &[String]) -> Vec<String> {
        let given = taken.iter().filter(|_| self.given).cloned();
        let prefixes = self.prefixes.iter().map(|prefix| format!("{prefix}*"));
        given
            .chain(self.names.iter().cloned())
            .chain(prefixes)
            .collect()
    }

    /// Whether a stream is among those that are listed.
    pub fn lists(&self, stream: &str) -> Listed {
        if self.names.iter().any(|name| name == stream) {
            return Listed::ByName;
        }
        let mut prefixes = self.prefixes.iter();
        let is_meant = |prefix: &String| {
            stream.starts_with(&**prefix) && (!prefix.is_empty() || !is_daemons(stream))
        };
        match prefixes.any(is_meant) {
            true => Listed::ByPattern,
            false => Listed::No,
        }
    }
}

/// `orders, sensor-*`, or `nothing`.
impl fmt::Display for Writes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.patterns(&["the streams that it takes".to_owned()]);
        match all.is_empty() {
            true => formatter.write_str("nothing"),
            false => formatter.write_str(&all.join(", ")),
        }
    }
}

impl Sink {
    /// The streams that it may write in the data pool: as its section says. Without a word there the built-in plugins may
    /// write what they are made for, and those from files nothing.
    pub fn writes(&self) -> Writes {
        let Some(said) = &self.writes else {
            return Writes {
                given: matches!(&*self.plugin, POOL | FILTER),
                names: self.targets().map(str::to_owned).collect(),
                prefixes: Vec::new(),
                unsaid: !BUILT_IN_PLUGINS.contains(&&*self.plugin) && self.makes.is_empty(),
            };
        };
        let mut writes = Writes::default();
        for stream in said {
            match stream.strip_suffix('*') {
                Some(prefix) => writes.prefixes.push(prefix.to_owned()),
                None => writes.names.push(stream.clone()),
            }
        }
        writes
    }

    /// The setting that names a stream which it cannot have beside `others`, and why: another sink writes or makes a stream
    /// that it makes, or it writes one that another sink makes.
    pub fn conflict_with<'a>(
        &self,
        others: impl IntoIterator<Item = &'a Self>,
    ) -> Option<(&'static str, String)> {
        let others = others.into_iter().filter(|other| other.name != self.name);
        let mut conflicts = others.filter_map(|other| {
            let (setting, stream, does) = match self.makes_what_is_of(other) {
                Some(stream) => ("makes", stream, "writes"),
                // The rules of a filter name streams, too.
                None if self.writes.is_none() => ("config", other.makes_what_is_of(self)?, "makes"),
                None => ("writes", other.makes_what_is_of(self)?, "makes"),
            };
            let (stream, other) = (quoted(stream), quoted(&other.name));
            let message = format!(
                "names the stream {stream}, which the sink {other} {does}, and what a sink makes is its own; name another stream"
            );
            Some((setting, message))
        });
        conflicts.next()
    }

    /// A stream that it makes, and that another sink makes or writes by its name.
    fn makes_what_is_of(&self, other: &Self) -> Option<&str> {
        let writes = other.writes();
        let mut made = self.makes.iter();
        let is_of =
            |made: &&String| other.makes.contains(made) || writes.lists(made) == Listed::ByName;
        made.find(is_of).map(String::as_str)
    }

    /// The streams that rules of the built-in filter put items into.
    pub(in super::super) fn targets(&self) -> impl Iterator<Item = &str> {
        let rules = match &*self.plugin {
            FILTER => self.config.get("rules").and_then(|rules| rules.as_array()),
            _ => None,
        };
        let rules = rules.into_iter().flatten();
        rules.filter_map(|rule| rule.get("stream")?.as_str())
    }
}

#[cfg(test)]
mod tests;
