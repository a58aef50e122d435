//! `/docs`: the OpenAPI document of a listener as a page that people can read.
//!
//! It is made on the server from the very document that `/openapi.json` serves, and it is as open as that one.
//!
//! **Invariant**: the page holds nothing of the daemon's data, loads nothing but its own style, and runs no script.

mod example;
mod operation;
mod schema;

use std::sync::Arc;

use maud::{DOCTYPE, Markup, html};
use salvo_core::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use salvo_core::http::{ResBody, StatusCode};
use salvo_core::{Depot, FlowCtrl, Handler, Request, Response, async_trait};
use serde_json::Value;

use operation::Operation;

const POLICY: &str = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// What the documentation of a listener links to, beside the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listener {
    Service,
    Admin,
}

/// `GET /docs`
pub(super) struct Docs {
    document: Arc<Value>,
    listener: Listener,
}

impl Docs {
    /// The page of a document.
    pub(super) fn new(document: Arc<Value>, listener: Listener) -> Self {
        Self { document, listener }
    }
}

#[async_trait]
impl Handler for Docs {
    async fn handle(&self, req: &mut Request, _: &mut Depot, res: &mut Response, _: &mut FlowCtrl) {
        let page = page(&self.document, self.listener, &base(req.headers()));
        res.status_code(StatusCode::OK);
        for (name, value) in [
            (CONTENT_TYPE, "text/html; charset=utf-8"),
            (CACHE_CONTROL, "no-store"),
            (CONTENT_SECURITY_POLICY, POLICY),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (REFERRER_POLICY, "no-referrer"),
        ] {
            res.headers_mut()
                .insert(name, HeaderValue::from_static(value));
        }
        res.replace_body(ResBody::Once(page.into_string().into()));
    }
}

/// The listener's address as the reader reaches it, for the examples.
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

/// The operations of a document by tag: the tags in the document's order, paths in theirs.
fn groups(document: &Value) -> Vec<(&Value, Vec<Operation<'_>>)> {
    let tags = document["tags"].as_array().into_iter().flatten();
    let groups = tags.map(|tag| {
        let operations = Operation::all(document);
        let own = operations.filter(|operation| operation.tag() == tag["name"].as_str());
        (tag, own.collect())
    });
    groups.collect()
}

fn page(document: &Value, listener: Listener, base: &str) -> Markup {
    let title = document["info"]["title"].as_str().unwrap_or_default();
    let groups = groups(document);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " API" }
                link rel="stylesheet" href="/docs.css";
            }
            body.docs {
                a.skip href="#content" { "Skip to the content" }
                header.top {
                    span.brand { (title) " API" }
                    nav aria-label="Pages" {
                        @if listener == Listener::Admin { a href="/" { "Overview" } }
                        a href="/docs" aria-current="page" { "Documentation" }
                        a href="/openapi.json" { "openapi.json" }
                    }
                }
                div.columns {
                    aside { nav.contents aria-label="Contents" {
                        @for (tag, operations) in &groups {
                            h2 { a href={ "#" (anchor(tag)) } { (tag["name"].as_str().unwrap_or_default()) } }
                            ul { @for operation in operations {
                                li { a href={ "#" (operation.id()) } { (operation.method_badge()) " " span { (operation.summary()) } } }
                            } }
                        }
                    } }
                    main #content {
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
                    }
                }
                footer { "Headgate " (env!("CARGO_PKG_VERSION")) " · made from " a href="/openapi.json" { "openapi.json" } }
            }
        }
    }
}

/// How callers say who they are, and what the examples stand for.
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
            p { "In the examples words in capitals stand for values of yours; those that begin with " code { "$" } " are variables of the shell." }
        }
    }
}

fn anchor(tag: &Value) -> String {
    let name = tag["name"].as_str().unwrap_or_default();
    format!("tag-{}", name.replace(' ', "-"))
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(schemas: &Value) -> Value {
        json!({
            "info": {"title": "<T>", "version": "1", "description": "One `a<b` two.\n\nThree."},
            "tags": [{"name": "read keys", "description": "Those."}],
            "paths": {"/a/{name}": {"post": {
                "tags": ["read keys"],
                "summary": "Do \"it\".",
                "operationId": "do_it",
                "parameters": [{"name": "name", "in": "path", "required": true, "description": "Which.", "schema": {"type": "string"}}],
                "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Tree"}}}},
                "responses": {"200": {"description": "Done."}},
                "security": [{"token": []}, {}],
            }}},
            "components": {"schemas": schemas, "securitySchemes": {"token": {"description": "A `token`."}}},
        })
    }

    #[test]
    fn the_page_is_the_document() {
        let document = document(
            &json!({"Tree": {"type": "object", "required": ["a"], "properties": {
                "a": {"type": ["string", "null"], "description": "The `a`."},
                "children": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}},
                "other": {"$ref": "#/components/schemas/Missing"},
            }}}),
        );
        let page = page(&document, Listener::Admin, "http://h:1").into_string();
        for part in [
            "&lt;T&gt; API",
            "One <code>a&lt;b</code> two.</p><p>Three.",
            "href=\"#tag-read-keys\"",
            "id=\"do_it\"",
            "Do &quot;it&quot;.",
            "array of <code>Tree</code>",
            "as above",
            "The <code>a</code>.",
            "curl -X POST",
            "http://h:1/a/NAME",
            "$TOKEN",
            "or without",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
        assert!(!page.contains("<script"), "{page}");
    }

    #[test]
    fn only_a_host_stands_in_the_examples() {
        let base_of = |host: &str, proto: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_str(host).expect("a header"));
            headers.insert(X_FORWARDED_PROTO, HeaderValue::from_static(proto));
            base(&headers)
        };
        assert_eq!(base_of("[::1]:8080", "http"), "http://[::1]:8080");
        assert_eq!(
            base_of("data.example.com", "https"),
            "https://data.example.com"
        );
        for other in ["", "a b", "a'; rm -rf /", "$(id)", "a/b", "a@b"] {
            assert_eq!(base_of(other, "ftp"), "http://localhost", "{other}");
        }
    }
}
