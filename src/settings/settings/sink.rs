//! `[[sinks]]` and what belongs to one: retries, batches, limits, what it may call.
//!
//! **Invariant**: what is wrong with hosts and networks was found by [`load`](crate::load).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Millis, SinkFields, SinkWhere};
use crate::checks::{is_daemons, kinds};
use crate::record::{Element, record};
use crate::routing_gaps::POOL;
use crate::schema::{DAY_MS, GIB, MIB};
use crate::{Endpoint, Host, Network, Secret};

/// The group of the settings that say what a sink receives, and in which order.
const RECEIVES: &str = "How it receives";

record! {
    /// `[[sinks]]`: a plugin and the streams it receives. A block with the name `pool` changes the built-in sink.
    pub struct Sink {
        /// Name of the sink: 1 to 64 letters, digits, `_`, `.` or `-`.
        name: String, Text(kinds::NAME), required: true, fixed: true, example: r#""team""#;
        /// Built-in plugin; `"mine"` for `<data_dir>/plugins/mine.wasm`; or, in a file only, the path of a component, relative to that file.
        plugin: String = "pool".to_owned(), Plugin, required: true, example: r#""http-forward""#, placeholder: "NAME";
        /// SHA-256 of the component as 64 hex digits; `headgate plugin check` prints it. Another component is not started.
        sha256: Option<String>, Digest(kinds::SHA256_OF_FILE), none: "any component", example: r#""9f86d081…""#, alternative: true;
        /// Streams that the sink receives; a `*` at the end of a name matches any rest.
        streams: Vec<String>, List(kinds::PATTERN, 1), required: true, example: r#"["orders"]"#, placeholder: "NAME",
            label: "Streams", hint: "Names, with commas between them; a * at the end of a name matches any rest.",
            guide: "`*` alone does not match names that begin with `_`, except for `pool`.";
        /// Streams that the sink does not receive although `streams` matches them.
        except: Vec<String>, List(kinds::PATTERN, 0), placeholder: "NAME", label: "Streams that it does not receive", group: RECEIVES,
            guide: "If neither `streams` nor `except` is set for `pool`, it leaves the streams of `filter-map` sinks to them.";
        /// Items that the sink receives: conditions that must all hold.
        r#where: Option<SinkWhere>, Text(kinds::CONDITIONS), none: "all items of its streams", example: r#""status:paid,total>=100""#,
            placeholder: "CONDITIONS", label: "Items that it receives",
            hint: "Conditions that must all hold: status:paid,total>=100. Empty: all.",
            guide: "See [what it receives][sinks-select].";
        /// Fields that the sink receives, in this order.
        fields: Option<SinkFields>, Text(kinds::FIELDS), none: "all fields", example: r#""id,Customer:customer.name,total""#,
            placeholder: "FIELDS", label: "Fields that it receives",
            hint: "In this order: id,Customer:customer.name,total. Empty: all.",
            guide: "See [what it receives][sinks-select].";
        /// What the sink receives in place of an update that does not match `where`: `skip`, nothing; `remove`, a removal of the item.
        leaves: Leaves, Choice(&["skip", "remove"]), placeholder: "WORD", label: "An update that does not match", group: RECEIVES,
            mode: "journal", asks: &["removals"],
            guide: "See [what it receives][sinks-select]. With `mode = \"latest\"`, it always receives the removal.";
        /// Streams that the sink can write in the data pool; a `*` at the end of a name matches any rest.
        writes: Option<Vec<String>>, List(kinds::PATTERN, 0), none: "the streams that the plugin is made for",
            example: r#"["orders", "sensor-*"]"#, placeholder: "NAME", asks: &["pool"],
            label: "Streams that it can write in the data pool",
            hint: "Names, with commas between them. Empty: those that the plugin is made for.",
            guide: "See [write permissions][sinks-writes]. By default, a plugin from a file writes none, `pool` writes the streams that it receives, and `filter-map` writes those and the targets of its rules.";
        /// Streams whose items the sink makes itself: no other sink receives or writes them.
        makes: Vec<String>, List(kinds::STREAM, 0), example: r#"["totals"]"#, alternative: true, placeholder: "NAME", label: "Streams that it makes",
            group: RECEIVES, mode: "journal", asks: &["pool"],
            guide: "See [items that a sink makes][plugins-make].";
        /// What the sink follows: `journal`, everything that is accepted; `latest`, the newest state of the data pool.
        mode: SinkMode, Choice(&["journal", "latest"]), placeholder: "WORD",
            guide: "See [the newest only][sinks-latest]. It cannot be changed later.";
        /// With `mode = "latest"`: whether the sink receives the shown values, with overrides and holds, instead of the
        /// values of the sources.
        shown: bool = false, Boolean, alternative: true, placeholder: "BOOL", label: "What is shown",
            group: RECEIVES, mode: "latest";
        /// With `mode = "latest"`: largest number of calls of the plugin per second.
        max_rate: u32 = Sink::MAX_RATE, Integer(1, 1000), alternative: true, placeholder: "N", label: "Calls in a second",
            group: RECEIVES, mode: "latest";
        /// Where a new sink starts: `now`, with the next request; `journal`, with the oldest stored request; `state`,
        /// with all items of the data pool.
        start: Start, Choice(&["now", "journal", "state", "oldest"]), placeholder: "WORD",
            label: "It begins", choices: &[("now", "with the next request"), ("journal", "with the oldest request that is still kept"), ("state", "with all items of the data pool")],
            guide: "See [where a sink starts][sinks-start]. `oldest` is an alias of `journal`.";
        /// Whether the sink delivers. With `false`, it is created paused, and accepted requests wait for it.
        enabled: bool = true, Boolean;
        /// Order of operations: with `key`, an operation that waits for a retry holds up later ones with the same key; with `strict`, all later ones.
        ordering: Ordering, Choice(&["key", "strict", "any"]), placeholder: "WORD", label: "Order",
            group: RECEIVES, mode: "journal", guide: "`retry` limits how long. `any` is an alias of `key`.";
        /// Largest number of calls of the plugin at the same time; their batches have no key in common.
        in_flight: usize = 1, Integer(1, 16), placeholder: "N", label: "Calls at the same time",
            group: RECEIVES, mode: "journal", asks: &["http", "postgres"],
            guide: "For sinks with `http` or `postgres`; see [several calls at once][sinks-in-flight].";
        /// Retries after a failure.
        retry: Retry, Table(Retry::FIELDS), label: "Retries";
        /// Size of batches.
        batch: Batch, Table(Batch::FIELDS), label: "Batches";
        /// Limits of this sink, instead of those in `[plugins]`.
        limits: SinkLimits, Table(SinkLimits::FIELDS), label: "Limits of the plugin";
        /// Hosts that the plugin can call over HTTP.
        http: Option<Http>, Table(Http::FIELDS), none: "no calls, and a plugin that requires HTTP is not started",
            label: "Limits of requests", asks: &["http"];
        /// Database that the plugin can write to.
        postgres: Option<Postgres>, Table(Postgres::FIELDS), none: "none, and a plugin that requires one is not started",
            label: "Limits of the database", asks: &["postgres"];
        /// Directory that the plugin can write files in.
        folder: Option<Folder>, Table(Folder::FIELDS), none: "none, and a plugin that requires one is not started",
            asks: &["folder"];
        /// Endpoints that the plugin can connect to, over TCP, TLS, UDP or a WebSocket.
        wire: Option<Wire>, Table(Wire::FIELDS), none: "none, and a plugin that requires some is not started",
            asks: &["wire"];
        /// Secrets that the plugin can read, by name.
        secrets: BTreeMap<String, Secret>, Secrets(kinds::NAME), example: r#"{ signing = { env = "SIGNING_SECRET" } }"#,
            flag: "secret", placeholder: "NAME=VALUE|@FILE", label: "Secret that it can read", asks: &["secrets"];
        /// Settings of the plugin, checked against the plugin's schema.
        config: serde_json::Value = serde_json::Value::Object(serde_json::Map::new()), Free,
            example: r#"{ url = "https://api.example.com/orders" }"#, placeholder: "JSON|@FILE";
    }
}

