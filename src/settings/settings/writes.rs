//! `writes` of a sink: the streams that it may write in the data pool.
//!
//! **Invariant**: a plugin from a file may write what its section lists, and nothing without it.

use std::fmt;

use super::Sink;
use crate::BUILT_IN_PLUGINS;
use crate::checks::is_daemons;
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
mod tests {
    use serde_json::json;

    use super::*;

    fn sink(plugin: &str, writes: Option<&[&str]>) -> Sink {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Sink {
            plugin: plugin.to_owned(),
            streams: vec!["orders".to_owned()],
            writes: writes.map(owned),
            ..Sink::default()
        }
    }

    #[test]
    fn what_is_not_said_is_what_a_plugin_is_made_for() {
        let writes = sink("pool", None).writes();
        assert!(writes.given() && writes.lists("orders") == Listed::No);
        assert_eq!(writes.to_string(), "the streams that it takes");
        let filter = Sink {
            config: json!({"rules": [{"stream": "a"}, {"drop": true}, {"stream": "b*"}]}),
            ..sink("filter-map", None)
        };
        let writes = filter.writes();
        assert!(writes.given());
        assert_eq!(writes.lists("a"), Listed::ByName);
        for stream in ["orders", "b1"] {
            assert_eq!(writes.lists(stream), Listed::No);
        }
        assert_eq!(writes.to_string(), "the streams that it takes, a, b*");
        for plugin in ["http-forward", "postgres", "mine.wasm"] {
            let writes = sink(plugin, None).writes();
            assert!(writes.is_empty() && !writes.given(), "{plugin}");
            assert_eq!(writes.to_string(), "nothing");
        }
        assert!(sink("mine.wasm", None).writes().is_unsaid());
        assert!(!sink("mine.wasm", Some(&[])).writes().is_unsaid());
        assert!(!sink("pool", None).writes().is_unsaid());
    }

    #[test]
    fn what_is_said_is_all_that_counts() {
        let writes = sink("pool", Some(&["orders", "v-*"])).writes();
        assert!(!writes.given() && !writes.is_empty());
        assert_eq!(writes.to_string(), "orders, v-*");
        assert_eq!(writes.lists("orders"), Listed::ByName);
        for stream in ["v-", "v-1"] {
            assert_eq!(writes.lists(stream), Listed::ByPattern);
        }
        for stream in ["orders2", "v", "w-1", ""] {
            assert_eq!(writes.lists(stream), Listed::No);
        }
        assert_eq!(
            sink("pool", Some(&["*"])).writes().lists("x"),
            Listed::ByPattern
        );
        assert!(sink("pool", Some(&[])).writes().is_empty());
    }
}
