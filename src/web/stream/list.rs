//! `/streams`: the streams of the data pool.
//!
//! **Invariant**: items are counted up to a limit, so the cost of the page does not depend on the size of a stream.

use std::sync::Arc;

use maud::html;
use salvo_core::{Request, handler};

use crate::frame::{Head, NoPage, Page, Place};
use crate::grid::{Cell, Column, Grid, Row, Sorting, count_of};
use crate::held;
use crate::text::{count, grouped};
use crate::{description, paths};
use catalog::Stream;
use operate::Operator;
use pool::Pool;
use pool::acts::ActCounts;

/// Items of a stream are counted up to this number.
const COUNTED_MAX: u32 = 10_000;

/// `GET /streams`
pub(super) struct Streams(pub(super) Operator);

#[handler]
impl Streams {
    async fn handle(&self, req: &mut Request) -> Result<Page, NoPage> {
        page(&self.0, &Sorting::of(req)).await
    }
}

async fn page(operator: &Operator, sorting: &Sorting) -> Result<Page, NoPage> {
    let mut rows: Vec<Listed> = Vec::new();
    for stream in operator.catalog.streams() {
        let items = operator.pool.count(&stream.name, COUNTED_MAX + 1).await?;
        let newest = operator.pool.newest_data(&stream.name).await?;
        let view = operator.pool.view(&stream.name).await?;
        rows.push((stream, items, newest, view));
    }
    let acts = operator.in_pool(Pool::act_counts).await?;
    let of = |stream: &str| acts.iter().find(|acts| *acts.stream == *stream);
    let is_acted = !acts.is_empty();
    let columns = [
        Some(Column::text("Description")),
        Some(Column::number("Items")),
        is_acted.then(|| Column::text("Operators")),
        Some(Column::text("SQL view")),
        Some(Column::text("Defined in")),
        Some(Column::time("Updated")),
    ];
    let live = html! {
        @if rows.is_empty() {
            p.panel { "No streams. " a href="/new/stream" { "Create a stream" } ", or define it in the configuration." }
        } @else {
            (Grid::new("Streams", "Stream", columns.into_iter().flatten()).sorted(rows.iter().map(|listed| row(listed, is_acted.then(|| of(&listed.0.name)))), usize::MAX, sorting).pager(count_of(&count(rows.len() as u64, "stream"))).markup())
        }
    };
    Ok(Page {
        title: "Streams".to_owned(),
        place: Place::Streams,
        head: Head {
            actions: html! { a.button.main href="/new/stream" { "New stream" } },
            ..Head::default()
        },
        still: html! {},
        live,
        old: false,
    })
}

/// A stream, the number of its items up to the limit, the time of its last update, and its view.
type Listed = (Arc<Stream>, u32, Option<String>, Option<String>);

fn row((stream, items, newest, view): &Listed, acts: Option<Option<&ActCounts>>) -> Row {
    let number = match *items > COUNTED_MAX {
        true => format!("over {}", grouped(u64::from(COUNTED_MAX))),
        false => grouped(u64::from(*items)),
    };
    let cells = [
        Some(Cell::text(
            stream.description.as_deref().unwrap_or_default(),
        )),
        Some(Cell::text(&number)),
        acts.map(held::cell),
        Some(Cell::text(view.as_deref().unwrap_or_default())),
        Some(Cell::text(description::place(stream.created_at))),
        Some(Cell::time(newest.as_deref())),
    ];
    Row::of(&*stream.name, paths::stream(&stream.name)).cells(cells.into_iter().flatten())
}
