//! What the configuration promises, in behaviour: problems with their exact text, layers, secrets, explanations.
//!
//! **Invariant**: no test reads the environment or the working directory of the process.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tempfile::TempDir;

use super::{DEFAULT_TOML, Loaded, Settings, Sources, load};

mod bodies;
mod cluster;
mod explain;
mod layers;
mod lists;
mod printed;
mod problems;
mod references;
mod schema;
mod secrets;
mod sections;
mod tokens;
mod variables;
mod verify;

/// A working directory with files, and an environment.
struct Place {
    folder: TempDir,
    config_file: Option<String>,
    env: Vec<(String, String)>,
}

impl Place {
    fn empty() -> Self {
        Place {
            folder: tempfile::tempdir().expect("a temporary folder"),
            config_file: None,
            env: Vec::new(),
        }
    }

    /// With one file, given by `--config site.toml`.
    fn with(site: &str) -> Self {
        Place::empty().file("site.toml", site).config("site.toml")
    }

    fn file(self, name: &str, text: &str) -> Self {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a file in a folder")).expect("a folder");
        std::fs::write(&path, text).expect("a file");
        // For this user only, as whatever holds secrets.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("a mode");
        self
    }

    fn config(mut self, name: &str) -> Self {
        self.config_file = Some(name.to_owned());
        self
    }

    fn var(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn sources(&self) -> Sources {
        Sources {
            working_dir: self.path().to_owned(),
            config_file: self.config_file.as_ref().map(Into::into),
            env: self.env.clone(),
            options: Vec::new(),
        }
    }

    fn load(&self) -> Loaded {
        match load(&self.sources()) {
            Ok(loaded) => loaded,
            Err(problems) => panic!("refused:\n{problems}"),
        }
    }

    fn settings(&self) -> Settings {
        self.load().settings
    }

    /// The problems, with the folder of this test written as `DIR`.
    fn problems(&self) -> String {
        match load(&self.sources()) {
            Ok(_) => String::new(),
            Err(problems) => self.neutral(&problems.to_string()),
        }
    }

    fn warnings(&self) -> Vec<String> {
        let warnings = self.load().warnings;
        warnings
            .iter()
            .map(|warning| self.neutral(&warning.to_string()))
            .collect()
    }

    fn neutral(&self, text: &str) -> String {
        text.replace(&self.path().display().to_string(), "DIR")
    }
}

/// `expected` holds a line for each problem of `site.toml`, without its name.
fn check(site: &str, expected: &[&str]) {
    let expected: Vec<String> = expected
        .iter()
        .map(|line| format!("site.toml:{line}"))
        .collect();
    assert_eq!(Place::with(site).problems(), expected.join("\n"));
}

/// A connector with one key, whose lines follow.
fn key(lines: &str) -> String {
    format!(
        "[[streams]]\nname = \"orders\"\n[[connectors]]\nname = \"shop\"\nkind = \"ingest\"\n[[connectors.keys]]\n{lines}"
    )
}

/// The place of the first line of the embedded `default.toml` that begins like this.
fn default_origin(beginning: &str) -> String {
    let line = DEFAULT_TOML
        .lines()
        .position(|line| line.starts_with(beginning));
    format!("built-in default.toml:{}", line.expect("such a line") + 1)
}

/// A file with one of everything.
const FULL: &str = r#"
[server]
listen = "0.0.0.0:9000"
[admin]
listen = "unix:admin.sock"
token = "admin-token-0123456789abcdef"
[[streams]]
name = "orders"
on_update = "merge"
[[connectors]]
name = "shop"
kind = "webhook"
item_key = "order.id"
requests_per_second = 50
burst = 100
[[connectors.keys]]
name = "main"
stream = "orders"
secret = "ik_live_0123456789abcdef"
expires_at = 2030-01-31T00:00:00Z
[[connectors.keys]]
name = "next"
stream = "orders"
sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
[[read_keys]]
name = "lobby"
streams = ["orders"]
secret = "rk_live_0123456789abcdef"
[[sinks]]
name = "pool"
plugin = "pool"
streams = ["orders", "other-*"]
retry = { first_ms = 100 }
batch = { items_max = 5 }
"#;
