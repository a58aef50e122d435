//! What is held and overridden, in a line: on the overview, with streams and with screens.
//!
//! **Invariant**: who holds is named, and since when.

use maud::{Markup, html};

use super::grid::Cell;
use super::text::{count, text, time};
use base::clock;
use pool::acts::{ActCounts, HeldSince};

/// Since when something is held, by whom and until when.
pub(super) fn since(held: &HeldSince) -> Markup {
    html! {
        "since " (time(&clock::rfc3339(held.since))) " by " (text(&held.by))
        @if let Some(until) = held.until { ", until " (time(&clock::rfc3339(until))) }
    }
}

/// What operators do to a stream, in a line.
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

/// The same as a text.
pub(super) fn since_in_words(held: &HeldSince) -> String {
    let until = (held.until).map_or_else(String::new, |until| {
        format!(", until {}", clock::rfc3339(until))
    });
    format!("since {} by {}{until}", clock::rfc3339(held.since), held.by)
}

/// What operators do to a stream, in a list of streams.
pub(super) fn cell(acts: Option<&ActCounts>) -> Cell {
    let Some(acts) = acts else {
        return Cell::none();
    };
    let hold = acts.held.as_ref().map(since_in_words).unwrap_or_default();
    // Held streams are next to each other, and so are those with overrides.
    let value = if acts.held.is_some() {
        "held"
    } else {
        "overridden"
    };
    Cell::markup(html! { span.val { (in_short(acts)) } })
        .valued(value)
        .titled(hold)
}
