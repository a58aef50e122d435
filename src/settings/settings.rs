//! The settings: a record for each section of the configuration.
//!
//! Streams, connectors and keys are in `settings/caller.rs`, sinks in `settings/sink.rs`, what they may write in
//! `settings/writes.rs`, nodes in `settings/cluster.rs`.
//!
//! Filled by [`load`](super::load); read by the daemon and handed on to the modules by value.
//!
//! **Invariant**: `Settings::default()` equals what the embedded `default.toml` says, with the sink `pool`; units
//! stand last in names.

mod caller;
mod cluster;
mod millis;
mod selection;
mod sink;
mod telemetry;
mod tls;
mod token;
mod verify;
mod writes;

use std::path::PathBuf;
use std::time::Duration;

use base::clock::Trust;
use serde::{Deserialize, Serialize};

use super::checks::kinds;
use super::record::record;
use super::schema::{DAY_MS, GIB, MIB, RATE_MAX, VOLUME_MAX};
use super::{Listen, Networks, Secret};
use caller::{CONNECTOR, READ_KEY, STREAM};
use sink::SINK;
use token::ADMIN_TOKEN;

pub use caller::{
    Connector, ConnectorKind, DeleteWhen, Key, OnUpdate, ReadKey, Stream, shown_certificate,
};
pub use cluster::{Cluster, ClusterDurability, ClusterHints};
pub use millis::Millis;
pub use selection::{KeyFields, KeyWhere, SinkFields, SinkWhere};
pub use sink::{
    Batch, Folder, Http, Leaves, Ordering, Postgres, Retry, Sink, SinkLimits, SinkMode, Start, Wire,
};
pub use telemetry::{Otlp, Telemetry};
pub use tls::{ClientCertificates, Tls};
pub use token::{ADMIN, AdminToken, Role};
use verify::VERIFY;
pub use verify::{Replay, Verify};
pub use writes::{Listed, Writes};

record! {
    /// The whole configuration.
    pub struct Settings {
        /// The service listener.
        server: Server, Table(Server::FIELDS);
        /// The admin listener.
        admin: Admin, Table(Admin::FIELDS);
        /// Data on disk: durability and retention.
        storage: Storage, Table(Storage::FIELDS);
        /// Nodes that share one PostgreSQL database, with `storage.engine = "postgres"`.
        cluster: Cluster, Table(Cluster::FIELDS);
        /// What one request and one key can use.
        limits: Limits, Table(Limits::FIELDS);
        /// Live connections of screens and programs.
        live: Live, Table(Live::FIELDS);
        /// Threads.
        runtime: Runtime, Table(Runtime::FIELDS);
        /// Permissions of the daemon.
        system: System, Table(System::FIELDS);
        /// Log output.
        log: Log, Table(Log::FIELDS);
        /// Traces of the daemon's own work.
        telemetry: Telemetry, Table(Telemetry::FIELDS);
        /// Limits on plugins.
        plugins: Plugins, Table(Plugins::FIELDS);
        /// The data pool.
        pool: Pool, Table(Pool::FIELDS);
        /// Problems of the daemon as items of a stream.
        problems: ProblemStream, Table(ProblemStream::FIELDS);
        /// Streams that are defined in the configuration.
        streams: Vec<Stream>, Tables(&STREAM);
        /// Connectors that are defined in the configuration, with their ingest keys.
        connectors: Vec<Connector>, Tables(&CONNECTOR);
        /// Read keys that are defined in the configuration.
        read_keys: Vec<ReadKey>, Tables(&READ_KEY);
        /// Sinks.
        sinks: Vec<Sink> = vec![Sink {
            name: "pool".to_owned(),
            streams: vec!["*".to_owned()],
            ..Sink::default()
        }], Tables(&SINK);
    }
}

