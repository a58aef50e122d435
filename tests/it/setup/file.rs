//! The configuration file that a [`Setup`] becomes.
//!
//! **Invariant**: the file is there as a whole or as it was before.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::Value;
use settings::{Loaded, Sources, load};

use super::{Connector, Setup};

impl Setup {
    /// Writes the configuration file and loads it with the profile `test`.
    pub(crate) fn load(&self) -> Loaded {
        let loaded = load(&Sources {
            working_dir: self.folder.path().to_owned(),
            config_file: Some(self.write()),
            env: vec![("HEADGATE_PROFILE".to_owned(), "test".to_owned())],
            options: Vec::new(),
        });
        let mut loaded =
            loaded.unwrap_or_else(|problems| panic!("the configuration is good:\n{problems}"));
        if let Some(time_max) = self.write_stall_max {
            loaded.settings.server.write_stall_max = time_max;
        }
        loaded
    }

    /// Writes the configuration file, at once as a whole.
    pub(crate) fn write(&self) -> PathBuf {
        let file = self.path(&format!("headgate{}.toml", self.node));
        let new = file.with_extension("new");
        std::fs::write(&new, self.text()).expect("a configuration file");
        // For this user only, as whatever holds secrets.
        let private = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&new, private).expect("a mode");
        std::fs::rename(&new, &file).expect("a configuration file");
        file
    }

    /// The configuration file.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let data_dir = self.data_dir.to_str().expect("a path that is text");
        let with_data = self.clone().set("storage.data_dir", data_dir);
        for (section, settings) in with_data.settings {
            let _ = writeln!(text, "[{section}]");
            for (name, value) in settings {
                let _ = writeln!(text, "{name} = {value}");
            }
        }
        for Connector {
            name,
            settings,
            keys,
        } in &self.connectors
        {
            let kind = match settings.contains("kind =") {
                true => "",
                false => "kind = \"ingest\"\n",
            };
            let keys: Vec<&str> = keys.iter().map(|(_, key)| key.as_str()).collect();
            let (name, keys) = (quoted(name), keys.join(", "));
            let _ = write!(
                text,
                "[[connectors]]\nname = {name}\n{kind}{settings}keys = [{keys}]\n"
            );
        }
        for (name, settings) in &self.streams {
            let _ = writeln!(text, "[[streams]]\nname = {}\n{settings}", quoted(name));
        }
        text.push_str(&self.toml);
        for (from, to) in &self.changes {
            text = text.replace(from, to);
        }
        // A test that names sinks has these and no other: `pool` only if it is among them, or if `[pool]` is.
        let named = |what: &str| text.contains(what);
        if named("[[sinks]]") && !named("name = \"pool\"") && !named("[pool]") {
            text.push_str("\n[pool]\nenabled = false\n");
        }
        text
    }
}

/// A TOML string: what JSON writes is one.
pub(super) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
