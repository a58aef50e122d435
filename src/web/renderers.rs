//! `/renderers`: who shows the data, since when, and how far behind; and the keys that they read with.
//!
//! **Invariant**: it shows what `GET /api/admin/renderers` and `/api/admin/read-keys` answer.

use maud::{Markup, html};
use salvo_core::handler;

use super::frame::{NoPage, Page, Place};
use super::held::since;
use super::text::{grouped, text, time};
use super::{description, key, paths};
use base::clock;
use operate::Operator;
use pool::Pool;

/// Rows on the page.
const SHOWN_MAX: usize = 500;

/// `GET /renderers`
pub(super) struct Renderers(pub(super) Operator);

#[handler]
impl Renderers {
    async fn handle(&self) -> Result<Page, NoPage> {
        page(&self.0).await
    }
}

async fn page(operator: &Operator) -> Result<Page, NoPage> {
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
        title: "Renderers".to_owned(),
        place: Place::Renderers,
        still: html! { p.row { a.button href="/new/read-key" { "New read key" } } },
        live,
        old: false,
    })
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
