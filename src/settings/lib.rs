//! The configuration: built-in defaults, files, environment, merged, checked and explained.
//!
//! `serve`, `check` and `config show` call [`load`] once at start; the daemon hands the parts of [`Settings`] on.
//! Sources in order, the later over the earlier:
//!
//! 1. the embedded `config/default.toml`, which is the defaults,
//! 2. the embedded `config/<profile>.toml` (`development`, `production`, `test`),
//! 3. `config/default.toml` and 4. `config/<profile>.toml` of the working directory, where they exist,
//! 5. the file given with `--config`,
//! 6. environment variables `HEADGATE_SECTION__KEY`.
//!
//! A file of the working directory that equals the embedded one of its name takes its place and changes nothing. Lists
//! of named things (streams, connectors with their keys, read keys, sinks) are merged by name: a source adds what it names
//! anew and changes of the rest only what it says. The sink `pool` comes before all sources (`pool.rs`).
//!
//! **Invariant**: [`load`] returns settings with which the daemon can start, or every problem of every source.
#![deny(unsafe_code)]

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

pub mod beginning;
mod body;
mod checker;
mod checks;
mod egress;
mod endpoint;
mod environment;
mod explain;
mod in_use;
mod listen;
mod loader;
mod masking;
mod merge;
mod networks;
mod own_daemon;
mod own_presets;
mod pool;
mod problem;
mod record;
pub mod routing_gaps;
mod run_time;
mod schema;
mod secret;
mod section;
mod settings;
mod validate;

#[cfg(test)]
mod tests;

pub use body::{BodyFault, Patch};
pub use checks::{
    BUILT_IN_CONNECTORS, DESCRIPTION_CHARS_MAX, connector_name as check_connector_name,
    description as check_description, digest_of_fingerprint, digest_of_hex, is_daemons,
    name as check_name, new_stream_name as check_stream_name, origin as check_origin,
};
pub use egress::{Host, Network, default_port};
pub use endpoint::{Endpoint, Transport};
pub use explain::{Row, explain, render_json, render_text};
pub use in_use::InUse;
pub use listen::Listen;
pub use masking::{hidden, names_secret, shown_url};
pub use networks::{Networks, party};
pub use own_daemon::{OwnDaemon, own_daemon};
pub use problem::{Origin, Problem, Problems, hint, nearest, quoted};
pub use record::{Check, Element, Field, Shape, TextKind};
pub use run_time::{
    ValidationError, invalid_text, looks_secret, written_connector, written_stream, written_verify,
};
pub use schema::{
    ITEMS_MAX, KEY_ORIGINS_MAX, KEY_STREAMS_MAX, RATE_MAX, STALE_SECONDS_MAX, VOLUME_MAX,
};
pub use secret::{MASK, Secret, SecretList, SecretSource};
pub use section::{IS_SET, Section, section_toml};
pub use settings::{
    ADMIN, Admin, AdminToken, Batch, ClientCertificates, Cluster, ClusterDurability, ClusterHints,
    Connector, ConnectorKind, DeleteWhen, Durability, Engine, Folder, Http, Key, KeyFields,
    KeyWhere, Leaves, Limits, Listed, Live, Log, LogFormat, Millis, OnUpdate, Ordering, Otlp,
    Plugins, Pool, PoolMode, Postgres, ProblemStream, ProxyHeader, ReadKey, Replay, Retry, Role,
    Runtime, Server, Settings, Sink, SinkFields, SinkLimits, SinkMode, SinkWhere, Start, Storage,
    Stream, System, Telemetry, Tls, TrustClock, Verify, Wire, Writes, shown_certificate,
};

pub use validate::OF_DAEMON;

use loader::Loader;
use merge::Origins;

const DEFAULT_TOML: &str = include_str!("../../config/default.toml");

/// The profiles that are part of the program.
const PROFILES: &[(&str, &str)] = &[
    ("development", include_str!("../../config/development.toml")),
    ("production", include_str!("../../config/production.toml")),
    ("test", include_str!("../../config/test.toml")),
];

/// The plugins that are part of the program, by the names that `plugin = "…"` uses.
pub const BUILT_IN_PLUGINS: &[&str] = &[
    "pool",
    "http-forward",
    "postgres",
    "influx",
    "webhook",
    "filter-map",
    "file",
    "lines",
    "mqtt",
];

/// Where settings are looked for. Nothing else of the process is read.
#[derive(Clone)]
pub struct Sources {
    /// The folder that holds `config/`.
    pub working_dir: PathBuf,
    /// The file given with `--config`; a relative path starts at the working directory.
    pub config_file: Option<PathBuf>,
    /// The environment, all of it: secrets may name any variable.
    pub env: Vec<(String, String)>,
    /// Settings that options of the command line give; they count before everything else.
    pub options: Vec<SettingOption>,
}

