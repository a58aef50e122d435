//! The frame of every page of the documentation, and its headers.
//!
//! **Invariant**: a page loads only its own style and the guide's pictures, and runs no script.

use maud::{DOCTYPE, Markup, html};
use salvo_core::Response;
use salvo_core::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use salvo_core::http::{ResBody, StatusCode};

use super::Listener;

const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

pub(super) struct Frame<'a> {
    pub(super) listener: Listener,
    /// Its path, which is marked in the navigation.
    pub(super) path: &'a str,
    pub(super) title: &'a str,
    pub(super) query: &'a str,
    /// The list of contents, next to the content.
    pub(super) contents: Markup,
    pub(super) content: Markup,
}

impl Frame<'_> {
    pub(super) fn send(&self, res: &mut Response) {
        let page = self.markup().into_string();
        send(res, "text/html; charset=utf-8", page.into_bytes().into());
    }

    pub(super) fn markup(&self) -> Markup {
        let link = |path: &'static str, name| {
            html! { a href=(path) aria-current=[(path == self.path).then_some("page")] { (name) } }
        };
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (self.title) " · Headgate" }
                    link rel="stylesheet" href="/docs.css";
                }
                body.docs {
                    a.skip href="#content" { "Skip to the content" }
                    header.top {
                        span.brand { "Headgate" }
                        nav aria-label="Pages" {
                            @if self.listener == Listener::Admin { a href="/" { "Overview" } }
                            (link("/docs", "Guide"))
                            (link("/docs/api", "API"))
                            a href="/openapi.json" { "openapi.json" }
                        }
                        form role="search" action="/docs" {
                            input type="search" name="q" value=(self.query) aria-label="Search the documentation" placeholder="Search" maxlength="200";
                        }
                    }
                    div.columns {
                        aside { nav.contents aria-label="Contents" { (self.contents) } }
                        main #content { (self.content) }
                    }
                    footer { "Headgate " (env!("CARGO_PKG_VERSION")) }
                }
            }
        }
    }
}

pub(super) fn send(res: &mut Response, content_type: &'static str, body: ResBody) {
    res.status_code(StatusCode::OK);
    for (name, value) in [
        (CONTENT_TYPE, content_type),
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
    ] {
        res.headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    res.replace_body(body);
}
