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

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod body;
mod checker;
mod checks;
mod egress;
mod environment;
mod explain;
mod in_use;
mod listen;
mod masking;
mod merge;
mod networks;
mod pool;
mod problem;
mod record;
pub mod routing_gaps;
mod run_time;
mod schema;
mod secret;
mod settings;
mod tree;
mod validate;

#[cfg(test)]
mod tests;

pub use body::{BodyFault, Patch};
pub use checks::{
    BUILT_IN_CONNECTORS, DESCRIPTION_CHARS_MAX, connector_name as check_connector_name,
    description as check_description, digest_of_fingerprint, digest_of_hex, name as check_name,
    origin as check_origin, stream_name as check_stream_name,
};
pub use egress::{Host, Network, default_port};
pub use explain::{Row, explain, render_json, render_text};
pub use in_use::InUse;
pub use listen::Listen;
pub use masking::{hidden, names_secret, shown_url};
pub use networks::{Networks, party};
pub use problem::{Origin, Problem, Problems, hint, nearest, quoted};
pub use record::{Check, Element, Field, Shape, TextKind};
pub use run_time::{
    ValidationError, invalid_text, looks_secret, written_connector, written_stream, written_verify,
};
pub use schema::{
    ITEMS_MAX, KEY_ORIGINS_MAX, KEY_STREAMS_MAX, RATE_MAX, STALE_SECONDS_MAX, VOLUME_MAX,
};
pub use secret::{MASK, Secret, SecretSource};
pub use settings::{
    ADMIN, Admin, AdminToken, Batch, ClientCertificates, Connector, ConnectorKind, DeleteWhen,
    Durability, Http, Key, Limits, Listed, Live, Log, LogFormat, Millis, OnUpdate, Ordering, Otlp,
    Plugins, Pool, PoolMode, Postgres, ProxyHeader, ReadKey, Replay, Retry, Role, Runtime, Server,
    Settings, Sink, SinkLimits, Start, Storage, Stream, System, Telemetry, Tls, TrustClock, Verify,
    Writes, shown_certificate,
};

use checker::Checker;
use environment::Meaning;
use merge::{Layer, Origins};
use tree::Node;

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
];

/// The largest configuration file that is read.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Where settings are looked for. Nothing else of the process is read.
#[derive(Clone)]
pub struct Sources {
    /// The folder that holds `config/`.
    pub working_dir: PathBuf,
    /// The file given with `--config`; a relative path starts at the working directory.
    pub config_file: Option<PathBuf>,
    /// The environment, all of it: secrets may name any variable.
    pub env: Vec<(String, String)>,
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
        })
    }

    fn variable(&self, name: &str) -> Option<&str> {
        let mut found = self.env.iter().filter(|(variable, _)| variable == name);
        found.next_back().map(|(_, value)| value.as_str())
    }
}

/// Reads, checks and merges every source.
///
/// # Errors
///
/// Every problem of every source.
pub fn load(sources: &Sources) -> Result<Loaded, Problems> {
    let mut loader = Loader {
        working_dir: &sources.working_dir,
        rank: 0,
        layers: Vec::new(),
        files: Vec::new(),
        problems: Vec::new(),
        warnings: Vec::new(),
        variables: HashSet::new(),
        unread: false,
    };
    let profile = loader.files_of(sources);
    loader.environment(&sources.env);
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
        return Err(Problems(Problems::sorted(problems)));
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
            return Err(Problems(Problems::sorted(problems)));
        }
    };
    pool::leave_to_filters(&mut settings, &mut origins);
    let mut validator = validate::Validator::new(&origins, &sources.env);
    validator.run(&mut settings);
    warnings.append(&mut validator.warnings);
    problems.append(&mut validator.problems);
    let warnings = Problems::sorted(warnings);
    if problems.is_empty() {
        Ok(Loaded {
            settings,
            profile,
            files,
            warnings,
            origins,
        })
    } else {
        Err(Problems(Problems::sorted(problems)))
    }
}

/// Reads the sources one after the other.
struct Loader<'a> {
    working_dir: &'a Path,
    rank: usize,
    layers: Vec<Layer>,
    files: Vec<PathBuf>,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
    /// Variables that secrets refer to.
    variables: HashSet<String>,
    /// Whether a source could not be read as a whole.
    unread: bool,
}