record! {
    /// `[server]`: the service listener.
    pub struct Server {
        /// Address of the service listener: `host:port`, or `unix:/path` of at most 107 bytes.
        listen: Listen = Listen::Tcp("127.0.0.1:8080".to_owned()), Text(kinds::LISTEN),
            guide: "It serves ingestion, webhooks, live data and stored items.";
        /// Base of the URLs that providers post to, without a path: everything before `/api/webhook`.
        public_url: Option<String>, Text(kinds::PUBLIC_URL), none: "URLs are shown without a host",
            example: r#""https://hooks.example.com""#,
            guide: "Required for [providers that sign the URL][tools-fails].";
        /// Proxies that are trusted to name the client: networks, addresses, or `unix` for the Unix socket.
        trusted_proxies: Networks, List(kinds::PLACE, 0),
            guide: "The setting applies to both listeners. Logs, the audit log and limits for each client then use the client that the proxy names.";
        /// Place where a trusted proxy names the client: `x-forwarded-for`, `forwarded` or `proxy-protocol`.
        proxy_header: ProxyHeader, Choice(&["x-forwarded-for", "forwarded", "proxy-protocol"]),
            guide: "The proxy must overwrite the header or append to it, as nginx and Caddy do. With `proxy-protocol`, every connection of a trusted proxy to both listeners must begin with the PROXY protocol, version 1 or 2; others are closed.";
        /// Seconds that open requests have to finish after SIGTERM.
        shutdown_seconds: u64 = 30, Integer(0, 3600);
        /// Largest number of open connections of the service listener; the admin listener has a separate limit of 256.
        connections_max: usize = 20_000, Integer(1, 1_000_000),
            guide: "When all are taken, the oldest connection without a request is closed for the next one; if all have requests, further connections wait, and `/healthz` and `/readyz` are still answered. The limit of [open files][open-files] can be lower.";
        /// Largest number of open connections of one address, or of one IPv6 /64. Trusted proxies are not limited.
        connections_per_address_max: usize = 5_000, Integer(1, 1_000_000),
            guide: "At most half of all connections. When an address has that many, its oldest connection without a request is closed for the next one. If all have requests, further connections get answers from `/healthz` and `/readyz` only, and are closed.";
        /// TLS of the service listener. By default, connections are not encrypted.
        tls: Option<Tls>, Table(Tls::FIELDS), none: "connections are not encrypted",
            example: r#"{ certificate = "fullchain.pem", key = "privkey.pem", client_ca = "clients.pem", client_certificates = "none" }"#,
            guide: "See [encryption](#encryption).";
    }
    beside {
        /// How long a client can leave its answer unread. Not a setting of its own.
        write_stall_max: Duration = Duration::from_secs(60);
    }
}

/// Where a proxy names the client that it asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProxyHeader {
    /// `X-Forwarded-For`
    #[default]
    XForwardedFor,
    /// `Forwarded`, RFC 7239.
    Forwarded,
    /// In the PROXY protocol, version 1 or 2, with which each of its connections begins.
    ProxyProtocol,
}

record! {
    /// `[admin]`: the admin listener.
    pub struct Admin {
        /// Address of the admin listener: `host:port`, or `unix:/path`. It must differ from `server.listen`.
        listen: Listen = Listen::Tcp("127.0.0.1:8081".to_owned()), Text(kinds::LISTEN),
            guide: "It serves the admin pages, the admin API and `/metrics`.";
        /// Host names that the admin listener answers to, in addition to addresses and `localhost`; without a port.
        hosts: Vec<String>, List(kinds::ADMIN_HOST, 0),
            guide: "On a loopback address it also answers to names below `localhost`, such as `headgate.localhost`.";
        /// Networks, addresses or `unix` that can reach the admin listener; an empty list allows every client.
        networks: Networks, List(kinds::PLACE, 0), guide: "Requests from elsewhere are answered 403.";
        /// Whether other machines can reach the admin listener without encryption.
        insecure: bool, Boolean,
            guide: "With `false`, an `admin.listen` that other machines can reach requires `admin.tls`.";
        /// TLS of the admin listener. By default, connections are not encrypted.
        tls: Option<Tls>, Table(Tls::FIELDS), none: "connections are not encrypted",
            example: r#"{ certificate = "fullchain.pem", key = "privkey.pem" }"#,
            guide: "See [encryption](#encryption).";
        /// Absolute paths of directories for backups, in addition to `backups` in the data directory.
        backup_dirs: Vec<PathBuf>, List(kinds::ABSOLUTE_PATH, 0), guide: "See [Back up][backup].";
        /// Admin token. By default, the first start creates one in `admin.token` of the data directory.
        token: Option<Secret>, Secret, none: "the token in the data directory",
            example: r#"{ file = "admin.token" }"#, usual: "`<data_dir>/admin.token`",
            guide: "Its name and its role are `admin`. A `{ file = … }` that does not exist is created, too.";
        /// Further tokens, each with a role.
        tokens: Vec<AdminToken>, Tables(&ADMIN_TOKEN);
    }
    beside {
        /// Where the token is kept if `token` is none: the file that `admin.token` names but that does not exist yet,
        /// or `admin.token` in the data folder. Not a setting of its own.
        token_file: PathBuf = PathBuf::from("data/admin.token");
    }
}

