//! The shape of the configuration as a constant tree: which keys exist where, and what each may hold.
//!
//! Walked by the checker (unknown keys, types, ranges), by the environment (which variable is which setting) and by
//! `explain` (the order of rows).
//!
//! **Invariant**: it names exactly the keys that [`Settings`](super::Settings) has, which a test checks.

use super::checks::{self, Check};

/// One key of a table.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    /// Some source must set it. Only meaningful in list elements: everything else has a default.
    pub(super) required: bool,
}

/// What a setting may hold.
pub(super) enum Shape {
    /// A section, merged key by key.
    Table(&'static [Field]),
    /// A list of tables, merged by their names.
    Tables(&'static Element),
    /// A list of strings with at least so many entries, replaced as a whole.
    List(Check, usize),
    /// An integer from the first to the second, both included.
    Integer(u64, u64),
    Boolean,
    Text(Check),
    /// The path of a file; a relative one starts at the folder of the file that names it.
    File,
    /// The name of a built-in plugin, or the path of a file.
    Plugin,
    /// One of these words.
    Choice(&'static [&'static str]),
    Secret,
    /// A table of secrets, merged key by key; the check is of their names.
    Secrets(Check),
    /// A table whose keys are not ours, merged key by key: the plugin's schema checks it.
    Free,
    /// 64 hex digits; capitals become lowercase. The check says whose.
    Digest(Check),
    /// An RFC 3339 time, quoted or not.
    Time,
}

/// What each table of a list holds. It is known by its `name`.
pub(super) struct Element {
    pub(super) fields: &'static [Field],
    /// Exactly one of these must be there.
    pub(super) one_of: &'static [&'static str],
}

impl Element {
    /// For messages: `` `secret`, `sha256` or `verify` ``.
    pub(super) fn either(&self) -> String {
        let quoted: Vec<String> = self.one_of.iter().map(|name| format!("`{name}`")).collect();
        match quoted.split_last() {
            Some((last, others)) if !others.is_empty() => {
                format!("{} or {last}", others.join(", "))
            }
            _ => quoted.concat(),
        }
    }
}

impl Shape {
    /// The shape of a key of a table, if it is known.
    pub(super) fn of(&self, name: &str) -> Option<&Shape> {
        match self {
            Shape::Table(fields) => {
                let field = fields.iter().find(|field| field.name == name)?;
                Some(&field.shape)
            }
            Shape::Secrets(_) => Some(&Shape::Secret),
            Shape::Free => Some(&Shape::Free),
            _ => None,
        }
    }

    /// For messages: what is wanted.
    pub(super) fn wants(&self) -> String {
        match self {
            Shape::Table(_) | Shape::Secrets(_) | Shape::Free => "a table".to_owned(),
            Shape::Tables(_) => "a list of tables".to_owned(),
            Shape::List(..) => "a list of strings".to_owned(),
            Shape::Integer(..) => "an integer".to_owned(),
            Shape::Boolean => "true or false".to_owned(),
            Shape::Text(_) | Shape::File | Shape::Plugin | Shape::Digest(_) => {
                "a string".to_owned()
            }
            Shape::Choice(choices) => {
                let quoted: Vec<String> =
                    choices.iter().map(|word| format!("\"{word}\"")).collect();
                quoted.join(" or ")
            }
            Shape::Secret => "a string, { file = \"…\" } or { env = \"…\" }".to_owned(),
            Shape::Time => "an RFC 3339 time such as 2030-01-31T00:00:00Z".to_owned(),
        }
    }
}

const fn field(name: &'static str, shape: Shape) -> Field {
    Field {
        name,
        shape,
        required: false,
    }
}

const fn required(name: &'static str, shape: Shape) -> Field {
    Field {
        name,
        shape,
        required: true,
    }
}

const MIB: u64 = 1024 * 1024;
const GIB: u64 = 1024 * MIB;
const DAY_MS: u64 = 24 * 60 * 60 * 1000;
/// The largest `stale_after_seconds` of a stream.
pub const STALE_SECONDS_MAX: u64 = 365 * 24 * 60 * 60;
/// The largest rate and burst of a key.
pub const RATE_MAX: u64 = 1_000_000_000;
/// The most items that can be set for a stream.
pub const ITEMS_MAX: u64 = 1_000_000_000_000;
/// The most bytes that can be set for a stream, or for a key to store in a second or a day.
pub const VOLUME_MAX: u64 = 8 * 1024 * GIB;

