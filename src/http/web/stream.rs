//! `/streams/{name}`: the items of a stream as a table; `/streams/{name}/item?key=…`: one of them whole.
//!
//! **Invariant**: a page holds at most [`ITEMS`] items with [`COLUMNS_MAX`] columns of shortened values.

mod change;
mod list;

use std::collections::HashMap;

use maud::{Markup, html};
use salvo_core::{Depot, Request, Router, handler};

use super::form;
use super::frame::{NoPage, Page, Place, Sent, token};
use super::guard::{Form, by};
use super::text::{count, grouped, plain, segment, text, text_of, time};
use crate::catalog;
use crate::clock;
use crate::config::OnUpdate;
use crate::item::{field_name, members};
use crate::operate::Operator;
use crate::pool::{Item, PageLimit};
use crate::text::shell_quoted as quoted;

const ITEMS: u32 = 50;
const COLUMNS_MAX: usize = 24;
/// Bytes of items that are read for a page.
const PAGE_BYTES_MAX: usize = 4 << 20;
/// Characters of a value in the table, and on the page of its item.
const CELL_CHARS_MAX: usize = 80;
const VALUE_CHARS_MAX: usize = 20_000;
/// Fields on the page of an item.
const FIELDS_MAX: usize = 2_000;

const NO_STREAM: NoPage =
    NoPage::NotFound("There is no stream of this name. The page Data pool lists them.");

/// Streams and their items, and what can be done to both.
pub(super) fn routes(operator: &Operator) -> Router {
    let p = || operator.clone();
    Router::new()
        .push(
            Router::with_path("new/stream")
                .get(change::ShowNewStream)
                .post(change::NewStream(p())),
        )
        .push(Router::with_path("streams").get(list::Streams(p())))
        .push(
            Router::with_path("streams/{name}")
                .get(Stream(p()))
                .push(
                    Router::with_path("change")
                        .get(change::ShowChange(p()))
                        .post(change::Change(p())),
                )
                .push(
                    Router::with_path("delete")
                        .get(change::ShowDelete(p()))
                        .post(change::Delete(p())),
                )
                .push(Router::with_path("item").get(ShowItem(p())))
                .push(Router::with_path("remove").post(RemoveItem(p()))),
        )
}

/// `GET /streams/{name}`
struct Stream(Operator);

#[handler]
impl Stream {
    async fn handle(&self, req: &mut Request) -> Result<Page, NoPage> {
        page(&self.0, req).await
    }
}

async fn page(operator: &Operator, req: &mut Request) -> Result<Page, NoPage> {
    let name = stream(operator, req)?;
    let after = req.query::<String>("after");
    let limit = PageLimit {
        rows: ITEMS + 1,
        bytes: PAGE_BYTES_MAX,
    };
    let mut items = operator.pool.items(&name, after.as_deref(), limit).await?;
    let bytes: usize = items.iter().map(|item| item.fields.len()).sum();
    let more = items.len() > ITEMS as usize || bytes >= PAGE_BYTES_MAX;
    items.truncate(ITEMS as usize);
    let view = operator.pool.view(&name).await?;
    let path = format!("/streams/{}", segment(&name));
    let stream = operator.catalog.stream(&name).ok_or(NO_STREAM)?;
    Ok(Page {
        title: plain(&name),
        place: Place::Streams,
        still: html! {
            (facts(operator, &stream, &path))
            @if let Some(view) = view { (sql_hint(operator, &view)) }
        },
        live: html! {
            (table(&items, &path, after.is_some()))
            p.row {
                @if after.is_some() { a.button.plain href=(path) { "First" } }
                @if let Some(last) = items.last().filter(|_| more) {
                    a.button.plain href={ (path) "?after=" (segment(&last.key)) } { "Next" }
                }
            }
        },
        old: false,
    })
}

fn facts(operator: &Operator, stream: &catalog::Stream, path: &str) -> Markup {
    html! {
        div.panel {
            dl {
                dt { "When an item comes again" } dd { @match stream.on_update {
                    OnUpdate::Replace => "it has only the new fields (replace)",
                    OnUpdate::Merge => "it keeps fields that do not come again (merge)",
                } }
                dt { "Stale" } dd { @match stream.stale_after_seconds {
                    Some(seconds) => { "after " (count(seconds, "second")) " without data" },
                    None => "never",
                } }
                dt { "Made" } dd { @match stream.created_ms {
                    Some(created_ms) => { (time(&clock::rfc3339(created_ms))) },
                    None => { (form::declared("streams", &operator.configuration.declared_in("streams", &stream.name))) },
                } }
            }
            @if stream.created_ms.is_some() {
                p.row {
                    a.button.plain href={ (path) "/change" } { "Change" }
                    a.button.danger href={ (path) "/delete" } { "Delete…" }
                }
            }
        }
    }
}

fn sql_hint(operator: &Operator, view: &str) -> Markup {
    let file = quoted(&format!("{}/pool.db", operator.about.data_dir));
    let view = view.replace('"', "\"\"");
    let query = quoted(&format!("SELECT * FROM \"{view}\" LIMIT 10"));
    html! {
        details.panel {
            summary { "Query it with SQL" }
            p { "Any SQLite client may read the file while Headgate runs. The view has a column for each field." }
            div.copy {
                code #sql { "sqlite3 " (file) " " (query) }
                button.plain type="button" data-copy="sql" { "Copy" }
            }
        }
    }
}

