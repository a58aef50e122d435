//! What is wrong with a configuration, and where: every problem of every source in one list.
//!
//! Made by each step of [`load`](super::load), shown by `check`, `serve` and `config show`.
//!
//! **Invariant**: no message holds the value of a secret; problems are listed in the order in which the sources
//! are read, and by line within each.

use std::fmt;
use std::sync::Arc;

/// The place where a setting, or a problem, comes from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// Position of the source in the order of loading: a later one overrides an earlier one.
    pub(super) rank: usize,
    /// The file as it was named, `built-in default.toml`, or `environment variable NAME`.
    pub(super) source: Arc<str>,
    pub(super) line: Option<usize>,
    pub(super) column: Option<usize>,
}

impl Origin {
    /// A whole source, without a line.
    pub(super) fn of(rank: usize, source: &Arc<str>) -> Self {
        Origin {
            rank,
            source: Arc::clone(source),
            line: None,
            column: None,
        }
    }

    /// The file as it was named, `built-in default.toml`, or `environment variable NAME`.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The line within the file, counted from 1; none for environment variables.
    pub fn line(&self) -> Option<usize> {
        self.line
    }
}

/// `config/production.toml:12`, or `environment variable HEADGATE_LOG__LEVEL`.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(column) = self.column {
            write!(f, ":{column}")?;
        }
        Ok(())
    }
}

/// One thing that is wrong with the configuration, or worth a warning.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Where it stands.
    pub origin: Origin,
    /// The setting, as in `connectors[0].keys[1].secret`; empty where the source as a whole is meant.
    pub path: String,
    /// What is wrong and what to do about it.
    pub message: String,
}

/// `config/production.toml:12: connectors[0].burts: unknown key; did you mean "burst"?`
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.origin)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

/// Everything that is wrong with the configuration; displayed with one problem on each line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// Sorts into the order of the sources and drops repetitions (the same file read twice).
    pub(super) fn sorted(mut problems: Vec<Problem>) -> Vec<Problem> {
        // Stable and by place only, so that problems of one line keep the order in which they were found.
        problems.sort_by_key(|problem| (problem.origin.rank, problem.origin.line));
        problems.dedup();
        problems
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

/// The known word that was probably meant, if one is near enough.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > 256 {
        return None;
    }
    let word = word.to_lowercase();
    let allowed = (word.chars().count() / 3).max(1);
    known
        .into_iter()
        .filter_map(|candidate| {
            let distance = strsim::osa_distance(&word, &candidate.to_lowercase());
            if distance <= allowed {
                Some((distance, candidate))
            } else if word.len() >= 4 && candidate.contains(&word) {
                // "max_body" for "max_body_bytes": a part of the name was remembered.
                Some((usize::MAX, candidate))
            } else {
                None
            }
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `; did you mean "burst"?`, or, where nothing is near, `; known here: name, burst`.
pub fn hint(word: &str, known: &[&str]) -> String {
    match nearest(word, known.iter().copied()) {
        Some(meant) => format!("; did you mean \"{meant}\"?"),
        None => format!("; known here: {}", known.join(", ")),
    }
}

/// Whether a text begins like a key.
pub(super) fn looks_like_key(text: &str) -> bool {
    ["ik_", "rk_", "ok_"]
        .iter()
        .any(|begin| text.starts_with(begin))
}

/// A value in quotes, as far as it may be shown: a key that stands in the place of a name stays hidden, and so does the
/// password in a URL.
pub fn quoted(text: &str) -> String {
    if looks_like_key(text) {
        format!("\"{}\"", super::MASK)
    } else {
        format!("{:?}", super::shown_url(text))
    }
}

/// Adds the name of a key to the path of its table; names that are not bare keys are quoted and escaped.
pub(super) fn join(path: &str, name: &str) -> String {
    let bare = !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    let name = if bare && !looks_like_key(name) {
        name.to_owned()
    } else {
        quoted(name)
    };
    if path.is_empty() {
        name
    } else {
        format!("{path}.{name}")
    }
}
