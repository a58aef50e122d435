//! The request log on the page of a connector: what of it is shown, and how.
//!
//! **Invariant**: the log is newest first, and `Older` leads to exactly the entries after the last one.

use std::sync::Arc;

use maud::{Markup, html};
use salvo_core::Request;

use crate::badge;
use crate::form::filter::{before, check_times, refusal};
use crate::form::parse_time;
use crate::frame::NoPage;
use crate::text::{grouped, plain, segment, text, text_of, time};
use base::clock;
use base::order::Seq;
use journal::log::Filter;
use operate::Operator;
use operate::requests::{self, Report, Status};

/// Characters of an error.
const ERROR_CHARS_MAX: usize = 400;
/// Entries on a page.
const ENTRIES: u32 = 50;

/// Which entries of the log are asked for.
#[derive(Debug, Default)]
pub(super) struct LogQuery {
    status: Option<Status>,
    /// As the form has them: `2026-01-31T12:00`, UTC.
    since: String,
    until: String,
    text: String,
    pub(super) before: Option<Seq>,
}

impl LogQuery {
    pub(super) fn read(req: &mut Request) -> Result<Self, NoPage> {
        let text = |name: &str| req.query::<String>(name).unwrap_or_default();
        let status = match text("status").as_str() {
            "" => None,
            name => {
                Some(Status::from_name(name).ok_or_else(|| refusal("There is no such status."))?)
            }
        };
        let query = Self {
            status,
            since: text("since"),
            until: text("until"),
            text: text("text")
                .trim()
                .chars()
                .take(Filter::TEXT_CHARS_MAX)
                .collect(),
            before: before(req)?,
        };
        check_times([&query.since, &query.until])?;
        Ok(query)
    }

    pub(super) fn is_filtered(&self) -> bool {
        self.status.is_some()
            || !(self.since.is_empty() && self.until.is_empty() && self.text.is_empty())
    }

    /// The query of the page that begins before a position.
    fn older(&self, before: Seq) -> String {
        let status = self.status.map_or("", Status::as_str);
        format!(
            "?status={status}&since={}&until={}&text={}&before={before}",
            segment(&self.since),
            segment(&self.until),
            segment(&self.text)
        )
    }
}

/// A page of the log.
pub(super) async fn read(
    operator: &Operator,
    connector: &Arc<str>,
    query: &LogQuery,
) -> Result<requests::Page, NoPage> {
    let filter = Filter {
        connector: Some(Arc::clone(connector)),
        before: query.before,
        since: parse_time(&query.since),
        until: parse_time(&query.until),
        text: Some(query.text.clone()).filter(|text| !text.is_empty()),
        ..Filter::default()
    };
    let statuses: Vec<Status> = query.status.into_iter().collect();
    Ok((operator.requests)
        .page(&filter, &statuses, ENTRIES)
        .await?)
}

/// The form that filters the log.
pub(super) fn filter(path: &str, query: &LogQuery) -> Markup {
    html! {
        form.filter method="get" action={ (path) "#log" } {
            div {
                label for="status" { "Status" }
                select #status name="status" {
                    option value="" { "all" }
                    @for status in Status::ALL {
                        option value=(status.as_str()) selected[query.status == Some(status)] { (status.as_str()) }
                    }
                }
            }
            div { label for="since" { "From (UTC)" } input #since type="datetime-local" step="1" name="since" value=(query.since); }
            div { label for="until" { "To (UTC)" } input #until type="datetime-local" step="1" name="until" value=(query.until); }
            div { label for="text" { "Request id or text" } input #text type="search" name="text" value=(query.text) maxlength=(Filter::TEXT_CHARS_MAX); }
            button { "Show" }
            @if query.is_filtered() { a.button.plain href={ (path) "#log" } { "All" } }
        }
    }
}

/// The entries, newest first.
pub(super) fn entries(log: &requests::Page, query: &LogQuery) -> Markup {
    html! {
        @if log.reports.is_empty() {
            p.panel role="status" {
                @if log.next.is_some() { "Nothing so far." }
                @else if query.is_filtered() { "No matching requests. Change the filter, or show all." }
                @else if query.before.is_some() { "This is the end of the log." }
                @else { "Waiting for the first request." }
            }
        } @else {
            div.table { table {
                thead { tr { th { "Time" } th { "Status" } th.number { "Items" } th { "Errors" } th { "Request" } th { "Stream" } th { "From" } } }
                tbody { @for report in &log.reports { (entry(report)) } }
            } }
        }
    }
}

fn entry(report: &Report) -> Markup {
    let entry = &report.row.entry;
    let id = entry.request_id.to_string();
    html! {
        tr {
            td.tight data-label="Time" { (time(&clock::rfc3339(entry.received_at))) }
            td data-label="Status" { span {
                (badge::status(report.status))
                @if let Some(event) = entry.sender.as_ref().and_then(|said| said.event.as_deref()) { br; span.quiet { (text(event)) } }
            } }
            td.number data-label="Items" { (grouped(u64::from(entry.items))) }
            td data-label="Errors" { span { @for (place, error) in report.errors().enumerate() {
                @if place > 0 { "; " } (text_of(error, ERROR_CHARS_MAX))
            } } }
            td.mono data-label="Request" { a id={ "request-" (id) } href={ "/requests/" (id) } { (id) } }
            td data-label="Stream" { span { (text(&entry.stream)) } }
            td data-label="From" { span { (plain(&entry.client.to_string())) } }
        }
    }
}

/// Where the log goes on.
pub(super) fn paging(path: &str, log: &requests::Page, query: &LogQuery) -> Markup {
    html! {
        @if let Some(time_reached) = log.looked_back_to {
            p role="status" { "The log was searched back to " (time(&clock::rfc3339(time_reached))) ". " strong { "Older" } " continues from there." }
        }
        p.row {
            @if query.before.is_some() { a.button.plain href={ (path) "#log" } { "Newest" } }
            @if let Some(next) = log.next { a.button.plain href={ (path) (query.older(next)) "#log" } { "Older" } }
        }
    }
}
