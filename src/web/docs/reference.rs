//! `/docs/api`: the OpenAPI document of a listener as a page.
//!
//! The server renders it from the document that `/openapi.json` serves, and it is public, as that document is.
//!
//! **Invariant**: the page contains no data of the daemon.

use std::sync::Arc;

use maud::{Markup, html};
use salvo_core::http::header::{HOST, HeaderMap, HeaderName, HeaderValue};
use salvo_core::{Depot, FlowCtrl, Handler, Request, Response, async_trait};
use serde_json::Value;

use super::frame::Frame;
use super::operation::Operation;
use super::{Listener, inline, prose};
use http::document::Document;

const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// `GET /docs/api`
pub struct GetReference {
    pub document: Arc<Document>,
    pub listener: Listener,
}

#[async_trait]
impl Handler for GetReference {
    async fn handle(&self, req: &mut Request, _: &mut Depot, res: &mut Response, _: &mut FlowCtrl) {
        let document = &self.document.made().await.value;
        page(document, self.listener, &base(req.headers())).send(res);
    }
}

/// The URL of the listener as the reader reaches it, for the examples.
fn base(headers: &HeaderMap) -> String {
    let in_a_host = |byte: u8| byte.is_ascii_alphanumeric() || b".:-[]".contains(&byte);
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = host.filter(|host| !host.is_empty() && host.bytes().all(in_a_host));
    let forwarded = headers.get(X_FORWARDED_PROTO).map(HeaderValue::as_bytes);
    let scheme = match forwarded {
        Some(b"https") => "https",
        _ => "http",
    };
    format!("{scheme}://{}", host.unwrap_or("localhost"))
}

/// The operations of a document by tag: tags and paths are in the document's order.
fn groups(document: &Value) -> Vec<(&Value, Vec<Operation<'_>>)> {
    let tags = document["tags"].as_array().into_iter().flatten();
    let groups = tags.map(|tag| {
        let operations = Operation::all(document);
        let own = operations.filter(|operation| operation.tag() == tag["name"].as_str());
        (tag, own.collect())
    });
    groups.collect()
}

fn page<'a>(document: &'a Value, listener: Listener, base: &str) -> Frame<'a> {
    let title = document["info"]["title"].as_str().unwrap_or_default();
    let groups = groups(document);
    let contents = html! {
        @for (tag, operations) in &groups {
            h2 { a href={ "#" (anchor(tag)) } { (tag["name"].as_str().unwrap_or_default()) } }
            ul { @for operation in operations {
                li { a href={ "#" (operation.id()) } { (operation.method_badge()) " " span { (operation.summary()) } } }
            } }
        }
    };
    let content = html! {
        h1 { (title) " API " small.quiet { (document["info"]["version"].as_str().unwrap_or_default()) } }
        (prose(document["info"]["description"].as_str().unwrap_or_default()))
        (access(document))
        @for (tag, operations) in &groups {
            section aria-labelledby=(anchor(tag)) {
                h2 #(anchor(tag)) { (tag["name"].as_str().unwrap_or_default()) }
                (prose(tag["description"].as_str().unwrap_or_default()))
                @for operation in operations { (operation.show(document, base)) }
            }
        }
    };
    Frame {
        listener,
        path: "/docs/api",
        title: "API",
        query: "",
        contents,
        content,
    }
}

/// The authentication, and the placeholders of the examples.
fn access(document: &Value) -> Markup {
    let schemes = document["components"]["securitySchemes"].as_object();
    html! {
        div.panel {
            dl {
                @for (name, scheme) in schemes.into_iter().flatten() {
                    dt { code { (name) } }
                    dd { "In the header " code { "Authorization: Bearer …" } ". " (inline(scheme["description"].as_str().unwrap_or_default())) }
                }
            }
            p { "In the examples, replace words in capitals with your values. Words that begin with " code { "$" } " are variables of the shell." }
        }
    }
}

fn anchor(tag: &Value) -> String {
    let name = tag["name"].as_str().unwrap_or_default();
    format!("tag-{}", name.replace(' ', "-"))
}

#[cfg(test)]
mod tests;
