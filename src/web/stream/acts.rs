//! Acts on the pages: overrides and holds of a stream and of an item, and the forms that make them.
//!
//! **Invariant**: a form makes the same act as the admin API, with the same checks; it works without scripts.

use std::sync::Arc;

use maud::{Markup, html};
use salvo_core::{Depot, Request, Router, handler};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::find_stream;
use super::item::{ReleaseItems, show_value};
use crate::form_data::FormData;
use crate::frame::{FormAnswer, NoPage};
use crate::guard::by;
use crate::held::since;
use crate::paths;
use crate::text::{count, plain, segment, text_of, time};
use base::clock;
use http::access::token_of;
use operate::Operator;
use operate::acts::Acting;
use pool::acts::{ItemActs, OverrideNow, StreamActs};

/// Characters of a value in a form, and of a name.
const CHARS_MAX: usize = 2_000;
/// Items and keys that a page lists.
pub(super) const LISTED_MAX: u32 = 100;

/// What operators do with what streams show.
pub(crate) fn routes(operator: &Operator) -> Router {
    Router::with_path("streams/{name}")
        .push(Router::with_path("act").post(ActOnPage(operator.clone())))
        .push(Router::with_path("release-items").post(ReleaseItems(operator.clone())))
}

/// `POST /streams/{name}/act`
struct ActOnPage(Operator);

#[handler]
impl ActOnPage {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormAnswer, NoPage> {
        let stream = find_stream(&self.0, req)?;
        let form = FormData::of(depot);
        let get = |name: &str| form.and_then(|form| form.get(name)).unwrap_or_default();
        let (verb, key) = (get("verb"), get("key"));
        let mut body = body(
            verb,
            key,
            get("field"),
            get("value"),
            !get("text").is_empty(),
        );
        if let (Ok(seconds), Some(members)) = (get("until").parse::<u64>(), body.as_object_mut()) {
            members.insert("until".to_owned(), json!(seconds));
        }
        let body = body.to_string();
        let acting = acting(req)?;
        let acted = self
            .0
            .act(&stream.name, verb, body.as_bytes(), &acting)
            .await?;
        let path = paths::stream(&stream.name);
        let back = match key {
            "" => path,
            key => format!("{path}/item?key={}", segment(key)),
        };
        let undone = acted
            .outcome
            .undo
            .map(|undo| format!("Undone: {}.", undo.undone));
        Ok(FormAnswer::Done(
            back,
            undone.unwrap_or_else(|| done(verb).to_owned()),
        ))
    }
}

/// Who acts.
pub(super) fn acting(req: &Request) -> Result<Acting, NoPage> {
    Ok(Acting {
        name: Arc::clone(&token_of(req)?.name),
        by_key: false,
        by: by(req),
        idempotency_key: None,
    })
}

fn done(verb: &str) -> &'static str {
    match verb {
        "override" | "add" => "It is shown.",
        "release" => "The source's values are shown.",
        "hold" => "It is held. Changes from the source wait.",
        "take" => "What waited is shown. It is still held.",
        "resume" => "The hold has ended.",
        _ => "Done.",
    }
}

/// The body of an act, of what a form has. `is_text`: a text is shown, and stays one.
fn body(verb: &str, key: &str, field: &str, value: &str, is_text: bool) -> Value {
    match (verb, key) {
        ("override", _) if is_text => json!({ "key": key, "fields": { field: value } }),
        ("override", _) => {
            // Numbers and such as they are typed; everything else is a text.
            let value = match serde_json::from_str::<Box<RawValue>>(value) {
                Ok(json) => serde_json::to_value(json).unwrap_or_else(|_| json!(value)),
                Err(_) => json!(value),
            };
            json!({ "key": key, "fields": { field: value } })
        }
        ("add", _) => {
            let step: Value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
            json!({ "key": key, "field": field, "by": step })
        }
        ("release", "") => json!({}),
        ("release", key) if field.is_empty() => json!({ "key": key }),
        ("release", key) => json!({ "key": key, "fields": [field] }),
        ("undo", _) | (_, "") => json!({}),
        (_, key) => json!({ "keys": [key] }),
    }
}

/// When an override or a hold ends.
fn until() -> Markup {
    const TIMES: [(&str, &str); 6] = [
        ("", "until you end it"),
        ("60", "for 1 minute"),
        ("300", "for 5 minutes"),
        ("900", "for 15 minutes"),
        ("3600", "for 1 hour"),
        ("10800", "for 3 hours"),
    ];
    html! {
        select name="until" aria-label="How long" {
            @for (seconds, label) in TIMES { option value=(seconds) { (label) } }
        }
    }
}

