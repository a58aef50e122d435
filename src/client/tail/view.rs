//! The output of `tail` for a message: lines of text, or the message itself.
//!
//! `follow` calls it for each message.
//!
//! **Invariant**: a change is one line, whatever its texts contain. Characters that could control a terminal are
//! escaped, in JSON only if the output is a terminal.

use std::collections::HashSet;
use std::fmt::Write as _;

use serde_json::value::RawValue;

use super::message::{Fields, Item, Kind, Message};
use crate::output::{shown, shown_json};
use crate::zone::local;
use base::clock::{self, Unix};

/// Keys up to this many characters are aligned.
const KEY_ALIGNED_MAX: usize = 24;

/// How to print changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum TailOutput {
    /// One line per change
    Table,
    /// Each message as a line of JSON, as received
    Json,
}

/// The state of the output.
pub(super) struct View {
    output: TailOutput,
    /// Print heartbeats (as JSON).
    heartbeats: bool,
    /// Print the first snapshot of each stream.
    first_snapshot: bool,
    /// Changes that are still to be printed; `None`: no limit.
    left: Option<u64>,
    /// The columns of the terminal, if the output is one.
    columns: Box<dyn Fn() -> Option<usize>>,
    /// Width of the column of streams; 0 if there is only one stream.
    stream_width: usize,
    /// Width of the column of keys so far.
    key_width: usize,
    /// The streams whose first snapshot is complete.
    complete: HashSet<String>,
}

/// The options of the output.
pub(super) struct ViewOptions {
    pub(super) output: TailOutput,
    pub(super) heartbeats: bool,
    pub(super) first_snapshot: bool,
    pub(super) count: Option<u64>,
}

/// The output for a message.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Shown {
    /// For standard output: whole lines.
    pub(super) text: String,
    /// For standard error.
    pub(super) note: Option<String>,
}

impl View {
    /// `columns` returns the width of the output terminal; without one, lines are not cut.
    pub(super) fn new(
        options: ViewOptions,
        streams: &[String],
        columns: impl Fn() -> Option<usize> + 'static,
    ) -> View {
        let widths = streams.iter().map(|stream| width(&shown(stream)));
        View {
            output: options.output,
            heartbeats: options.heartbeats,
            first_snapshot: options.first_snapshot,
            left: options.count,
            columns: Box::new(columns),
            stream_width: if streams.len() > 1 {
                widths.max().unwrap_or(0)
            } else {
                0
            },
            key_width: 0,
            complete: HashSet::new(),
        }
    }

    /// Whether the requested number of changes was printed.
    pub(super) fn is_done(&self) -> bool {
        self.left == Some(0)
    }

    /// The output for a message. `data` is its text.
    pub(super) fn show(&mut self, data: &str, message: &Message<'_>) -> Shown {
        let body = &message.body;
        let snapshot = message.kind == Kind::Snapshot;
        let skipped = snapshot && !self.first_snapshot && !self.complete.contains(&body.stream);
        if snapshot && body.complete {
            self.complete.insert(body.stream.clone());
        }
        if skipped {
            return Shown::default();
        }
        match self.output {
            TailOutput::Table => self.lines(message),
            TailOutput::Json => {
                if !snapshot {
                    self.count_off(body.items.len() + body.keys.len());
                }
                self.json(data, message.kind)
            }
        }
    }

    fn json(&self, data: &str, kind: Kind) -> Shown {
        if kind == Kind::Heartbeat && !self.heartbeats {
            return Shown::default();
        }
        // Between the tokens of JSON, a line break is equivalent to a space; inside a token, there is none.
        let mut text = data.replace(['\n', '\r'], " ");
        if (self.columns)().is_some() {
            text = shown_json(&text).into_owned();
        }
        text.push('\n');
        Shown { text, note: None }
    }

    fn lines(&mut self, message: &Message<'_>) -> Shown {
        let body = &message.body;
        let stream = shown(&body.stream);
        let now = local(&clock::rfc3339(Unix::now()));
        let mut text = String::new();
        let mut note = None;
        match message.kind {
            Kind::Snapshot => {
                for item in &body.items {
                    self.item('=', &stream, item, &now, &mut text);
                }
            }
            Kind::Update => {
                for item in &body.items[..self.count_off(body.items.len())] {
                    self.item('~', &stream, item, &now, &mut text);
                }
            }
            Kind::Remove => {
                for key in &body.keys[..self.count_off(body.keys.len())] {
                    self.line(time(&now, &now), &stream, '-', key, "", &mut text);
                }
            }
            Kind::Reset => {
                let reason = body.reason.as_deref().unwrap_or("the history was lost");
                note = Some(format!(
                    "cannot resume; a snapshot of all items follows: {}",
                    shown(reason)
                ));
            }
            Kind::Stale => {
                let since = body.updated_at.as_deref().unwrap_or("unknown");
                let limit = body.stale_after_seconds;
                let limit = limit.map_or(String::new(), |limit| format!(" (limit: {limit} s)"));
                note = Some(format!(
                    "{stream} is stale: newest data {}{limit}",
                    shown(&local(since))
                ));
            }
            Kind::Fresh => note = Some(format!("{stream} is fresh again")),
            Kind::Heartbeat | Kind::Bye | Kind::Other => {}
        }
        Shown { text, note }
    }