record! {
    /// `[storage]`: data on disk, its durability and retention.
    pub struct Storage {
        /// Where accepted requests are stored: `file` for this machine, `postgres` for a database that several nodes share.
        engine: Engine, Choice(&["file", "postgres"]), guide: "`postgres` requires `cluster.urls`.";
        /// Directory of the databases and the plugin cache; a relative path starts at the working directory.
        data_dir: PathBuf = PathBuf::from("data"), Text(kinds::PATH);
        /// Guarantee of a 202: `fsync` for a request that is on disk, `os` for one that a power cut can lose.
        durability: Durability = Durability::Fsync, Choice(&["fsync", "os"]);
        /// Whether time without a running daemon counts toward ages and expiry: `auto` if the kernel reports a
        /// synchronized clock, `always`, or `never`.
        trust_clock: TrustClock = TrustClock::Auto, Choice(&["auto", "always", "never"]), guide: "See [Time][time].";
        /// Mode of `pool.db`: `0600` for the daemon's user, `0640` also for its group, `0644` for every user.
        pool_mode: PoolMode = PoolMode::Owner, Text(kinds::POOL_MODE), guide: "See [other users][other-users].";
        /// Free bytes of the disk below which requests are answered 503.
        min_free_bytes: u64 = 64 * MIB, Integer(0, 1024 * GIB);
        /// Days that the request log keeps its entries.
        log_retention_days: u32 = 30, Integer(1, 3650);
        /// Largest size of the request log, estimated at 130 bytes per request; the oldest entries are deleted first.
        log_retention_bytes: u64 = 2 * GIB, Integer(MIB, 1024 * GIB),
            guide: "To limit how fast one connector displaces the entries of others, set its `requests_per_second`.";
        /// Minutes that the journal keeps accepted items for new sinks, even after every sink has received them.
        payload_retention_minutes: u32 = 60, Integer(0, 5_256_000);
        /// Largest size of the items that the journal keeps for new sinks; 0 keeps none. The oldest are deleted first.
        payload_retention_bytes: u64 = 64 * MIB, Integer(0, 1024 * GIB),
            guide: "The kept items are the newest of every stream without a gap. To limit how fast one connector displaces the items of others, set its `bytes_per_second`.";
        /// Minutes that the body of a rejected webhook request is kept, for inspection and for resending.
        rejected_retention_minutes: u32 = 24 * 60, Integer(0, 5_256_000);
        /// Largest size of the kept bodies of rejected webhook requests; 0 keeps none. The oldest are deleted first.
        rejected_retention_bytes: u64 = 16 * MIB, Integer(0, 1024 * GIB),
            guide: "Bodies of the connector with the largest share are deleted first.";
    }
}

/// Where accepted requests are stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// In files of this machine.
    #[default]
    File,
    /// In a PostgreSQL database that several nodes share.
    Postgres,
}

/// When the wall clock is trusted to say how long no daemon ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrustClock {
    /// While the kernel says that it is synchronized.
    Auto,
    /// At all times.
    Always,
    /// Never.
    Never,
}

impl From<TrustClock> for Trust {
    fn from(trust: TrustClock) -> Self {
        match trust {
            TrustClock::Auto => Self::Auto,
            TrustClock::Always => Self::Always,
            TrustClock::Never => Self::Never,
        }
    }
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

/// Who may read `pool.db`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PoolMode {
    /// This user.
    #[serde(rename = "0600")]
    Owner,
    /// And the group of the file.
    #[serde(rename = "0640")]
    Group,
    /// Every user of the machine.
    #[serde(rename = "0644")]
    Everyone,
}

