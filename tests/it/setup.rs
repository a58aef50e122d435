//! The configuration of a test's daemon, put together from what the test cares about, and the temporary folder where
//! the daemon lives.
//!
//! Whether it runs in this process ([`Setup::start`]) or as a process of its own ([`Setup::spawn`]) is decided where
//! it is started. In this process it runs with the profile `test`, as a process of its own with the default one.
//!
//! **Invariant**: a test names everything that it depends on, and nothing of the environment of the tests reaches the
//! daemon's configuration.

mod compiled;
mod engine;
mod file;
mod start;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use catalog::key::{KeyKind, generate};
use serde_json::Value;
use tempfile::TempDir;

pub(crate) use engine::{file_only, is_in_a_cluster, one_node_only};
use file::quoted;

/// The admin token of [`Setup::with_streams`].
pub(crate) const ADMIN_TOKEN: &str = "admin-token-of-the-tests";

/// The secret of the one key of a stream of [`Setup::with_streams`].
pub(crate) fn key_of(stream: &str) -> String {
    format!("ik_live_for_the_stream_{stream:_<12}")
}

/// What is configured, and where. A clone shares the folder.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    folder: Arc<TempDir>,
    data_dir: PathBuf,
    /// Single settings by section and name.
    settings: BTreeMap<String, BTreeMap<String, Value>>,
    /// Name and TOML of each stream.
    streams: Vec<(String, String)>,
    connectors: Vec<Connector>,
    /// Name and secret of each read key.
    readers: Vec<(String, String)>,
    toml: String,
    /// What is replaced in the finished file by what.
    changes: Vec<(String, String)>,
    /// Absent: the daemon's own.
    write_stall_max: Option<Duration>,
    /// Its first start compiles all plugins.
    is_compiling: bool,
    /// What the name of the configuration file ends with: that of a node beside the first one.
    node: &'static str,
}

#[derive(Debug, Clone)]
struct Connector {
    name: String,
    settings: String,
    /// Secret and TOML of each key.
    keys: Vec<(String, String)>,
}