/// A sink in a list.
pub(crate) const SINK: Element = Element {
    fields: Sink::FIELDS,
    one_of: &[],
};

/// What a sink follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SinkMode {
    /// The journal: everything that is accepted.
    #[default]
    Journal,
    /// The changes of the data pool: of each item the newest.
    Latest,
}

/// What a sink receives in place of an update that does not match `where`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Leaves {
    /// Nothing.
    #[default]
    Skip,
    /// A removal of the item.
    Remove,
}

/// Where a sink begins that has never run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// With the next request.
    #[default]
    Now,
    /// With the oldest request whose items are still kept.
    #[serde(alias = "oldest")]
    Journal,
    /// With what the data pool has, then what is accepted after that.
    State,
}

/// In which order a sink gets operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ordering {
    /// That of acceptance for each key: what failed holds up what follows with the same stream and key.
    #[default]
    #[serde(alias = "any")]
    Key,
    /// That of acceptance: what failed holds up all that follow.
    Strict,
}

record! {
    /// `retry` of a sink.
    pub struct Retry {
        /// Milliseconds before the first retry; each further pause is twice as long.
        first_ms: Millis = Millis::new(500), Integer(1, DAY_MS), label: "First pause (ms)";
        /// Longest pause between two retries, in milliseconds.
        max_ms: Millis = Millis::new(60_000), Integer(1, DAY_MS), label: "Longest pause (ms)";
        /// Attempts before a batch is split in halves, and then moved to the dead letters.
        attempts: u32 = 12, Integer(1, 1_000_000), label: "Attempts", mode: "journal";
    }
}

