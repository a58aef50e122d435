//! An operation of the API, on the reference page.
//!
//! **Invariant**: the page shows the complete description of an operation in the document, and nothing else.

use maud::{Markup, html};
use serde_json::Value;

use super::{example, inline, prose, schema};

/// A method of a path.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operation<'a> {
    pub(super) path: &'a str,
    pub(super) method: &'a str,
    pub(super) said: &'a Value,
}

impl<'a> Operation<'a> {
    /// The operations of a document, in its order.
    pub(super) fn all(document: &'a Value) -> impl Iterator<Item = Self> {
        let paths = document["paths"].as_object().into_iter().flatten();
        paths.flat_map(|(path, methods)| {
            let methods = methods.as_object().into_iter().flatten();
            methods.map(move |(method, said)| Self { path, method, said })
        })
    }

    pub(super) fn tag(&self) -> Option<&'a str> {
        self.said["tags"][0].as_str()
    }

    pub(super) fn id(&self) -> &'a str {
        self.said["operationId"].as_str().unwrap_or_default()
    }

    pub(super) fn summary(&self) -> &'a str {
        self.said["summary"].as_str().unwrap_or_default()
    }

    pub(super) fn method_badge(&self) -> Markup {
        html! { span.method.(self.method) { (self.method.to_uppercase()) } }
    }

    pub(super) fn parameters(&self) -> impl Iterator<Item = &'a Value> {
        self.said["parameters"].as_array().into_iter().flatten()
    }

    /// The alternative security schemes, and whether authentication is optional.
    pub(super) fn security(&self) -> (Vec<&'a str>, bool) {
        let mut names = Vec::new();
        let mut open = false;
        for needed in self.said["security"].as_array().into_iter().flatten() {
            let schemes = needed.as_object().into_iter().flatten();
            let before = names.len();
            names.extend(schemes.map(|(name, _)| name.as_str()));
            open |= names.len() == before;
        }
        (names, open)
    }

    pub(super) fn show(&self, document: &Value, base: &str) -> Markup {
        html! {
            article.panel #(self.id()) aria-labelledby={ (self.id()) "-title" } {
                h3 #{ (self.id()) "-title" } { a href={ "#" (self.id()) } { (self.summary()) } }
                p.call { (self.method_badge()) " " code { (self.path) } }
                (prose(self.said["description"].as_str().unwrap_or_default()))
                (self.access())
                (self.parameter_table())
                (self.body(document))
                (self.responses(document))
                h4 { "Example" }
                pre tabindex="0" { code { (example::curl(document, self, base)) } }
            }
        }
    }

    fn access(&self) -> Markup {
        let (names, open) = self.security();
        html! {
            p.quiet {
                @if names.is_empty() { "No key or token is needed." } @else {
                    "With "
                    @for (place, name) in names.iter().enumerate() { @if place > 0 { " or " } code { (name) } }
                    @if open { ", or without." } @else { "." }
                }
            }
        }
    }

    fn parameter_table(&self) -> Markup {
        if self.parameters().next().is_none() {
            return html! {};
        }
        html! {
            h4 { "Parameters" }
            ul.fields { @for parameter in self.parameters() { li {
                code.name { (parameter["name"].as_str().unwrap_or_default()) }
                " " span.type { (schema::kind(&parameter["schema"])) }
                " " span.quiet { "in the " (parameter["in"].as_str().unwrap_or_default()) " ·" }
                " " @if parameter["required"] == true { span.badge { "required" } } @else { span.quiet { "optional" } }
                p { (inline(parameter["description"].as_str().unwrap_or_default())) }
            } } }
        }
    }

    fn body(&self, document: &Value) -> Markup {
        let body = &self.said["requestBody"];
        let Some(contents) = body["content"].as_object() else {
            return html! {};
        };
        html! {
            h4 { "Body" @if body["required"] == true { " " span.badge { "required" } } @else { " " span.quiet { "optional" } } }
            @if let Some(description) = body["description"].as_str() { p { (inline(description)) } }
            (content(document, contents))
        }
    }

    fn responses(&self, document: &Value) -> Markup {
        let responses = self.said["responses"].as_object();
        html! {
            h4 { "Answers" }
            @for (status, response) in responses.into_iter().flatten() {
                @let contents = response["content"].as_object();
                details {
                    summary { span.badge.(tone(status)) { (status) } " " (inline(response["description"].as_str().unwrap_or_default())) }
                    @match contents {
                        Some(contents) => (content(document, contents)),
                        None => p.quiet { "Without a body." },
                    }
                }
            }
        }
    }
}

fn tone(status: &str) -> &'static str {
    match status.as_bytes().first() {
        Some(b'1' | b'2') => "good",
        Some(b'5') => "bad",
        _ => "warn",
    }
}

/// The schemas of a body, by media type.
fn content(document: &Value, contents: &serde_json::Map<String, Value>) -> Markup {
    html! {
        @for (media_type, content) in contents {
            p.quiet { code { (media_type) } ": " (schema::kind(&content["schema"])) }
            (schema::show(document, &content["schema"]))
        }
    }
}
