//! Why a plugin cannot be used, and why a batch was not taken.
//!
//! **Invariant**: an error names the plugin, and says what to do where somebody can do something.

use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use super::compile::Refused;

/// Why a plugin cannot be used at all.
#[derive(Debug, Error)]
pub enum PluginError {
    /// Neither the name of a built-in plugin nor a file that can be read.
    #[error("cannot read the plugin {path}: {source}", path = path.display())]
    Read {
        /// Where it was looked for.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Compiled code cannot be kept there.
    #[error("cannot keep compiled plugins in {path}: {source}", path = path.display())]
    Cache {
        /// The folder.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The engine cannot be set up on this machine.
    #[error("cannot set up the WebAssembly engine: {0:#}")]
    Engine(wasmtime::Error),
    /// Not a component, or one that cannot be compiled within the limits.
    #[error("{name} is not a usable WebAssembly component: {source}")]
    Compile {
        /// The plugin.
        name: String,
        /// Why not.
        source: Refused,
    },
    /// The compiler does not run, or what it made cannot be kept or loaded.
    #[error("cannot compile {name}: {source}")]
    Compiler {
        /// The plugin.
        name: String,
        /// Why not.
        source: std::io::Error,
    },
    /// Not the file that the sink's section pins.
    #[error(
        "checksum mismatch for {name}: expected SHA-256 {wanted}, found {found}; install the expected file, or update `sha256` in the sink's section"
    )]
    Pin {
        /// The plugin.
        name: String,
        /// The digest of the file.
        found: String,
        /// The digest in the section.
        wanted: String,
    },
    /// It asks for something that is not given, or lacks the export `headgate:sink/sink`.
    #[error("{name} does not fit the world headgate:sink@1.2.0: {reason}")]
    Link {
        /// The plugin.
        name: String,
        /// What it asks for or lacks.
        reason: String,
    },
    /// It asks for HTTP, and the sink's settings grant none.
    #[error(
        "{name} asks for outgoing HTTP; to grant it, list the hosts that it may call in the sink's section: http = {{ hosts = [\"api.example.com\"] }}"
    )]
    NoHttp {
        /// The plugin.
        name: String,
    },
    /// It asks for a database, and the sink's settings name none.
    #[error(
        "{name} asks for a PostgreSQL database; name it in the sink's section: postgres = {{ url = {{ env = \"DATABASE_URL\" }} }} (to try it out: --postgres URL)"
    )]
    NoDatabase {
        /// The plugin.
        name: String,
    },
    /// It keeps state from call to call, and the sink's settings want several calls at once.
    #[error(
        "{name} keeps state from one call to the next, so its calls follow one another; remove in_flight from the sink's section"
    )]
    KeepsState {
        /// The plugin.
        name: String,
    },
    /// It is to receive removals of what leaves its selection, and does not hear of removals.
    #[error(
        "{name} does not hear of removals, so it cannot learn that an item ceased to match; remove leaves from the sink's section"
    )]
    NoRemovals {
        /// The plugin.
        name: String,
    },
    /// The database's address cannot be read.
    #[error(
        "`postgres.url` of {name}: {reason}; expected postgresql://user:password@host:5432/database"
    )]
    Database {
        /// The plugin.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// It asks for a folder, and the sink's settings name none.
    #[error(
        "{name} asks for a folder; name it in the sink's section: folder = {{ path = \"out\" }} is the folder `files/out` of the data directory"
    )]
    NoFolder {
        /// The plugin.
        name: String,
    },
    /// It asks for connections, and the sink's settings name no place.
    #[error(
        "{name} asks for connections; to grant them, list the places in the sink's section: wire = {{ to = [\"tcp://10.0.0.5:5250\"] }}"
    )]
    NoWire {
        /// The plugin.
        name: String,
    },
    /// The sink may not have this folder.
    #[error("`folder.path` of {name}: {reason}")]
    Folder {
        /// The plugin.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There is nothing to check certificates with.
    #[error(
        "cannot read the certificate authorities of this machine, without which no host can be called over https: {0}"
    )]
    Authorities(std::io::Error),
    /// Its `config` does not fit the schema that the plugin brings, or the plugin does not like it.
    #[error("{name} cannot work with its `config`: {reason}")]
    Config {
        /// The plugin.
        name: String,
        /// What is wrong, with the place.
        reason: String,
    },
    /// It failed before its first call.
    #[error("{name} does not start: {source:#}")]
    Start {
        /// The plugin.
        name: String,
        /// wasmtime's words.
        source: wasmtime::Error,
    },
}

/// Why a batch was not taken. Nothing of it was staged.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Failure {
    /// The sink asks for another attempt.
    #[error("{reason}")]
    Retry {
        /// Its wish, if it has one.
        after: Option<Duration>,
        /// Its words.
        reason: String,
    },
    /// The sink will never take it.
    #[error("{reason}")]
    Reject {
        /// Its words.
        reason: String,
    },
    /// It did what its section does not grant, because the section does not speak of it: nobody said no. The instance is
    /// dead.
    #[error("{reason}")]
    NotGranted {
        /// What it did, and what to add.
        reason: String,
    },
    /// The guest trapped or ran out of memory or time. The instance is dead.
    #[error("{reason}")]
    Trap {
        /// What happened, with the end of what the guest wrote to its standard error.
        reason: String,
    },
}
