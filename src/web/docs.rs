//! `/docs`: the guide, the API reference of a listener, and a search of both.
//!
//! It is public, and the same for all clients: no key is required.
//!
//! **Invariant**: no page contains data of the daemon, loads anything from other servers, or runs a script.

mod example;
mod frame;
mod guide;
mod operation;
mod reference;
mod schema;
mod search;

use http::pages::{ICON, STYLE, StaticPage};
use maud::{Markup, html};

pub use guide::{GetGuide, GetGuidePage};
pub use reference::GetReference;

/// The listener that serves the documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listener {
    Service,
    Admin,
}

/// The style of the documentation: that of the admin pages, with additions.
pub fn style() -> StaticPage {
    let text = concat!(
        include_str!("assets/web.css"),
        include_str!("docs/docs.css")
    );
    StaticPage::new(STYLE, text.as_bytes())
}

/// The icon at the path that browsers request.
pub fn icon() -> StaticPage {
    StaticPage::new(ICON, include_bytes!("assets/icon.svg"))
}

/// Paragraphs, with the text between backticks as code.
fn prose(text: &str) -> Markup {
    html! {
        @for paragraph in text.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty()) {
            p { (inline(paragraph)) }
        }
    }
}

/// A text, with the parts between backticks as code.
fn inline(text: &str) -> Markup {
    html! {
        @for (place, part) in text.split('`').enumerate() {
            @if place % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}