impl Loader<'_> {
    /// Reads the embedded files and those on disk; returns the profile.
    fn files_of(&mut self, sources: &Sources) -> String {
        let profile = match sources.variable("HEADGATE_PROFILE") {
            Some(name) if !name.is_empty() => name,
            _ => "development",
        };
        let built_in = PROFILES.iter().find(|(name, _)| *name == profile);
        let default_read = self.built_in("default", DEFAULT_TOML);
        let profile_read = built_in.is_some_and(|(name, text)| self.built_in(name, text));
        if !default_read {
            self.file(Path::new("config/default.toml"), true);
        }
        // A profile is a name, not a path; and `default` is no profile, it is always read.
        let named =
            checks::name(profile).is_ok() && profile != "default" && !profile.starts_with('.');
        let on_disk = profile_read
            || (named && self.file(Path::new(&format!("config/{profile}.toml")), true));
        if built_in.is_none() && !on_disk {
            self.no_profile(profile, named);
        }
        if let Some(file) = &sources.config_file {
            self.file(file, false);
        }
        profile.to_owned()
    }

    /// Reads an embedded file; true if the same file stands in `config/`, which is then named in its place and not
    /// read again: a mere copy of `default.toml` must not override the built-in profile.
    fn built_in(&mut self, name: &str, text: &str) -> bool {
        let copy = PathBuf::from(format!("config/{name}.toml"));
        if read(&self.working_dir.join(&copy)).is_ok_and(|found| found == text) {
            return self.file(&copy, true);
        }
        let working_dir = self.working_dir;
        self.text(&format!("built-in {name}.toml"), working_dir, text);
        false
    }

    fn no_profile(&mut self, profile: &str, named: bool) {
        let names: Vec<&str> = PROFILES.iter().map(|(name, _)| *name).collect();
        let meant = match problem::nearest(profile, names.iter().copied()) {
            Some(meant) => format!("; did you mean \"{meant}\"?"),
            None => String::new(),
        };
        let file = if named {
            format!(" nor the file config/{profile}.toml")
        } else {
            " nor the name of a file in config".to_owned()
        };
        let message = format!(
            "{} is neither a built-in profile ({}){file}{meant}",
            problem::quoted(profile),
            names.join(", ")
        );
        self.report("environment variable HEADGATE_PROFILE", message);
        self.unread = true;
    }

    /// Reads a file; false if it does not exist and need not.
    fn file(&mut self, name: &Path, optional: bool) -> bool {
        let path = self.working_dir.join(name);
        let shown = name.display().to_string();
        match read(&path) {
            Ok(text) => {
                let folder = path.parent().unwrap_or(self.working_dir).to_owned();
                if self.text(&shown, &folder, &text)
                    && let Some(sentence) = secret::readable_by_others(&path)
                {
                    self.warnings.push(Problem {
                        origin: Origin::of(self.rank - 1, &Arc::from(shown)),
                        path: String::new(),
                        message: format!(
                            "it holds secrets, and {sentence}, or name them with {{ file = \"…\" }} or {{ env = \"…\" }}"
                        ),
                    });
                }
                self.files.push(path);
                true
            }
            Err(error) if optional && error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => {
                self.report(&shown, format!("cannot be read: {error}"));
                self.unread = true;
                true
            }
        }
    }

    /// Takes a document; true if it holds a secret.
    fn text(&mut self, source: &str, folder: &Path, text: &str) -> bool {
        match tree::parse(text) {
            Ok(node) => self.layer(source, folder, node),
            Err(fault) => {
                let origin = Origin {
                    line: fault.line,
                    column: fault.column,
                    ..Origin::of(self.rank, &Arc::from(source))
                };
                self.problems.push(Problem {
                    origin,
                    path: String::new(),
                    message: fault.message,
                });
                self.unread = true;
                self.rank += 1;
                false
            }
        }
    }

    fn environment(&mut self, env: &[(String, String)]) {
        let mut env: Vec<_> = env.iter().collect();
        env.sort();
        let mut mistakes = Vec::new();
        for (variable, value) in &env {
            // Mistakes last: a secret among the settings may name a variable that looks like one.
            match environment::read(variable, value, &self.variables) {
                Meaning::Setting(node) => {
                    let working_dir = self.working_dir;
                    self.layer(
                        &format!("environment variable {variable}"),
                        working_dir,
                        node,
                    );
                }
                Meaning::Mistake(..) => mistakes.push((variable, value)),
                Meaning::Other => {}
            }
        }
        for (variable, value) in mistakes {
            let Meaning::Mistake(path, message) =
                environment::read(variable, value, &self.variables)
            else {
                continue;
            };
            let origin = Origin::of(
                self.rank,
                &Arc::from(format!("environment variable {variable}")),
            );
            self.problems.push(Problem {
                origin,
                path,
                message,
            });
            self.rank += 1;
        }
    }

    /// Checks and keeps what a source says; true if it holds a secret.
    fn layer(&mut self, source: &str, folder: &Path, node: Node) -> bool {
        let source: Arc<str> = Arc::from(source);
        let mut checker = Checker {
            rank: self.rank,
            source: Arc::clone(&source),
            folder,
            problems: &mut self.problems,
            variables: &mut self.variables,
            holds_secret: false,
            is_body: false,
            none: "",
        };
        let node = checker.table("", node, schema::ROOT);
        let holds_secret = checker.holds_secret;
        for entry in node.entries() {
            if matches!(&entry.node.data, tree::Data::List(elements) if elements.is_empty()) {
                self.warnings.push(Problem {
                    origin: Origin {
                        line: entry.line,
                        ..Origin::of(self.rank, &source)
                    },
                    path: entry.name.clone(),
                    message: match entry.name.as_str() {
                        "sinks" => "an empty list takes nothing away, because lists are merged by name; `[pool] enabled = false` does without the sink pool".to_owned(),
                        _ => "an empty list takes nothing away, because lists are merged by name".to_owned(),
                    },
                });
            }
        }
        self.layers.push(Layer {
            rank: self.rank,
            source,
            node,
        });
        self.rank += 1;
        holds_secret
    }

    fn report(&mut self, source: &str, message: String) {
        self.problems.push(Problem {
            origin: Origin::of(self.rank, &Arc::from(source)),
            path: String::new(),
            message,
        });
        self.rank += 1;
    }
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?
        .take(FILE_BYTES_MAX + 1)
        .read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other("it has more than 16 MiB"));
    }
    Ok(text)
}
