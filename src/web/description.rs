//! The description of a stream, a connector or a key.
//!
//! **Invariant**: every page shows it with the same labels.

use maud::{Markup, html};

use super::text::text;
use base::clock::Unix;

/// As an entry in the list of facts of its page.
pub(super) fn fact(description: Option<&str>) -> Markup {
    html! { @if let Some(said) = description { dt { "Description" } dd { (text(said)) } } }
}

/// Where the object can be changed, for a list.
pub(super) fn place(created_at: Option<Unix>) -> &'static str {
    match created_at {
        Some(_) => "catalog",
        None => "file",
    }
}

/// As a line below the name in a list.
pub(super) fn below(description: Option<&str>) -> Markup {
    html! { @if let Some(said) = description { br; span.quiet { (text(said)) } } }
}
