//! `/renderers`: the screens and their states, the connections with their lag, and the read keys.
//!
//! **Invariant**: it shows the responses of `GET /api/admin/renderers`, `/api/admin/read-keys` and
//! `/api/admin/screens`.

use maud::{Markup, html};
use salvo_core::{Depot, Request, Router, handler};

use super::frame::{FormAnswer, Head, NoPage, Page, Place, token};
use super::grid::{Cell, Column, Grid, Row, Sorting, count_of};
use super::guard::by;
use super::held::{since, since_in_words};
use super::text::{count, grouped, plain, segment, text};
use super::{description, key, paths};
use base::clock;
use catalog::ReadKey;
use operate::Operator;
use operate::renderers::Connected;
use operate::screens::{ScreenState, ScreenStatus};
use pool::Pool;
use pool::acts::ActCounts;

/// Maximum rows on the page.
const SHOWN_MAX: usize = 500;

pub(super) fn routes(operator: &Operator) -> Router {
    let p = || operator.clone();
    Router::new()
        .push(Router::with_path("renderers").get(Renderers(p())))
        .push(Router::with_path("screens/{name}/reload").post(ReloadScreen(p())))
}

/// `GET /renderers`
struct Renderers(Operator);

#[handler]
impl Renderers {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<Page, NoPage> {
        page(&self.0, &token(depot), &Sorting::of(req)).await
    }
}

/// `POST /screens/{name}/reload`
struct ReloadScreen(Operator);

#[handler]
impl ReloadScreen {
    async fn handle(&self, req: &mut Request) -> Result<FormAnswer, NoPage> {
        let name = paths::param(req, "name");
        let reached = self.0.reload_screen(&name, by(req)).await?;
        let flash = match reached {
            0 => format!(
                "No connection of {name} identifies itself as a screen, so no message was sent."
            ),
            _ => format!("Screen {name} reloads its page."),
        };
        Ok(FormAnswer::Done("/renderers".to_owned(), flash))
    }
}

async fn page(operator: &Operator, token: &Markup, sorting: &Sorting) -> Result<Page, NoPage> {
    let acts = operator.in_pool(Pool::act_counts).await?;
    let mut renderers = operator.renderers();
    // Renderers with the largest lag first, then the newest.
    renderers.sort_by_key(|one| {
        (
            std::cmp::Reverse(one.lag),
            std::cmp::Reverse(one.renderer.id),
        )
    });
    let live = html! {
        (screens(operator, token, sorting))
        (keys(operator, sorting))
        h2 { "Connected" @if let Some(node) = operator.node() { " to node " (node) } }
        @if renderers.is_empty() {
            p.panel { "No connected screens. Open " code { "/render/STREAM#READ_KEY" } " of the service listener in a browser: " a href="/docs/show" { "Show on a screen" } "." }
        } @else {
            (connected(&renderers, &acts, sorting))
        }
    };
    Ok(Page {
        title: "Screens".to_owned(),
        place: Place::Renderers,
        head: Head {
            actions: html! { a.button.main href="/new/read-key" { "New read key" } },
            ..Head::default()
        },
        still: html! {},
        live,
        old: false,
    })
}

/// The screens; expected screens that are not connected come first.
fn screens(operator: &Operator, token: &Markup, sorting: &Sorting) -> Markup {
    let mut screens = operator.screens();
    screens.sort_by_key(|one| !one.key.expect || one.is_there());
    let columns = [
        Column::text("State"),
        Column::text("Shows"),
        Column::text("Size"),
        Column::text("From"),
        Column::text("Reload"),
        Column::time("Since"),
    ];
    let rows = screens.iter().map(|one| screen_row(one, token));
    html! {
        @if !screens.is_empty() {
            (Grid::new("Screens", "Screen", columns).sorted(rows, SHOWN_MAX, sorting).pager(count_of(&shown_of(screens.len(), "screen"))).markup())
        }
    }
}

fn screen_row(screen: &ScreenStatus, token: &Markup) -> Row {
    let (key, record) = (&screen.key, &screen.record);
    let shows = record.shows.as_deref().or(key.page.as_deref());
    let connected = &mut screen.connected.iter();
    let is_reloaded = connected.any(|one| one.screen.is_some()) || screen.is_reloaded_elsewhere();
    let reload = match is_reloaded {
        true => Cell::markup(html! {
            form method="post" action={ "/screens/" (segment(&key.name)) "/reload" } { (token) button.plain { "Reload" } }
        }),
        false => Cell::none(),
    };
    let since = screen.since.map(clock::rfc3339);
    Row::of(&*key.name, paths::read_key(&key.name))
        .id(format!("screen-{}", key.name))
        .about(html! { @if key.expect { span.badge { "expected" } } })
        .cells([
            Cell::text(&state(screen)),
            Cell::text(shows.unwrap_or_default()),
            Cell::text(record.size.as_deref().unwrap_or_default()),
            Cell::text(record.client.as_deref().unwrap_or_default()),
            reload,
            Cell::time(since.as_deref()),
        ])
}

