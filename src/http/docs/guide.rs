//! `/docs`: the list of the guide's pages and the search; and each page and file of the guide.
//!
//! **Invariant**: the pages are rendered once, when the listener is made.

use std::sync::Arc;

use maud::{Markup, PreEscaped, html};
use salvo_core::http::{ResBody, StatusCode};
use salvo_core::{Depot, FlowCtrl, Handler, Request, Response, async_trait};
use serde_json::Value;

use super::frame::{self, Frame};
use super::markdown::Rendered;
use super::{Listener, search};
use crate::guide::{FILES, PAGES};

/// The guide as a listener serves it.
pub(in crate::http) struct Guide {
    pages: Vec<Rendered>,
    /// For the search.
    document: Arc<Value>,
    listener: Listener,
}

impl Guide {
    pub(in crate::http) fn new(document: Arc<Value>, listener: Listener) -> Arc<Self> {
        Arc::new(Self {
            pages: PAGES.iter().copied().map(Rendered::new).collect(),
            document,
            listener,
        })
    }

    /// The pages, with the sections of the one that is shown.
    fn contents(&self, shown: Option<&Rendered>) -> Markup {
        html! {
            ul.pages { @for page in &self.pages {
                @let is_shown = shown.is_some_and(|shown| shown.page.name == page.page.name);
                li {
                    a href={ "/docs/" (page.page.name) } aria-current=[is_shown.then_some("page")] { (page.title()) }
                    @if is_shown { ul { @for section in page.sections.iter().filter(|section| section.level == 2) {
                        li { a href={ "#" (section.anchor) } { (section.heading) } }
                    } } }
                }
            } }
        }
    }

    /// The list of pages.
    fn list(&self) -> Markup {
        html! {
            h1 { "Documentation" }
            dl.pages {
                @for page in &self.pages {
                    dt { a href={ "/docs/" (page.page.name) } { (page.title()) } }
                    dd { (page.lead()) }
                }
                dt { a href="/docs/api" { "API reference" } }
                dd { "Every operation of this listener, with a call in curl. The other listener has its own." }
                dt { a href="/docs/default.toml" { "Every setting" } }
                dd { "The built-in configuration file, with every default and a comment." }
            }
        }
    }
}

/// `GET /docs`
pub(in crate::http) struct GetGuide(pub(in crate::http) Arc<Guide>);

#[async_trait]
impl Handler for GetGuide {
    async fn handle(&self, req: &mut Request, _: &mut Depot, res: &mut Response, _: &mut FlowCtrl) {
        let guide = &self.0;
        let query = req.query::<String>("q").unwrap_or_default();
        let content = match query.trim().is_empty() {
            true => guide.list(),
            false => html! {
                h1 { "Search" }
                (search::results(&query, &guide.pages, &guide.document))
            },
        };
        Frame {
            listener: guide.listener,
            path: "/docs",
            title: "Documentation",
            query: &query,
            contents: guide.contents(None),
            content,
        }
        .send(res);
    }
}

/// `GET /docs/{page}`
pub(in crate::http) struct GetGuidePage(pub(in crate::http) Arc<Guide>);

#[async_trait]
impl Handler for GetGuidePage {
    async fn handle(&self, req: &mut Request, _: &mut Depot, res: &mut Response, _: &mut FlowCtrl) {
        let guide = &self.0;
        let name = req.param::<String>("page").unwrap_or_default();
        if let Some(file) = FILES.iter().find(|file| file.name() == name) {
            frame::send(res, file.content_type, ResBody::Once(file.bytes.into()));
            return;
        }
        let Some(page) = guide.pages.iter().find(|page| page.page.name == name) else {
            // The catcher says so.
            res.status_code(StatusCode::NOT_FOUND);
            return;
        };
        Frame {
            listener: guide.listener,
            path: "/docs",
            title: page.title(),
            query: "",
            contents: guide.contents(Some(page)),
            content: html! { div.guide { (PreEscaped(&page.html)) } },
        }
        .send(res);
    }
}
