//! `/search?q=…`: a search for keys, IDs, names and errors.
//!
//! **Invariant**: it shows the response of `GET /api/admin/search`.

use maud::{Markup, html};
use salvo_core::{Request, handler};

use super::frame::{Head, NoPage, Page, Place, search_form};
use super::node::no_log;
use super::text::{count, plain, segment, text, text_of, time};
use http::error::ApiError;
use operate::Operator;
use operate::search::{SearchCursor, SearchHit, SearchPage, check_text};

/// Maximum hits on a page.
const HITS: u32 = 50;
/// Maximum characters of a hit's title.
const TITLE_CHARS_MAX: usize = 200;

/// The headings of the hits, by kind.
const KINDS: [(&str, &str); 8] = [
    ("item", "Items"),
    ("request", "Requests"),
    ("stream", "Streams"),
    ("connector", "Connectors"),
    ("key", "Keys"),
    ("read_key", "Read keys"),
    ("sink", "Sinks"),
    ("dead_letter", "Dead letters"),
];

/// `GET /search`
pub(super) struct Search(pub(super) Operator);

#[handler]
impl Search {
    async fn handle(&self, req: &mut Request) -> Result<Page, NoPage> {
        page(&self.0, req).await
    }
}

async fn page(operator: &Operator, req: &mut Request) -> Result<Page, NoPage> {
    let query = req.query::<String>("q").unwrap_or_default();
    let query = query.trim();
    let found = match query {
        "" => html! {
            p.quiet { "Finds items by key, requests by id, idempotency key, delivery id or error, and streams, connectors, keys, read keys and sinks by name." }
        },
        query => {
            check_text(query).map_err(ApiError::invalid)?;
            let cursor = req.query::<String>("cursor");
            let cursor: Option<SearchCursor> =
                cursor.map(|text| text.parse()).transpose().map_err(|_| {
                    ApiError::invalid("This URL is not a page of results. Search again.")
                })?;
            let is_first = cursor.is_none();
            let found = operator.search(query, cursor, HITS).await?;
            results(query, &found, is_first)
        }
    };
    Ok(Page {
        title: match query {
            "" => "Search".to_owned(),
            query => format!("Search: {}", plain(query)),
        },
        place: Place::Search,
        head: Head::default(),
        still: html! { (search_form(query)) (found) },
        live: html! {},
        old: true,
    })
}

fn results(query: &str, found: &SearchPage, is_first: bool) -> Markup {
    let older = found.next.as_ref().map(|next| {
        let cursor = segment(&next.to_string());
        format!("/search?q={}&cursor={cursor}", segment(query))
    });
    html! {
        @if found.unread.is_some() { (no_log("The requests")) }
        @if found.hits.is_empty() && found.unread.is_none() {
            p.panel role="status" {
                @match (&older, is_first) {
                    (Some(_), _) => "No results so far.",
                    (None, true) => "No results. Item keys match from their beginning, and case matters.",
                    (None, false) => "No more results.",
                }
            }
        }
        @for (kind, heading) in KINDS {
            @let hits: Vec<_> = found.hits.iter().filter(|hit| hit.kind == kind).collect();
            @if !hits.is_empty() { (group(heading, &hits)) }
        }
        @if let Some(older) = older {
            p.row {
                a.button.plain href=(older) { @if found.stopped_at.is_some() { "Search further back" } @else { "More results" } }
                @if let Some(at) = found.stopped_at { span.quiet { "Searched back to " (time(&base::clock::rfc3339(at))) "." } }
            }
        } @else if !found.hits.is_empty() {
            p.quiet role="status" {
                (count(found.hits.len() as u64, "hit")) ", everything "
                @if found.unread.is_some() { "else " }
                "was searched."
            }
        }
    }
}

fn group(heading: &str, hits: &[&SearchHit]) -> Markup {
    html! {
        h2 { (heading) }
        ul.found { @for hit in hits { li {
            a href=(hit.page) { (text(&hit.key)) }
            span.about {
                @if let Some(stream) = &hit.stream { (text(stream)) @if !hit.title.is_empty() { " · " } }
                (text_of(&hit.title, TITLE_CHARS_MAX))
            }
            @if let Some(at) = &hit.at { span.quiet { (time(at)) } }
        } } }
    }
}
