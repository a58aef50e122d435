//! The environment and the configuration file that a systemd unit gives to the daemon.
//!
//! `--service` reads it, so that a verb uses the configuration of the service, not that of a shell.
//!
//! **Invariant**: nothing is started and systemd is not called: only files are read, so it works on a machine where the
//! service does not run.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::CliError;

/// Directories of units; the first match applies.
const FOLDERS: [&str; 5] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];

/// The environment of a service.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Unit {
    /// The variables; later lines override earlier ones.
    pub(super) env: Vec<(String, String)>,
    /// The option `--config` of the daemon.
    pub(super) config: Option<PathBuf>,
    pub(super) working_dir: Option<PathBuf>,
}

/// Reads a unit by name or path.
///
/// # Errors
/// The unit does not exist, or a file that it names cannot be read.
pub(super) fn read(named: &str) -> Result<Unit, CliError> {
    let is_path = named.contains('/');
    let name = named.rsplit('/').next().unwrap_or(named);
    let name = match name.contains('.') {
        true => name.to_owned(),
        false => format!("{name}.service"),
    };
    let own = match is_path {
        true => PathBuf::from(named),
        false => find(&name)?,
    };
    let mut folders: Vec<PathBuf> = FOLDERS.iter().map(PathBuf::from).collect();
    if is_path {
        folders = vec![own.parent().unwrap_or(Path::new("")).to_owned()];
    }
    let mut lines = service_lines(&text(&own)?);
    for file in drop_ins(&folders, &name) {
        lines.extend(service_lines(&text(&file)?));
    }
    Reading::new(&name).unit(&lines)
}

/// Whether a service with this name is installed.
pub(super) fn is_installed(name: &str) -> bool {
    find(name).is_ok()
}

fn find(name: &str) -> Result<PathBuf, CliError> {
    let mut paths = FOLDERS.iter().map(|folder| Path::new(folder).join(name));
    paths.find(|path| path.is_file()).ok_or_else(|| {
        CliError::wrong_use(format!(
            "there is no unit {name} in {}: give --service=NAME, or the path of its file",
            FOLDERS.join(", ")
        ))
    })
}

/// Drop-in files, such as those of `systemctl edit`, by name; an earlier directory overrides a later one.
fn drop_ins(folders: &[PathBuf], name: &str) -> Vec<PathBuf> {
    let mut found = BTreeMap::new();
    for folder in folders {
        let entries = fs::read_dir(folder.join(format!("{name}.d")));
        for entry in entries.into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|ending| ending == "conf") {
                found.entry(entry.file_name()).or_insert(path);
            }
        }
    }
    found.into_values().collect()
}

fn text(path: &Path) -> Result<String, CliError> {
    fs::read_to_string(path).map_err(|error| cannot_read(path, &error))
}

fn cannot_read(path: &Path, error: &std::io::Error) -> CliError {
    let next = match error.kind() {
        ErrorKind::PermissionDenied => ": run the command as root, as systemd does",
        _ => "",
    };
    CliError::wrong_use(format!("{} cannot be read: {error}{next}", path.display()))
}

/// The settings of the section `[Service]`, in order, with continued lines joined.
fn service_lines(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut is_service = false;
    for line in whole_lines(text) {
        let line = line.trim();
        if let Some(section) = line.strip_prefix('[') {
            is_service = section == "Service]";
        } else if let (true, Some((key, value))) = (is_service, line.split_once('=')) {
            found.push((key.trim().to_owned(), value.trim().to_owned()));
        }
    }
    found
}

/// Lines without comments; a line that ends with a backslash is joined with the next one.
fn whole_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in text.lines() {
        if line.trim_start().starts_with(['#', ';']) {
            continue;
        }
        let (line, more) = match line.strip_suffix('\\') {
            Some(line) => (line, true),
            None => (line, false),
        };
        match lines.last_mut().filter(|_| goes_on) {
            Some(last) => {
                last.push(' ');
                last.push_str(line);
            }
            None => lines.push(line.to_owned()),
        }
        goes_on = more;
    }
    lines
}

