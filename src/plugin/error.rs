//! Errors of plugins and of batches that were not accepted.
//!
//! **Invariant**: an error names the plugin, and the fix if there is one.

use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use super::compile::Refused;

/// Why a plugin cannot be used at all.
#[derive(Debug, Error)]
pub enum PluginError {
    /// Neither the name of a built-in plugin nor a readable file.
    #[error("cannot read the plugin {path}: {source}", path = path.display())]
    Read {
        /// The expected path of the file.
        path: PathBuf,
        source: std::io::Error,
    },
    /// The directory cannot keep compiled code.
    #[error("cannot keep compiled plugins in {path}: {source}", path = path.display())]
    Cache {
        path: PathBuf,
        source: std::io::Error,
    },
    /// The engine does not work on this machine.
    #[error("cannot set up the WebAssembly engine: {0:#}")]
    Engine(wasmtime::Error),
    /// Not a component, or one that cannot be compiled within the limits.
    #[error("{name} is not a usable WebAssembly component: {source}")]
    Compile {
        /// The plugin.
        name: String,
        source: Refused,
    },
    /// The compiler does not run, or its code cannot be kept or loaded.
    #[error("cannot compile {name}: {source}")]
    Compiler {
        name: String,
        source: std::io::Error,
    },
    /// The file does not have the digest in the sink's settings.
    #[error(
        "checksum mismatch for {name}: expected SHA-256 {wanted}, found {found}; install the expected file, or update `sha256` in the sink's section"
    )]
    Pin {
        name: String,
        /// The digest of the file.
        found: String,
        /// The digest in the settings.
        wanted: String,
    },
    /// It has an unknown import, or lacks the export `headgate:sink/sink`.
    #[error("{name} does not fit the world headgate:sink@1.2.0: {reason}")]
    Link {
        name: String,
        /// The import or the missing export.
        reason: String,
    },
    /// It imports HTTP, and the sink's settings grant no hosts.
    #[error(
        "{name} asks for outgoing HTTP; to grant it, list the hosts that it may call in the sink's section: http = {{ hosts = [\"api.example.com\"] }}"
    )]
    NoHttp {
        /// The plugin.
        name: String,
    },
    /// It imports the database, and the sink's settings name none.
    #[error(
        "{name} asks for a PostgreSQL database; name it in the sink's section: postgres = {{ url = {{ env = \"DATABASE_URL\" }} }} (to try it out: --postgres URL)"
    )]
    NoDatabase {
        /// The plugin.
        name: String,
    },
    /// It keeps state between calls, and the sink's settings allow concurrent calls.
    #[error(
        "{name} keeps state from one call to the next, so its calls follow one another; remove in_flight from the sink's section"
    )]
    KeepsState {
        /// The plugin.
        name: String,
    },
    /// It should receive removals of items that leave its selection, and has no export for them.
    #[error(
        "{name} does not hear of removals, so it cannot learn that an item ceased to match; remove leaves from the sink's section"
    )]
    NoRemovals {
        /// The plugin.
        name: String,
    },
    /// The URL of the database is invalid.
    #[error(
        "`postgres.url` of {name}: {reason}; expected postgresql://user:password@host:5432/database"
    )]
    Database {
        /// The plugin.
        name: String,
        reason: String,
    },
    /// It imports folders, and the sink's settings name none.
    #[error(
        "{name} asks for a folder; name it in the sink's section: folder = {{ path = \"out\" }} is the folder `files/out` of the data directory"
    )]
    NoFolder {
        /// The plugin.
        name: String,
    },
    /// It imports connections, and the sink's settings name none.
    #[error(
        "{name} asks for connections; to grant them, list the places in the sink's section: wire = {{ to = [\"tcp://10.0.0.5:5250\"] }}"
    )]
    NoWire {
        /// The plugin.
        name: String,
    },
    /// The sink cannot have this folder.
    #[error("`folder.path` of {name}: {reason}")]
    Folder {
        /// The plugin.
        name: String,
        reason: String,
    },
    /// The machine has no certificate authorities.
    #[error(
        "cannot read the certificate authorities of this machine, without which no host can be called over https: {0}"
    )]
    Authorities(std::io::Error),
    /// Its `config` does not match the plugin's schema, or the plugin rejects it.
    #[error("{name} cannot work with its `config`: {reason}")]
    Config {
        name: String,
        /// The cause, with its place in the settings.
        reason: String,
    },
    /// It failed before its first call.
    #[error("{name} does not start: {source:#}")]
    Start {
        name: String,
        source: wasmtime::Error,
    },
}

/// Why a batch was not accepted. Nothing of it was staged.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Failure {
    /// The sink requests a retry.
    #[error("{reason}")]
    Retry {
        /// The requested pause, if any.
        after: Option<Duration>,
        reason: String,
    },
    /// The sink rejects the items permanently.
    #[error("{reason}")]
    Reject {
        /// The reason, in the words of the sink.
        reason: String,
    },
    /// It did something that its settings neither grant nor exclude. The instance is unusable. The lane keeps its items
    /// instead of rejecting them, because the operator may add the setting.
    #[error("{reason}")]
    NotGranted {
        /// The act, and the missing setting.
        reason: String,
    },
    /// The guest trapped, or exceeded its memory or time. The instance is unusable.
    #[error("{reason}")]
    Trap {
        /// The cause, with the end of the guest's standard error.
        reason: String,
    },
}
