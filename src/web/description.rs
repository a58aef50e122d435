//! What people say of a stream, a connector or a key.
//!
//! **Invariant**: it is shown in the same words everywhere.

use maud::{Markup, html};

use super::text::text;

/// Among the facts of its page.
pub(super) fn fact(description: Option<&str>) -> Markup {
    html! { @if let Some(said) = description { dt { "Description" } dd { (text(said)) } } }
}

/// Below its name in a list.
pub(super) fn below(description: Option<&str>) -> Markup {
    html! { @if let Some(said) = description { br; span.quiet { (text(said)) } } }
}
