//! Badges: a state as a word in a color.
//!
//! **Invariant**: the word alone identifies the state; the color only helps.

use maud::{Markup, html};

use operate::requests::Status;
use pool::SinkState;

/// The class of a status in the style sheet.
pub(super) fn class_of(status: Status) -> &'static str {
    match status {
        Status::Processed => "good",
        Status::Accepted => "warn",
        Status::Failed | Status::Discarded | Status::Rejected => "bad",
        Status::Stale | Status::Duplicate | Status::Test | Status::Removed | Status::Handshake => {
            ""
        }
    }
}

/// The status of a request.
pub(super) fn status(status: Status) -> Markup {
    badge(class_of(status), status.as_str())
}

/// The state of a sink, by its name in the API.
pub(super) fn sink(state: &str) -> Markup {
    let class = match state {
        "running" => "good",
        "starting" | "filling" => "warn",
        "elsewhere" => "",
        _ => "bad",
    };
    badge(class, state)
}

/// The state of a request in a sink: class and word.
pub(super) fn sink_state(state: SinkState) -> (&'static str, &'static str) {
    match state {
        SinkState::Waiting => ("warn", "waiting"),
        SinkState::Done(_) => ("good", "done"),
        SinkState::Stale { .. } => ("", "stale"),
        SinkState::Retrying => ("warn", "retrying"),
        SinkState::Failed => ("bad", "failed"),
        SinkState::Discarded(_) => ("bad", "discarded"),
    }
}

fn badge(class: &str, word: &str) -> Markup {
    html! { span class={ "badge " (class) } { (word) } }
}
