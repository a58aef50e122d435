//! `/streams/{name}`: the items of a stream as a table.
//!
//! **Invariant**: a page holds at most [`ITEMS`] items with [`COLUMNS_MAX`] columns of shortened values.

mod acts;
mod change;
mod export;
mod feeds;
mod item;
mod list;
mod new;

use std::collections::HashMap;
use std::sync::Arc;

use maud::{Markup, html};
use salvo_core::{Depot, Request, Router, handler};

use super::frame::{NoPage, Page, Place, token};
use super::origin::origin;
use super::text::{bytes, count, grouped, plain, segment, text_of, time};
use super::{description, form, paths, snippets};
use ::item::{field_name, members};
use base::text::shell_quoted as quoted;
use catalog::KeyState;
use item::show_value;
use operate::Operator;
use pool::{Item, PageLimit};
use settings::OnUpdate;

const ITEMS: u32 = 50;
const COLUMNS_MAX: usize = 24;
/// Bytes of items that are read for a page.
const PAGE_BYTES_MAX: usize = 4 << 20;
/// Characters of a value in the table.
const CELL_CHARS_MAX: usize = 80;

pub(super) use acts::routes as act_routes;

/// Streams and their items, and what can be done to both.
pub(super) fn routes(operator: &Operator) -> Router {
    let p = || operator.clone();
    Router::new()
        .push(form::route("new/stream", || new::NewStream(p())))
        .push(Router::with_path("streams").get(list::Streams(p())))
        .push(
            Router::with_path("streams/{name}")
                .get(ShowStream(p()))
                .push(form::route("change", || change::ChangeStream(p())))
                .push(form::route("delete", || change::DeleteStream(p())))
                .push(
                    Router::with_path("feeds")
                        .get(feeds::Feeds(p()))
                        .post(feeds::Feeds(p())),
                )
                .push(Router::with_path("export.{format}").get(export::ExportStream(p())))
                .push(Router::with_path("item").get(item::ShowItem(p())))
                .push(Router::with_path("remove").post(item::RemoveItem(p()))),
        )
}

/// `GET /streams/{name}`
struct ShowStream(Operator);

#[handler]
impl ShowStream {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<Page, NoPage> {
        page(&self.0, req, &token(depot)).await
    }
}

async fn page(operator: &Operator, req: &mut Request, token: &Markup) -> Result<Page, NoPage> {
    let stream = find_stream(operator, req)?;
    let name = &*stream.name;
    let asked = Arc::clone(&stream.name);
    let acted = operator.in_pool(move |pool| pool.stream_acts(&asked, acts::LISTED_MAX));
    let acted = acted.await?;
    let after = req.query::<String>("after");
    let limit = PageLimit {
        rows: ITEMS + 1,
        bytes: PAGE_BYTES_MAX,
    };
    let mut items = operator.pool.items(name, after.as_deref(), limit).await?;
    let bytes: usize = items.iter().map(|item| item.fields.len()).sum();
    let more = items.len() > ITEMS as usize || bytes >= PAGE_BYTES_MAX;
    items.truncate(ITEMS as usize);
    let view = operator.pool.view(name).await?;
    let path = paths::stream(name);
    Ok(Page {
        title: plain(name),
        place: Place::Streams,
        still: html! {
            (facts(operator, req, &stream, &path))
            @if let Some(view) = view { (sql_hint(operator, &view)) }
        },
        live: html! {
            (acts::of_stream(token, &path, &acted))
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

fn facts(operator: &Operator, req: &Request, stream: &catalog::Stream, path: &str) -> Markup {
    let acts_here = |key: &Arc<catalog::ReadKey>| {
        key.operate
            && key.state() == KeyState::Active
            && key.streams.iter().any(|one| *one == *stream.name)
    };
    let is_operated = operator.catalog.read_keys().iter().any(acts_here);
    let size = operator.pool.sizes().of(&stream.name);
    let of = |max: Option<u64>, show: fn(u64) -> String| {
        max.map_or_else(String::new, |max| format!(" of {}", show(max)))
    };
    html! {
        div.panel {
            dl {
                (description::fact(stream.description.as_deref()))
                dt { "When an item is updated" } dd { @match stream.on_update {
                    OnUpdate::Replace => "it has only the new fields (replace)",
                    OnUpdate::Merge => "it keeps fields that the update does not name (merge)",
                } }
                dt { "Stale" } dd { @match stream.stale_after_seconds {
                    Some(seconds) => { "after " (count(seconds, "second")) " without data" },
                    None => "never",
                } }
                dt { "Holds" } dd {
                    (count(size.items, "item")) (of(stream.items_max, grouped)) ", "
                    (bytes(size.bytes)) (of(stream.bytes_max, bytes))
                }
                dt { "Made" } dd { (origin(operator, "streams", &stream.name, stream.created_at)) }
            }
            p.row {
                @if is_operated { a.button.plain href=(snippets::address(operator, req).operate_url(&stream.name)) { "Operate page" } }
                a.button.plain href={ (path) "/feeds" } { "Feeds" }
                a.button.plain href={ (path) "/export.csv?safe" } { "Export as CSV" }
                @if stream.created_at.is_some() {
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
                            td data-label=(plain(&field_name(column))) { @if let Some(value) = fields.get(column) { span { (show_value(value, CELL_CHARS_MAX)) } } }
                        }
                        td.tight data-label="Data of" { (time(&item.updated_at)) }
                        td.mono data-label="Written by" { a href=(paths::request(&item.request_id)) { (item.request_id.get(..8).unwrap_or_default()) "…" } }
                    }
                } }
            } }
            @if beyond > 0 { p.quiet { "The first " (COLUMNS_MAX) " fields are shown, " (grouped(beyond as u64)) " more are on the page of each item." } }
        }
    }
}

/// The stream that the path names.
fn find_stream(operator: &Operator, req: &Request) -> Result<Arc<catalog::Stream>, NoPage> {
    let stream = operator.catalog.stream(&paths::param(req, "name"));
    stream.ok_or(NoPage::NotFound(
        "There is no such stream. The page Data pool lists the streams.",
    ))
}
