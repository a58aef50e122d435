//! `/renderers`: the screens and how each is; who is connected, since when, and how far behind; and the read keys.
//!
//! **Invariant**: it shows what `GET /api/admin/renderers` and `/api/admin/read-keys` answer, and what `/api/admin/screens` does.

use maud::{Markup, html};
use salvo_core::{Depot, Request, Router, handler};

use super::frame::{FormAnswer, NoPage, Page, Place, token};
use super::guard::by;
use super::held::since;
use super::text::{grouped, plain, segment, text, time};
use super::{description, key, paths};
use base::clock;
use operate::Operator;
use operate::screens::{ScreenState, ScreenStatus};
use pool::Pool;

/// Rows on the page.
const SHOWN_MAX: usize = 500;

/// The screens, and what can be done to them.
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
    async fn handle(&self, depot: &mut Depot) -> Result<Page, NoPage> {
        page(&self.0, &token(depot)).await
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
            _ => format!("The screen {name} loads its page again."),
        };
        Ok(FormAnswer::Done("/renderers".to_owned(), flash))
    }
}

async fn page(operator: &Operator, token: &Markup) -> Result<Page, NoPage> {
    let acts = operator.in_pool(Pool::act_counts).await?;
    let mut renderers = operator.renderers();
    // Those that are behind first, then the newest.
    renderers.sort_by_key(|one| {
        (
            std::cmp::Reverse(one.lag),
            std::cmp::Reverse(one.renderer.id),
        )
    });
    let live = html! {
        (screens(operator, token))
        (keys(operator))
        h2 { "Connected" }
        @if renderers.is_empty() {
            p.panel { "No screen is connected. Open " code { "/render/STREAM#READ_KEY" } " of the service listener in a browser: " a href="/docs/show" { "Show on a screen" } "." }
        } @else {
            div.table { table {
                thead { tr { th { "Read key" } th { "Streams" } th { "Connected since" } th { "From" } th { "Over" } th { "Told up to" } th.number { "Behind by" } } }
                tbody { @for one in renderers.iter().take(SHOWN_MAX) { tr {
                    td data-label="Read key" { span { (text(&one.renderer.key)) @if one.renderer.operates() { " " span.badge { "operates" } } } }
                    td data-label="Streams" { span {
                        (text(&one.renderer.streams.join(", ")))
                        @for (stream, held) in one.held(&acts) { br; span.badge.warn { "held" } " " (text(stream)) " " (since(held)) }
                    } }
                    td.tight data-label="Connected since" { (time(&clock::rfc3339(one.renderer.connected_at))) }
                    td data-label="From" { span { (text(&one.renderer.client)) } }
                    td data-label="Over" { span { (one.renderer.transport.as_str()) } }
                    td.mono data-label="Told up to" { span { (one.position) } }
                    td.number data-label="Behind by" { (grouped(one.lag)) }
                } } }
            } }
            @if renderers.len() > SHOWN_MAX {
                p.quiet { "The first " (SHOWN_MAX) " of " (grouped(renderers.len() as u64)) " are shown." }
            }
        }
    };
    Ok(Page {
        title: "Screens".to_owned(),
        place: Place::Renderers,
        still: html! { p.row { a.button href="/new/read-key" { "New read key" } } },
        live,
        old: false,
    })
}

/// The screens, those that should be there and are not first.
fn screens(operator: &Operator, token: &Markup) -> Markup {
    let mut screens = operator.screens();
    screens.sort_by_key(|one| !one.key.expect || one.is_there());
    html! {
        @if !screens.is_empty() {
            div.table { table {
                thead { tr { th { "Screen" } th { "State" } th { "Since" } th { "Shows" } th { "Size" } th { "From" } th {} } }
                tbody { @for one in screens.iter().take(SHOWN_MAX) { tr {
                    td data-label="Screen" { span {
                        a href=(paths::read_key(&one.key.name)) { (text(&one.key.name)) }
                        @if one.key.expect { " " span.badge { "expected" } }
                    } }
                    td data-label="State" { span { (state(one)) } }
                    td.tight data-label="Since" { @if let Some(since) = one.since { (time(&clock::rfc3339(since))) } }
                    td data-label="Shows" { span { (text(one.record.shows.as_deref().or(one.key.page.as_deref()).unwrap_or_default())) } }
                    td data-label="Size" { span { (text(one.record.size.as_deref().unwrap_or_default())) } }
                    td data-label="From" { span { (text(one.record.client.as_deref().unwrap_or_default())) } }
                    td { @if one.connected.iter().any(|one| one.screen.is_some()) {
                        form method="post" action={ "/screens/" (segment(&one.key.name)) "/reload" } { (token) button.plain { "Reload" } }
                    } }
                } } }
            } }
        }
    }
}

/// In words, with why it is refused.
fn state(screen: &ScreenStatus) -> String {
    let why = screen.record.refused.as_deref().unwrap_or_default();
    match (screen.state, screen.connected.len()) {
        (ScreenState::Here, 0 | 1) => "here".to_owned(),
        (ScreenState::Here, count) => format!("here, {count} connections"),
        (ScreenState::Refused, _) => format!("refused: {}", plain(why)),
        (ScreenState::Never, _) => "never there".to_owned(),
        (state, _) => state.as_str().to_owned(),
    }
}

fn keys(operator: &Operator) -> Markup {
    let keys = operator.catalog.read_keys();
    html! {
        h2 { "Read keys" }
        @if keys.is_empty() {
            p.panel { "There is no read key, so no screen can read. " a href="/new/read-key" { "Create a read key" } "." }
        } @else {
            div.table { table {
                thead { tr { th { "Read key" } th { "Begins with" } th { "Streams" } th { "State" } th { "In a URL" } } }
                tbody { @for key in keys.iter().take(SHOWN_MAX) { tr {
                    td data-label="Read key" { span {
                        a id={ "key-" (key.name) } href=(paths::read_key(&key.name)) { (text(&key.name)) }
                        @if key.created_at.is_none() { " " span.badge { "declared" } }
                        @if key.operate { " " span.badge { "operates" } }
                        (description::below(key.description.as_deref()))
                    } }
                    td.mono data-label="Begins with" { @match &key.prefix {
                        Some(prefix) => span { (text(prefix)) "…" },
                        None => span.quiet { "known as a digest only" },
                    } }
                    td data-label="Streams" { span { (text(&key.streams.join(", "))) } }
                    td data-label="State" { span { (key::state(key.state(), key.expires_at, false)) } }
                    td data-label="In a URL" { span { @if key.allow_in_url { "yes" } @else { "no" } } }
                } } }
            } }
            @if keys.len() > SHOWN_MAX {
                p.quiet { "The first " (SHOWN_MAX) " of " (grouped(keys.len() as u64)) " are shown." }
            }
        }
    }
}
