//! What can be set of a stream: the fields that its forms share.
//!
//! **Invariant**: the form that creates a stream and the one that changes it have the same fields and words.

use maud::{Markup, html};

use crate::config::{self, ITEMS_MAX, OnUpdate, STALE_SECONDS_MAX, VOLUME_MAX};
use crate::description;
use crate::form::{Field, Typed};
use crate::rules::Rules;

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
    let items_max = Field {
        name: "items_max",
        label: "At most so many items (optional)",
        hint: "In the data pool. A stream that is full takes no new items.",
    };
    let bytes_max = Field {
        name: "bytes_max",
        label: "At most so many bytes (optional)",
        hint: "Of the keys and fields of its items, likewise.",
    };
    html! {
        (description::field(typed))
        (typed.select(on_update, &[
            ("replace", "replace: it has only the new fields"),
            ("merge", "merge: it keeps fields that do not come again"),
        ]))
        (typed.number_input(stale, "never"))
        div.fields {
            (typed.number_input(items_max, "any"))
            (typed.number_input(bytes_max, "any"))
        }
        (Rules::fields(typed, "A connector or its tool may say another one."))
    }
}

/// Where the forms show what is wrong with what is several fields.
pub(super) const SHOWN_AT: (&str, &str) = ("delete_when", "delete_values");

/// The stream as the form has it; what the form does not ask for stays.
pub(super) fn read(typed: &mut Typed, before: config::Stream) -> config::Stream {
    let on_update = [OnUpdate::Replace, OnUpdate::Merge].map(|one| (one.as_str(), one));
    let rules = Rules::read(typed);
    config::Stream {
        description: description::read(typed),
        on_update: typed.choice("on_update", &on_update).unwrap_or_default(),
        stale_after_seconds: typed.number("stale_after_seconds", STALE_SECONDS_MAX),
        items_max: typed.number("items_max", ITEMS_MAX),
        bytes_max: typed.number("bytes_max", VOLUME_MAX),
        version: rules.version,
        delete_when: rules.delete_when,
        expire_after_seconds: rules.expire_after_seconds,
        ..before
    }
}
