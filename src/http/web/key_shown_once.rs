//! A key that was just made, on the page that shows it once.
//!
//! **Invariant**: it is taken from the session by the page that it is shown on, so that no second look, no reload
//! and no poll finds it; in the browser it goes when the page is left.

use maud::{Markup, html};
use salvo_core::{Depot, Request};

use super::guard::{is_poll, visitor};
use super::sessions::Made;
use super::snippets::{self, Address};
use super::text::{text, time};
use crate::clock;

/// The key for this page, if one was just made.
pub(super) fn take(req: &Request, depot: &Depot) -> Option<Made> {
    if is_poll(req) {
        return None;
    }
    visitor(depot)?.take_made(req.uri().path())
}

/// The key and what to do with it. It has the focus.
pub(super) fn panel(made: &Made, what: &str) -> Markup {
    html! {
        h2 #made tabindex="-1" autofocus { "The " (what) " " (text(&made.key)) ", shown only now" }
        p { "Copy it to where it is used. When this page is left or loaded again, nobody can see it any more." }
        div.copy data-once {
            code #secret { (made.secret.expose()) }
            button type="button" data-copy="secret" { "Copy" }
        }
        @if let Some((name, ends_ms)) = &made.previous {
            p {
                "The one before it is called " strong { (text(name)) } " now and "
                @if *ends_ms <= clock::unix_ms() { "has ended." } @else { "works until " (time(&clock::rfc3339(*ends_ms))) "." }
            }
        }
    }
}

/// How to send to a stream, in several languages, with the key if it was just made.
pub(super) fn snippets(address: &Address, stream: &str, made: Option<&Made>) -> Markup {
    let all = snippets::all(address, stream, made.map(|made| &made.secret));
    html! {
        div data-once[made.is_some()] {
            @for (place, (language, code)) in all.iter().enumerate() {
                details name="snippet" open[made.is_some() && place == 0] {
                    summary { (language) }
                    pre { code id={ "snippet-" (place) } { (code) } }
                    button.plain type="button" data-copy={ "snippet-" (place) } { "Copy" }
                }
            }
        }
    }
}
