//! Acts on the pages: the overrides and holds of a stream and of an item, and the forms that make them.
//!
//! **Invariant**: a form makes the same act as the admin API, with the same checks; it works without scripts.

use std::sync::Arc;

use maud::{Markup, html};
use salvo_core::{Depot, Request, Router, handler};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::find_stream;
use super::item::{ExpireItems, ReleaseItems, RemoveItem, typed};
use crate::form_data::FormData;
use crate::frame::{FormAnswer, NoPage};
use crate::guard::by;
use crate::held::since;
use crate::paths;
use crate::text::{count, plain, segment, text_of};
use http::access::token_of;
use operate::Operator;
use operate::acts::Acting;
use pool::acts::{ItemActs, OverrideNow, StreamActs};

/// Maximum characters of a value in a form, and of a name.
const CHARS_MAX: usize = 2_000;
/// Maximum items and keys that a page lists.
pub(super) const LISTED_MAX: u32 = 100;

/// Routes of the acts of operators on items.
pub(crate) fn routes(operator: &Operator) -> Router {
    Router::with_path("streams/{name}")
        .push(Router::with_path("act").post(ActOnPage(operator.clone())))
        .push(Router::with_path("expire-items").post(ExpireItems(operator.clone())))
        .push(Router::with_path("remove").post(RemoveItem(operator.clone())))
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
        let back = match (key, get("back")) {
            ("", _) | (_, "list") => path,
            (key, _) => format!("{path}/item?key={}", segment(key)),
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

/// The operator of a request.
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
        "override" | "add" => "The value is shown.",
        "release" => "The source's values are shown again.",
        "hold" => "Held. Changes from the source wait.",
        "take" => "The waiting changes are shown. The hold continues.",
        "resume" => "The hold has ended.",
        _ => "Done.",
    }
}

