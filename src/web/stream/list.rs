//! `/streams`: the data pool, stream by stream.
//!
//! **Invariant**: items are counted up to a limit, so the page costs the same however large a stream is.

use maud::html;
use salvo_core::handler;

use crate::frame::{NoPage, Page, Place};
use crate::held::in_short;
use crate::text::{grouped, text, time};
use crate::{description, paths};
use operate::Operator;
use pool::Pool;

/// Items of a stream are counted to here.
const COUNTED_MAX: u32 = 10_000;

/// `GET /streams`
pub(super) struct Streams(pub(super) Operator);

#[handler]
impl Streams {
    async fn handle(&self) -> Result<Page, NoPage> {
        page(&self.0).await
    }
}

async fn page(operator: &Operator) -> Result<Page, NoPage> {
    let mut rows = Vec::new();
    for stream in operator.catalog.streams() {
        let items = operator.pool.count(&stream.name, COUNTED_MAX + 1).await?;
        let newest = operator.pool.newest_data(&stream.name).await?;
        let view = operator.pool.view(&stream.name).await?;
        rows.push((stream, items, newest, view));
    }
    let acts = operator.in_pool(Pool::act_counts).await?;
    let of = |stream: &str| acts.iter().find(|acts| *acts.stream == *stream);
    let live = html! {
        @if rows.is_empty() {
            p.panel { "There is no stream. " a href="/new/stream" { "Make the first one" } ", or declare it in the configuration." }
        } @else {
            div.table { table {
                thead { tr { th { "Stream" } th.number { "Items" } th { "Newest data" } @if !acts.is_empty() { th { "Operators" } } th { "SQL view" } } }
                tbody { @for (stream, items, newest, view) in &rows { tr {
                    td data-label="Stream" { span {
                        a href=(paths::stream(&stream.name)) { (text(&stream.name)) }
                        @if stream.created_at.is_none() { " " span.badge { "declared" } }
                        (description::below(stream.description.as_deref()))
                    } }
                    td.number data-label="Items" {
                        @if *items > COUNTED_MAX { "more than " (grouped(u64::from(COUNTED_MAX))) } @else { (grouped(u64::from(*items))) }
                    }
                    td data-label="Newest data" { @match newest { Some(newest) => { (time(newest)) }, None => span.quiet { "none yet" } } }
                    @if !acts.is_empty() { td data-label="Operators" { span { @if let Some(acts) = of(&stream.name) { (in_short(acts)) } } } }
                    td.mono data-label="SQL view" { @if let Some(view) = view { span { (text(view)) } } }
                } } }
            } }
        }
    };
    Ok(Page {
        title: "Data pool".to_owned(),
        place: Place::Streams,
        still: html! { p.row { a.button href="/new/stream" { "New stream" } } },
        live,
        old: false,
    })
}
