//! What people say of a stream, a connector or a key.
//!
//! **Invariant**: it is shown in the same words everywhere.

use maud::{Markup, html};

use super::text::text;
use base::clock::Unix;

/// Among the facts of its page.
pub(super) fn fact(description: Option<&str>) -> Markup {
    html! { @if let Some(said) = description { dt { "Description" } dd { (text(said)) } } }
}

/// Where it can be changed, in a list.
pub(super) fn place(created_at: Option<Unix>) -> &'static str {
    match created_at {
        Some(_) => "catalog",
        None => "file",
    }
}

/// Below its name in a list.
pub(super) fn below(description: Option<&str>) -> Markup {
    html! { @if let Some(said) = description { br; span.quiet { (text(said)) } } }
}
