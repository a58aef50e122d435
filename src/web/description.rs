//! What people say of a stream, a connector or a key.
//!
//! **Invariant**: it is asked for and shown in the same words everywhere.

use maud::{Markup, html};

use super::form::{Field, Typed};
use super::text::text;
use settings::DESCRIPTION_CHARS_MAX;

const NAME: &str = "description";

/// The field of a form.
pub(super) fn field(typed: &Typed) -> Markup {
    let field = Field {
        name: NAME,
        label: "Description (optional)",
        hint: "What it is for, or who has it: at most 200 characters.",
    };
    typed.input(field, DESCRIPTION_CHARS_MAX, false)
}

/// What stands in the field at first.
pub(super) fn initial(description: Option<&str>) -> (&'static str, String) {
    (NAME, description.unwrap_or_default().to_owned())
}

/// What the field says, if anything.
pub(super) fn read(typed: &Typed) -> Option<String> {
    typed.optional(NAME)
}

/// Among the facts of its page.
pub(super) fn fact(description: Option<&str>) -> Markup {
    html! { @if let Some(said) = description { dt { "Description" } dd { (text(said)) } } }
}

/// Below its name in a list.
pub(super) fn below(description: Option<&str>) -> Markup {
    html! { @if let Some(said) = description { br; span.quiet { (text(said)) } } }
}