/// The body of an act from the values of a form. `is_text`: the field shows a text, so the new value is a text too.
fn body(verb: &str, key: &str, field: &str, value: &str, is_text: bool) -> Value {
    match (verb, key) {
        ("override", _) if is_text => json!({ "key": key, "fields": { field: value } }),
        ("override", _) => {
            // Valid JSON, such as a number, keeps its type; any other value is a text.
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

/// The choice of the end of an override or a hold.
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

/// Badges for holds and overrides.
pub(super) fn badges(is_held: bool, held_keys: u64, fields: u64) -> Markup {
    html! {
        @if is_held { span.badge.held { "Held" } }
        @if held_keys > 0 { span.badge.held { (count(held_keys, "item")) " held" } }
        @if fields > 0 { span.badge.hand { (count(fields, "field")) " overridden" } }
    }
}

/// The badges of a stream.
pub(super) fn stream_badges(acts: &StreamActs) -> Markup {
    let fields = acts.overridden.iter().map(|(_, fields)| fields).sum();
    badges(acts.held.is_some(), acts.held_keys.len() as u64, fields)
}

/// Rare acts on a stream, or on its item `key`.
pub(super) fn rarely(token: &Markup, path: &str, key: &str, overrides: bool) -> Markup {
    html! {
        (button(token, path, ("undo", key, "", ""), "Undo last act"))
        @if overrides { (button(token, path, ("release", key, "", ""), "Release all overrides")) }
    }
}

/// The button that holds a stream, or the item `key`; empty if it is held.
pub(super) fn hold(token: &Markup, path: &str, key: &str, is_held: bool) -> Markup {
    html! {
        @if !is_held {
            (button(token, path, ("hold", key, "", ""), if key.is_empty() { "Hold stream" } else { "Hold item" }))
        }
    }
}

/// The banner of a hold, with its buttons. An empty `key` means the whole stream.
fn banner(token: &Markup, path: &str, key: &str, what: &Markup, waits: &Markup) -> Markup {
    let act = |verb: &str, label: &str| button(token, path, (verb, key, "", ""), label);
    html! {
        div.hold role="status" {
            p { (what) " " (waits) }
            div.row { (act("take", "Show waiting changes")) (act("resume", "Resume")) }
        }
    }
}

/// The holds and overrides of a stream, above its items; empty if there are none.
pub(super) fn of_stream(token: &Markup, path: &str, acts: &StreamActs) -> Markup {
    let item = |key: &str| html! { a href={ (path) "/item?key=" (segment(key)) } { (text_of(key, CHARS_MAX)) } };
    html! {
        @if let Some(held) = &acts.held {
            (banner(token, path, "", &html! { strong { "The stream is held" } " " (since(held)) "." }, &html! {
                @if acts.waiting == 0 { "No change waits." } @else { (count(acts.waiting, "changed item")) " wait; screens show the values from before." }
            }))
        }
        @if !acts.held_keys.is_empty() || !acts.overridden.is_empty() {
            p.acted {
                @for held in &acts.held_keys {
                    span { span.badge.held { "Held" } " " (item(&held.key)) " " (since(held)) } " "
                }
                @for (key, fields) in &acts.overridden {
                    span { span.badge.hand { "Overridden" } " " (item(key)) ", " (count(*fields, "field")) } " "
                }
            }
        }
    }
}

/// The hold of an item, above its fields.
pub(super) fn of_item(token: &Markup, path: &str, acts: &ItemActs) -> Markup {
    html! {
        @if let Some(held) = &acts.held {
            (banner(token, path, &held.key, &html! {
                strong { @if held.key.is_empty() { "The stream of this item is held" } @else { "This item is held" } }
                " " (since(held)) "."
            }, &html! { @if acts.waits { "A change from its source waits." } @else { "No change of it waits." } }))
        }
    }
}

/// The acts on a field: a form behind a button. `value` is JSON.
pub(super) fn of_field(
    token: &Markup,
    path: &str,
    key: &str,
    (field, value): (&str, &str),
    own: Option<&OverrideNow>,
) -> Markup {
    let is_number = serde_json::from_str::<serde_json::Number>(value).is_ok();
    let (typed, is_text) = (typed(value), value.starts_with('"'));
    html! {
        @if is_number {
            (button(token, path, ("add", key, field, "-1"), "−1"))
            (button(token, path, ("add", key, field, "1"), "+1"))
        }
        @if typed.len() <= CHARS_MAX {
            details.menu.edit {
                summary.button.plain aria-label={ "Override " (plain(field)) } { "Override" }
                (editor(token, path, key, field, &typed, is_text))
            }
        }
        @if own.is_some() { (button(token, path, ("release", key, field, ""), "Release")) }
    }
}

/// The form that overrides a field. `typed` is its value as users type it.
fn editor(
    token: &Markup,
    path: &str,
    key: &str,
    field: &str,
    typed: &str,
    is_text: bool,
) -> Markup {
    html! {
        form method="post" action={ (path) "/act" } {
            (token)
            input type="hidden" name="verb" value="override";
            input type="hidden" name="key" value=(key);
            input type="hidden" name="field" value=(field);
            @if is_text { input type="hidden" name="text" value="yes"; }
            input type="text" name="value" value=(typed) aria-label={ "Show instead: " (plain(field)) };
            (until())
            button { "Show" }
        }
    }
}

/// The form of the grid; the script fills it and moves it next to a value.
pub(super) fn grid_editor(token: &Markup, path: &str) -> Markup {
    html! {
        form #editor.editor method="post" action={ (path) "/act" } hidden {
            p { strong #editor-of {} }
            (token)
            input type="hidden" name="verb" value="override";
            input type="hidden" name="back" value="list";
            @for name in ["key", "field", "text"] { input type="hidden" name=(name); }
            div.row {
                input type="text" name="value" maxlength=(CHARS_MAX) aria-label="Value";
                button.plain type="button" data-step="-1" aria-label="1 less" { "−1" }
                button.plain type="button" data-step="1" aria-label="1 more" { "+1" }
            }
            p.quiet { "Changes from the source continue beneath." }
            (until())
            div.row { button { "Show" } button.plain type="button" data-cancel { "Cancel" } }
        }
    }
}
