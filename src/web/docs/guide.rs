//! `/docs`: the pages of the guide, their files, the list of pages, and the search.
//!
//! **Invariant**: the build rendered the pages; they are the same on both listeners.

use std::sync::Arc;

use maud::{Markup, PreEscaped, html};
use salvo_core::http::{ResBody, StatusCode};
use salvo_core::{Depot, FlowCtrl, Handler, Request, Response, async_trait};

use super::frame::{self, Frame};
use super::{Listener, search};
use guide::{FILES, GuidePage, PAGES};
use http::document::Document;

/// The list of contents, with the sections of the current page.
fn contents(shown: Option<&GuidePage>) -> Markup {
    html! {
        ul.pages { @for page in PAGES {
            @let is_shown = shown.is_some_and(|shown| shown.name == page.name);
            li {
                a href={ "/docs/" (page.name) } aria-current=[is_shown.then_some("page")] { (page.title()) }
                @if is_shown { ul { @for section in page.sections.iter().filter(|section| section.level == 2) {
                    li { a href={ "#" (section.anchor) } { (section.heading) } }
                } } }
            }
        } }
    }
}

fn list() -> Markup {
    html! {
        h1 { "Documentation" }
        dl.pages {
            @for page in PAGES {
                dt { a href={ "/docs/" (page.name) } { (page.title()) } }
                dd { (page.lead()) }
            }
            dt { a href="/docs/api" { "API reference" } }
            dd { "Every operation of this listener, with a call in curl. The other listener has its own." }
            dt { a href="/docs/default.toml" { "Every setting" } }
            dd { "The built-in configuration file, with every default and a comment." }
        }
    }
}

/// `GET /docs`
pub struct GetGuide {
    /// Searched together with the guide.
    pub document: Arc<Document>,
    pub listener: Listener,
}

#[async_trait]
impl Handler for GetGuide {
    async fn handle(&self, req: &mut Request, _: &mut Depot, res: &mut Response, _: &mut FlowCtrl) {
        let query = req.query::<String>("q").unwrap_or_default();
        let content = match query.trim().is_empty() {
            true => list(),
            false => html! {
                h1 { "Search" }
                (search::results(&query, PAGES, &self.document.made().await.value))
            },
        };
        Frame {
            listener: self.listener,
            path: "/docs",
            title: "Documentation",
            query: &query,
            contents: contents(None),
            content,
        }
        .send(res);
    }
}

/// `GET /docs/{page}`
pub struct GetGuidePage(pub Listener);

#[async_trait]
impl Handler for GetGuidePage {
    async fn handle(&self, req: &mut Request, _: &mut Depot, res: &mut Response, _: &mut FlowCtrl) {
        let name = req.param::<String>("page").unwrap_or_default();
        if let Some(file) = FILES.iter().find(|file| file.name() == name) {
            frame::send(res, file.content_type, ResBody::Once(file.bytes.into()));
            return;
        }
        let Some(page) = PAGES.iter().find(|page| page.name == name) else {
            // The catcher writes the response.
            res.status_code(StatusCode::NOT_FOUND);
            return;
        };
        Frame {
            listener: self.0,
            path: "/docs",
            title: page.title(),
            query: "",
            contents: contents(Some(page)),
            content: html! { div.guide { (PreEscaped(page.html)) } },
        }
        .send(res);
    }
}