/// The state in words, with the reason of a rejection.
fn state(screen: &ScreenStatus) -> String {
    let why = screen.record.refused.as_deref().unwrap_or_default();
    if let Some(node) = &screen.elsewhere {
        return format!("{} on node {node}", screen.state.as_str());
    }
    match (screen.state, screen.connected.len()) {
        (ScreenState::Here, 0 | 1) => "here".to_owned(),
        (ScreenState::Here, count) => format!("here, {count} connections"),
        (ScreenState::Refused, _) => format!("refused: {}", plain(why)),
        (ScreenState::Never, _) => "never connected".to_owned(),
        (state, _) => state.as_str().to_owned(),
    }
}

fn keys(operator: &Operator, sorting: &Sorting) -> Markup {
    let keys = operator.catalog.read_keys();
    let columns = [
        Column::text("State"),
        Column::text("Begins with"),
        Column::text("Streams"),
        Column::text("In a URL"),
        Column::text("Description"),
        Column::text("Defined in"),
    ];
    html! {
        h2 { "Read keys" }
        @if keys.is_empty() {
            p.panel { "No read keys, so no screen can connect. " a href="/new/read-key" { "Create a read key" } "." }
        } @else {
            (Grid::new("Read keys", "Read key", columns).sorted(keys.iter().map(|key| key_row(key)), SHOWN_MAX, sorting).pager(count_of(&shown_of(keys.len(), "read key"))).markup())
        }
    }
}

fn key_row(key: &ReadKey) -> Row {
    let begins = match &key.prefix {
        Some(prefix) => Cell::text(&format!("{prefix}…")),
        None => Cell::none().titled("Only its digest is known"),
    };
    let state = key::state(key.state(), key.expires_at, false);
    Row::of(&*key.name, paths::read_key(&key.name))
        .id(format!("key-{}", key.name))
        .about(html! { @if key.operate { span.badge { "operates" } } })
        .cells([
            Cell::markup(html! { span { (state) } }).valued(key.state().as_str()),
            begins,
            Cell::text(&key.streams.join(", ")),
            Cell::text(if key.allow_in_url { "yes" } else { "no" }),
            Cell::text(key.description.as_deref().unwrap_or_default()),
            Cell::text(description::place(key.created_at)),
        ])
}

/// The connected renderers, those with the largest lag first.
fn connected(renderers: &[Connected], acts: &[ActCounts], sorting: &Sorting) -> Markup {
    let columns = [
        Column::text("Streams"),
        Column::text("Held"),
        Column::text("From"),
        Column::text("Over"),
        Column::text("Position"),
        Column::number("Changes behind"),
        Column::time("Connected"),
    ];
    let row = |one: &Connected| {
        let (renderer, position) = (&one.renderer, one.position.to_string());
        Row::of(&*renderer.key, paths::read_key(&renderer.key))
            .id(format!("connection-{}", renderer.id))
            .about(html! { @if renderer.operates() { span.badge { "operates" } } })
            .cells([
                Cell::text(&renderer.streams.join(", ")),
                held(one, acts),
                Cell::text(&renderer.client.to_string()),
                Cell::text(renderer.transport.as_str()),
                Cell::text(&position),
                Cell::text(&grouped(one.lag)),
                Cell::time(Some(&clock::rfc3339(renderer.connected_at))),
            ])
    };
    Grid::new("Connected screens", "Read key", columns)
        .sorted(renderers.iter().map(row), SHOWN_MAX, sorting)
        .pager(count_of(&shown_of(renderers.len(), "screen")))
        .markup()
}

/// The held streams of a renderer, with the start and the operator of each hold.
fn held(one: &Connected, acts: &[ActCounts]) -> Cell {
    let held: Vec<_> = one.held(acts).collect();
    if held.is_empty() {
        return Cell::none();
    }
    let words = held.iter();
    let words = words.map(|(stream, held)| format!("{stream} {}", since_in_words(held)));
    let title = words.collect::<Vec<_>>().join("; ");
    Cell::markup(html! {
        span.val { @for (stream, held) in &held { span.badge.warn { "held" } " " (text(stream)) " " (since(held)) " " } }
    })
    .titled(title)
}

/// The number of objects, and how many of them are shown.
fn shown_of(all: usize, thing: &str) -> String {
    match all > SHOWN_MAX {
        true => format!("the first {SHOWN_MAX} of {}", count(all as u64, thing)),
        false => count(all as u64, thing),
    }
}
