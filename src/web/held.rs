//! One-line summaries of holds and overrides: on the overview, and for streams and screens.
//!
//! **Invariant**: the text of a hold names its operator and its start.

use maud::{Markup, html};

use super::grid::Cell;
use super::text::{count, text, time};
use base::clock;
use pool::acts::{ActCounts, HeldSince};

/// The start of a hold, its operator and its end.
pub(super) fn since(held: &HeldSince) -> Markup {
    html! {
        "since " (time(&clock::rfc3339(held.since))) " by " (text(&held.by))
        @if let Some(until) = held.until { ", until " (time(&clock::rfc3339(until))) }
    }
}

/// The holds and overrides of a stream in one line.
pub(super) fn in_short(acts: &ActCounts) -> Markup {
    html! {
        @if let Some(held) = &acts.held {
            span.badge.held { "held" } " " (since(held))
            @if acts.waiting > 0 { ", " (count(acts.waiting, "change")) " wait" @if acts.waiting == 1 { "s" } }
            ". "
        }
        @if acts.held_keys > 0 { span.badge.held { "held" } " " (count(acts.held_keys, "item")) ". " }
        @if acts.fields > 0 {
            span.badge.hand { "overridden" } " " (count(acts.fields, "field")) " of " (count(acts.overridden, "item")) "."
        }
    }
}

/// As `since`, as plain text.
pub(super) fn since_in_words(held: &HeldSince) -> String {
    let until = (held.until).map_or_else(String::new, |until| {
        format!(", until {}", clock::rfc3339(until))
    });
    format!("since {} by {}{until}", clock::rfc3339(held.since), held.by)
}

/// The holds and overrides of a stream, in a list of streams.
pub(super) fn cell(acts: Option<&ActCounts>) -> Cell {
    let Some(acts) = acts else {
        return Cell::none();
    };
    let hold = acts.held.as_ref().map(since_in_words).unwrap_or_default();
    // Groups held streams, and streams with overrides, when the list is sorted.
    let value = if acts.held.is_some() {
        "held"
    } else {
        "overridden"
    };
    Cell::markup(html! { span.val { (in_short(acts)) } })
        .valued(value)
        .titled(hold)
}
