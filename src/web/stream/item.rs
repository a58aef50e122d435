//! `/streams/{name}/item?key=…`: an item with all its fields; removing items, and releasing their overrides.
//!
//! **Invariant**: a page contains at most [`FIELDS_MAX`] fields with shortened values.

use std::borrow::Cow;
use std::collections::HashSet;

use maud::{Markup, html};
use salvo_core::{Depot, Request, handler};
use serde_json::json;

use super::history::History;
use super::{acts, find_stream};
use crate::form::filter::refusal;
use crate::form_data::FormData;
use crate::frame::{FormAnswer, Head, NoPage, Page, Place, more, token};
use crate::grid::{TITLE_CHARS_MAX, cut};
use crate::guard::by;
use crate::paths;
use crate::text::{count, grouped, plain, text, text_of, time};
use base::clock;
use item::{field_name, members};
use operate::Operator;
use pool::acts::{ItemActs, OverrideNow};

/// Maximum characters of a value.
const VALUE_CHARS_MAX: usize = 20_000;
/// Maximum fields on the page.
const FIELDS_MAX: usize = 2_000;
/// Maximum characters of the source's value next to an override.
const SOURCE_CHARS_MAX: usize = 60;

/// `GET /streams/{name}/item?key=…`
pub(super) struct ShowItem(pub(super) Operator);

#[handler]
impl ShowItem {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<Page, NoPage> {
        item_page(&self.0, req, &token(depot)).await
    }
}

async fn item_page(operator: &Operator, req: &mut Request, token: &Markup) -> Result<Page, NoPage> {
    let stream = find_stream(operator, req)?;
    let key = req.query::<String>("key").unwrap_or_default();
    let (item, acted) = operator.item_with_acts(&stream.name, &key).await?;
    let path = paths::stream(&stream.name);
    let history = History::of(operator, &stream.name, &key).await?;
    let Some(item) = item else {
        return removed_page(&path, &stream.name, &key, history);
    };
    let fields: Vec<_> = members(&item.fields).take(FIELDS_MAX + 1).collect();
    Ok(Page {
        title: plain(&item.key),
        place: Place::Streams,
        head: Head {
            above: above(&path, &stream.name),
            state: html! {
                (acts::badges(acted.held.is_some(), 0, acted.overrides.len() as u64))
                span.quiet { "Updated " (time(&item.updated_at)) ", version " (item.seq) }
            },
            actions: html! {
                (more(&html! {
                    (acts::rarely(token, &path, &item.key, !acted.overrides.is_empty()))
                    form method="post" action={ (path) "/remove" } data-confirm="Remove this item from the data pool and every screen?" {
                        (token) input type="hidden" name="key" value=(item.key); button.danger { "Remove…" }
                    }
                }))
                (acts::hold(token, &path, &item.key, acted.held.is_some()))
            },
        },
        still: html! {},
        live: html! {
            (acts::of_item(token, &path, &acted))
            (fields_table(token, &path, &item.key, &fields, &acted))
            @if fields.len() > FIELDS_MAX { p.quiet { "The first " (grouped(FIELDS_MAX as u64)) " fields are shown." } }
            @let here: HashSet<_> = fields.iter().map(|(field, _)| field_name(field)).collect();
            (history.of_all(|field| here.contains(field)))
            h2 { "Where it comes from" }
            div.panel { dl {
                dt { "Stream" } dd { a href=(path) { (text(&stream.name)) } }
                dt { "Key" } dd { (text_of(&item.key, VALUE_CHARS_MAX)) }
                dt { "Source request" } dd.mono {
                    @if item.request_id.is_empty() { "none: created by an operator" }
                    @else { a href=(paths::request(&item.request_id)) { (item.request_id) } }
                }
            } }
        },
        old: false,
    })
}

/// The shown value of each field, and its acts.
fn fields_table(
    token: &Markup,
    path: &str,
    key: &str,
    fields: &[(&str, &str)],
    acted: &ItemActs,
) -> Markup {
    html! {
        div.grid.kv { div.scroll { table {
            thead { tr { th { "Field" } th { "Shown" } th { "Override" } th.can { span.sr { "Acts" } } } }
            tbody { @for (field, value) in fields.iter().take(FIELDS_MAX) {
                @let name = field_name(field);
                @let own = acted.overrides.iter().find(|own| own.field == *name);
                tr {
                    th scope="row" title=(plain(&name)) { (text(&name)) }
                    td.over[own.is_some()] title=(cut(value, TITLE_CHARS_MAX)) {
                        span.val dir="auto" {
                            (show_value(value, VALUE_CHARS_MAX))
                            @if let Some(own) = own { " " small { "source: " (source(own)) } }
                        }
                    }
                    td { @if let Some(own) = own { "by " (plain(&own.by)) @if let Some(until) = own.until { ", until " (time(&clock::rfc3339(until))) } } }
                    td.can { (acts::of_field(token, path, key, (&name, value), own)) }
                }
            } }
        } } }
    }
}