impl Setup {
    /// No stream, no connector, the sink `pool` until another one is named, ports that the system chooses.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("there is room for a temporary folder");
        let data_dir = folder.path().join("data");
        let backups = folder
            .path()
            .to_str()
            .expect("a path that is text")
            .to_owned();
        let setup = Self {
            folder: Arc::new(folder),
            data_dir,
            settings: BTreeMap::new(),
            streams: Vec::new(),
            connectors: Vec::new(),
            readers: Vec::new(),
            toml: String::new(),
            changes: Vec::new(),
            write_stall_max: None,
            is_compiling: false,
            node: "",
        };
        setup
            .set("server.listen", "127.0.0.1:0")
            .set("admin.listen", "127.0.0.1:0")
            // What the daemon says by itself would come between what tests count.
            .set("problems.stream", "")
            .set("admin.backup_dirs", vec![backups])
            .on_engine()
    }

    /// The stream `orders` and the connector `shop` with a key for it.
    pub(crate) fn shop() -> Self {
        Self::new().stream("orders").key("shop", "orders")
    }

    /// The stream `orders` with the ingest key `shop` and the read key `screen`; every number of requests a second.
    pub(crate) fn screen() -> Self {
        Self::shop().read_key("screen", &["orders"], "").unlimited()
    }

    /// These streams, each with the key [`key_of`] it, of its name, of the one connector `tests`, which may send
    /// without end. The token is [`ADMIN_TOKEN`]; the daemon runs on a full disk, and keeps nothing that every sink has.
    pub(crate) fn with_streams(streams: &[&str]) -> Self {
        let rates = "requests_per_second = 1000000\nburst = 1000000";
        let setup = Self::new()
            .set("admin.token", ADMIN_TOKEN)
            .set("log.level", "info")
            .set("storage.min_free_bytes", 0)
            .set("storage.payload_retention_minutes", 0)
            .connector("tests", rates);
        streams.iter().fold(setup, |setup, stream| {
            let setup = setup.stream(stream);
            setup.named_key("tests", stream, stream, &key_of(stream), "")
        })
    }

    /// Declares a stream.
    pub(crate) fn stream(self, name: &str) -> Self {
        self.stream_with(name, "")
    }

    /// Declares a stream with further settings as TOML lines.
    pub(crate) fn stream_with(mut self, name: &str, settings: &str) -> Self {
        self.streams.push((name.to_owned(), settings.to_owned()));
        self
    }

    /// The items of a declared stream keep what an update does not name.
    pub(crate) fn merging(self, stream: &str) -> Self {
        self.of_stream(stream, "on_update = \"merge\"")
    }

    /// Adds a setting to a declared stream, as a TOML line.
    pub(crate) fn of_stream(mut self, stream: &str, setting: &str) -> Self {
        let declared = self.streams.iter_mut().find(|(name, _)| name == stream);
        let (_, settings) = declared.unwrap_or_else(|| panic!("no stream {stream}"));
        settings.push('\n');
        settings.push_str(setting);
        self
    }

    /// Adds settings to a connector, as TOML lines.
    pub(crate) fn connector(mut self, name: &str, settings: &str) -> Self {
        let connector = self.connector_mut(name);
        let _ = writeln!(connector.settings, "{settings}");
        self
    }

    /// Gives a connector a new live key for a stream; makes the connector if there is none.
    pub(crate) fn key(self, connector: &str, stream: &str) -> Self {
        let secret = generate(KeyKind::Ingest).expect("the system has randomness");
        self.given_key(connector, stream, secret.expose(), "")
    }

    /// The same with a test key.
    pub(crate) fn test_key(self, connector: &str, stream: &str) -> Self {
        let secret = generate(KeyKind::IngestTest).expect("the system has randomness");
        self.given_key(connector, stream, secret.expose(), "")
    }

    /// The same with a key of the test's own, and further settings of the key (`expires_at = …`).
    pub(crate) fn given_key(
        mut self,
        connector: &str,
        stream: &str,
        secret: &str,
        settings: &str,
    ) -> Self {
        let name = format!("key-{}", self.connector_mut(connector).keys.len());
        self.named_key(connector, &name, stream, secret, settings)
    }

    fn named_key(
        mut self,
        connector: &str,
        name: &str,
        stream: &str,
        secret: &str,
        settings: &str,
    ) -> Self {
        let comma = if settings.is_empty() { "" } else { ", " };
        let toml = format!(
            "{{ name = {}, stream = {}, secret = {}{comma}{settings} }}",
            quoted(name),
            quoted(stream),
            quoted(secret)
        );
        let keys = &mut self.connector_mut(connector).keys;
        keys.push((secret.to_owned(), toml));
        self
    }

    /// Gives a webhook connector a key that verifies signatures, with `verify = …` and further settings of the key.
    pub(crate) fn signing_key(
        mut self,
        connector: &str,
        name: &str,
        stream: &str,
        settings: &str,
    ) -> Self {
        let connector = self.connector_mut(connector);
        if !connector.settings.contains("kind =") {
            connector.settings.push_str("kind = \"webhook\"\n");
        }
        let toml = format!(
            "{{ name = {}, stream = {}, {settings} }}",
            quoted(name),
            quoted(stream)
        );
        connector.keys.push((String::new(), toml));
        self
    }

    /// Declares a new read key for streams, with further settings as TOML lines.
    pub(crate) fn read_key(self, name: &str, streams: &[&str], settings: &str) -> Self {
        let secret = generate(KeyKind::Read).expect("the system has randomness");
        self.given_read_key(name, streams, secret.expose(), settings)
    }

    /// The same with a read key of the test's own.
    pub(crate) fn given_read_key(
        mut self,
        name: &str,
        streams: &[&str],
        secret: &str,
        settings: &str,
    ) -> Self {
        self.readers.push((name.to_owned(), secret.to_owned()));
        self.toml(&format!(
            "[[read_keys]]\nname = {}\nsecret = {}\nstreams = {}\n{settings}",
            quoted(name),
            quoted(secret),
            Value::from(streams)
        ))
    }

    /// Declares a sink of one stream, or of all (`*`), with further settings as TOML lines. A plugin from a file may write
    /// every stream, unless these say otherwise.
    pub(crate) fn sink(self, name: &str, plugin: &str, stream: &str, settings: &str) -> Self {
        let writes = match plugin.ends_with(".wasm") && !settings.contains("writes = ") {
            true => "writes = [\"*\"]\n",
            false => "",
        };
        self.toml(&format!(
            "[[sinks]]\nname = {}\nplugin = {}\nstreams = [{}]\n{writes}{settings}",
            quoted(name),
            quoted(plugin),
            quoted(stream)
        ))
    }

    /// Nobody is over a rate.
    pub(crate) fn unlimited(self) -> Self {
        self.set("limits.requests_per_second", 1_000_000)
            .set("limits.burst", 1_000_000)
    }

    /// Sets one setting, such as `limits.burst`.
    pub(crate) fn set(mut self, setting: &str, value: impl Into<Value>) -> Self {
        let (section, name) = setting.split_once('.').expect("a section and a name");
        let section = self.settings.entry(section.to_owned()).or_default();
        section.insert(name.to_owned(), value.into());
        self
    }

    /// Has the daemon make its admin token.
    pub(crate) fn without_token(mut self) -> Self {
        let admin = self.settings.get_mut("admin").expect("it listens");
        admin.remove("token").expect("a token");
        self
    }

    /// Adds TOML: whole sections.
    pub(crate) fn toml(mut self, text: &str) -> Self {
        let _ = writeln!(self.toml, "{text}");
        self
    }

    /// Puts the data somewhere else.
    pub(crate) fn data_in(mut self, data_dir: impl Into<PathBuf>) -> Self {
        self.data_dir = data_dir.into();
        self
    }

    /// How long a client may refuse to read its answer; in this process only.
    pub(crate) fn write_stall_max(mut self, time_max: Duration) -> Self {
        self.write_stall_max = Some(time_max);
        self
    }

    /// Changes the configuration, and the file that a running daemon has read.
    pub(crate) fn change(&mut self, from: &str, to: &str) {
        assert!(self.text().contains(from), "nothing to change: {from}");
        self.changes.push((from.to_owned(), to.to_owned()));
        self.write();
    }

    /// The data folder.
    pub(crate) fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// A file beside the data folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The admin token: the one that is configured, or the one that the daemon made at its first start.
    pub(crate) fn admin_token(&self) -> String {
        let configured = self.settings["admin"].get("token").and_then(Value::as_str);
        configured.map_or_else(
            || {
                let token = std::fs::read_to_string(self.data_dir.join("admin.token"));
                let token = token.expect("the daemon made its admin token");
                token.trim().to_owned()
            },
            str::to_owned,
        )
    }

    /// The secret of a connector's key, counted from 0.
    pub(crate) fn secret(&self, connector: &str, key: usize) -> &str {
        let found = self.connectors.iter().find(|one| one.name == connector);
        let found = found.and_then(|one| one.keys.get(key));
        let (secret, _) = found.unwrap_or_else(|| panic!("{connector} has no key {key}"));
        secret
    }

    /// The secret of a read key.
    pub(crate) fn read_secret(&self, name: &str) -> &str {
        let found = self.readers.iter().find(|(reader, _)| reader == name);
        let (_, secret) = found.unwrap_or_else(|| panic!("no read key {name}"));
        secret
    }

    fn connector_mut(&mut self, name: &str) -> &mut Connector {
        let index = match self.connectors.iter().position(|one| one.name == name) {
            Some(index) => index,
            None => {
                self.connectors.push(Connector {
                    name: name.to_owned(),
                    settings: String::new(),
                    keys: Vec::new(),
                });
                self.connectors.len() - 1
            }
        };
        &mut self.connectors[index]
    }
}
