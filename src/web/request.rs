//! `/requests/{id}`: the steps of a request, its content, and the button that resends it.
//!
//! **Invariant**: a step is shown only after it has happened, or as waiting.

mod content;
mod curl;

use maud::{Markup, html};
use salvo_core::{Depot, Request, Router, handler};
use uuid::Uuid;

use super::form_data::FormData;
use super::frame::{FormAnswer, Head, NoPage, Page, Place, token};
use super::guard::by;
use super::text::{bytes, count, text, text_of, time};
use super::{badge, paths, snippets, tool};
use base::clock;
use ingest::{AgainError, Kept, SentAgain};
use operate::Operator;
use operate::content::Content;
use operate::requests::{Report, Status};
use pool::SinkState;

/// Maximum characters of an error.
const ERROR_CHARS_MAX: usize = 2_000;

pub(super) fn routes(operator: &Operator) -> Router {
    let p = || operator.clone();
    Router::with_path("requests/{request_id}")
        .get(ShowRequest(p()))
        .push(Router::with_path("resend").post(Resend(p())))
        // The path of pages of version 0.1.
        .push(Router::with_path("send-again").post(Resend(p())))
}

/// `GET /requests/{request_id}`
struct ShowRequest(Operator);

#[handler]
impl ShowRequest {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<Page, NoPage> {
        page(&self.0, req, &token(depot)).await
    }
}

async fn page(operator: &Operator, req: &Request, token: &Markup) -> Result<Page, NoPage> {
    let report = match id(req) {
        Some(id) => operator.requests.find(id).await?,
        None => None,
    };
    let report = report.ok_or(NoPage::NotFound(
        "No request in the log has this ID. It may have been deleted because of its age.",
    ))?;
    let entry = &report.row.entry;
    let kept = operator.ingest.kept(&report.row).await?;
    let sent_again_as = operator.journal.sent_again_as(entry.request_id).await?;
    let connector_is_there = operator.catalog.connector(&entry.connector).is_some();
    let command = curl::command(&snippets::address(operator, req), entry, &kept);
    Ok(Page {
        title: format!("Request {}", entry.request_id),
        place: Place::Connectors,
        head: Head {
            above: vec![
                ("/connectors".to_owned(), "Connectors".to_owned()),
                (
                    paths::connector(&entry.connector),
                    entry.connector.to_string(),
                ),
            ],
            ..Head::default()
        },
        still: html! {},
        live: html! {
            @for error in report.errors() {
                p.problem { (text_of(error, ERROR_CHARS_MAX)) }
            }
            (steps(&report, &sent_again_as, token))
            (actions(&report, &kept, command.is_ok(), token))
            (facts(&report, connector_is_there))
            (content::headers(&report))
            (content::content(&Content::from(&kept)))
            (content::as_curl(command))
        },
        old: false,
    })
}

