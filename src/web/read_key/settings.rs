//! What can be set of a read key: the fields that its forms share.
//!
//! **Invariant**: the form that creates a read key and the one that changes it have the same fields and words.

use maud::{Markup, html};

use crate::description;
use crate::form::{Field, Typed};
use crate::key::{ENDS, networks_field};
use catalog::Catalog;
use settings::RATE_MAX;

/// The field for how many feeds it may ask for in a second.
pub(super) const RATE: &str = "requests_per_second";

/// The field for the origins of its pages.
const ORIGINS: Field<'_> = Field {
    name: "origins",
    label: "Origins (optional)",
    hint: "Pages of these may read with it, beside those of [live]: https://signage.example.com, or null for pages in files, with commas between them.",
};
const ORIGINS_CHARS_MAX: usize = 2_000;

/// The fields.
pub(super) fn fields(typed: &Typed, catalog: &Catalog) -> Markup {
    let streams = Field {
        name: "streams",
        label: "Streams",
        hint: "What it may read.",
    };
    let in_url = Field {
        name: "allow_in_url",
        label: "May stand in a URL",
        hint: "Only for programs that can neither set headers nor run a script: URLs are kept in logs and histories.",
    };
    let rate = Field {
        name: RATE,
        label: "Feeds a second (optional)",
        hint: "How often programs that poll may ask with it.",
    };
    html! {
        (description::field(typed))
        (typed.stream_boxes(streams, catalog))
        (typed.time_input(ENDS))
        (networks_field(typed))
        (typed.input(ORIGINS, ORIGINS_CHARS_MAX, false))
        (typed.tick(in_url))
        (typed.number_input(rate, "50"))
    }
}

/// How many feeds it may ask for in a second.
pub(super) fn rate(typed: &mut Typed) -> Option<u32> {
    let number = typed.number(RATE, RATE_MAX)?;
    u32::try_from(number).ok()
}

/// Origins whose pages may read with it.
pub(super) fn origins(typed: &mut Typed) -> Vec<String> {
    let said = typed.text(ORIGINS.name);
    let origins = said.split([',', ' ']).filter(|one| !one.is_empty());
    origins.map(str::to_owned).collect()
}

/// What stands in their field at first.
pub(super) fn initial_origins(origins: &[String]) -> (&'static str, String) {
    (ORIGINS.name, origins.join(", "))
}

/// The streams that were chosen, at least one.
pub(super) fn streams(typed: &mut Typed) -> Vec<String> {
    let mut streams = typed.all("streams");
    streams.retain(|name| !name.is_empty());
    if streams.is_empty() {
        typed.reject("streams", "Choose at least one stream.");
    }
    streams
}