/// The whole configuration.
pub(super) const ROOT: &[Field] = &[
    field("server", Shape::Table(SERVER)),
    field("admin", Shape::Table(ADMIN)),
    field("storage", Shape::Table(STORAGE)),
    field("limits", Shape::Table(LIMITS)),
    field("live", Shape::Table(LIVE)),
    field("runtime", Shape::Table(RUNTIME)),
    field("system", Shape::Table(SYSTEM)),
    field("log", Shape::Table(LOG)),
    field("telemetry", Shape::Table(TELEMETRY)),
    field("plugins", Shape::Table(PLUGINS)),
    field("pool", Shape::Table(POOL)),
    field("streams", Shape::Tables(&STREAM)),
    field("connectors", Shape::Tables(&CONNECTOR)),
    field("read_keys", Shape::Tables(&READ_KEY)),
    field("sinks", Shape::Tables(&SINK)),
];

const SERVER: &[Field] = &[
    field("listen", Shape::Text(checks::listen)),
    field("public_url", Shape::Text(checks::public_url)),
    field("trusted_proxies", Shape::List(checks::place, 0)),
    field(
        "proxy_header",
        Shape::Choice(&["x-forwarded-for", "forwarded", "proxy-protocol"]),
    ),
    field("shutdown_seconds", Shape::Integer(0, 3600)),
    field("connections_max", Shape::Integer(1, 1_000_000)),
    field("connections_per_address_max", Shape::Integer(1, 1_000_000)),
    field("tls", Shape::Table(TLS)),
];

const TLS: &[Field] = &[
    field("certificate", Shape::File),
    field("key", Shape::File),
    field("client_ca", Shape::File),
    field(
        "client_certificates",
        Shape::Choice(&["none", "optional", "required"]),
    ),
];

const ADMIN: &[Field] = &[
    field("listen", Shape::Text(checks::listen)),
    field("hosts", Shape::List(checks::admin_host, 0)),
    field("networks", Shape::List(checks::place, 0)),
    field("insecure", Shape::Boolean),
    field("tls", Shape::Table(TLS)),
    field("backup_dirs", Shape::List(checks::absolute_path, 0)),
    field("token", Shape::Secret),
    field("tokens", Shape::Tables(&ADMIN_TOKEN)),
];

const ADMIN_TOKEN: Element = Element {
    fields: &[
        required("name", Shape::Text(checks::name)),
        required(
            "role",
            Shape::Choice(&["viewer", "operator", "admin", "metrics"]),
        ),
        field("secret", Shape::Secret),
        field("sha256", Shape::Digest(checks::sha256_of_token)),
        field("certificate", Shape::Text(checks::fingerprint)),
        field("expires_at", Shape::Time),
    ],
    one_of: &["secret", "sha256", "certificate"],
};

const STORAGE: &[Field] = &[
    field("data_dir", Shape::Text(checks::path)),
    field("durability", Shape::Choice(&["fsync", "os"])),
    field("pool_mode", Shape::Text(checks::pool_mode)),
    field("min_free_bytes", Shape::Integer(0, 1024 * GIB)),
    field("log_retention_days", Shape::Integer(1, 3650)),
    field("log_retention_bytes", Shape::Integer(MIB, 1024 * GIB)),
    field("payload_retention_minutes", Shape::Integer(0, 5_256_000)),
    field("payload_retention_bytes", Shape::Integer(0, 1024 * GIB)),
    field("rejected_retention_minutes", Shape::Integer(0, 5_256_000)),
    field("rejected_retention_bytes", Shape::Integer(0, 1024 * GIB)),
];

const LIMITS: &[Field] = &[
    field("max_body_bytes", Shape::Integer(1, 64 * MIB)),
    field("max_flattened_bytes", Shape::Integer(1, 256 * MIB)),
    field("max_item_bytes", Shape::Integer(1, 256 * MIB)),
    field("body_timeout_seconds", Shape::Integer(1, 300)),
    field("requests_per_second", Shape::Integer(1, RATE_MAX)),
    field("burst", Shape::Integer(1, RATE_MAX)),
    field("bytes_per_second", Shape::Integer(0, VOLUME_MAX)),
    field("bytes_per_day", Shape::Integer(0, VOLUME_MAX)),
    field("max_pending_bytes", Shape::Integer(1, 64 * GIB)),
    field("max_pending_bytes_per_key", Shape::Integer(1, 64 * GIB)),
    field("unauthorized_per_second", Shape::Integer(0, 1_000_000)),
];

