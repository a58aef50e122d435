//! What was repaired: `repairs.json` in the data folder, and what operators are told of it.
//!
//! **Invariant**: the file is replaced as a whole; one that cannot be read is as none.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::RepairError;
use base::whole_file;

/// In the data folder.
const FILE: &str = "repairs.json";
const REPAIRS_MAX: usize = 20;
/// Streams that are named in a sentence.
const NAMED_MAX: usize = 20;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Repair {
    /// When: RFC 3339.
    pub at: String,
    /// The file that was damaged.
    pub file: String,
    /// How that was noticed.
    pub reason: String,
    /// What was set aside, by its name in the data folder.
    pub set_aside: Vec<String>,
    /// What became of each table, if the file was made anew.
    pub tables: Vec<TableRepair>,
    /// Streams of which the pool may lack items.
    pub incomplete_streams: Vec<Incomplete>,
    /// What else there is to say, in sentences.
    pub notes: Vec<String>,
}

/// What became of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TableRepair {
    pub table: String,
    pub kept: u64,
    /// Rows that were lost; none: that cannot be known.
    pub lost: Option<u64>,
    /// Pages that could not be read.
    pub unreadable_pages: u64,
}

/// A stream of which the pool may lack items.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Incomplete {
    pub stream: String,
    /// Items that were lost; none: that cannot be known.
    pub lost: Option<u64>,
}

impl Repair {
    /// What became of a table.
    pub(super) fn table_mut(&mut self, name: &str) -> Option<&mut TableRepair> {
        self.tables.iter_mut().find(|table| table.table == name)
    }

    /// In one sentence, without where the rest of it lies.
    pub fn sentence(&self) -> String {
        let mut parts = vec![format!(
            "{} was damaged and was repaired at {} ({})",
            self.file, self.at, self.reason
        )];
        for table in &self.tables {
            match table.lost {
                Some(0) => {}
                Some(lost) => parts.push(format!("{lost} rows of {} are lost", table.table)),
                None => parts.push(format!(
                    "rows of {} are lost, {} pages of them",
                    table.table, table.unreadable_pages
                )),
            }
        }
        if parts.len() == 1 && !self.tables.is_empty() {
            parts.push("no row is lost".to_owned());
        }
        if !self.incomplete_streams.is_empty() {
            let named = self.incomplete_streams.iter().take(NAMED_MAX);
            let named: Vec<String> = named
                .map(|one| match one.lost {
                    Some(lost) => format!("{} (up to {lost})", one.stream),
                    None => one.stream.clone(),
                })
                .collect();
            let more = self.incomplete_streams.len() - named.len();
            let more = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            parts.push(format!(
                "the pool may lack items of these streams that the journal keeps no more: {}{more}",
                named.join(", ")
            ));
        }
        parts.extend(self.notes.iter().cloned());
        parts.join("; ")
    }
}

/// The repairs of a data folder, the newest first.
pub fn repairs(data_dir: &Path) -> Vec<Repair> {
    let text = std::fs::read(data_dir.join(FILE)).unwrap_or_default();
    let mut repairs: Vec<Repair> = serde_json::from_slice(&text).unwrap_or_default();
    repairs.reverse();
    repairs
}

pub(super) fn remember(data_dir: &Path, repair: &Repair) -> Result<(), RepairError> {
    let mut repairs = repairs(data_dir);
    repairs.insert(0, repair.clone());
    repairs.truncate(REPAIRS_MAX);
    repairs.reverse();
    let path = data_dir.join(FILE);
    let written = serde_json::to_vec_pretty(&repairs)
        .map_err(io::Error::from)
        .and_then(|text| whole_file::write(&path, &text, 0o666));
    written.map_err(|reason| RepairError::file(&path, reason))
}

/// What was set aside and lies there still, by name.
pub fn set_aside(data_dir: &Path) -> Vec<PathBuf> {
    let entries = data_dir.read_dir().into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.contains(".damaged-") && super::FILES.iter().any(|it| name.starts_with(it.name))
        })
        .collect();
    found.sort();
    found
}

/// What operators must know: a sentence for each repair of which something lies in the data folder still. Reads files.
pub fn problems(data_dir: &Path) -> Vec<String> {
    let mut left = set_aside(data_dir);
    if left.is_empty() {
        return Vec::new();
    }
    let name = |path: &PathBuf| {
        path.file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    let mut problems = Vec::new();
    for repair in repairs(data_dir) {
        let own: Vec<String> = left
            .iter()
            .map(name)
            .filter(|name| repair.set_aside.contains(name))
            .collect();
        if own.is_empty() {
            continue;
        }
        left.retain(|path| !own.contains(&name(path)));
        problems.push(format!(
            "{}; the damaged files are kept in the data directory as {}: delete them when they are no longer needed, and the problem ends",
            repair.sentence(),
            own.join(", ")
        ));
    }
    for path in left {
        problems.push(format!(
            "a damaged file was renamed to {}: delete it when it is no longer needed, and the problem ends",
            path.display()
        ));
    }
    problems
}
