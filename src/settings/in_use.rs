//! The configuration that is in use, and how the last reading of it went.
//!
//! `daemon` sets it when files have changed; operators see it.
//!
//! **Invariant**: what is shown as in use is in use: settings that count from the next start on are shown apart.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Row;

/// The configuration that is in use, and how the last reading of it went.
#[derive(Debug)]
pub struct InUse {
    /// As it was at the start.
    started: Vec<Row>,
    last: Mutex<LastReading>,
}

#[derive(Debug)]
struct LastReading {
    problem: Option<String>,
    rows: Vec<Row>,
}

impl InUse {
    /// The one that the daemon starts with.
    pub fn new(rows: Vec<Row>) -> Self {
        let last = LastReading {
            problem: None,
            rows: rows.clone(),
        };
        Self {
            started: rows,
            last: Mutex::new(last),
        }
    }

    /// Keeps what was read and is in use as far as it can be while the daemon runs.
    pub fn set_rows(&self, rows: Vec<Row>) {
        *self.lock() = LastReading {
            problem: None,
            rows,
        };
    }

    /// Every setting that is in use: streams, connectors, keys, admin tokens and sinks as they were read last, everything else
    /// as at the start.
    pub fn in_use(&self) -> Vec<Row> {
        let last = self.lock();
        let started = self.started.iter().filter(|row| !is_taken_at_once(row));
        let taken = last.rows.iter().filter(|row| is_taken_at_once(row));
        started.chain(taken).cloned().collect()
    }

    /// The settings that were read last and are used from the next start on. One that is gone is not among them.
    pub fn waiting(&self) -> Vec<Row> {
        let last = self.lock();
        let same = |row: &&Row| {
            let mut started = self.started.iter();
            started.any(|old| old.path == row.path && old.value == row.value)
        };
        let rows = last.rows.iter().filter(|row| !is_taken_at_once(row));
        rows.filter(|row| !same(row)).cloned().collect()
    }

    /// Where an element of a list is declared: files as they were named, `environment variable NAME`.
    pub fn declared_in(&self, list: &str, name: &str) -> String {
        let rows = self.in_use();
        let is_name = |row: &&Row| {
            let path = row.path.strip_prefix(list).unwrap_or_default();
            path.ends_with("].name") && path.matches('[').count() == 1 && row.value == name
        };
        let Some(element) = rows.iter().find(is_name) else {
            return "the configuration".to_owned();
        };
        let element = element.path.trim_end_matches("name");
        let mut sources: Vec<&str> = Vec::new();
        for row in rows.iter().filter(|row| row.path.starts_with(element)) {
            let source = match row.origin.rsplit_once(':') {
                Some((source, line)) if line.bytes().all(|byte| byte.is_ascii_digit()) => source,
                _ => &row.origin,
            };
            if source != "default" && !sources.contains(&source) {
                sources.push(source);
            }
        }
        sources.join(" and ")
    }

    /// Why the configuration as it stands is not in use.
    pub fn problem(&self) -> Option<String> {
        self.lock().problem.clone()
    }

    /// Keeps why it is not in use.
    pub fn set_problem(&self, problem: String) {
        self.lock().problem = Some(problem);
    }

    fn lock(&self) -> MutexGuard<'_, LastReading> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a change of this setting takes effect while the daemon runs.
fn is_taken_at_once(row: &Row) -> bool {
    let at_once = [
        "streams",
        "connectors",
        "read_keys",
        "sinks",
        "pool",
        "admin.tokens",
    ];
    at_once.iter().any(|taken| {
        let rest = row.path.strip_prefix(taken);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['[', '.']))
    })
}