const LIVE: &[Field] = &[
    field("origins", Shape::List(checks::origin, 0)),
    field("max_rate", Shape::Integer(1, 1000)),
    field("heartbeat_seconds", Shape::Integer(1, 300)),
    field("connections_max", Shape::Integer(1, 1_000_000)),
    field("connections_per_key_max", Shape::Integer(1, 1_000_000)),
    field("max_page_bytes", Shape::Integer(MIB, 64 * GIB)),
    field("max_page_bytes_per_key", Shape::Integer(MIB, 64 * GIB)),
];

const RUNTIME: &[Field] = &[field("worker_threads", Shape::Integer(0, 256))];

const SYSTEM: &[Field] = &[field("confine", Shape::Boolean)];

const LOG: &[Field] = &[
    field("level", Shape::Text(checks::log_filter)),
    field("format", Shape::Choice(&["text", "json"])),
    field("requests", Shape::Boolean),
];

const PLUGINS: &[Field] = &[
    field("memory_max_bytes", Shape::Integer(MIB, 4 * GIB)),
    field("write_timeout_ms", Shape::Integer(1, DAY_MS)),
    field("cpu_timeout_ms", Shape::Integer(1, DAY_MS)),
    field("file_max_bytes", Shape::Integer(1, GIB)),
    field(
        "compile_memory_max_bytes",
        Shape::Integer(256 * MIB, 64 * GIB),
    ),
    field("compile_cpu_seconds", Shape::Integer(1, 3600)),
    field("compile_timeout_seconds", Shape::Integer(1, 3600)),
];

const POOL: &[Field] = &[field("enabled", Shape::Boolean)];

pub(super) const STREAM: Element = Element {
    fields: &[
        required("name", Shape::Text(checks::stream_name)),
        field("description", Shape::Text(checks::description)),
        field("on_update", Shape::Choice(&["replace", "merge"])),
        field("stale_after_seconds", Shape::Integer(1, STALE_SECONDS_MAX)),
        field("version", Shape::Text(checks::item_key)),
        field("delete_when", Shape::Table(DELETE_WHEN)),
        field("expire_after_seconds", Shape::Integer(1, STALE_SECONDS_MAX)),
        field("items_max", Shape::Integer(1, ITEMS_MAX)),
        field("bytes_max", Shape::Integer(1, VOLUME_MAX)),
    ],
    one_of: &[],
};

pub(super) const CONNECTOR: Element = Element {
    fields: &[
        required("name", Shape::Text(checks::name)),
        field("description", Shape::Text(checks::description)),
        required("kind", Shape::Choice(&["ingest", "webhook"])),
        field("preset", Shape::Text(checks::preset)),
        field("item_key", Shape::Text(checks::item_key)),
        field("items", Shape::Text(checks::items_path)),
        field("version", Shape::Text(checks::item_key)),
        field("delete_when", Shape::Table(DELETE_WHEN)),
        field("expire_after_seconds", Shape::Integer(1, STALE_SECONDS_MAX)),
        field("may_delete", Shape::Boolean),
        field("requests_per_second", Shape::Integer(1, RATE_MAX)),
        field("burst", Shape::Integer(1, RATE_MAX)),
        field("bytes_per_second", Shape::Integer(0, VOLUME_MAX)),
        field("bytes_per_day", Shape::Integer(0, VOLUME_MAX)),
        field("keys", Shape::Tables(&KEY)),
    ],
    one_of: &[],
};

pub(super) const DELETE_WHEN: &[Field] = &[
    field("field", Shape::Text(checks::item_key)),
    field("is", Shape::List(checks::any, 1)),
];

const KEY: Element = Element {
    fields: &[
        required("name", Shape::Text(checks::name)),
        field("description", Shape::Text(checks::description)),
        required("stream", Shape::Text(checks::stream_name)),
        field("secret", Shape::Secret),
        field("sha256", Shape::Digest(checks::sha256_of_key)),
        field("verify", Shape::Table(VERIFY)),
        field("expires_at", Shape::Time),
        field("allow_in_url", Shape::Boolean),
        field("networks", Shape::List(checks::place, 0)),
        field("certificate", Shape::Text(checks::fingerprint)),
    ],
    one_of: &["secret", "sha256", "verify", "certificate"],
};

