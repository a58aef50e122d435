//! The default of every setting, as the structs know it.
//!
//! Used where a configuration leaves out a part of a list element, and by tests.
//!
//! **Invariant**: equal to the embedded `default.toml` with the sink `pool`, which a test checks; an empty name only ever stands for a
//! name that has been reported as missing.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::{
    Admin, Batch, Durability, Http, Limits, Listen, Live, Log, LogFormat, Networks, Ordering, Otlp,
    Plugins, Pool, PoolMode, Postgres, ProxyHeader, Retry, Runtime, Secret, Server, Settings, Sink,
    SinkLimits, Start, Storage, System, Telemetry,
};

impl Default for Settings {
    fn default() -> Self {
        Settings {
            server: Server::default(),
            admin: Admin::default(),
            storage: Storage::default(),
            limits: Limits::default(),
            live: Live::default(),
            runtime: Runtime::default(),
            system: System::default(),
            log: Log::default(),
            telemetry: Telemetry::default(),
            plugins: Plugins::default(),
            pool: Pool::default(),
            streams: Vec::new(),
            connectors: Vec::new(),
            read_keys: Vec::new(),
            sinks: vec![Sink {
                name: "pool".to_owned(),
                streams: vec!["*".to_owned()],
                ..Sink::default()
            }],
        }
    }
}

impl Default for Server {
    fn default() -> Self {
        Server {
            listen: Listen::Tcp("127.0.0.1:8080".to_owned()),
            public_url: None,
            trusted_proxies: Networks::default(),
            proxy_header: ProxyHeader::default(),
            shutdown_seconds: 30,
            connections_max: 20_000,
            connections_per_address_max: 5_000,
            tls: None,
            write_stall_max: Duration::from_secs(60),
        }
    }
}

impl Default for Admin {
    fn default() -> Self {
        Admin {
            listen: Listen::Tcp("127.0.0.1:8081".to_owned()),
            hosts: Vec::new(),
            networks: Networks::default(),
            insecure: false,
            tls: None,
            backup_dirs: Vec::new(),
            token: None,
            token_file: PathBuf::from("data/admin.token"),
            tokens: Vec::new(),
        }
    }
}

impl Default for Otlp {
    fn default() -> Self {
        Otlp {
            endpoint: None,
            headers: BTreeMap::new(),
            service_name: "headgate".to_owned(),
            sample_percent: 100,
        }
    }
}

impl Default for Storage {
    fn default() -> Self {
        Storage {
            data_dir: PathBuf::from("data"),
            durability: Durability::Fsync,
            pool_mode: PoolMode::Owner,
            min_free_bytes: 64 * 1024 * 1024,
            log_retention_days: 30,
            log_retention_bytes: 2 * 1024 * 1024 * 1024,
            payload_retention_minutes: 60,
            payload_retention_bytes: 64 * 1024 * 1024,
            rejected_retention_minutes: 24 * 60,
            rejected_retention_bytes: 16 * 1024 * 1024,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            max_body_bytes: 1024 * 1024,
            max_flattened_bytes: 16 * 1024 * 1024,
            max_item_bytes: 2 * 1024 * 1024,
            body_timeout_seconds: 30,
            requests_per_second: 1000,
            burst: 2000,
            bytes_per_second: 0,
            bytes_per_day: 0,
            max_pending_bytes: 64 * 1024 * 1024,
            unauthorized_per_second: 20,
            max_pending_bytes_per_key: 16 * 1024 * 1024,
        }
    }
}

impl Default for Live {
    fn default() -> Self {
        Live {
            origins: Vec::new(),
            max_rate: 60,
            heartbeat_seconds: 15,
            connections_max: 10_000,
            connections_per_key_max: 1_000,
            max_page_bytes: 64 * 1024 * 1024,
            max_page_bytes_per_key: 16 * 1024 * 1024,
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Log {
            level: "info".to_owned(),
            format: LogFormat::Text,
            requests: false,
        }
    }
}

impl Default for Plugins {
    fn default() -> Self {
        Plugins {
            memory_max_bytes: 64 * 1024 * 1024,
            write_timeout: Duration::from_secs(10),
            cpu_timeout: Duration::from_secs(5),
            file_max_bytes: 64 * 1024 * 1024,
            compile_memory_max_bytes: 1024 * 1024 * 1024,
            compile_cpu_seconds: 60,
            compile_timeout_seconds: 180,
        }
    }
}

impl Default for System {
    fn default() -> Self {
        System { confine: true }
    }
}

impl Default for Pool {
    fn default() -> Self {
        Pool { enabled: true }
    }
}

impl Default for Sink {
    fn default() -> Self {
        Sink {
            name: String::new(),
            plugin: "pool".to_owned(),
            sha256: None,
            streams: Vec::new(),
            except: Vec::new(),
            writes: None,
            start: Start::default(),
            ordering: Ordering::default(),
            retry: Retry::default(),
            batch: Batch::default(),
            limits: SinkLimits::default(),
            http: None,
            postgres: None,
            secrets: BTreeMap::new(),
            config: serde_json::Value::Object(serde_json::Map::new()),
        }
    }
}

impl Default for Retry {
    fn default() -> Self {
        Retry {
            first: Duration::from_millis(500),
            max: Duration::from_secs(60),
            attempts: 12,
        }
    }
}

impl Default for Batch {
    fn default() -> Self {
        Batch {
            items_max: 10_000,
            bytes_max: 4 * 1024 * 1024,
            linger: Duration::from_millis(8),
        }
    }
}

impl Default for Postgres {
    fn default() -> Self {
        Postgres {
            url: Secret::new(String::new()),
            timeout: Duration::from_secs(10),
        }
    }
}

impl Default for Http {
    fn default() -> Self {
        Http {
            hosts: Vec::new(),
            networks: Vec::new(),
            headers: BTreeMap::new(),
            timeout: Duration::from_secs(10),
            request_bytes_max: 16 * 1024 * 1024,
            response_bytes_max: 1024 * 1024,
            requests_max: 1_000,
            concurrency_max: 4,
        }
    }
}
