//! `/streams/{name}/item?key=…`: an item as a whole; removing items, and releasing their overrides.
//!
//! **Invariant**: a page holds at most [`FIELDS_MAX`] fields of shortened values.

use std::collections::HashSet;

use maud::{Markup, html};
use salvo_core::{Depot, Request, handler};
use serde_json::json;

use super::history::History;
use super::{acts, find_stream};
use crate::form::filter::refusal;
use crate::form_data::FormData;
use crate::frame::{FormAnswer, NoPage, Page, Place, token};
use crate::guard::by;
use crate::paths;
use crate::text::{count, grouped, plain, text, text_of, time};
use item::{field_name, members};
use operate::Operator;

/// Characters of a value.
const VALUE_CHARS_MAX: usize = 20_000;
/// Fields on the page.
const FIELDS_MAX: usize = 2_000;

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
        still: html! {},
        live: html! {
            div.panel { dl {
                dt { "Stream" } dd { a href=(path) { (text(&stream.name)) } }
                dt { "Key" } dd { (text_of(&item.key, VALUE_CHARS_MAX)) }
                dt { "Data of" } dd { (time(&item.updated_at)) }
                dt { "Written by" } dd.mono {
                    @if item.request_id.is_empty() { "no source: an operator made it" }
                    @else { a href=(paths::request(&item.request_id)) { (item.request_id) } }
                }
                dt { "Number of its change" } dd { (item.seq) }
            } }
            (acts::of_item(token, &path, &item.key, &acted))
            h2 { "Fields" }
            div.panel { dl {
                @for (field, value) in fields.iter().take(FIELDS_MAX) {
                    @let name = field_name(field);
                    @let own = acted.overrides.iter().find(|own| own.field == *name);
                    dt { (text(&name)) }
                    dd {
                        (show_value(value, VALUE_CHARS_MAX))
                        (acts::of_field(token, &path, &item.key, (&name, value), own))
                        (history.of_field(&name))
                    }
                }
            } }
            @if fields.len() > FIELDS_MAX { p.quiet { "The first " (grouped(FIELDS_MAX as u64)) " fields are shown." } }
            @let here: HashSet<_> = fields.iter().map(|(field, _)| field_name(field)).collect();
            (history.of_others(|field| here.contains(field)))
            form.row method="post" action={ (path) "/remove" } data-confirm="Remove this item, here and on every screen?" {
                (token) input type="hidden" name="key" value=(item.key); button.danger { "Remove the item" }
            }
        },
        old: false,
    })
}

/// What is known of an item that is not there any more.
fn removed_page(path: &str, stream: &str, key: &str, history: History) -> Result<Page, NoPage> {
    if history.is_empty() {
        return Err(NoPage::NotFound(
            "The stream has no item with this key. It may have been removed.",
        ));
    }
    Ok(Page {
        title: plain(key),
        place: Place::Streams,
        still: html! {},
        live: html! {
            p.panel role="status" { "The stream " a href=(path) { (text(stream)) } " has no item with this key any more." }
            (history.of_others(|_| false))
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
        true => Err(refusal("No item is selected. Select some and repeat.")),
        false => Ok(keys),
    }
}

/// A JSON value as people read it: a text without its quotes, everything else as it was sent.
pub(super) fn show_value(value: &str, chars_max: usize) -> Markup {
    match value {
        "null" => html! { span.quiet { "null" } },
        value if value.starts_with('"') => {
            let string = serde_json::from_str::<String>(value);
            text_of(string.as_deref().unwrap_or(value), chars_max)
        }
        value => text_of(value, chars_max),
    }
}