/// What each scheme takes of these its verifier says.
pub(super) const VERIFY: &[Field] = &[
    field("scheme", Shape::Text(checks::preset)),
    field("secret", Shape::Secret),
    field("verify_token", Shape::Secret),
    field("replay", Shape::Choice(&["delivery", "body"])),
    field("tolerance_seconds", Shape::Integer(0, u32::MAX as u64)),
    field("url", Shape::Text(checks::url)),
    field("answer", Shape::Integer(200, 204)),
    field("header", Shape::Text(checks::header_name)),
    field("prefix", Shape::Text(checks::any)),
    field("separator", Shape::Text(checks::any)),
    field("signed", Shape::Text(checks::any)),
    field(
        "hash",
        Shape::Choice(&["sha1", "sha256", "sha384", "sha512"]),
    ),
    field("encoding", Shape::Choice(&["hex", "base64"])),
    field("secret_encoding", Shape::Choice(&["text", "hex", "base64"])),
    field("timestamp", Shape::Table(TIMESTAMP)),
    field("id", Shape::Text(checks::any)),
    field("event", Shape::Text(checks::any)),
    field("topic", Shape::Text(checks::any)),
    field("webhook_id", Shape::Text(checks::any)),
    field("audience", Shape::Text(checks::any)),
    field("email", Shape::Text(checks::any)),
];

const TIMESTAMP: &[Field] = &[
    field("header", Shape::Text(checks::header_name)),
    field("part", Shape::Text(checks::any)),
    field("body", Shape::Text(checks::any)),
    field("unit", Shape::Choice(&["s", "ms", "rfc3339"])),
];

const READ_KEY: Element = Element {
    fields: &[
        required("name", Shape::Text(checks::name)),
        field("description", Shape::Text(checks::description)),
        required("streams", Shape::List(checks::stream_name, 1)),
        field("secret", Shape::Secret),
        field("sha256", Shape::Digest(checks::sha256_of_key)),
        field("expires_at", Shape::Time),
        field("allow_in_url", Shape::Boolean),
        field("networks", Shape::List(checks::place, 0)),
        field("requests_per_second", Shape::Integer(1, RATE_MAX)),
        field("origins", Shape::List(checks::origin, 0)),
        field("certificate", Shape::Text(checks::fingerprint)),
    ],
    one_of: &["secret", "sha256", "certificate"],
};

const SINK: Element = Element {
    fields: &[
        required("name", Shape::Text(checks::name)),
        required("plugin", Shape::Plugin),
        field("sha256", Shape::Digest(checks::sha256_of_file)),
        required("streams", Shape::List(checks::pattern, 1)),
        field("except", Shape::List(checks::pattern, 0)),
        field("writes", Shape::List(checks::pattern, 0)),
        field("start", Shape::Choice(&["now", "oldest"])),
        field("ordering", Shape::Choice(&["any", "strict"])),
        field("retry", Shape::Table(RETRY)),
        field("batch", Shape::Table(BATCH)),
        field("limits", Shape::Table(SINK_LIMITS)),
        field("http", Shape::Table(HTTP)),
        field("postgres", Shape::Table(POSTGRES)),
        field("secrets", Shape::Secrets(checks::name)),
        field("config", Shape::Free),
    ],
    one_of: &[],
};

const SINK_LIMITS: &[Field] = &[
    field("memory_max_bytes", Shape::Integer(MIB, 4 * GIB)),
    field("write_timeout_ms", Shape::Integer(1, DAY_MS)),
    field("cpu_timeout_ms", Shape::Integer(1, DAY_MS)),
];

const RETRY: &[Field] = &[
    field("first_ms", Shape::Integer(1, DAY_MS)),
    field("max_ms", Shape::Integer(1, DAY_MS)),
    field("attempts", Shape::Integer(1, 1_000_000)),
];

const BATCH: &[Field] = &[
    field("items_max", Shape::Integer(1, 1_000_000)),
    field("bytes_max", Shape::Integer(1, GIB)),
    field("linger_ms", Shape::Integer(0, DAY_MS)),
];

const TELEMETRY: &[Field] = &[field("otlp", Shape::Table(OTLP))];

const OTLP: &[Field] = &[
    field("endpoint", Shape::Text(checks::collector)),
    field("headers", Shape::Secrets(checks::header_name)),
    field("service_name", Shape::Text(checks::any)),
    field("sample_percent", Shape::Integer(0, 100)),
];

const POSTGRES: &[Field] = &[
    field("url", Shape::Secret),
    field("timeout_ms", Shape::Integer(1, DAY_MS)),
];

const HTTP: &[Field] = &[
    field("hosts", Shape::List(checks::host, 0)),
    field("networks", Shape::List(checks::network, 0)),
    field("headers", Shape::Secrets(checks::header_name)),
    field("timeout_ms", Shape::Integer(1, DAY_MS)),
    field("request_bytes_max", Shape::Integer(0, GIB)),
    field("response_bytes_max", Shape::Integer(0, GIB)),
    field("requests_max", Shape::Integer(1, 1_000_000)),
    field("concurrency_max", Shape::Integer(1, 1000)),
];