/// The actions of the page.
fn actions(report: &Report, kept: &Kept, has_command: bool, token: &Markup) -> Markup {
    let path = format!("/requests/{}/resend", report.row.entry.request_id);
    html! {
        div.row {
            @if !matches!(kept, Kept::Nothing(_)) {
                form.row method="post" action=(path) {
                    (token) button #resend { "Resend to all sinks" }
                    @if matches!(kept, Kept::Items(_)) {
                        label { input type="checkbox" name="overwrite" value="yes"; " overwrite newer values" }
                    }
                }
            }
            @if has_command { button.plain #copy-curl type="button" data-copy="curl" { "Copy as curl" } }
        }
    }
}

/// `POST /requests/{request_id}/resend`
struct Resend(Operator);

#[handler]
impl Resend {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormAnswer, NoPage> {
        let overwrite = FormData::of(depot).is_some_and(|form| form.get("overwrite").is_some());
        let from = id(req).ok_or(AgainError::NotFound).map_err(refused)?;
        let sent = self.0.resend(from, overwrite, by(req)).await;
        sent.map(|sent| done(&sent)).map_err(refused)
    }
}

/// The next page and its message.
fn done(sent: &SentAgain) -> FormAnswer {
    let left = match sent.items_left {
        0 => String::new(),
        left => format!(
            " {} left unchanged: a later request changed or removed them.",
            count(u64::from(left), "item")
        ),
    };
    let receipt = sent.accepted.as_ref().map(|accepted| &accepted.receipt);
    let what = match receipt {
        None => "Nothing was sent.",
        Some(receipt) if receipt.replayed => {
            "Its idempotency key was accepted before; this is the original request."
        }
        Some(_) => "Resent; this is the new request.",
    };
    let shown = receipt.map_or(sent.from.request_id, |receipt| receipt.request_id);
    FormAnswer::Done(format!("/requests/{shown}"), format!("{what}{left}"))
}

/// The ID in the path.
fn id(req: &Request) -> Option<Uuid> {
    Uuid::try_parse(&paths::param(req, "request_id")).ok()
}

fn refused(error: AgainError) -> NoPage {
    match NoPage::from(error) {
        NoPage::Refused(status, why) => NoPage::Refused(status, format!("Not resent: {why}.")),
        no_page => no_page,
    }
}

fn steps(report: &Report, sent_again_as: &[Uuid], token: &Markup) -> Markup {
    let entry = &report.row.entry;
    html! {
        div.panel {
            ol.way {
                @if let Some(from) = entry.sent_again_from {
                    li { "Resent from " a href={ "/requests/" (from) } { "request " (from) } " by an operator" }
                }
                li.good { "Received " (time(&clock::rfc3339(entry.received_at))) ", " (bytes(entry.bytes)) }
                @match report.status {
                    Status::Rejected => li.bad { "Rejected with " (entry.http_status) "; nothing was stored" },
                    Status::Duplicate => li { "Duplicate: answered like " (original(report.row.duplicate_of)) "; nothing was stored again" },
                    Status::Test => li { "Sent with a test key: checked and logged; nothing was stored" },
                    Status::Removed => li.good { "Removed an item" },
                    Status::Handshake => li.good { "Challenge from the provider, or an event without data: answered " (entry.http_status) "; nothing was stored" },
                    Status::Accepted | Status::Processed | Status::Stale | Status::Failed | Status::Discarded => {
                        li.good { "Committed as number " (report.row.seq) ", then answered " (entry.http_status) ": " (count(u64::from(entry.items), "item")) }
                        @for (sink, state) in &report.sinks { (at_sink(&entry.request_id.to_string(), sink, *state, token)) }
                        @if report.sinks.is_empty() { li { "No sink receives its stream" } }
                    }
                }
                @if let Some(done) = report.processed_at { li.good { "Delivered to all sinks, and sent to screens, " (time(&clock::rfc3339(done))) } }
                @for id in sent_again_as { li { "Resent as " a href={ "/requests/" (id) } { "request " (id) } } }
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
    let path = paths::sink(sink);
    html! {
        li class=(class) {
            "Sink " a href=(path) { (text(sink)) } ": " (word)
            @if let SinkState::Done(Some(at)) | SinkState::Discarded(at) = state { " " (time(&clock::rfc3339(at))) }
            @if state == SinkState::Failed {
                " "
                form method="post" action={ (path) "/again" } { (token) input type="hidden" name="request" value=(request_id); button.plain { "Retry its dead letters to " (text(sink)) } }
                " "
                form method="post" action={ (path) "/discard" } data-confirm="Discard the dead letters of this request? This cannot be undone." {
                    (token) input type="hidden" name="request" value=(request_id); button.danger { "Discard its dead letters" }
                }
            }
            @if state == SinkState::Retrying {
                " "
                form method="post" action={ (path) "/retry" } { (token) button.plain { "Retry now" } }
            }
        }
    }
}

fn facts(report: &Report, connector_is_there: bool) -> Markup {
    let entry = &report.row.entry;
    html! {
        div.panel { dl {
            dt { "Status" } dd { (badge::status(report.status)) }
            dt { "Connector" } dd { a href=(paths::connector(&entry.connector)) { (text(&entry.connector)) } @if !connector_is_there { " (deleted)" } }
            dt { "Stream" } dd { a href=(paths::stream(&entry.stream)) { (text(&entry.stream)) } }
            dt { "Endpoint" } dd { (entry.endpoint.as_str()) }
            dt { "Key" } @if entry.key.is_empty() { dd { "none" } } @else { dd.mono { (text(&entry.key)) "…" } }
            dt { "From" } dd { (text(&entry.client.to_string())) }
            @if let Some(said) = &entry.sender { (tool::facts(said)) }
            @if let Some(field) = &entry.item_key { dt { "Item key" } dd { (text(field)) } }
            @if let Some(key) = &entry.idempotency_key { dt { "Idempotency key" } dd { (text_of(key, ERROR_CHARS_MAX)) } }
        } }
    }
}
