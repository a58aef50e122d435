//! The configuration of a test's daemon, put together from what the test cares about.
//!
//! **Invariant**: a test names everything that it depends on; all else is the profile `test`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use headgate::catalog::key::{KeyKind, generate};
use headgate::config::{Loaded, Sources, load};
use headgate::daemon::DaemonError;

use super::TestApp;
use crate::process::with_no_other_sinks;

/// What is configured.
#[derive(Debug, Clone, Default)]
pub(crate) struct Setup {
    streams: String,
    connectors: Vec<Connector>,
    /// Name and secret of each read key.
    readers: Vec<(String, String)>,
    /// Settings as `HEADGATE_…` variables.
    variables: Vec<(String, String)>,
    toml: String,
    /// Absent: `data` in the test's folder.
    data_dir: Option<PathBuf>,
    /// Absent: the daemon's own.
    write_stall_max: Option<Duration>,
}

#[derive(Debug, Clone)]
struct Connector {
    name: String,
    settings: String,
    /// Secret and TOML of each key.
    keys: Vec<(String, String)>,
}

impl Setup {
    /// No stream, no connector, the sink `pool`.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// The stream `orders` and the connector `shop` with a key for it.
    pub(crate) fn shop() -> Self {
        Self::new().stream("orders").key("shop", "orders")
    }

    /// Declares a stream.
    pub(crate) fn stream(mut self, name: &str) -> Self {
        let _ = write!(self.streams, "[[streams]]\nname = {}\n", quoted(name));
        self
    }

    /// Declares a stream with further settings as TOML lines.
    pub(crate) fn stream_with(self, name: &str, settings: &str) -> Self {
        let mut setup = self.stream(name);
        let _ = writeln!(setup.streams, "{settings}");
        setup
    }

    /// Declares a stream whose items keep what an update does not name.
    pub(crate) fn merging_stream(self, name: &str) -> Self {
        let mut setup = self.stream(name);
        setup.streams.push_str("on_update = \"merge\"\n");
        setup
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
        let keys = &mut self.connector_mut(connector).keys;
        let name = format!("key-{}", keys.len());
        let comma = if settings.is_empty() { "" } else { ", " };
        let toml = format!(
            "{{ name = \"{name}\", stream = {}, secret = {}{comma}{settings} }}",
            quoted(stream),
            quoted(secret)
        );
        keys.push((secret.to_owned(), toml));
        self
    }

    /// Declares a new read key for streams, with further settings as TOML lines.
    pub(crate) fn read_key(mut self, name: &str, streams: &[&str], settings: &str) -> Self {
        let secret = generate(KeyKind::Read).expect("the system has randomness");
        let secret = secret.expose().to_owned();
        let streams: Vec<String> = streams.iter().map(|stream| quoted(stream)).collect();
        let _ = writeln!(
            self.toml,
            "[[read_keys]]\nname = {}\nsecret = {}\nstreams = [{}]\n{settings}",
            quoted(name),
            quoted(&secret),
            streams.join(", ")
        );
        self.readers.push((name.to_owned(), secret));
        self
    }

    /// The stream `orders` with the ingest key `shop` and the read key `screen`; every number of requests a second.
    pub(crate) fn screen() -> Self {
        Self::shop().read_key("screen", &["orders"], "").unlimited()
    }

    /// Nobody is over a rate.
    pub(crate) fn unlimited(self) -> Self {
        self.set("limits.requests_per_second", 1_000_000)
            .set("limits.burst", 1_000_000)
    }

    /// Sets one setting, such as `limits.burst`.
    pub(crate) fn set(mut self, setting: &str, value: impl ToString) -> Self {
        let variable = format!("HEADGATE_{}", setting.replace('.', "__").to_uppercase());
        self.variables.push((variable, value.to_string()));
        self
    }

    /// Adds TOML, such as `[[sinks]]`.
    pub(crate) fn toml(mut self, text: &str) -> Self {
        let _ = writeln!(self.toml, "{text}");
        self
    }

    /// Uses a data folder that is not the test's own.
    pub(crate) fn data_dir(mut self, data_dir: PathBuf) -> Self {
        self.data_dir = Some(data_dir);
        self
    }

    /// How long a client may refuse to read its answer.
    pub(crate) fn write_stall_max(mut self, time_max: Duration) -> Self {
        self.write_stall_max = Some(time_max);
        self
    }

    /// Starts the daemon in a new folder.
    pub(crate) async fn start(self) -> TestApp {
        let started = self.try_start().await;
        started.unwrap_or_else(|error| panic!("the daemon starts: {error}"))
    }

    /// Starts the daemon in a new folder, or says why it does not start.
    pub(crate) async fn try_start(self) -> Result<TestApp, DaemonError> {
        let folder = tempfile::tempdir().expect("there is room for a temporary folder");
        TestApp::start(self, folder).await
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

    /// The configuration file; the data is in `data` beside it.
    pub(crate) fn text(&self) -> String {
        let mut text = self.streams.clone();
        for connector in &self.connectors {
            let keys: Vec<&str> = connector.keys.iter().map(|(_, key)| key.as_str()).collect();
            let kind = if connector.settings.contains("kind =") {
                ""
            } else {
                "kind = \"ingest\"\n"
            };
            let _ = write!(
                text,
                "[[connectors]]\nname = {}\n{kind}{}keys = [{}]\n",
                quoted(&connector.name),
                connector.settings,
                keys.join(", ")
            );
        }
        with_no_other_sinks(text + &self.toml)
    }

    /// Writes the configuration file into the folder and loads it.
    pub(crate) fn load(&self, folder: &Path) -> Loaded {
        let config_file = folder.join("headgate.toml");
        std::fs::write(&config_file, self.text()).expect("the configuration file can be written");
        let data_dir = self.data_dir.clone();
        let data_dir = data_dir.unwrap_or_else(|| folder.join("data"));
        let mut env = self.variables.clone();
        for (name, value) in [
            ("HEADGATE_PROFILE", "test".to_owned()),
            ("HEADGATE_STORAGE__DATA_DIR", data_dir.display().to_string()),
        ] {
            env.push((name.to_owned(), value));
        }
        let sources = Sources {
            working_dir: folder.to_owned(),
            config_file: Some(config_file),
            env,
        };
        let loaded = load(&sources);
        let mut loaded =
            loaded.unwrap_or_else(|problems| panic!("the configuration is good:\n{problems}"));
        if let Some(time_max) = self.write_stall_max {
            loaded.settings.server.write_stall_max = time_max;
        }
        loaded
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

/// A TOML string: what JSON writes is one.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("a text can be written as JSON")
}