/// A setting that an option of the command line gives.
#[derive(Debug, Clone)]
pub struct SettingOption {
    /// The option, such as `--listen`.
    pub option: &'static str,
    /// Section and key of the setting.
    pub setting: [&'static str; 2],
    /// Its value, a text.
    pub value: String,
}

/// Settings that passed every check, and where they came from.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The settings, with every secret resolved.
    pub settings: Settings,
    /// The profile that was selected.
    pub profile: String,
    /// The files that were read, in the order of reading.
    pub files: Vec<PathBuf>,
    /// What is allowed but should be known.
    pub warnings: Vec<Problem>,
    /// The presets of one's own that counted before, for who cannot take these.
    pub presets_before: Vec<&'static webhook::Preset>,
    origins: Origins,
}

impl Loaded {
    /// A problem of a setting, with the place where it was set.
    pub fn problem(&self, path: &str, message: String) -> Problem {
        let nearest = self.origins.nearest(path);
        let unset = || Origin::of(0, &Arc::from("default"));
        Problem {
            origin: nearest
                .as_ref()
                .map_or_else(unset, |(origin, _)| (*origin).clone()),
            path: nearest.map_or_else(|| path.to_owned(), |(_, path)| path),
            message,
        }
    }
}

impl Sources {
    /// The working directory and environment of this process.
    ///
    /// # Errors
    ///
    /// If the working directory cannot be determined.
    pub fn of_process(config_file: Option<PathBuf>) -> io::Result<Self> {
        let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        Ok(Sources {
            working_dir: std::env::current_dir()?,
            config_file,
            env: std::env::vars_os()
                .map(|(name, value)| (lossy(name), lossy(value)))
                .collect(),
            options: Vec::new(),
        })
    }

    fn variable(&self, name: &str) -> Option<&str> {
        let mut found = self.env.iter().filter(|(variable, _)| variable == name);
        found.next_back().map(|(_, value)| value.as_str())
    }
}

/// Reads, checks and merges every source. From then on its presets count in this process.
///
/// # Errors
///
/// Every problem of every source; the presets are those of before then.
pub fn load(sources: &Sources) -> Result<Loaded, Problems> {
    let before = match own_presets::take(sources) {
        Ok(before) => before,
        Err(Problems(mut problems)) => {
            problems.extend(load_all(sources).err().into_iter().flat_map(|more| more.0));
            return Err(Problems(problems));
        }
    };
    match load_all(sources) {
        Ok(loaded) => Ok(Loaded {
            presets_before: before,
            ..loaded
        }),
        Err(problems) => {
            webhook::restore_own(before);
            Err(problems)
        }
    }
}

/// Takes the presets of these sources, whatever else stands there.
///
/// # Errors
///
/// What is wrong with them.
pub fn use_presets(sources: &Sources) -> Result<(), Problems> {
    own_presets::take(sources).map(drop)
}

/// What can be read of sources that cannot be used: the files that they name are what may mend them. Nothing else of it
/// is good for anything.
pub fn tentative(sources: &Sources) -> Option<Loaded> {
    read_all(sources).0
}

fn load_all(sources: &Sources) -> Result<Loaded, Problems> {
    match read_all(sources) {
        (Some(loaded), problems) if problems.is_empty() => Ok(loaded),
        (_, problems) => Err(Problems(Problems::sorted(problems))),
    }
}

/// What can be read, and all that is wrong with it.
fn read_all(sources: &Sources) -> (Option<Loaded>, Vec<Problem>) {
    let mut loader = Loader::new(sources);
    let profile = loader.all(sources);
    let Loader {
        mut layers,
        files,
        mut problems,
        mut warnings,
        unread,
        ..
    } = loader;
    if unread {
        // Without the whole of a file, what the others say about its streams would be guesswork.
        return (None, problems);
    }
    if let Some(pool) = pool::declared(&layers) {
        layers.insert(0, pool);
    }
    let (mut settings, mut origins) = match merge::merge(layers) {
        Ok(merged) => merged,
        Err((path, message)) => {
            let origin = Origin::of(0, &Arc::from("merged configuration"));
            problems.push(Problem {
                origin,
                path,
                message,
            });
            return (None, problems);
        }
    };
    pool::leave_to_filters(&mut settings, &mut origins);
    let mut validator = validate::Validator::new(&origins, &sources.env);
    validator.run(&mut settings);
    warnings.append(&mut validator.warnings);
    problems.append(&mut validator.problems);
    let loaded = Loaded {
        settings,
        profile,
        files,
        warnings: Problems::sorted(warnings),
        origins,
        presets_before: Vec::new(),
    };
    (Some(loaded), problems)
}
