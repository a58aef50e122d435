//! Dead letters of a sink: the grid on its page, and the page `/sinks/{name}/dead-letters/{id}` of one of them.
//!
//! **Invariant**: a button applies to the selected dead letters, and to no others.

use maud::{Markup, html};
use salvo_core::{Depot, Request, handler};

use crate::frame::{Head, NoPage, Page, Place, posting};
use crate::grid::{Cell, Column, Grid, Row, pages};
use crate::paths;
use crate::text::{count, text, text_of, time};
use base::clock;
use operate::Operator;
use pool::DeadLetter;

/// Maximum dead letters on a page.
pub(super) const LETTERS: u32 = 50;
/// Maximum characters of a reason; `ITEM_CHARS_MAX` applies to an item.
const REASON_CHARS_MAX: usize = 4_000;
const ITEM_CHARS_MAX: usize = 20_000;

/// The dead letters, newest first, and the actions for the selected ones.
pub(super) fn grid(
    letters: &[DeadLetter],
    path: &str,
    depot: &Depot,
    (configured, later): (bool, bool),
) -> Markup {
    let newest = later.then(|| format!("{path}#dead-letters"));
    let last = letters.last().filter(|_| letters.len() >= LETTERS as usize);
    let older = last.map(|last| format!("{path}?before={}#dead-letters", last.id));
    let older = older.as_deref().map(|address| (address, "Older"));
    let pager = pages(
        &count(letters.len() as u64, "dead letter"),
        newest.as_deref(),
        older,
    );
    let columns = [
        Column::text("Stream"),
        Column::text("Reason"),
        Column::number("Attempts"),
        Column::text("Item"),
        Column::text("Request"),
        Column::time("Failed"),
    ];
    let mut grid = Grid::new("Dead letters", "Key", columns)
        .rows(letters.iter().map(|letter| row(letter, path, configured)))
        .pager(pager);
    grid.pick = configured.then_some("id");
    html! {
        @if letters.is_empty() {
            p.panel { "No dead letters." }
        } @else {
            form { (grid.markup()) @if configured { (buttons(depot, path, true)) } }
        }
    }
}

fn row(letter: &DeadLetter, path: &str, configured: bool) -> Row {
    let id = letter.id.to_string();
    let request = paths::request(&letter.request_id);
    let row = Row::of(&*letter.key, format!("{path}/dead-letters/{id}"))
        .id(format!("dead-letter-{id}"))
        .cells([
            Cell::linked(&letter.stream, Some(&paths::stream(&letter.stream))),
            Cell::text(&letter.reason),
            Cell::text(&letter.attempts.to_string()),
            Cell::text(&letter.fields),
            Cell::linked(&letter.request_id, Some(&request)),
            Cell::time(Some(&clock::rfc3339(letter.at))),
        ]);
    match configured {
        true => row.pick(id),
        false => row,
    }
}

fn buttons(depot: &Depot, path: &str, selected: bool) -> Markup {
    let (again, discard) = (format!("{path}/again"), format!("{path}/discard"));
    let question = match selected {
        true => "Discard the selected dead letters? This cannot be undone.",
        false => "Discard this dead letter? This cannot be undone.",
    };
    html! {
        div class=(if selected { "bulk" } else { "row" }) {
            @if selected { span.how {} }
            (posting(depot, (&again, None), "Retry"))
            (posting(depot, (&discard, Some(question)), "Discard…"))
        }
    }
}

/// `GET /sinks/{name}/dead-letters/{id}`
pub(super) struct ShowLetter(pub(super) Operator);

#[handler]
impl ShowLetter {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<Page, NoPage> {
        let sink = paths::param(req, "name");
        let id = req.param::<i64>("id").unwrap_or_default();
        let found = self
            .0
            .pool
            .dead_letters(&sink, id.checked_add(1), 1)
            .await?;
        let letter = found.into_iter().find(|letter| letter.id == id);
        let letter = letter.ok_or(NoPage::NotFound(
            "The sink has no such dead letter. It may have been sent again or discarded.",
        ))?;
        let path = paths::sink(&sink);
        let configured = self.0.delivery.shown_of(&sink).is_some();
        Ok(Page {
            title: format!("Dead letter {id}"),
            place: Place::Sinks,
            head: Head {
                above: vec![
                    ("/sinks".to_owned(), "Sinks".to_owned()),
                    (path.clone(), sink.clone()),
                ],
                ..Default::default()
            },
            still: html! {
                (facts(&letter, &sink))
                @if configured {
                    form { input type="hidden" name="id" value=(id); (buttons(depot, &path, false)) }
                }
                h2 { "Item" }
                pre tabindex="0" { code { (text_of(&letter.fields, ITEM_CHARS_MAX)) } }
            },
            live: html! {},
            old: true,
        })
    }
}

fn facts(letter: &DeadLetter, sink: &str) -> Markup {
    html! {
        div.panel { dl {
            dt { "Sink" } dd { a href=(paths::sink(sink)) { (text(sink)) } }
            dt { "Stream" } dd { a href=(paths::stream(&letter.stream)) { (text(&letter.stream)) } }
            dt { "Key" } dd { (text(&letter.key)) }
            dt { "Reason" } dd { (text_of(&letter.reason, REASON_CHARS_MAX)) }
            dt { "Attempts" } dd { (letter.attempts) " at this item, alone, in batches and in their halves" }
            dt { "Failed" } dd { (time(&clock::rfc3339(letter.at))) }
            dt { "Request" } dd.mono { a href=(paths::request(&letter.request_id)) { (letter.request_id) } }
        } }
    }
}
