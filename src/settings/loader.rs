//! Reads the sources one after the other: embedded files, files on disk, the environment, options of the command line.
//!
//! [`load`](super::load) makes settings of what it read.
//!
//! **Invariant**: a source that cannot be read as a whole is a problem, and marked, so that nothing is concluded from the
//! rest of it.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::checker::Checker;
use super::environment::{self, Meaning};
use super::merge::Layer;
use super::problem::{self, Origin, Problem};
use super::{DEFAULT_TOML, PROFILES, SettingOption, Sources, checks, own_presets, schema, secret};
use base::tree::{self, Node};
use webhook::format::Draft;

/// The largest configuration file that is read.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Reads the sources one after the other.
pub(super) struct Loader<'a> {
    pub(super) working_dir: &'a Path,
    pub(super) rank: usize,
    pub(super) layers: Vec<Layer>,
    pub(super) files: Vec<PathBuf>,
    pub(super) problems: Vec<Problem>,
    pub(super) warnings: Vec<Problem>,
    /// Variables that secrets refer to.
    pub(super) variables: HashSet<String>,
    /// Whether a source could not be read as a whole.
    pub(super) unread: bool,
    /// The presets of each source, and what is wrong with them.
    pub(super) presets: Vec<Vec<Draft>>,
    pub(super) own_problems: Vec<Problem>,
}

impl<'a> Loader<'a> {
    pub(super) fn new(sources: &'a Sources) -> Self {
        Self {
            working_dir: &sources.working_dir,
            rank: 0,
            layers: Vec::new(),
            files: Vec::new(),
            problems: Vec::new(),
            warnings: Vec::new(),
            variables: HashSet::new(),
            unread: false,
            presets: Vec::new(),
            own_problems: Vec::new(),
        }
    }

    /// Reads all sources; returns the profile.
    pub(super) fn all(&mut self, sources: &Sources) -> String {
        let profile = self.files_of(sources);
        self.environment(&sources.env);
        self.options(&sources.options);
        profile
    }

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

    fn options(&mut self, options: &[SettingOption]) {
        for option in options {
            let working_dir = self.working_dir;
            let source = format!("option {}", option.option);
            self.layer(&source, working_dir, environment::option(option));
        }
    }

    /// Checks and keeps what a source says; true if it holds a secret.
    fn layer(&mut self, source: &str, folder: &Path, mut node: Node) -> bool {
        if let tree::Data::Table(entries) = &mut node.data
            && let Some(at) = entries.iter().position(|entry| entry.name == "presets")
        {
            // They have a grammar of their own.
            let declared = entries.remove(at).node;
            let drafts = own_presets::of_node(source, declared, &mut self.own_problems);
            self.presets.push(drafts);
        }
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
                        "sinks" => "an empty list removes nothing, because lists are merged by name; to disable the sink pool, set `[pool] enabled = false`".to_owned(),
                        _ => "an empty list removes nothing, because lists are merged by name".to_owned(),
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
        return Err(io::Error::other("it is larger than 16 MiB"));
    }
    Ok(text)
}