impl PoolMode {
    /// What the mode of the file says of others than the owner.
    pub fn of_others(self) -> u32 {
        match self {
            Self::Owner => 0,
            Self::Group => 0o040,
            Self::Everyone => 0o044,
        }
    }

    /// The same of the data folder, through which they come to the file. They do not see what else is in it.
    pub fn of_others_in_folder(self) -> u32 {
        self.of_others() >> 2
    }
}

record! {
    /// `[limits]`: what one request and one key can use.
    pub struct Limits {
        /// Largest body of a request; a larger body is answered 413.
        max_body_bytes: usize = 1024 * 1024, Integer(1, 64 * MIB), guide: "At most 64 MiB.";
        /// Largest flattened form of a request; it is also limited to 8 times the body plus 64 KiB.
        max_flattened_bytes: usize = 16 * 1024 * 1024, Integer(1, 256 * MIB);
        /// Largest flattened form of one item.
        max_item_bytes: usize = 2 * 1024 * 1024, Integer(1, 256 * MIB),
            guide: "Every renderer receives an item as a whole.";
        /// Seconds within which the body of a request must arrive.
        body_timeout_seconds: u64 = 30, Integer(1, 300);
        /// Requests per second of each ingest key. A connector can set its own limit.
        requests_per_second: u32 = 1000, Integer(1, RATE_MAX);
        /// Requests that a key can send at once before `requests_per_second` applies. A connector can set its own limit.
        burst: u32 = 2000, Integer(1, RATE_MAX);
        /// Bytes of bodies per second that each ingest key can store, on average; 0 is unlimited.
        bytes_per_second: u64, Integer(0, VOLUME_MAX),
            guide: "A burst can be twice as large, or one body of the largest size. Further requests are answered 429. A connector can set its own limit.";
        /// Bytes of bodies per UTC day that each ingest key can store; 0 is unlimited.
        bytes_per_day: u64, Integer(0, VOLUME_MAX),
            guide: "The first body of a day always fits. A connector can set its own limit. By default only `storage.min_free_bytes` keeps the disk from filling.";
        /// Bytes of requests that wait for the journal; beyond it, requests are answered 503.
        max_pending_bytes: usize = 64 * 1024 * 1024, Integer(1, 64 * GIB);
        /// Bytes of one key's requests that wait for the journal, so that others can still send.
        max_pending_bytes_per_key: usize = 16 * 1024 * 1024, Integer(1, 64 * GIB),
            guide: "Requests without a valid signature for one connector share one such limit. When `limits.max_pending_bytes` is reached, a slow body of the key with the largest share is aborted.";
        /// Requests per second without a valid key from one address, or one IPv6 /64; 0 is unlimited.
        unauthorized_per_second: u32 = 20, Integer(0, 1_000_000),
            guide: "Five times as many can arrive at once. Further requests are answered 429 after one second. Clients with a valid key are not affected.";
    }
}

record! {
    /// `[live]`: live connections of screens and programs.
    pub struct Live {
        /// Origins whose pages can read, in addition to the daemon's own; `"null"` for pages from files, `"*"` for any page with a read key.
        origins: Vec<String>, List(kinds::ORIGIN, 0);
        /// Flushes per second to each renderer. A renderer can ask for another rate with `?max_rate=`.
        max_rate: u32 = 60, Integer(1, 1000);
        /// Seconds between heartbeats to a renderer.
        heartbeat_seconds: u64 = 15, Integer(1, 300);
        /// Largest number of connected renderers.
        connections_max: usize = 10_000, Integer(1, 1_000_000),
            guide: "At most three quarters of the connections of the service listener, so that requests and health checks can still connect.";
        /// Largest number of connected renderers per read key; further connections are answered 429.
        connections_per_key_max: usize = 1_000, Integer(1, 1_000_000), guide: "At most half of `live.connections_max`.";
        /// Bytes of item pages that are sent at the same time; a request beyond it waits.
        max_page_bytes: usize = 64 * 1024 * 1024, Integer(MIB, 64 * GIB),
            guide: "A request that has waited for 10 seconds is answered 503.";
        /// Bytes of item pages that are sent at the same time with one read key; a request beyond it waits.
        max_page_bytes_per_key: usize = 16 * 1024 * 1024, Integer(MIB, 64 * GIB);
    }
}

