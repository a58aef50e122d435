//! The content of a request: its headers, its items or body, and the request as a curl command.
//!
//! **Invariant**: content is shown shortened and escaped, and only while it is kept.

use maud::{Markup, html};

use crate::text::{count, grouped, text, text_of, visible_json};
use journal::{LogEntry, Outcome};
use operate::content::{Content, ItemContent};
use operate::requests::Report;

/// Maximum items that are shown unfolded.
const OPEN_ITEMS: usize = 3;
/// Maximum presets that are suggested for a rejected request.
const FITS_MAX: usize = 5;

pub(super) fn headers(report: &Report) -> Markup {
    let entry = &report.row.entry;
    html! {
        @if entry.headers.is_some() {
            h2 { "Headers" }
            div.panel { dl #headers {
                @for (name, value) in entry.headers() {
                    dt { (text(name)) }
                    dd { @match value { Some(value) => (text(value)), None => span.quiet { "not kept" } } }
                }
            } }
            @if entry.outcome == Outcome::Rejected { (fitting(entry)) }
        }
    }
}

/// Presets that match the headers, for users who chose the wrong preset.
fn fitting(entry: &LogEntry) -> Markup {
    let headers: Vec<_> = entry.headers().collect();
    let fits = webhook::fitting(&headers, None);
    html! {
        @if !fits.is_empty() {
            p #fitting { "Matching presets: "
                @for (position, fit) in fits.iter().take(FITS_MAX).enumerate() {
                    @if position > 0 { ", " } (fit.preset.title) " (" code { (fit.preset.name) } ")"
                }
            }
        }
    }
}

/// The items or the body.
pub(super) fn content(content: &Content) -> Markup {
    html! {
        @match content {
            Content::Body { text, left_out } => {
                h2 { "Body" }
                div.panel #body {
                    pre tabindex="0" { code { bdi { (visible_json(text)) } } }
                    @if *left_out > 0 { p.quiet { (grouped(*left_out as u64)) " more bytes are not shown." } }
                }
            },
            Content::Nothing(why) => {
                h2 { "Content" }
                p.panel #content { "Not available: " (why) "." }
            },
            Content::Items { items, left_out } => {
                h2 { "Items" }
                div #items {
                    @for item in items.iter().take(OPEN_ITEMS) { (item_panel(item)) }
                    @if let Some(folded) = items.get(OPEN_ITEMS..).filter(|folded| !folded.is_empty()) {
                        details.panel {
                            summary { (count(folded.len() as u64, "more item")) }
                            @for item in folded { (item_panel(item)) }
                        }
                    }
                }
                @if items.is_empty() { p.panel { "No items: the list was empty." } }
                @if *left_out > 0 { p.quiet { (count(*left_out as u64, "more item")) " not shown." } }
            },
        }
    }
}

fn item_panel(item: &ItemContent) -> Markup {
    html! {
        div.panel { dl {
            dt { "Key" } dd { (text(&item.key)) }
            @for field in &item.fields {
                dt { (text(&field.name)) }
                dd.mono {
                    (text_of(&field.value, usize::MAX))
                    @if field.bytes_left_out > 0 { span.quiet { "… (" (grouped(field.bytes_left_out as u64)) " more bytes)" } }
                }
            }
        }
        @if item.fields_left_out > 0 { p.quiet { (count(item.fields_left_out as u64, "more field")) " not shown." } } }
    }
}

/// The curl command, or the reason why there is none.
pub(super) fn as_curl(command: Result<String, Option<&'static str>>) -> Markup {
    html! {
        @match command {
            Ok(command) => {
                h2 { "As curl" }
                div.panel {
                    p { "Set the variable to the key's secret: " code { "HEADGATE_KEY" } "; it is not shown here." }
                    pre tabindex="0" { code #curl { (command) } }
                }
            },
            Err(Some(why)) => { h2 { "As curl" } p.panel { (why) } },
            Err(None) => {},
        }
    }
}
