//! The table of the sinks, and their problems.
//!
//! The overview and the pages of the sinks use it.
//!
//! **Invariant**: a number that cannot be read is shown as unknown, never as zero.

use maud::{Markup, html};

use super::grid::{Cell, Column, Grid, Row, Sorting, count_of};
use super::node::of_sink;
use super::text::{count, grouped, text, text_of, time};
use super::{badge, paths};
use base::clock;
use operate::condition::SinkCondition;

/// Maximum characters of a reason.
const REASON_CHARS_MAX: usize = 600;

/// The sinks, one row each.
pub(super) fn table(sinks: &[SinkCondition], sorting: &Sorting) -> Markup {
    html! {
        @if sinks.is_empty() {
            p.panel { "No sinks, so accepted requests stay in the journal. " a href="/new/sink" { "Add a sink" } "." }
        } @else {
            (Grid::new("Sinks", "Sink", columns()).sorted(sinks.iter().map(row), usize::MAX, sorting).pager(count_of(&count(sinks.len() as u64, "sink"))).markup())
        }
    }
}

fn columns() -> [Column; 7] {
    [
        Column::text("State"),
        Column::text("Plugin"),
        Column::text("Streams"),
        Column::number("Waiting"),
        Column::number("Retries"),
        Column::number("Dead letters"),
        Column::time("Last failure"),
    ]
}

fn row(sink: &SinkCondition) -> Row {
    let failure = sink.lane.as_ref().and_then(|lane| lane.last_error());
    let failed_at = failure.as_ref().map(|(at, _)| clock::rfc3339(*at));
    let address = paths::sink(&sink.name);
    let letters = format!("{address}#dead-letters");
    Row::of(&*sink.name, address).cells([
        Cell::markup(html! { (badge::sink(sink.state())) (of_sink(sink)) }).valued(sink.state()),
        Cell::text(&sink.plugin()),
        Cell::text(&sink.streams_in_words()),
        Cell::text(&grouped(sink.lag)),
        Cell::text(&known(sink.retries())),
        Cell::linked(&known(sink.dead_letters()), Some(&letters)),
        Cell::time(failed_at.as_deref()).titled(failure.map(|(_, why)| why).unwrap_or_default()),
    ])
}

/// A number, or `unknown`.
pub(super) fn known(number: Option<u64>) -> String {
    number.map_or_else(|| "unknown".to_owned(), grouped)
}

/// The problems of a sink.
pub(super) fn problems(sink: &SinkCondition) -> Markup {
    let (reason, paused_until) = sink.reason();
    // That another node runs it is no problem.
    let reason = reason.filter(|_| sink.state() != "elsewhere" || sink.node.is_none());
    html! {
        @if let Some(reason) = reason {
            p.problem role="alert" {
                (text(&sink.name)) " is " (sink.state()) ": " (text_of(&reason, REASON_CHARS_MAX))
                @if let Some(until) = paused_until { ". Next retry " (time(&clock::rfc3339(until))) }
            }
        }
        @if let Some(refused) = sink.refused() {
            p.problem role="alert" { (text(&sink.name)) " runs with its previous settings or plugin because the new ones failed: " (text_of(&refused, REASON_CHARS_MAX)) }
        }
    }
}
