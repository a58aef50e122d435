//! `[[sinks]]` and what belongs to one: retries, batches, limits, what it may call.
//!
//! **Invariant**: what is wrong with hosts and networks was found by [`load`](crate::config::load).

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::millis;
use crate::config::{Host, Network, Secret};

/// `[[sinks]]`: a plugin and the streams it receives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sink {
    /// 1 to 64 letters, digits, `_`, `.` or `-`.
    pub name: String,
    /// What receives the items: one of [`BUILT_IN_PLUGINS`](crate::config::BUILT_IN_PLUGINS), or the path of a component.
    /// A relative path was resolved against the folder of the file that names it, a bare name against the plugins folder.
    pub plugin: String,
    /// The SHA-256 of the component, 64 lowercase hex digits; one with another digest is not started.
    pub sha256: Option<String>,
    /// Names of streams; `*` at the end stands for any rest.
    pub streams: Vec<String>,
    /// Those of them that it does not take, written in the same way.
    pub except: Vec<String>,
    /// The streams that it may write in the data pool, written in the same way; [`Sink::writes`] says what holds without.
    pub writes: Option<Vec<String>>,
    /// Where it begins when it is new.
    pub start: Start,
    /// Whether a batch may overtake one that waits for a retry.
    pub ordering: Ordering,
    /// What happens after a failure.
    pub retry: Retry,
    /// How much is passed at once.
    pub batch: Batch,
    /// Its own limits.
    pub limits: SinkLimits,
    /// What it may call over HTTP. None: nothing, and a plugin that asks for HTTP is not started.
    pub http: Option<Http>,
    /// The database that it may write to. None: none, and a plugin that asks for one is not started.
    pub postgres: Option<Postgres>,
    /// Secrets that the plugin may read, by name.
    pub secrets: BTreeMap<String, Secret>,
    /// The plugin's own settings, an object; its JSON Schema says what may stand there.
    pub config: serde_json::Value,
}

/// Where a sink begins that has never run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// With the next request.
    #[default]
    Now,
    /// With the oldest request whose items are still kept.
    Oldest,
}

/// In which order a sink gets its batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ordering {
    /// New ones go on while a failed one waits.
    #[default]
    Any,
    /// That of acceptance: a failed one holds up all that follow.
    Strict,
}

/// `retry` of a sink.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retry {
    /// The pause after the first failure; it doubles with each further one.
    #[serde(rename = "first_ms", with = "millis")]
    pub first: Duration,
    /// The longest pause.
    #[serde(rename = "max_ms", with = "millis")]
    pub max: Duration,
    /// Attempts before a batch goes to the dead letters.
    pub attempts: u32,
}

/// `batch` of a sink.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Batch {
    /// Items passed at once, at most.
    pub items_max: usize,
    /// Flattened bytes passed at once, at most; one larger request is a batch of its own.
    pub bytes_max: usize,
    /// How long after its last batch a busy sink waits for more, so that few large ones are made of many small ones.
    #[serde(rename = "linger_ms", with = "millis")]
    pub linger: Duration,
}

/// `limits` of a sink; what is not there is as in `[plugins]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SinkLimits {
    /// Memory of one instance.
    pub memory_max_bytes: Option<usize>,
    /// How long one call may take, waiting included.
    #[serde(rename = "write_timeout_ms", with = "millis::option")]
    pub write_timeout: Option<Duration>,
    /// How long one call may compute.
    #[serde(rename = "cpu_timeout_ms", with = "millis::option")]
    pub cpu_timeout: Option<Duration>,
}

/// `postgres` of a sink: the database that it may write to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Postgres {
    /// `postgresql://user:password@host:port/database?sslmode=verify-full`; the plugin never sees it.
    pub url: Secret,
    /// How long connecting and each transaction may take.
    #[serde(rename = "timeout_ms", with = "millis")]
    pub timeout: Duration,
}

/// `http` of a sink: what it may call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Http {
    /// The hosts that may be called, as [`Host`] reads them.
    pub hosts: Vec<String>,
    /// Networks, as [`Network`] reads them, that count as public although they are private.
    pub networks: Vec<String>,
    /// Headers that every request gets; the plugin never sees them.
    pub headers: BTreeMap<String, Secret>,
    /// How long one request may take, its answer included.
    #[serde(rename = "timeout_ms", with = "millis")]
    pub timeout: Duration,
    /// The largest body of a request.
    pub request_bytes_max: u64,
    /// The largest body of an answer.
    pub response_bytes_max: u64,
    /// Requests of one call.
    pub requests_max: u32,
    /// Requests under way at once.
    pub concurrency_max: usize,
}

impl Http {
    /// The hosts; what is none was refused by [`load`](crate::config::load).
    pub fn hosts(&self) -> Vec<Host> {
        parsed(&self.hosts)
    }

    /// The networks; what is none was refused by [`load`](crate::config::load).
    pub fn networks(&self) -> Vec<Network> {
        parsed(&self.networks)
    }
}

fn parsed<T: std::str::FromStr>(texts: &[String]) -> Vec<T> {
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}

impl Sink {
    /// Whether items of every stream go to this sink.
    pub fn takes_all(&self) -> bool {
        self.except.is_empty() && self.streams.iter().any(|pattern| pattern == "*")
    }

    /// Whether items of this stream go to this sink.
    pub fn matches(&self, stream: &str) -> bool {
        let named = |patterns: &[String]| {
            patterns
                .iter()
                .any(|pattern| match pattern.strip_suffix('*') {
                    Some(prefix) => stream.starts_with(prefix),
                    None => stream == pattern,
                })
        };
        named(&self.streams) && !named(&self.except)
    }
}
