//! The directory of the bench's nodes: a configuration, a log and a data directory for each.
//!
//! **Invariant**: only this user can read it, and it is deleted when it is dropped at the latest. The URLs of the database are
//! not in it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::schema::BenchSchema;
use crate::cli::error::CliError;
use ::client::bench::nodes::{BenchKeys, STREAM};
use uuid::Uuid;

/// The configuration of a node, in its directory.
pub(super) const CONFIG: &str = "headgate.toml";
/// Where a node has the URLs of its database.
pub(super) const DATABASE: &str = "HEADGATE_DATABASE";

/// What the nodes have in common. A rate above what any machine does limits nothing.
const COMMON: &str = r#"
[log]
level = "warn"

[[streams]]
name = "@stream@"

[[connectors]]
name = "@stream@"
kind = "ingest"
item_key = "id"
requests_per_second = 1_000_000_000
burst = 1_000_000_000
keys = [{ name = "main", stream = "@stream@", secret = "@ingest@" }]

[[read_keys]]
name = "@stream@"
streams = ["@stream@"]
secret = "@read@"

[server]
listen = "127.0.0.1:0"

[admin]
listen = "127.0.0.1:0"
token = "@admin@"

[storage]
data_dir = "data"
"#;

pub(super) struct BenchFolder {
    path: PathBuf,
    is_deleted: bool,
}

impl BenchFolder {
    /// Makes it in `parent`, or in the directory for temporary files.
    ///
    /// # Errors
    /// It cannot be made: exit code 2.
    pub(super) fn make(parent: Option<&Path>) -> Result<Self, CliError> {
        let failed = |parent: &Path, error: io::Error| {
            let message = format!(
                "cannot make a directory in {}: {error}; name another one with --disk-dir",
                parent.display()
            );
            CliError::wrong_use(message)
        };
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_owned);
        let parent = fs::canonicalize(&parent).map_err(|error| failed(&parent, error))?;
        let path = parent.join(format!("headgate-bench-{}", random_end()));
        fs::create_dir(&path).map_err(|error| failed(&parent, error))?;
        Ok(Self {
            path,
            is_deleted: false,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the directory of a node, with its configuration.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn of_node(
        &self,
        name: &str,
        keys: &BenchKeys,
        schema: Option<&BenchSchema>,
    ) -> Result<PathBuf, CliError> {
        let folder = self.path.join(name);
        let written = fs::create_dir(&folder)
            .and_then(|()| fs::write(folder.join(CONFIG), config(name, keys, schema)));
        written.map_err(|error| {
            CliError::failed(format!(
                "cannot write {}: {error}; name another directory with --disk-dir",
                folder.display()
            ))
        })?;
        Ok(folder)
    }

    /// Deletes it.
    ///
    /// # Errors
    /// It says what is left.
    pub(super) fn delete(mut self) -> Result<(), CliError> {
        self.is_deleted = true;
        fs::remove_dir_all(&self.path).map_err(|error| {
            CliError::failed(format!(
                "the directory {} of the benchmark was not deleted: {error}; delete it",
                self.path.display()
            ))
        })
    }
}

impl Drop for BenchFolder {
    fn drop(&mut self) {
        if !self.is_deleted {
            // An error cannot be reported here.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Twelve hexadecimal digits that nobody else has.
pub(super) fn random_end() -> String {
    let id = Uuid::now_v7().simple().to_string();
    let (_, end) = id.split_at(20);
    end.to_owned()
}

fn config(name: &str, keys: &BenchKeys, schema: Option<&BenchSchema>) -> String {
    let common = COMMON
        .replace("@stream@", STREAM)
        .replace("@ingest@", &keys.ingest)
        .replace("@read@", &keys.read)
        .replace("@admin@", &keys.admin);
    let Some(schema) = schema else {
        return common;
    };
    let (durability, _) = schema.durability();
    format!(
        "{common}engine = \"postgres\"\n\n\
         [cluster]\n\
         urls = {{ env = \"{DATABASE}\" }}\n\
         name = \"{name}\"\n\
         schema = \"{}\"\n\
         durability = \"{durability}\"\n\
         hints = \"{}\"\n",
        schema.name(),
        schema.hints()
    )
}