/// A button that makes an act.
fn button(
    token: &Markup,
    path: &str,
    (verb, key, field, value): (&str, &str, &str, &str),
    label: &str,
) -> Markup {
    html! {
        form.inline method="post" action={ (path) "/act" } {
            (token)
            input type="hidden" name="verb" value=(verb);
            @for (name, value) in [("key", key), ("field", field), ("value", value)] {
                @if !value.is_empty() { input type="hidden" name=(name) value=(value); }
            }
            @if verb == "hold" { (until()) " " }
            button.plain { (label) }
        }
    }
}

/// What operators do to a stream, and what they can do.
pub(super) fn of_stream(token: &Markup, path: &str, acts: &StreamActs) -> Markup {
    let act = |verb: &str, label: &str| button(token, path, (verb, "", "", ""), label);
    html! {
        div.panel {
            @if let Some(held) = &acts.held {
                p { span.badge.warn { "held" } " " (since(held)) ". " (count(acts.waiting, "item")) " changed and wait." }
            }
            @for held in &acts.held_keys {
                p { span.badge.warn { "held" } " " a href={ (path) "/item?key=" (segment(&held.key)) } { (text_of(&held.key, CHARS_MAX)) } " " (since(held)) }
            }
            @for (key, fields) in &acts.overridden {
                p { span.badge.warn { "overridden" } " " a href={ (path) "/item?key=" (segment(key)) } { (text_of(key, CHARS_MAX)) } ": " (count(*fields, "field")) }
            }
            div.row {
                @if acts.held.is_some() {
                    (act("take", "Take: show what waits"))
                    (act("resume", "Resume"))
                } @else {
                    (act("hold", "Hold what is shown"))
                }
                @if !acts.overridden.is_empty() { (act("release", "Release all overrides")) }
                (act("undo", "Undo my last act"))
            }
        }
    }
}

/// The same of an item.
pub(super) fn of_item(token: &Markup, path: &str, key: &str, acts: &ItemActs) -> Markup {
    let act = |verb: &str, label: &str| button(token, path, (verb, key, "", ""), label);
    html! {
        div.panel {
            @if let Some(held) = &acts.held {
                p {
                    span.badge.warn { "held" } " " (since(held)) "."
                    @if acts.waits { " A change of the source waits." }
                }
            }
            div.row {
                @if acts.held.is_some() {
                    (act("take", "Take: show what waits"))
                    (act("resume", "Resume"))
                } @else {
                    (act("hold", "Hold this item"))
                }
                @if !acts.overrides.is_empty() { (act("release", "Release all overrides")) }
                (act("undo", "Undo my last act"))
            }
        }
    }
}

/// A field's value with what can be done with it. `value` is JSON.
pub(super) fn of_field(
    token: &Markup,
    path: &str,
    key: &str,
    (field, value): (&str, &str),
    own: Option<&OverrideNow>,
) -> Markup {
    let is_number = serde_json::from_str::<serde_json::Number>(value).is_ok();
    let text = serde_json::from_str::<String>(value).ok();
    let typed = text.as_deref().unwrap_or(value);
    html! {
        @if let Some(own) = own {
            " " span.badge.warn { "overridden by " (plain(&own.by)) }
            " source: " @match &own.source { Some(source) => (show_value(source, CHARS_MAX)), None => "none" }
            @if let Some(until) = own.until { ", until " (time(&clock::rfc3339(until))) }
        }
        div.row {
            @if typed.len() <= CHARS_MAX {
                form.inline method="post" action={ (path) "/act" } {
                    (token)
                    input type="hidden" name="verb" value="override";
                    input type="hidden" name="key" value=(key);
                    input type="hidden" name="field" value=(field);
                    @if text.is_some() { input type="hidden" name="text" value="yes"; }
                    input type="text" name="value" value=(typed) aria-label={ "Show instead: " (plain(field)) };
                    " " (until()) " "
                    button.plain { "Override" }
                }
            }
            @if is_number {
                (button(token, path, ("add", key, field, "1"), "+1"))
                (button(token, path, ("add", key, field, "-1"), "−1"))
            }
            @if own.is_some() { (button(token, path, ("release", key, field, ""), "Release")) }
        }
    }
}