record! {
    /// `batch` of a sink.
    pub struct Batch {
        /// Largest number of items in a batch.
        items_max: usize = 10_000, Integer(1, 1_000_000), label: "Items";
        /// Largest size of a batch, flattened; a larger request forms its own batch.
        bytes_max: usize = 4 * 1024 * 1024, Integer(1, GIB), label: "Bytes";
        /// Milliseconds that a busy sink waits for more items after a batch.
        linger_ms: Millis = Millis::new(8), Integer(0, DAY_MS), label: "Wait for more (ms)";
    }
}

record! {
    /// `limits` of a sink; what is not there is as in `[plugins]`.
    pub struct SinkLimits {
        /// Memory of one plugin instance of this sink.
        memory_max_bytes: Option<usize>, Integer(MIB, 4 * GIB), none: "`[plugins]`", example: "67_108_864",
            usual: "`[plugins]`", label: "Memory (bytes)";
        /// Milliseconds that one call of the plugin can take, including waiting.
        write_timeout_ms: Option<Millis>, Integer(1, DAY_MS), none: "`[plugins]`", example: "10_000", usual: "`[plugins]`",
            label: "Time of a call (ms)";
        /// Milliseconds of computing time of one call of the plugin.
        cpu_timeout_ms: Option<Millis>, Integer(1, DAY_MS), none: "`[plugins]`", example: "5_000", usual: "`[plugins]`",
            label: "Computing time of a call (ms)";
    }
}

record! {
    /// `postgres` of a sink: the database that it can write to.
    pub struct Postgres {
        /// URL of the database: `postgresql://user:password@host/database`. The plugin never receives it.
        url: Secret = Secret::new(String::new()), Secret, required: true, example: r#"{ env = "SHOP_DATABASE" }"#,
            flag: "postgres", placeholder: "URL|@FILE", label: "Database that it can write to",
            hint: "postgresql://user:password@host/database. It is never shown.";
        /// Milliseconds for connecting, and for each transaction.
        timeout_ms: Millis = Millis::new(10_000), Integer(1, DAY_MS), label: "Time of a transaction (ms)";
    }
}

record! {
    /// `wire` of a sink: where it can connect to.
    pub struct Wire {
        /// Endpoints that the plugin can connect to: `tcp`, `tls`, `udp`, `ws` or `wss`, host and port.
        to: Vec<String>, List(kinds::ENDPOINT, 0), example: r#"["tcp://10.0.0.5:5250", "tls://broker.example.com:8883"]"#,
            flag: "wire", placeholder: "URL", label: "Places that it can connect to",
            hint: "With commas between them: tcp://10.0.0.5:5250, tls://broker.example.com:8883.";
        /// Private, loopback and other special networks that the plugin can connect to.
        networks: Vec<String>, List(kinds::NETWORK, 0), example: r#"["10.0.0.0/8"]"#,
            flag: "network", placeholder: "NETWORK", label: "Private networks that it can call",
            hint: "10.0.0.0/8. By default, private addresses are not allowed.";
    }
}

impl Wire {
    /// The places; what is none was refused by [`load`](crate::load).
    pub fn to(&self) -> Vec<Endpoint> {
        parsed(&self.to)
    }

    /// The networks; what is none was refused by [`load`](crate::load).
    pub fn networks(&self) -> Vec<Network> {
        parsed(&self.networks)
    }
}

record! {
    /// `folder` of a sink: where it can write files.
    pub struct Folder {
        /// Directory in `files/` of the data directory, such as `"out"`; or an absolute path in one of
        /// `plugins.folders`.
        path: String = String::new(), Text(kinds::FOLDER), required: true, example: r#""out""#,
            flag: "folder", placeholder: "PATH", label: "Folder that it can write files in",
            hint: "Below files of the data directory: out. An absolute path must lie below a folder of plugins.folders.";
    }
}