/// The words of a value; quotes keep spaces together, and a backslash escapes the next character.
fn words(value: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match (character, quote) {
            ('\\', Some('"') | None) => {
                word.get_or_insert_default().extend(characters.next());
            }
            (end, Some(open)) if end == open => quote = None,
            (inside, Some(_)) => word.get_or_insert_default().push(inside),
            ('"' | '\'', None) => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (blank, None) if blank.is_whitespace() => words.extend(word.take()),
            (part, None) => word.get_or_insert_default().push(part),
        }
    }
    words.extend(word);
    words
}

/// Values of specifiers, and the files that replace the credentials of a stopped service.
struct Reading<'a> {
    name: &'a str,
    credentials: String,
}

impl<'a> Reading<'a> {
    fn new(name: &'a str) -> Self {
        Self {
            name,
            credentials: format!("/run/credentials/{name}"),
        }
    }

    fn unit(&self, lines: &[(String, String)]) -> Result<Unit, CliError> {
        let (mut env, mut files) = (Vec::new(), Vec::new());
        let mut sources = Vec::new();
        let mut unit = Unit::default();
        for (key, value) in lines {
            let value = self.filled(value);
            match key.as_str() {
                "Environment" if value.is_empty() => env.clear(),
                "Environment" => env.extend(words(&value).iter().filter_map(|word| pair(word))),
                "EnvironmentFile" if value.is_empty() => files.clear(),
                "EnvironmentFile" => files.push(value),
                "LoadCredential" => sources.extend(
                    value
                        .split_once(':')
                        .map(|(id, path)| (id.to_owned(), path.to_owned())),
                ),
                "WorkingDirectory" => {
                    let folder = value.trim_start_matches('-');
                    unit.working_dir = Some(folder.into()).filter(|_| folder.starts_with('/'));
                }
                "ExecStart" if value.is_empty() => unit.config = None,
                "ExecStart" => unit.config = config_of(&words(&value)),
                _ => {}
            }
        }
        for file in files {
            env.extend(environment_file(&file)?);
        }
        for (_, value) in &mut env {
            for (id, path) in &sources {
                *value = value.replace(&format!("{}/{id}", self.credentials), path);
            }
        }
        unit.env = env;
        Ok(unit)
    }

    /// Replaces the specifiers in a value.
    fn filled(&self, value: &str) -> String {
        let stem = self
            .name
            .rsplit_once('.')
            .map_or(self.name, |(stem, _)| stem);
        let mut filled = String::new();
        let mut characters = value.chars();
        while let Some(character) = characters.next() {
            if character != '%' {
                filled.push(character);
                continue;
            }
            match characters.next() {
                Some('S') => filled.push_str("/var/lib"),
                Some('t') => filled.push_str("/run"),
                Some('E') => filled.push_str("/etc"),
                Some('C') => filled.push_str("/var/cache"),
                Some('L') => filled.push_str("/var/log"),
                Some('d') => filled.push_str(&self.credentials),
                Some('n') => filled.push_str(self.name),
                Some('N' | 'p') => filled.push_str(stem),
                Some('%') => filled.push('%'),
                Some(other) => filled.extend(['%', other]),
                None => filled.push('%'),
            }
        }
        filled
    }
}

fn pair(word: &str) -> Option<(String, String)> {
    let (name, value) = word.split_once('=')?;
    Some((name.to_owned(), value.to_owned()))
}

/// The option `--config` of a command.
fn config_of(words: &[String]) -> Option<PathBuf> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--config" {
            return words.next().map(PathBuf::from);
        }
        if let Some(path) = word.strip_prefix("--config=") {
            return Some(path.into());
        }
    }
    None
}

/// The lines `NAME=value` of a file; if the name begins with `-`, the file is optional.
fn environment_file(named: &str) -> Result<Vec<(String, String)>, CliError> {
    let path = named.trim_start_matches('-');
    match fs::read_to_string(path) {
        Ok(text) => Ok(whole_lines(&text)
            .iter()
            .filter_map(|line| pair(line.trim()))
            .map(|(name, value)| (name.trim().to_owned(), words(value.trim()).join(" ")))
            .collect()),
        Err(error) if error.kind() == ErrorKind::NotFound && path != named => Ok(Vec::new()),
        Err(error) => Err(cannot_read(Path::new(path), &error)),
    }
}

#[cfg(test)]
mod tests;
