//! Where one daemon lives: its configuration file and its data, in a temporary folder.
//!
//! **Invariant**: nothing of the environment of the tests reaches the daemon's configuration.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{ADMIN_TOKEN, Ended, Process, key_of};

/// Configuration and data of one daemon.
#[derive(Debug)]
pub(crate) struct Folder {
    root: tempfile::TempDir,
    data_dir: PathBuf,
    settings: String,
    /// Settings of `[storage]`.
    storage: String,
    /// Settings of `[server]`.
    server: String,
    /// Settings of `[admin]`.
    admin: String,
    /// The daemon is told its admin token; otherwise it makes one.
    token: bool,
}

impl Folder {
    /// A new folder with these streams, each with a key of its own under the one connector `tests`, and the sink `pool`
    /// until another one is named.
    pub(crate) fn new(streams: &[&str]) -> Self {
        let root = tempfile::tempdir().expect("a temporary folder");
        let data_dir = root.path().join("data");
        let mut settings = String::from("[[connectors]]\nname = \"tests\"\nkind = \"ingest\"\n");
        settings.push_str("requests_per_second = 1000000\nburst = 1000000\n");
        for stream in streams {
            let secret = key_of(stream);
            writeln!(
                settings,
                "[[connectors.keys]]\nname = \"{stream}\"\nstream = \"{stream}\"\nsecret = \"{secret}\""
            )
            .expect("text grows");
        }
        for stream in streams {
            writeln!(settings, "[[streams]]\nname = \"{stream}\"").expect("text grows");
        }
        Self {
            root,
            data_dir,
            settings,
            storage: "min_free_bytes = 0\npayload_retention_minutes = 0".to_owned(),
            server: String::new(),
            admin: String::new(),
            token: true,
        }
    }

    /// Has a stream keep what an update does not name.
    pub(crate) fn with_merging(mut self, stream: &str) -> Self {
        let declared = format!("[[streams]]\nname = \"{stream}\"\n");
        assert!(self.settings.contains(&declared), "no stream {stream}");
        let merging = format!("{declared}on_update = \"merge\"\n");
        self.settings = self.settings.replace(&declared, &merging);
        self
    }

    /// Adds settings: whole sections.
    pub(crate) fn with(mut self, section: &str) -> Self {
        self.settings.push_str(section);
        self.settings.push('\n');
        self
    }

    /// Adds a sink; `more` is further settings of it.
    pub(crate) fn with_sink(self, name: &str, plugin: &str, stream: &str, more: &str) -> Self {
        self.with(&format!(
            "[[sinks]]\nname = \"{name}\"\nplugin = \"{plugin}\"\nstreams = [\"{stream}\"]\n{more}"
        ))
    }

    /// Puts the data somewhere else.
    pub(crate) fn with_data_dir(mut self, data_dir: &Path) -> Self {
        self.data_dir = data_dir.to_owned();
        self
    }

    /// Settings of `[storage]`, in place of the one that lets a daemon run on a full disk.
    pub(crate) fn with_storage(mut self, settings: &str) -> Self {
        settings.clone_into(&mut self.storage);
        self
    }

    /// Settings of `[server]`.
    pub(crate) fn with_server(mut self, settings: &str) -> Self {
        settings.clone_into(&mut self.server);
        self
    }

    /// Settings of `[admin]`.
    pub(crate) fn with_admin(mut self, settings: &str) -> Self {
        settings.clone_into(&mut self.admin);
        self
    }

    /// Has the daemon make its admin token: [`Process`] cannot call the admin API then.
    pub(crate) fn without_token(mut self) -> Self {
        self.token = false;
        self
    }

    /// The data folder.
    pub(crate) fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// A file beside the data folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Starts the daemon and waits until it listens.
    pub(crate) fn start(&self) -> Process {
        match self.try_start() {
            Ok(process) => process,
            Err(ended) => panic!("the daemon did not start: {ended:?}"),
        }
    }

    /// Starts the daemon; [`Ended`] if it ends instead of listening.
    pub(crate) fn try_start(&self) -> Result<Process, Ended> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headgate"));
        command.args(["serve", "--config", "headgate.toml"]);
        self.spawn(command)
    }

    /// Changes the settings, and the file that a running daemon has read.
    pub(crate) fn change(&mut self, from: &str, to: &str) {
        assert!(self.settings.contains(from), "nothing to change: {from}");
        self.settings = self.settings.replace(from, to);
        self.write();
    }

    /// Writes the configuration file, at once as a whole.
    fn write(&self) {
        let token = match self.token {
            true => format!("token = \"{ADMIN_TOKEN}\""),
            false => String::new(),
        };
        let settings = format!(
            "[server]\nlisten = \"127.0.0.1:0\"\n{}\n[admin]\nlisten = \"127.0.0.1:0\"\n{token}\n{}\n\
             [log]\nlevel = \"info\"\n[storage]\ndata_dir = {:?}\n{}\n{}",
            self.server, self.admin, self.data_dir, self.storage, self.settings
        );
        let settings = with_no_other_sinks(settings);
        let file = self.path("headgate.toml");
        std::fs::write(file.with_extension("new"), settings).expect("a configuration file");
        std::fs::rename(file.with_extension("new"), file).expect("a configuration file");
    }

    /// Runs `command`, which becomes the program, and waits until it listens. Relative paths start in the folder.
    pub(crate) fn spawn(&self, mut command: Command) -> Result<Process, Ended> {
        self.write();
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("HEADGATE_") {
                command.env_remove(name);
            }
        }
        let child = command
            .current_dir(self.root.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        Process::watch(child)
    }
}

/// A test that names sinks has these and no other: `pool` only if it is among them, or if `[pool]` is.
pub(crate) fn with_no_other_sinks(settings: String) -> String {
    let named = |text: &str| settings.contains(text);
    if named("[[sinks]]") && !named("name = \"pool\"") && !named("[pool]") {
        return settings + "\n[pool]\nenabled = false\n";
    }
    settings
}
