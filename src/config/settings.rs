//! The settings: plain structs, one for each section of the configuration.
//!
//! Filled by [`load`](super::load); read by the daemon and handed on to the modules by value.
//!
//! **Invariant**: `Settings::default()` equals what the embedded `default.toml` says, with the sink `pool`; units
//! stand last in names.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{Host, Listen, Network, Secret};

/// The whole configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The service listener.
    pub server: Server,
    /// The admin listener.
    pub admin: Admin,
    /// What is kept on disk and how firmly.
    pub storage: Storage,
    /// What one request and one key may ask for.
    pub limits: Limits,
    /// Renderers.
    pub live: Live,
    /// Threads.
    pub runtime: Runtime,
    /// Log output.
    pub log: Log,
    /// Limits on plugins.
    pub plugins: Plugins,
    /// The data pool.
    pub pool: Pool,
    /// Declared streams.
    pub streams: Vec<Stream>,
    /// Declared connectors with their ingest keys.
    pub connectors: Vec<Connector>,
    /// Declared read keys.
    pub read_keys: Vec<ReadKey>,
    /// Sinks.
    pub sinks: Vec<Sink>,
}

/// `[server]`: the service listener.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    /// Where ingest, live and items are served.
    pub listen: Listen,
    /// How long open requests may take to finish after SIGTERM.
    pub shutdown_seconds: u64,
    /// Connections open at once on each listener.
    pub connections_max: usize,
    /// How long a client may refuse to read its answer. Not a setting of its own.
    #[serde(skip)]
    pub write_stall_max: Duration,
}

/// `[admin]`: the admin listener.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Admin {
    /// Where the web UI, the admin API and the metrics are served.
    pub listen: Listen,
    /// Names that the pages and the admin API may be asked for by, beside addresses and `localhost`; without a port.
    pub hosts: Vec<String>,
    /// The admin token. None: it is read from `token_file`, which is made at the first start.
    pub token: Option<Secret>,
    /// Where the token is kept if `token` is none: the file that `admin.token` names but that does not exist yet,
    /// or `admin.token` in the data folder. Not a setting of its own.
    #[serde(skip)]
    pub token_file: PathBuf,
}

/// `[storage]`: what is kept on disk and how firmly.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Storage {
    /// The folder of the databases and the plugin cache; a relative path starts at the working directory.
    pub data_dir: PathBuf,
    /// What a 202 promises.
    pub durability: Durability,
    /// With less free space than this, requests are answered 503.
    pub min_free_bytes: u64,
    /// How long the request log goes back.
    pub log_retention_days: u32,
    /// Bytes of the request log in `journal.db`, indexes included, about; the oldest entries go first.
    pub log_retention_bytes: u64,
    /// How long the items of a request are kept in the journal after every sink has them; 0: not at all.
    pub payload_retention_minutes: u32,
    /// Bytes of such items, at most; the oldest go first.
    pub payload_retention_bytes: u64,
    /// How long the body of a refused webhook request is kept; 0: not at all.
    pub rejected_retention_minutes: u32,
    /// Bytes of such bodies, at most; the oldest go first.
    pub rejected_retention_bytes: u64,
}

/// What a 202 promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// The request is on disk.
    Fsync,
    /// The request is with the operating system: it survives the process, not a power cut.
    Os,
}

impl Durability {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fsync => "fsync",
            Self::Os => "os",
        }
    }
}

/// `[limits]`: what one request and one key may ask for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// The largest body; a larger one is 413.
    pub max_body_bytes: usize,
    /// The largest flattened form of one request; a larger one is 400.
    pub max_flattened_bytes: usize,
    /// How long a body may take to arrive.
    pub body_timeout_seconds: u64,
    /// Requests a second for each ingest key.
    pub requests_per_second: u32,
    /// Requests that a key may send at once before the rate applies.
    pub burst: u32,
    /// Accepted requests waiting for the journal; beyond it requests are answered 503.
    pub max_pending_bytes: usize,
}

/// `[live]`: renderers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Live {
    /// Where pages that may read come from, beside the daemon's own: origins, `null`, or `*`.
    pub origins: Vec<String>,
    /// Flushes a second to a renderer that does not ask for another rate.
    pub max_rate: u32,
    /// How often a renderer hears that the connection lives.
    pub heartbeat_seconds: u64,
}

/// `[runtime]`: threads.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Runtime {
    /// Worker threads. 0: one on up to two cores, otherwise one fewer than cores, at most 8.
    pub worker_threads: usize,
}

/// `[log]`: log output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// A tracing filter: `info`, or `info,headgate=debug`.
    pub level: String,
    /// How lines are written.
    pub format: LogFormat,
    /// A line for each request.
    pub requests: bool,
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// `[plugins]`: limits on each plugin instance, and on compiling each component.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plugins {
    /// Memory of one instance.
    pub memory_max_bytes: usize,
    /// How long one call may take, waiting included.
    pub write_timeout_ms: u64,
    /// How long one call may compute.
    pub cpu_timeout_ms: u64,
    /// The largest component.
    pub file_max_bytes: u64,
    /// Address space of the process that compiles a component.
    pub compile_memory_max_bytes: u64,
    /// How long it may compute.
    pub compile_cpu_seconds: u64,
    /// How long it may take, waiting included.
    pub compile_timeout_seconds: u64,
}

/// `[pool]`: the data pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pool {
    /// Whether the sink `pool` is there, declared or not.
    pub enabled: bool,
}

/// `[[streams]]`: a named destination for items.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Stream {
    /// 1 to 128 characters, no control characters.
    pub name: String,
    /// What it is for, in free words; at most 200 characters.
    pub description: Option<String>,
    /// What an update does to the fields that it does not name.
    pub on_update: OnUpdate,
    /// After so long without data, renderers are told that the stream is stale.
    pub stale_after_seconds: Option<u64>,
}