/// The source's value of an overridden field.
fn source(own: &OverrideNow) -> Markup {
    match &own.source {
        Some(source) => show_value(source, SOURCE_CHARS_MAX),
        None => html! { "none" },
    }
}

/// The parent pages of an item.
fn above(path: &str, stream: &str) -> Vec<(String, String)> {
    let streams = ("/streams".to_owned(), "Streams".to_owned());
    vec![streams, (path.to_owned(), stream.to_owned())]
}

/// The history of a removed item.
fn removed_page(path: &str, stream: &str, key: &str, history: History) -> Result<Page, NoPage> {
    if history.is_empty() {
        return Err(NoPage::NotFound(
            "The stream has no item with this key. It may have been removed.",
        ));
    }
    Ok(Page {
        title: plain(key),
        place: Place::Streams,
        head: Head {
            above: above(path, stream),
            ..Head::default()
        },
        still: html! {},
        live: html! {
            p.panel role="status" { "The stream " a href=(path) { (text(stream)) } " no longer has an item with this key." }
            (history.of_all(|_| false))
        },
        old: false,
    })
}

/// `POST /streams/{name}/remove`
pub(super) struct RemoveItem(pub(super) Operator);

#[handler]
impl RemoveItem {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormAnswer, NoPage> {
        let stream = find_stream(&self.0, req)?;
        let keys = selected_keys(depot)?;
        let gone = self.0.remove_items(&stream.name, &keys, by(req)).await?;
        let (are, what) = match &keys[..] {
            [key] => ("is", format!("The item {}", plain(key))),
            keys => ("are", count(keys.len() as u64, "item")),
        };
        let done = if gone { "removed" } else { "being removed" };
        let flash = format!("{what} {are} {done}.");
        Ok(FormAnswer::Done(paths::stream(&stream.name), flash))
    }
}

/// `POST /streams/{name}/expire-items`
pub(super) struct ExpireItems(pub(super) Operator);

#[handler]
impl ExpireItems {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormAnswer, NoPage> {
        let stream = find_stream(&self.0, req)?;
        let keys = selected_keys(depot)?;
        let expired = self.0.expire_items(&stream.name, &keys, by(req)).await?;
        let done = match (expired.are_gone, expired.items) {
            (true, 1) => "has expired",
            (true, _) => "have expired",
            (false, 1) => "is expiring",
            (false, _) => "are expiring",
        };
        let mut flash = format!("{} {done}.", count(expired.items as u64, "item"));
        match keys.len() - expired.items {
            0 => {}
            1 => flash.push_str(" 1 stays: a request for it is pending, or no source sent it."),
            stay => flash.push_str(&format!(
                " {stay} stay: requests for them are pending, or no source sent them."
            )),
        }
        Ok(FormAnswer::Done(paths::stream(&stream.name), flash))
    }
}

/// `POST /streams/{name}/release-items`
pub(super) struct ReleaseItems(pub(super) Operator);

#[handler]
impl ReleaseItems {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormAnswer, NoPage> {
        let stream = find_stream(&self.0, req)?;
        let acting = acts::acting(req)?;
        let mut released = 0;
        for key in selected_keys(depot)? {
            let body = json!({ "key": key }).to_string();
            let acted = self
                .0
                .act(&stream.name, "release", body.as_bytes(), &acting);
            released += acted.await?.outcome.released.unwrap_or(0);
        }
        let flash = match released {
            0 => "No field of these items is overridden.".to_owned(),
            1 => "1 field shows its source's value again.".to_owned(),
            fields => format!("{fields} fields show their source's values again."),
        };
        Ok(FormAnswer::Done(paths::stream(&stream.name), flash))
    }
}

/// The keys of the selected rows.
pub(super) fn selected_keys(depot: &Depot) -> Result<Vec<String>, NoPage> {
    let form = FormData::of(depot).into_iter();
    let keys = form.flat_map(|form| form.all("key")).map(str::to_owned);
    let keys: Vec<String> = keys.collect();
    match keys.is_empty() {
        true => Err(refusal("No item is selected. Select items, then repeat.")),
        false => Ok(keys),
    }
}

/// A JSON value as users type it: a text has no quotes.
pub(super) fn typed(value: &str) -> Cow<'_, str> {
    match value.starts_with('"') {
        true => serde_json::from_str::<String>(value).map_or(value.into(), Cow::Owned),
        false => value.into(),
    }
}

/// A JSON value as users read it: a text has no quotes, other values are unchanged.
pub(super) fn show_value(value: &str, chars_max: usize) -> Markup {
    match value {
        "null" => html! { span.quiet { "null" } },
        value => text_of(&typed(value), chars_max),
    }
}