    /// How many of `changes` are to be printed.
    fn count_off(&mut self, changes: usize) -> usize {
        let Some(left) = &mut self.left else {
            return changes;
        };
        let printed = (changes as u64).min(*left);
        *left -= printed;
        printed as usize
    }

    fn item(&mut self, mark: char, stream: &str, item: &Item<'_>, now: &str, text: &mut String) {
        let updated_at = item.updated_at.as_deref().and_then(clock::parse_rfc3339);
        let updated_at = updated_at.map_or_else(|| now.to_owned(), |at| local(&clock::rfc3339(at)));
        let fields = described(item.fields);
        let time = time(&updated_at, now);
        self.line(time, stream, mark, &item.key, &fields, text);
    }

    fn line(
        &mut self,
        time: &str,
        stream: &str,
        mark: char,
        key: &str,
        fields: &str,
        text: &mut String,
    ) {
        let key = shown(key);
        let key_width = width(&key);
        if key_width <= KEY_ALIGNED_MAX {
            self.key_width = self.key_width.max(key_width);
        }
        let mut line = format!("{time:12}  ");
        if self.stream_width > 0 {
            line.push_str(stream);
            pad(&mut line, self.stream_width + 2, width(stream));
        }
        let _ = write!(line, "{mark} {key}");
        pad(&mut line, self.key_width, key_width);
        line.push_str("  ");
        line.push_str(fields);
        let line = line.trim_end();
        match (self.columns)() {
            Some(columns) => push_cut(line, columns, text),
            None => text.push_str(line),
        }
        text.push('\n');
    }
}

/// The time of day without its offset; the date if it is not the day of `now`. Both are RFC 3339 in one zone.
fn time<'a>(moment: &'a str, now: &str) -> &'a str {
    let (date, time) = moment.split_once('T').unwrap_or((moment, ""));
    if now.starts_with(date) {
        time.split(['Z', '+', '-']).next().unwrap_or_default()
    } else {
        date
    }
}

/// Fields as `name=value`, separated by spaces.
fn described(fields: &RawValue) -> String {
    let Ok(Fields(fields)) = serde_json::from_str(fields.get()) else {
        return shown(fields.get()).into_owned();
    };
    let mut text = String::new();
    for (name, value) in fields {
        if !text.is_empty() {
            text.push(' ');
        }
        if is_plain(&name) {
            text.push_str(&name);
        } else {
            let quoted = serde_json::Value::from(name).to_string();
            text.push_str(&shown(&quoted));
        }
        text.push('=');
        match serde_json::from_str::<String>(value.get()) {
            Ok(plain) if is_plain(&plain) && !is_literal(&plain) => text.push_str(&plain),
            _ => text.push_str(&shown(value.get())),
        }
    }
    text
}

/// Whether a text is readable without quotes.
fn is_plain(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_alphanumeric() || "-_./:@+#%$€".contains(c))
}

/// Whether a text without quotes would look like another kind of value.
fn is_literal(text: &str) -> bool {
    matches!(text, "null" | "true" | "false") || serde_json::from_str::<f64>(text).is_ok()
}

fn pad(line: &mut String, wanted: usize, is: usize) {
    line.extend(std::iter::repeat_n(' ', wanted.saturating_sub(is)));
}

/// Appends the part of a line that fits into the columns, with an ellipsis if something is left out.
fn push_cut(line: &str, columns: usize, text: &mut String) {
    let mut used = 0;
    let mut fits = 0;
    for (at, c) in line.char_indices() {
        used += columns_of(c);
        if used > columns {
            text.push_str(&line[..fits]);
            text.push('…');
            return;
        }
        // One column is reserved for the ellipsis.
        if used < columns {
            fits = at + c.len_utf8();
        }
    }
    text.push_str(line);
}

fn width(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

/// Two columns for East Asian characters and emoji. It is approximate: a line that is cut a little early is acceptable,
/// a line that wraps is not.
fn columns_of(c: char) -> usize {
    let wide = matches!(u32::from(c),
        0x1100..=0x115f | 0x231a..=0x23ff | 0x25fd..=0x27bf | 0x2b00..=0x2bff | 0x2e80..=0xa4cf
        | 0xa960..=0xa97f | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0xfe30..=0xfe6f | 0xff00..=0xff60
        | 0xffe0..=0xffe6 | 0x1_6fe0..=0x1_b2ff | 0x1_f000..=0x1_faff | 0x2_0000..=0x3_ffff);
    if wide { 2 } else { 1 }
}

#[cfg(test)]
mod tests;
