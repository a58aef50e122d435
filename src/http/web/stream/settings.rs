//! What can be set of a stream: the fields that its forms share.
//!
//! **Invariant**: the form that creates a stream and the one that changes it have the same fields and words.

use maud::{Markup, html};

use crate::config::{OnUpdate, STALE_SECONDS_MAX};
use crate::http::web::form::{Field, Typed};

/// The fields.
pub(super) fn fields(typed: &Typed) -> Markup {
    let on_update = Field {
        name: "on_update",
        label: "When an item comes again",
        hint: "",
    };
    let stale = Field {
        name: "stale_after_seconds",
        label: "Stale after so many seconds without data (optional)",
        hint: "Renderers are told then, and when data is back.",
    };
    html! {
        (typed.select(on_update, &[
            ("replace", "replace: it has only the new fields"),
            ("merge", "merge: it keeps fields that do not come again"),
        ]))
        (typed.number_input(stale, "never"))
    }
}

/// What the field `on_update` says.
pub(super) fn on_update(typed: &mut Typed) -> Option<OnUpdate> {
    let words = [OnUpdate::Replace, OnUpdate::Merge].map(|one| (one.as_str(), one));
    typed.choice("on_update", &words)
}

/// What the field `stale_after_seconds` says.
pub(super) fn stale_after_seconds(typed: &mut Typed) -> Option<u64> {
    typed.number("stale_after_seconds", STALE_SECONDS_MAX)
}
