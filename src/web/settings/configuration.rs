//! The configuration on the page of settings: the settings that differ from their default, or all, filtered.
//!
//! **Invariant**: the page shows at most [`ROWS_MAX`] settings, and states how many are hidden.

use maud::{Markup, html};
use salvo_core::Request;

use crate::text::{count, text, text_of};
use operate::Operator;
use settings::Row;

/// Maximum characters of a value.
const VALUE_CHARS_MAX: usize = 1_000;
/// Maximum settings on the page.
const ROWS_MAX: usize = 2_000;

/// The filter of the settings.
pub(super) struct Wanted {
    /// A text in the name or value, in upper or lower case.
    words: String,
    /// Include settings with their default.
    all: bool,
}

impl Wanted {
    /// The filter in the URL.
    pub(super) fn of(req: &Request) -> Self {
        Self {
            words: req.query::<String>("q").unwrap_or_default(),
            all: req.query::<String>("all").is_some(),
        }
    }

    fn takes(&self, row: &Row) -> bool {
        let words = self.words.trim().to_lowercase();
        let has = |text: &str| text.to_lowercase().contains(&words);
        (self.all || !is_default(row)) && (has(&row.path) || has(&row.toml()))
    }
}

/// Whether the setting has its default.
fn is_default(row: &Row) -> bool {
    row.origin == "default" || row.origin.starts_with("built-in default.toml")
}

/// Errors in the configuration, and settings that take effect after a restart.
pub(super) fn news(operator: &Operator) -> Markup {
    let waiting: Vec<Row> = operator.configuration.waiting();
    html! {
        @if let Some(problem) = operator.configuration.problem() {
            p.problem { (text_of(&problem, VALUE_CHARS_MAX)) }
        }
        @if !waiting.is_empty() {
            p.problem { "These settings changed after the start and apply after a restart:" }
            (table(&waiting.iter().collect::<Vec<_>>()))
        }
    }
}

/// The settings that match the filter. Settings of a list are folded, unless the filter has a text.
pub(super) fn settings(operator: &Operator, wanted: &Wanted) -> Markup {
    let rows = operator.configuration.in_use();
    let mut found: Vec<&Row> = rows.iter().filter(|row| wanted.takes(row)).collect();
    let total = found.len();
    found.truncate(ROWS_MAX);
    let is_looked_for = !wanted.words.trim().is_empty();
    let (shown, folded): (Vec<&Row>, Vec<&Row>) = found
        .into_iter()
        .partition(|row| is_looked_for || list_of(row).is_none());
    html! {
        form.row method="get" action="/settings#configuration" {
            label for="q" { "Filter" }
            input #q name="q" type="search" value=(wanted.words);
            label { input type="checkbox" name="all" value="yes" checked[wanted.all]; " Also defaults" }
            button.plain { "Apply" }
        }
        p.quiet {
            @match (total, wanted.all, is_looked_for) {
                (0, false, false) => "All settings have their defaults.",
                (0, ..) => "No setting matches.",
                (_, false, _) => { (count(total as u64, "setting")) " set by a profile, a file, a variable or an option." },
                (_, true, _) => { (count(total as u64, "setting")) "." },
            }
        }
        @if !shown.is_empty() { (table(&shown)) }
        @for rows in folded.chunk_by(|one, other| list_of(one) == list_of(other)) {
            @let list = list_of(rows[0]).unwrap_or_default();
            @let elements = rows.chunk_by(|one, other| element_of(one) == element_of(other)).count();
            details.panel {
                summary { code { (list) } ": " (elements) }
                (table(rows))
            }
        }
        @if total > ROWS_MAX { p.quiet { (count((total - ROWS_MAX) as u64, "more setting")) " not shown: use the filter." } }
    }
}

/// The list of a setting: `streams` of `streams[3].name`.
fn list_of(row: &Row) -> Option<&str> {
    row.path.split_once('[').map(|(list, _)| list)
}

/// The element of a setting: `streams[3`.
fn element_of(row: &Row) -> &str {
    row.path.split(']').next().unwrap_or_default()
}

fn table(rows: &[&Row]) -> Markup {
    html! {
        div.table { table {
            thead { tr { th { "Setting" } th { "Value" } th { "Set by" } } }
            tbody { @for row in rows { tr {
                td.mono data-label="Setting" { (text(&row.path)) }
                td.mono data-label="Value" { (text_of(&row.toml(), VALUE_CHARS_MAX)) }
                td data-label="Set by" { (text(&row.origin)) }
            } } }
        } }
    }
}