record! {
    /// `[runtime]`: threads.
    pub struct Runtime {
        /// Worker threads; 0 uses one on up to two cores, otherwise one fewer than cores, at most 8.
        worker_threads: usize, Integer(0, 256);
    }
}

record! {
    /// `[system]`: permissions of the daemon.
    pub struct System {
        /// Whether the daemon drops unneeded rights at startup: other files, core dumps, debuggers, new privileges.
        confine: bool = true, Boolean, guide: "See [the sandbox][confine]. Set `false` for debuggers and profilers.";
    }
}

record! {
    /// `[log]`: log output.
    pub struct Log {
        /// Log level: `off`, `error`, `warn`, `info`, `debug`, `trace`, or a list such as `info,headgate=debug`.
        level: String = "info".to_owned(), Text(kinds::LOG_FILTER), guide: "The variable `HEADGATE_LOG` overrides it.";
        /// Format of the log: `text` or `json`.
        format: LogFormat = LogFormat::Text, Choice(&["text", "json"]);
        /// Whether the log has a line for each request.
        requests: bool, Boolean;
    }
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

record! {
    /// `[plugins]`: limits on each plugin instance, and on compiling each component.
    pub struct Plugins {
        /// Memory of one plugin instance.
        memory_max_bytes: usize = 64 * 1024 * 1024, Integer(MIB, 4 * GIB);
        /// Milliseconds that one call of a plugin can take, including waiting.
        write_timeout_ms: Millis = Millis::new(10_000), Integer(1, DAY_MS);
        /// Milliseconds of computing time of one call of a plugin, including computing by the host on its behalf.
        cpu_timeout_ms: Millis = Millis::new(5_000), Integer(1, DAY_MS);
        /// Largest component file.
        file_max_bytes: u64 = 64 * MIB, Integer(1, GIB);
        /// Address space of the process that compiles a component.
        compile_memory_max_bytes: u64 = GIB, Integer(256 * MIB, 64 * GIB),
            guide: "A component of 18 MB with a Python interpreter takes 350 MB.";
        /// Seconds of computing time for compiling a component.
        compile_cpu_seconds: u64 = 60, Integer(1, 3600), guide: "A component of 18 MB takes about 10 seconds.";
        /// Seconds that compiling a component can take, including waiting.
        compile_timeout_seconds: u64 = 180, Integer(1, 3600);
        /// Directories in which sinks can write files, in addition to `files/` of the data directory.
        folders: Vec<PathBuf>, List(kinds::ABSOLUTE_PATH, 0), example: r#"["/srv/graphics"]"#,
            guide: "They are made if they are missing. The daemon must be restarted after a change.";
    }
}

record! {
    /// `[pool]`: the data pool.
    pub struct Pool {
        /// Whether the built-in sink `pool` runs. It needs no entry in `[[sinks]]`.
        enabled: bool = true, Boolean,
            guide: "With `false`, nothing reaches the data pool and the screens unless another sink writes it, and a declared sink named `pool` is an error.";
    }
}

record! {
    /// `[problems]`: problems of the daemon as items of a stream.
    pub struct ProblemStream {
        /// Built-in stream that has an item for each problem; its name begins with `_`. With `""` there is none.
        stream: String = "_problems".to_owned(), Text(kinds::PROBLEM_STREAM),
            guide: "See [problems as a stream][problems].";
    }
}

impl Storage {
    /// Where plugins are that the configuration calls by a bare name.
    pub fn plugins_dir(&self) -> PathBuf {
        self.data_dir.join("plugins")
    }

    /// Where presets are, beside those that are part of the program: a file each.
    pub fn presets_dir(&self) -> PathBuf {
        self.data_dir.join("presets")
    }
}
