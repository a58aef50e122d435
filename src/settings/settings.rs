//! The settings: plain structs, one for each section of the configuration.
//!
//! Streams, connectors and keys are in `settings/caller.rs`, sinks in `settings/sink.rs`, what they may write in
//! `settings/writes.rs`.
//!
//! Filled by [`load`](super::load); read by the daemon and handed on to the modules by value.
//!
//! **Invariant**: `Settings::default()` equals what the embedded `default.toml` says, with the sink `pool`; units
//! stand last in names.

mod caller;
pub mod millis;
mod sink;
mod telemetry;
mod tls;
mod token;
mod verify;
mod writes;

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Listen, Networks, Secret};

pub use caller::{
    Connector, ConnectorKind, DeleteWhen, Key, OnUpdate, ReadKey, Stream, shown_certificate,
};
pub use sink::{Batch, Http, Ordering, Postgres, Retry, Sink, SinkLimits, Start};
pub use telemetry::{Otlp, Telemetry};
pub use tls::{ClientCertificates, Tls};
pub use token::{ADMIN, AdminToken, Role};
pub use verify::{Replay, Verify};
pub use writes::{Listed, Writes};

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
    /// What the daemon may do with the system.
    pub system: System,
    /// Log output.
    pub log: Log,
    /// What the daemon sends of its own work.
    pub telemetry: Telemetry,
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
    /// The address that tools on the internet reach it by, such as `https://hooks.example.com`, without a path of ours.
    pub public_url: Option<String>,
    /// Proxies that are believed what client they ask for: networks, or `unix` for whoever connects to a Unix socket.
    pub trusted_proxies: Networks,
    /// Where they say it.
    pub proxy_header: ProxyHeader,
    /// How long open requests may take to finish after SIGTERM.
    pub shutdown_seconds: u64,
    /// Connections open at once on the service listener.
    pub connections_max: usize,
    /// The same of one client: an address, or a network of IPv6 with 64 bits. Trusted proxies have as many as there are.
    pub connections_per_address_max: usize,
    /// Encryption; none: connections are plain.
    pub tls: Option<Tls>,
    /// How long a client may refuse to read its answer. Not a setting of its own.
    #[serde(skip)]
    pub write_stall_max: Duration,
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

/// `[admin]`: the admin listener.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Admin {
    /// Where the web UI, the admin API and the metrics are served.
    pub listen: Listen,
    /// Names that the pages and the admin API may be asked for by, beside addresses and `localhost`; without a port.
    pub hosts: Vec<String>,
    /// From where it may be reached; without a list, from everywhere.
    pub networks: Networks,
    /// Whether it may be reached from other machines without encryption.
    pub insecure: bool,
    /// Encryption; none: connections are plain.
    pub tls: Option<Tls>,
    /// Absolute paths of folders in which backups are made, beside `backups` in the data folder.
    pub backup_dirs: Vec<PathBuf>,
    /// The admin token. None: it is read from `token_file`, which is made at the first start.
    pub token: Option<Secret>,
    /// Where the token is kept if `token` is none: the file that `admin.token` names but that does not exist yet,
    /// or `admin.token` in the data folder. Not a setting of its own.
    #[serde(skip)]
    pub token_file: PathBuf,
    /// Tokens beside it, each with its role.
    pub tokens: Vec<AdminToken>,
}

/// `[storage]`: what is kept on disk and how firmly.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Storage {
    /// The folder of the databases and the plugin cache; a relative path starts at the working directory.
    pub data_dir: PathBuf,
    /// What a 202 promises.
    pub durability: Durability,
    /// Who may read `pool.db` beside this user.
    pub pool_mode: PoolMode,
    /// With less free space than this, requests are answered 503.
    pub min_free_bytes: u64,
    /// How long the request log goes back.
    pub log_retention_days: u32,
    /// Bytes of the request log in `journal.db`, indexes included, about; the oldest entries go first.
    pub log_retention_bytes: u64,
    /// How long the items of a request are kept in the journal after it was accepted, also if every sink has them; 0: not
    /// longer than sinks need them.
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

/// `[limits]`: what one request and one key may ask for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// The largest body; a larger one is 413.
    pub max_body_bytes: usize,
    /// The largest flattened form of one request, which is also at most 8 times its body and 64 KiB; a larger one is 400.
    pub max_flattened_bytes: usize,
    /// The largest item once it is flattened; a larger one is 400.
    pub max_item_bytes: usize,
    /// How long a body may take to arrive.
    pub body_timeout_seconds: u64,
    /// Requests a second for each ingest key.
    pub requests_per_second: u32,
    /// Requests that a key may send at once before the rate applies.
    pub burst: u32,
    /// Bytes of bodies that one key may have stored in a second, on average; 0: any number.
    pub bytes_per_second: u64,
    /// The same in a day of UTC.
    pub bytes_per_day: u64,
    /// Accepted requests waiting for the journal; beyond it requests are answered 503.
    pub max_pending_bytes: usize,
    /// The same of one key, and of all that sign nothing good at the address of one connector.
    pub max_pending_bytes_per_key: usize,
    /// Requests a second without a valid key of one client, as in
    /// [`connections_per_address_max`](Server::connections_per_address_max); 0: as many as it likes.
    pub unauthorized_per_second: u32,
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
    /// Renderers that follow at once.
    pub connections_max: usize,
    /// The same with one read key.
    pub connections_per_key_max: usize,
    /// Bytes of pages of items that are being sent.
    pub max_page_bytes: usize,
    /// The same to one read key.
    pub max_page_bytes_per_key: usize,
}

/// `[runtime]`: threads.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Runtime {
    /// Worker threads. 0: one on up to two cores, otherwise one fewer than cores, at most 8.
    pub worker_threads: usize,
}

/// `[system]`: what the daemon may do with the system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct System {
    /// Whether it gives up at the start what it does not need: files elsewhere, core dumps, debuggers, new privileges.
    pub confine: bool,
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
    #[serde(rename = "write_timeout_ms", with = "millis")]
    pub write_timeout: Duration,
    /// How long one call may compute.
    #[serde(rename = "cpu_timeout_ms", with = "millis")]
    pub cpu_timeout: Duration,
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

impl Storage {
    /// Where plugins are that the configuration calls by a bare name.
    pub fn plugins_dir(&self) -> PathBuf {
        self.data_dir.join("plugins")
    }
}
