//! `/requests/{id}`: the way of a request.
//!
//! **Invariant**: a step stands here only once it has happened, or as waiting.

use maud::{Markup, html};
use salvo_core::{Depot, Request, Response, handler};
use uuid::Uuid;

use super::badge;
use super::frame::{self, NoPage, Page, Place, form_token};
use super::guard::visitor;
use super::text::{bytes, count, segment, text, text_of, time};
use crate::clock;
use crate::delivery::report::{Report, Status};
use crate::http::Parts;
use crate::http::ingest::find_report;
use crate::pool::SinkState;

/// Characters of an error.
const ERROR_CHARS_MAX: usize = 2_000;

/// `GET /requests/{request_id}`
pub(super) struct ShowRequest(pub(super) Parts);

#[handler]
impl ShowRequest {
    async fn handle(&self, req: &mut Request, depot: &mut Depot, res: &mut Response) {
        let token = visitor(depot).map(form_token).unwrap_or_default();
        let page = page(&self.0, req, &token).await;
        frame::answer(&self.0.sessions, req, depot, res, page);
    }
}

async fn page(parts: &Parts, req: &Request, token: &Markup) -> Result<Page, NoPage> {
    let report = find_report(parts, req).await?;
    let report = report.ok_or(NoPage::NotFound(
        "There is no request with this id in the log. It may be older than the log goes back.",
    ))?;
    Ok(Page {
        title: format!("Request {}", report.row.entry.request_id),
        place: Place::Sources,
        still: html! {},
        live: html! {
            @if let Some(error) = &report.row.entry.error {
                p.problem { (text_of(error, ERROR_CHARS_MAX)) }
            }
            (way(&report, token))
            (facts(&report))
        },
        old: false,
    })
}

fn way(report: &Report, token: &Markup) -> Markup {
    let entry = &report.row.entry;
    html! {
        div.panel {
            ol.way {
                li.good { "Received " (time(&clock::rfc3339(entry.received_ms))) ", " (bytes(entry.bytes)) }
                @match report.status {
                    Status::Rejected => li.bad { "Refused with " (entry.http_status) ", nothing was stored" },
                    Status::Duplicate => li { "A repeat: answered like " (original(report.row.duplicate_of)) ", nothing was stored again" },
                    Status::Test => li { "Came with a test key: checked and logged, nothing was stored" },
                    Status::Removed => li.good { "Removed an item" },
                    Status::Accepted | Status::Processed | Status::Failed => {
                        li.good { "Committed as number " (report.row.seq) ", then answered " (entry.http_status) ": " (count(u64::from(entry.items), "item")) }
                        @for (sink, state) in &report.sinks { (at_sink(&entry.request_id.to_string(), sink, *state, token)) }
                        @if report.sinks.is_empty() { li { "No sink wants its stream" } }
                    }
                }
                @if let Some(done) = report.processed_ms { li.good { "Everywhere since " (time(&clock::rfc3339(done))) } }
            }
        }
    }
}

fn original(id: Option<Uuid>) -> Markup {
    html! {
        @match id {
            Some(id) => a href={ "/requests/" (id) } { "request " (id) },
            None => "an earlier request",
        }
    }
}

fn at_sink(request_id: &str, sink: &str, state: SinkState, token: &Markup) -> Markup {
    let (class, word) = badge::sink_state(state);
    let path = format!("/sinks/{}", segment(sink));
    html! {
        li class=(class) {
            "Sink " a href=(path) { (text(sink)) } ": " (word)
            @if let SinkState::Done(Some(at_ms)) = state { " " (time(&clock::rfc3339(at_ms))) }
            @if state == SinkState::Failed {
                " "
                form method="post" action={ (path) "/again" } { (token) input type="hidden" name="request" value=(request_id); button.plain { "Send again" } }
                " "
                form method="post" action={ (path) "/discard" } data-confirm="Discard the dead letters of this request for good?" {
                    (token) input type="hidden" name="request" value=(request_id); button.danger { "Discard" }
                }
            }
            @if state == SinkState::Retrying {
                " "
                form method="post" action={ (path) "/retry" } { (token) button.plain { "Try now" } }
            }
        }
    }
}

fn facts(report: &Report) -> Markup {
    let entry = &report.row.entry;
    html! {
        div.panel { dl {
            dt { "Status" } dd { (badge::status(report.status)) }
            dt { "Connector" } dd { a href={ "/sources/" (segment(&entry.connector)) } { (text(&entry.connector)) } }
            dt { "Stream" } dd { a href={ "/streams/" (segment(&entry.stream)) } { (text(&entry.stream)) } }
            dt { "Endpoint" } dd { (entry.endpoint.as_str()) }
            dt { "Key" } dd.mono { (text(&entry.key)) "…" }
            dt { "From" } dd { (text(&entry.client.to_string())) }
            @if let Some(field) = &entry.item_key { dt { "Item key" } dd { (text(field)) } }
            @if let Some(key) = &entry.idempotency_key { dt { "Idempotency key" } dd { (text_of(key, ERROR_CHARS_MAX)) } }
        } }
    }
}