/// The fields of these items, in the order in which they first appear, and how many there are beyond the limit.
fn columns(items: &[Item]) -> (Vec<&str>, usize) {
    let mut known = HashMap::new();
    let mut columns = Vec::new();
    for item in items {
        for (field, _) in members(&item.fields) {
            if known.insert(field, ()).is_none() && columns.len() < COLUMNS_MAX {
                columns.push(field);
            }
        }
    }
    let beyond = known.len() - columns.len();
    (columns, beyond)
}

fn table(items: &[Item], path: &str, later: bool) -> Markup {
    let (columns, beyond) = columns(items);
    html! {
        @if items.is_empty() {
            p.panel role="status" { @if later { "There are no items after this one." } @else { "There are no items yet." } }
        } @else {
            div.table.wide { table {
                thead { tr {
                    th { "Key" }
                    @for column in &columns { th title=(plain(&field_name(column))) { (text_of(&field_name(column), CELL_CHARS_MAX)) } }
                    th { "Data of" } th { "Written by" }
                } }
                tbody { @for item in items {
                    @let fields: HashMap<&str, &str> = members(&item.fields).collect();
                    tr {
                        td data-label="Key" { a href={ (path) "/item?key=" (segment(&item.key)) } { (text_of(&item.key, CELL_CHARS_MAX)) } }
                        @for column in &columns {
                            td data-label=(plain(&field_name(column))) { @if let Some(value) = fields.get(column) { span { (shown(value, CELL_CHARS_MAX)) } } }
                        }
                        td.tight data-label="Data of" { (time(&item.updated_at)) }
                        td.mono data-label="Written by" { a href={ "/requests/" (segment(&item.request_id)) } { (item.request_id.get(..8).unwrap_or_default()) "…" } }
                    }
                } }
            } }
            @if beyond > 0 { p.quiet { "The first " (COLUMNS_MAX) " fields are shown, " (grouped(beyond as u64)) " more are on the page of each item." } }
        }
    }
}

/// A JSON value as people read it: a text without its quotes, everything else as it was sent.
fn shown(value: &str, chars_max: usize) -> Markup {
    match value {
        "null" => html! { span.quiet { "null" } },
        value if value.starts_with('"') => {
            let string = serde_json::from_str::<String>(value);
            text_of(string.as_deref().unwrap_or(value), chars_max)
        }
        value => text_of(value, chars_max),
    }
}

/// `GET /streams/{name}/item?key=…`
struct ShowItem(Operator);

#[handler]
impl ShowItem {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<Page, NoPage> {
        item_page(&self.0, req, &token(depot)).await
    }
}

async fn item_page(operator: &Operator, req: &mut Request, token: &Markup) -> Result<Page, NoPage> {
    let name = stream(operator, req)?;
    let key = req.query::<String>("key").unwrap_or_default();
    let item = operator.pool.item(&name, &key).await?;
    let item = item.ok_or(NoPage::NotFound(
        "The stream has no item with this key. It may have been removed.",
    ))?;
    let path = format!("/streams/{}", segment(&name));
    let fields: Vec<_> = members(&item.fields).take(FIELDS_MAX + 1).collect();
    Ok(Page {
        title: plain(&item.key),
        place: Place::Streams,
        still: html! {},
        live: html! {
            div.panel { dl {
                dt { "Stream" } dd { a href=(path) { (text(&name)) } }
                dt { "Key" } dd { (text_of(&item.key, VALUE_CHARS_MAX)) }
                dt { "Data of" } dd { (time(&item.updated_at)) }
                dt { "Written by" } dd.mono { a href={ "/requests/" (segment(&item.request_id)) } { (item.request_id) } }
                dt { "Number of its change" } dd { (item.seq) }
            } }
            h2 { "Fields" }
            div.panel { dl {
                @for (field, value) in fields.iter().take(FIELDS_MAX) {
                    dt { (text(&field_name(field))) } dd { (shown(value, VALUE_CHARS_MAX)) }
                }
            } }
            @if fields.len() > FIELDS_MAX { p.quiet { "The first " (grouped(FIELDS_MAX as u64)) " fields are shown." } }
            form.row method="post" action={ (path) "/remove" } data-confirm="Remove this item, here and on every screen?" {
                (token) input type="hidden" name="key" value=(item.key); button.danger { "Remove the item" }
            }
        },
        old: false,
    })
}

/// `POST /streams/{name}/remove`
struct RemoveItem(Operator);

#[handler]
impl RemoveItem {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<Sent, NoPage> {
        let stream = stream(&self.0, req)?;
        let key = Form::of(depot).and_then(|form| form.get("key"));
        let key = key.unwrap_or_default();
        let gone = self.0.remove_item(&stream, key, by(req)).await?;
        let what = if gone { "removed" } else { "being removed" };
        let path = format!("/streams/{}", segment(&stream));
        Ok(Sent::Done(
            path,
            format!("The item {} is {what}.", plain(key)),
        ))
    }
}

/// The stream that the path names.
fn stream(operator: &Operator, req: &Request) -> Result<String, NoPage> {
    let name = req.param::<String>("name").unwrap_or_default();
    match operator.catalog.has_stream(&name) {
        true => Ok(name),
        false => Err(NO_STREAM),
    }
}
