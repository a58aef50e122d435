//! `/docs`: the guide, the API reference of a listener, and a search through both.
//!
//! The same for everybody, and open: no key is needed.
//!
//! **Invariant**: no page holds anything of the daemon's data, loads anything from elsewhere, or runs a script.

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

/// Whose documentation it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listener {
    Service,
    Admin,
}

/// The style of the documentation: that of the admin pages, and its own.
pub fn style() -> StaticPage {
    let text = concat!(
        include_str!("assets/web.css"),
        include_str!("docs/docs.css")
    );
    StaticPage::new(STYLE, text.as_bytes())
}

/// The icon, where browsers look for one.
pub fn icon() -> StaticPage {
    StaticPage::new(ICON, include_bytes!("assets/icon.svg"))
}

/// Paragraphs, with what stands between backticks as code.
fn prose(text: &str) -> Markup {
    html! {
        @for paragraph in text.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty()) {
            p { (inline(paragraph)) }
        }
    }
}

/// A text, with what stands between backticks as code.
fn inline(text: &str) -> Markup {
    html! {
        @for (place, part) in text.split('`').enumerate() {
            @if place % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}
