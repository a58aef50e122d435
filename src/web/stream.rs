//! `/streams/{name}`: the items of a stream as a table.
//!
//! **Invariant**: the page shows the items that `items` reads, and works without a script.

mod acts;
mod change;
mod export;
mod feeds;
mod history;
mod item;
mod items;
mod list;
mod new;

use std::sync::Arc;

use maud::{Markup, html};
use salvo_core::{Depot, Request, Router, handler};

use super::frame::{Head, NoPage, Page, Place, more, posting, token};
use super::origin::origin;
use super::text::{bytes, count, grouped, plain};
use super::{description, form, paths, snippets};
use base::text::shell_quoted as quoted;
use catalog::KeyState;
use items::ItemQuery;
use operate::Operator;
use pool::acts::StreamActs;
use settings::OnUpdate;

pub(super) use acts::routes as act_routes;
pub(super) use export::routes as export_routes;

/// Routes of the streams and their items.
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
                .push(Router::with_path("item").get(item::ShowItem(p()))),
        )
}

/// `GET /streams/{name}`
struct ShowStream(Operator);

#[handler]
impl ShowStream {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<Page, NoPage> {
        page(&self.0, req, depot).await
    }
}

async fn page(operator: &Operator, req: &mut Request, depot: &Depot) -> Result<Page, NoPage> {
    let stream = find_stream(operator, req)?;
    let name = &*stream.name;
    let query = ItemQuery::read(req)?;
    let asked = Arc::clone(&stream.name);
    let acted = operator.in_pool(move |pool| pool.stream_acts(&asked, acts::LISTED_MAX));
    let acted = acted.await?;
    let path = paths::stream(name);
    let token = token(depot);
    let shows_items = !matches!(req.query::<String>("tab").as_deref(), Some("setup"));
    let (still, live) = match shows_items {
        true => {
            let items = items::read(operator, name, &query).await?;
            let sources = items::sources(operator, name, &items).await?;
            let still =
                html! { (items::tools(&items, &path, &query)) (acts::grid_editor(&token, &path)) };
            let live = html! { form {
                (items::grid(operator, name, &items, &query, &acted, &sources))
                (selected(depot, &path))
            } };
            (still, live)
        }
        false => {
            let view = operator.pool.view(name).await?;
            let still = html! {
                (facts(operator, &stream, &path))
                @if let Some(view) = view { (sql_hint(operator, &view)) }
            };
            (still, html! {})
        }
    };
    Ok(Page {
        title: plain(name),
        place: Place::Streams,
        head: head(operator, req, &stream, &acted, &token),
        still: html! { (tabs(&path, shows_items)) (still) },
        live: html! { (acts::of_stream(&token, &path, &acted)) (live) },
        old: query.is_later(),
    })
}

/// The name of the stream, its holds and overrides, and the acts.
fn head(
    operator: &Operator,
    req: &Request,
    stream: &catalog::Stream,
    acted: &StreamActs,
    token: &Markup,
) -> Head {
    let acts_here = |key: &Arc<catalog::ReadKey>| {
        key.operate
            && key.state() == KeyState::Active
            && key.streams.iter().any(|one| *one == *stream.name)
    };
    let is_operated = operator.catalog.read_keys().iter().any(acts_here);
    let path = paths::stream(&stream.name);
    let size = operator.pool.sizes().of(&stream.name);
    Head {
        above: vec![("/streams".to_owned(), "Streams".to_owned())],
        state: html! {
            (acts::stream_badges(acted))
            span.quiet { (count(size.items, "item")) ", " (bytes(size.bytes)) }
        },
        actions: html! {
            (more(&html! {
                (acts::rarely(token, &path, "", !acted.overridden.is_empty()))
                a href={ (path) "/export.csv?safe" } { "Export as CSV" }
                @if stream.created_at.is_some() {
                    a href={ (path) "/change" } { "Change" }
                    a.bad href={ (path) "/delete" } { "Delete…" }
                }
            }))
            @if is_operated { a.button.plain href=(snippets::address(operator, req).operate_url(&stream.name)) { "Operate page" } }
            (acts::hold(token, &path, "", acted.held.is_some()))
        },
    }
}

/// Links to the tabs of a stream's page. Feeds have their own page.
fn tabs(path: &str, shows_items: bool) -> Markup {
    let current = |is: bool| is.then_some("page");
    html! {
        nav.tabs aria-label="Parts of this page" {
            a href=(path) aria-current=[current(shows_items)] { "Items" }
            a href={ (path) "/feeds" } { "Feeds" }
            a href={ (path) "?tab=setup" } aria-current=[current(!shows_items)] { "Set up" }
        }
    }
}

/// The actions for selected items. In a browser, Enter in a checkbox of a row triggers the first of them, so that is
/// one that changes nothing.
fn selected(depot: &Depot, path: &str) -> Markup {
    let post =
        |verb: &str, question, label| posting(depot, (&format!("{path}/{verb}"), question), label);
    html! {
        div.bulk {
            span.how {}
            (post("export.csv?safe=true", None, "Export CSV"))
            (post("export.ndjson", None, "Export NDJSON"))
            (post("release-items", None, "Release overrides"))
            (post("expire-items", Some("Have the selected items expire now? An item for which a request is pending stays."), "Expire…"))
            (post("remove", Some("Remove the selected items from the data pool and every screen?"), "Remove…"))
        }
    }
}

fn facts(operator: &Operator, stream: &catalog::Stream, path: &str) -> Markup {
    let size = operator.pool.sizes().of(&stream.name);
    let of = |max: Option<u64>, show: fn(u64) -> String| {
        max.map_or_else(String::new, |max| format!(" of {}", show(max)))
    };
    html! {
        div.panel {
            dl {
                (description::fact(stream.description.as_deref()))
                dt { "On update" } dd { @match stream.on_update {
                    OnUpdate::Replace => "replace all fields",
                    OnUpdate::Merge => "merge: keep fields missing from the update",
                } }
                dt { "Stale" } dd { @match stream.stale_after_seconds {
                    Some(seconds) => { "after " (count(seconds, "second")) " without data" },
                    None => "never",
                } }
                dt { "History" } dd { @match stream.history {
                    0 => "none",
                    values => { "the last " (count(values.into(), "value")) " of each field" },
                } }
                dt { "Size" } dd {
                    (count(size.items, "item")) (of(stream.items_max, grouped)) ", "
                    (bytes(size.bytes)) (of(stream.bytes_max, bytes))
                }
                dt { "Created" } dd { (origin(operator, "streams", &stream.name, stream.created_at)) }
            }
            p.row {
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
            p { "Any SQLite client can read the file while Headgate runs. The view has a column for each field." }
            div.copy {
                code #sql { "sqlite3 " (file) " " (query) }
                button.plain type="button" data-copy="sql" { "Copy" }
            }
        }
    }
}

/// The stream in the path.
fn find_stream(operator: &Operator, req: &Request) -> Result<Arc<catalog::Stream>, NoPage> {
    let stream = operator.catalog.stream(&paths::param(req, "name"));
    stream.ok_or(NoPage::NotFound(
        "There is no such stream. The page Streams lists the streams.",
    ))
}
