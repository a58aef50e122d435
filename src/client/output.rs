//! What the command line prints: standard output, notes on standard error, tables, JSON.
//!
//! Every verb prints with it, so that `headgate … | head` ends without an error and text from a server cannot control
//! the terminal.
//!
//! **Invariant**: control characters in a table cell, a JSON string or a text given to [`shown`] never reach the
//! terminal unescaped.

use std::fmt::{self, Write as _};
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use serde::Serialize;
use serde_json::Value;

use super::error::CliError;
use super::zone::local;
pub use base::text::{visible as shown, visible_json as shown_json, visible_lines as shown_lines};

/// Maximum characters of a cell.
const CELL_CHARS_MAX: usize = 80;

/// How a list is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ListOutput {
    /// Aligned columns, for people.
    Table,
    /// A JSON array.
    Json,
    /// A line of JSON for each.
    Ndjson,
}

/// Prints a list; for an empty list, prints `none` to standard error.
pub fn print_list<T: Serialize, D: fmt::Display>(
    output: ListOutput,
    entries: &[T],
    none: &str,
    table: impl FnOnce(&[T]) -> D,
) -> Result<(), CliError> {
    match output {
        // Raw JSON in an entry is formatted like the rest.
        ListOutput::Json => print(&json_pretty(&json(&entries))?),
        ListOutput::Ndjson => entries
            .iter()
            .try_for_each(|entry| print(&json_line(&json(entry))?)),
        ListOutput::Table if entries.is_empty() => {
            note(none);
            Ok(())
        }
        ListOutput::Table => print(&table(entries).to_string()),
    }
}

/// Asks for confirmation on the terminal; `what_for` is the act that requires it.
pub fn confirmed(question: &str, what_for: &str) -> Result<bool, CliError> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return Err(CliError::wrong_use(format!(
            "there is no terminal to ask on: use --yes to {what_for}"
        )));
    }
    note(&format!("{question} [y/N]"));
    let mut answer = String::new();
    stdin
        .lock()
        .read_line(&mut answer)
        .map_err(|error| CliError::failed(format!("cannot read the answer: {error}")))?;
    Ok(is_yes(&answer))
}

pub(super) fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}

/// Writes to standard output. A closed pipe (`| head`) is not an error.
pub fn print(text: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(CliError::failed(format!(
            "cannot write to standard output: {error}"
        ))),
        _ => Ok(()),
    }
}

/// Ends when the reader of standard output has closed it, which a verb that prints rarely would notice late. If that
/// cannot be detected (a file, another system), it never ends.
pub async fn closed() {
    #[cfg(target_os = "linux")]
    if let Ok(pipe) = std::os::fd::AsFd::as_fd(&io::stdout()).try_clone_to_owned()
        && is_closed_at_last(pipe).await
    {
        return;
    }
    std::future::pending::<()>().await;
}

/// Returns `true` as soon as the other end of a pipe is closed, `false` if that cannot be detected.
#[cfg(target_os = "linux")]
async fn is_closed_at_last(pipe: std::os::fd::OwnedFd) -> bool {
    // Unchecked, because the check would make standard output non-blocking, for other programs too.
    let watched = tokio::net::unix::pipe::Sender::from_owned_fd_unchecked(pipe);
    match watched {
        Ok(watched) => watched.ready(tokio::io::Interest::ERROR).await.is_ok(),
        Err(_) => false,
    }
}

/// Writes a line to standard error; errors are ignored.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// A value as JSON without quotes; empty for null. Not escaped.
pub fn plain(value: &impl Serialize) -> String {
    match json(value) {
        Value::Null => String::new(),
        Value::String(text) => text,
        value => value.to_string(),
    }
}

/// A readable time; empty for null. Not escaped.
pub fn when(value: &impl Serialize) -> String {
    local(&plain(value))
}

/// A value as JSON whose parts are accessible.
pub(super) fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// The beginning of a text that is too long for a cell. Not escaped.
pub fn cut(text: String) -> String {
    match text.char_indices().nth(CELL_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Formatted JSON with a line break at the end.
pub fn json_pretty(value: &impl Serialize) -> Result<String, CliError> {
    written(serde_json::to_string_pretty(value))
}

/// JSON on one line, with a line break at the end.
pub fn json_line(value: &impl Serialize) -> Result<String, CliError> {
    written(serde_json::to_string(value))
}

/// Plain aligned columns, two spaces apart. `Display` writes a line break after every row. An empty column is left out.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with its headings.
    pub fn new(headings: &[&str]) -> Table {
        Table {
            rows: vec![headings.iter().map(|heading| heading.to_string()).collect()],
        }
    }

    /// Adds a row and escapes its cells.
    pub fn row(&mut self, cells: &[&str]) {
        let cells = cells.iter().map(|cell| shown(cell).into_owned());
        self.rows.push(cells.collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.first().map_or(0, Vec::len);
        let cells = |column: usize| self.rows.iter().filter_map(move |row| row.get(column));
        let has_rows = self.rows.len() > 1;
        let widths = (0..columns).filter_map(|column| {
            let is_empty = has_rows && cells(column).skip(1).all(String::is_empty);
            let width = cells(column).map(|cell| cell.chars().count()).max();
            width.filter(|_| !is_empty).map(|width| (column, width))
        });
        let widths: Vec<(usize, usize)> = widths.collect();
        for row in &self.rows {
            let mut line = String::new();
            for (column, width) in &widths {
                let cell = row.get(*column).map_or("", String::as_str);
                write!(line, "{cell:width$}  ")?;
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Ends JSON with a line break, and escapes characters that JSON strings allow but terminals interpret.
fn written(json: serde_json::Result<String>) -> Result<String, CliError> {
    let json = json.map_err(|error| CliError::failed(format!("cannot write JSON: {error}")))?;
    let mut safe = shown_json(&json).into_owned();
    safe.push('\n');
    Ok(safe)
}

#[cfg(test)]
mod tests;