record! {
    /// `http` of a sink: what it can call.
    pub struct Http {
        /// Hosts that the plugin can call, over HTTPS unless the entry begins with `http://`.
        hosts: Vec<String>, List(kinds::HOST, 0),
            example: r#"["api.example.com", "*.example.org:8443", "http://10.0.0.5:9000"]"#, flag: "host", placeholder: "HOST",
            label: "Hosts that it can call",
            hint: "With commas between them: api.example.com, *.example.org:8443, http://10.0.0.5:9000.";
        /// Private, loopback and other special networks that the plugin can call.
        networks: Vec<String>, List(kinds::NETWORK, 0), example: r#"["10.0.0.0/8"]"#,
            flag: "network", placeholder: "NETWORK", label: "Private networks that it can call",
            hint: "10.0.0.0/8. By default, private addresses are not allowed.";
        /// Headers of every request to these hosts. Their values are secrets, which the plugin never receives.
        headers: BTreeMap<String, Secret>, Secrets(kinds::HEADER_NAME),
            example: r#"{ authorization = { env = "TEAM_AUTHORIZATION" } }"#, flag: "header",
            placeholder: "NAME=VALUE|@FILE", label: "Header of every request";
        /// Milliseconds that one request can take, including its response.
        timeout_ms: Millis = Millis::new(10_000), Integer(1, DAY_MS), label: "Time of a request (ms)", guide: "`plugins.write_timeout_ms` limits a whole call.";
        /// Largest body of one request.
        request_bytes_max: u64 = 16 * MIB, Integer(0, GIB), label: "Bytes of a request";
        /// Largest body of one response.
        response_bytes_max: u64 = MIB, Integer(0, GIB), label: "Bytes of an answer";
        /// Largest number of requests of one call.
        requests_max: u32 = 1_000, Integer(1, 1_000_000), label: "Requests of a call";
        /// Largest number of requests at the same time; others wait.
        concurrency_max: usize = 4, Integer(1, 1000), label: "Requests at the same time";
    }
}

impl Folder {
    /// Where it is, as people name it.
    pub fn shown(&self) -> String {
        match self.path.starts_with('/') {
            true => self.path.clone(),
            false => format!("files/{} of the data directory", self.path),
        }
    }
}

impl Http {
    /// The hosts; what is none was refused by [`load`](crate::load).
    pub fn hosts(&self) -> Vec<Host> {
        parsed(&self.hosts)
    }

    /// The networks; what is none was refused by [`load`](crate::load).
    pub fn networks(&self) -> Vec<Network> {
        parsed(&self.networks)
    }
}

fn parsed<T: std::str::FromStr>(texts: &[String]) -> Vec<T> {
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}

/// Whether a pattern means a stream: the daemon's only if it begins with `_` itself.
pub(super) fn is_meant(pattern: &str, stream: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some("") => !is_daemons(stream),
        Some(prefix) => stream.starts_with(prefix),
        None => stream == pattern,
    }
}

impl Sink {
    /// The default of `max_rate`.
    pub(crate) const MAX_RATE: u32 = 10;

    /// Whether items of every stream go to this sink that people make.
    pub fn takes_all(&self) -> bool {
        self.except.is_empty() && self.streams.iter().any(|pattern| pattern == "*")
    }

    /// Whether what it does is done when a call ends, settled or not: not in the data pool alone.
    pub fn reaches_others(&self) -> bool {
        self.http.is_some()
            || self.postgres.is_some()
            || self.folder.is_some()
            || self.wire.is_some()
    }

    /// Whether it follows the changes of the data pool.
    pub fn is_latest(&self) -> bool {
        self.mode == SinkMode::Latest
    }

    /// `where`, `fields` and `leaves` in one text, the same for all that mean the same; empty without them.
    pub fn selection(&self) -> String {
        let conditions = self
            .r#where
            .as_ref()
            .map(|one| one.conditions().canonical());
        let fields = self.fields.as_ref().map(|one| one.fields().canonical());
        let leaves = (self.leaves == Leaves::Remove).then(|| "remove".to_owned());
        let named = [
            ("where", conditions),
            ("fields", fields),
            ("leaves", leaves),
        ];
        let named = named.into_iter().filter_map(|(name, text)| {
            let text = text.filter(|text| !text.is_empty())?;
            Some(format!("{name}\0{text}\0"))
        });
        named.collect()
    }

    /// What the sink receives, in one text: what is stored of a filling, to tell whether it is still enough.
    pub fn receives(&self) -> String {
        let list = |patterns: &[String]| {
            let mut patterns = patterns.to_vec();
            patterns.sort_unstable();
            patterns.dedup();
            patterns.join("\0")
        };
        let (streams, except) = (list(&self.streams), list(&self.except));
        let shown = if self.shown { "\0shown" } else { "" };
        format!("{streams}\0\0{except}\0\0{}{shown}", self.selection())
    }

    /// Whether items of this stream go to this sink. The pattern `*` of `pool` means the daemon's streams, too.
    pub fn matches(&self, stream: &str) -> bool {
        let named = |patterns: &[String], all: bool| {
            let mut patterns = patterns.iter();
            patterns.any(|pattern| (all && pattern == "*") || is_meant(pattern, stream))
        };
        named(&self.streams, self.plugin == POOL) && !named(&self.except, false)
    }
}