/// What an update does to the fields that it does not name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnUpdate {
    /// They are gone.
    #[default]
    Replace,
    /// They stay.
    Merge,
}

impl OnUpdate {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Replace => "replace",
            Self::Merge => "merge",
        }
    }
}

/// `[[connectors]]`: a data source with its ingest keys.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Connector {
    /// 1 to 64 letters, digits, `_`, `.` or `-`.
    pub name: String,
    /// What it is for, in free words; at most 200 characters.
    pub description: Option<String>,
    /// How its requests come.
    pub kind: ConnectorKind,
    /// The item key of requests without `X-Item-Key`.
    pub item_key: Option<String>,
    /// Whether its keys may remove items; without it, those of `ingest` may and those of `webhook` may not.
    pub may_delete: Option<bool>,
    /// Overrides [`Limits::requests_per_second`] for each of its keys.
    pub requests_per_second: Option<u32>,
    /// Overrides [`Limits::burst`] for each of its keys.
    pub burst: Option<u32>,
    /// Its ingest keys.
    pub keys: Vec<Key>,
}

/// How the requests of a connector come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConnectorKind {
    /// `POST /api/ingest`.
    #[default]
    Ingest,
    /// `POST /api/webhook/{stream}`.
    Webhook,
}

impl ConnectorKind {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::Webhook => "webhook",
        }
    }
}

/// An ingest key: exactly one of `secret` and `sha256`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Key {
    /// Unique within the connector.
    pub name: String,
    /// Who has it, or where it is used, in free words; at most 200 characters.
    pub description: Option<String>,
    /// The one stream that it may submit to.
    pub stream: String,
    /// The key itself.
    pub secret: Option<Secret>,
    /// The SHA-256 of the key, 64 lowercase hex digits.
    pub sha256: Option<String>,
    /// From when on it is refused, in RFC 3339.
    pub expires_at: Option<String>,
}

/// `[[read_keys]]`: a key for renderers; exactly one of `secret` and `sha256`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReadKey {
    /// Unique among the read keys.
    pub name: String,
    /// Who has it, or where it is used, in free words; at most 200 characters.
    pub description: Option<String>,
    /// The streams that it may read.
    pub streams: Vec<String>,
    /// The key itself.
    pub secret: Option<Secret>,
    /// The SHA-256 of the key, 64 lowercase hex digits.
    pub sha256: Option<String>,
    /// From when on it is refused, in RFC 3339.
    pub expires_at: Option<String>,
    /// Whether it may stand in a URL, for programs that can neither set headers nor run a script.
    pub allow_in_url: bool,
}

/// `[[sinks]]`: a plugin and the streams it receives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sink {
    /// 1 to 64 letters, digits, `_`, `.` or `-`.
    pub name: String,
    /// What receives the items: one of [`BUILT_IN_PLUGINS`](super::BUILT_IN_PLUGINS), or the path of a component.
    /// A relative path was resolved against the folder of the file that names it, a bare name against the plugins folder.
    pub plugin: String,
    /// The SHA-256 of the component, 64 lowercase hex digits; one with another digest is not started.
    pub sha256: Option<String>,
    /// Names of streams; `*` at the end stands for any rest.
    pub streams: Vec<String>,
    /// Those of them that it does not take, written in the same way.
    pub except: Vec<String>,
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
    pub first_ms: u64,
    /// The longest pause.
    pub max_ms: u64,
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
    pub linger_ms: u64,
}

/// `limits` of a sink; what is not there is as in `[plugins]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SinkLimits {
    /// Memory of one instance.
    pub memory_max_bytes: Option<usize>,
    /// How long one call may take, waiting included.
    pub write_timeout_ms: Option<u64>,
    /// How long one call may compute.
    pub cpu_timeout_ms: Option<u64>,
}

/// `postgres` of a sink: the database that it may write to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Postgres {
    /// `postgresql://user:password@host:port/database?sslmode=verify-full`; the plugin never sees it.
    pub url: Secret,
    /// How long connecting and each transaction may take.
    pub timeout_ms: u64,
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
    pub timeout_ms: u64,
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
    /// The hosts; what is none was refused by [`load`](super::load).
    pub fn hosts(&self) -> Vec<Host> {
        parsed(&self.hosts)
    }

    /// The networks; what is none was refused by [`load`](super::load).
    pub fn networks(&self) -> Vec<Network> {
        parsed(&self.networks)
    }
}

fn parsed<T: std::str::FromStr>(texts: &[String]) -> Vec<T> {
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}

impl Storage {
    /// Where plugins are that the configuration calls by a bare name.
    pub fn plugins_dir(&self) -> PathBuf {
        self.data_dir.join("plugins")
    }
}

impl Key {
    /// The SHA-256 of the key. Always some after [`load`](super::load).
    pub fn digest(&self) -> Option<[u8; 32]> {
        digest(self.secret.as_ref(), self.sha256.as_deref())
    }
}

impl ReadKey {
    /// The SHA-256 of the key. Always some after [`load`](super::load).
    pub fn digest(&self) -> Option<[u8; 32]> {
        digest(self.secret.as_ref(), self.sha256.as_deref())
    }
}

fn digest(secret: Option<&Secret>, sha256: Option<&str>) -> Option<[u8; 32]> {
    match (secret, sha256) {
        (Some(secret), _) => Some(Sha256::digest(secret.reveal()).into()),
        (None, Some(hex)) => super::checks::digest_of_hex(hex),
        (None, None) => None,
    }
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
