//! A new key, on the page that shows it once.
//!
//! **Invariant**: the page takes the key out of the session, so that no later view, reload or poll finds it. The
//! browser removes it when the user leaves the page.

use maud::{Markup, html};
use salvo_core::http::{Method, StatusCode};
use salvo_core::{Depot, Request, Response};

use crate::frame::{NoPage, is_poll, notice};
use crate::snippets::{self, Address, Sample};
use crate::text::{text, time};
use base::clock::{self, Unix};
use http::sessions::{IssuedKey, SessionError, Visitor};

/// The new key for this page, if any.
pub(crate) async fn take(req: &mut Request, depot: &Depot) -> Result<Option<IssuedKey>, NoPage> {
    // The user sees neither of these responses.
    let is_seen = !is_poll(req) && *req.method() != Method::HEAD;
    match Visitor::of(depot).filter(|_| is_seen) {
        Some(visitor) => Ok(visitor.take_issued_key(req.uri().path()).await?),
        None => Ok(None),
    }
}

/// A new key cannot be kept for the page that would show it.
pub(crate) fn failed(key: &str, error: &SessionError, res: &mut Response) {
    tracing::debug!(%error, "a new key cannot be shown");
    let why = format!(
        "The key {key} was created, but it cannot be shown: the database of the cluster does not answer. When it is back, rotate or delete the key."
    );
    let status = StatusCode::SERVICE_UNAVAILABLE;
    notice(res, status, "The key cannot be shown", &why);
}

/// The key, and what to do with it. The heading has the focus.
pub(crate) fn panel(issued: &IssuedKey, what: &str) -> Markup {
    html! {
        h2 #made tabindex="-1" autofocus { "The " (what) " " (text(&issued.key)) ", shown only now" }
        p { "Copy it now. It is not shown again." }
        div.copy data-once {
            code #secret { (issued.secret.expose()) }
            button type="button" data-copy="secret" { "Copy" }
        }
        @if let Some((name, ends_at)) = &issued.previous {
            p {
                "The old key is called " strong { (text(name)) } " now and "
                @if *ends_at <= Unix::now() { "has expired." } @else { "is valid until " (time(&clock::rfc3339(*ends_at))) "." }
            }
        }
    }
}

/// Example requests in several languages, with the key if it is new.
pub(crate) fn snippets(
    address: &Address,
    sample: &Sample<'_>,
    issued: Option<&IssuedKey>,
) -> Markup {
    let all = snippets::all(address, sample, issued.map(|issued| &issued.secret));
    html! {
        div data-once[issued.is_some()] {
            @for (place, snippet) in all.iter().enumerate() {
                details name="snippet" open[issued.is_some() && place == 0] {
                    summary { (snippet.language) }
                    pre tabindex="0" { code id={ "snippet-" (place) } { (snippet.code) } }
                    button.plain type="button" data-copy={ "snippet-" (place) } { "Copy" }
                    @if let Some(library) = &snippet.library {
                        p { "With the " a href="/docs/clients" { "library" } ", which batches and retries, without duplicates:" }
                        pre tabindex="0" { code id={ "snippet-" (place) "-library" } { (library) } }
                        button.plain type="button" data-copy={ "snippet-" (place) "-library" } { "Copy" }
                    }
                }
            }
        }
    }
}
