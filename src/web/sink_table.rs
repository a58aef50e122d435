//! The sinks as a table, and why one does not do what it should.
//!
//! The overview and the pages of the sinks show them.
//!
//! **Invariant**: a number that cannot be read is shown as unknown, never as zero.

use maud::{Markup, html};

use super::text::{grouped, text, text_of, time};
use super::{badge, paths};
use base::clock;
use operate::condition::SinkCondition;

/// Characters of a reason.
const REASON_CHARS_MAX: usize = 600;

/// The sinks, a row each.
pub(super) fn table(sinks: &[SinkCondition]) -> Markup {
    html! {
        @if sinks.is_empty() {
            p.panel { "There is no sink, so accepted requests stay in the journal. " a href="/new/sink" { "Add a sink" } "." }
        } @else {
            div.table { table {
                thead { tr { th { "Sink" } th { "State" } th { "Plugin" } th { "Streams" } th.number { "Waiting" } th.number { "Retries" } th.number { "Dead letters" } } }
                tbody { @for sink in sinks { tr {
                    td data-label="Sink" { a href=(paths::sink(&sink.name)) { (text(&sink.name)) } }
                    td data-label="State" { (badge::sink(sink.state())) }
                    td data-label="Plugin" { span { (text(&sink.plugin())) } }
                    td data-label="Streams" { span { (text(&sink.streams_in_words())) } }
                    td.number data-label="Waiting" { (grouped(sink.lag)) }
                    td.number data-label="Retries" { (known(sink.retries())) }
                    td.number data-label="Dead letters" { (known(sink.dead_letters())) }
                } } }
            } }
        }
    }
}

/// A number, if it can be read.
pub(super) fn known(number: Option<u64>) -> String {
    number.map_or_else(|| "unknown".to_owned(), grouped)
}

/// Why a sink does not do what it should.
pub(super) fn problems(sink: &SinkCondition) -> Markup {
    let (reason, paused_until) = sink.reason();
    html! {
        @if let Some(reason) = reason {
            p.problem role="alert" {
                (text(&sink.name)) " is " (sink.state()) ": " (text_of(&reason, REASON_CHARS_MAX))
                @if let Some(until) = paused_until { ". It tries again " (time(&clock::rfc3339(until))) }
            }
        }
        @if let Some(refused) = sink.refused() {
            p.problem role="alert" { (text(&sink.name)) " continues with its former settings, because the new ones cannot be used: " (text_of(&refused, REASON_CHARS_MAX)) }
        }
    }
}
