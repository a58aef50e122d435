//! The request log on the page of a connector: its filter and its grid.
//!
//! **Invariant**: the newest entry is first, and `Older` leads exactly to the entries after the last one.

use std::sync::Arc;

use maud::{Markup, html};
use salvo_core::Request;

use crate::badge;
use crate::form::filter::{before, check_times, refusal};
use crate::form::parse_time;
use crate::frame::NoPage;
use crate::grid::{Cell, Column, Grid, Row, pages};
use crate::node::{no_log, unless_away};
use crate::paths;
use crate::text::{bytes, count, grouped, segment, time};
use base::clock;
use base::order::Seq;
use journal::log::Filter;
use operate::Operator;
use operate::requests::{self, Report, Status};

/// Maximum entries on a page.
const ENTRIES: u32 = 50;

/// The filter of the log.
#[derive(Debug, Default)]
pub(super) struct LogQuery {
    status: Option<Status>,
    /// Times as the form sends them: `2026-01-31T12:00`, UTC.
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

    /// The query of the page before a position.
    fn older(&self, before: Seq) -> String {
        format!("{}&before={before}", self.query(self.status, &self.text))
    }

    fn with_status(&self, status: Status) -> String {
        self.query(Some(status), &self.text)
    }

    fn with_text(&self, text: &str) -> String {
        self.query(self.status, text)
    }

    fn query(&self, status: Option<Status>, text: &str) -> String {
        let (since, until) = (segment(&self.since), segment(&self.until));
        let (status, text) = (status.map_or("", Status::as_str), segment(text));
        format!("?status={status}&since={since}&until={until}&text={text}")
    }
}

/// Reads a page of the log; none: the database of the cluster, which has it, does not answer.
pub(super) async fn read(
    operator: &Operator,
    connector: &Arc<str>,
    query: &LogQuery,
) -> Result<Option<requests::Page>, NoPage> {
    let filter = Filter {
        connector: Some(Arc::clone(connector)),
        before: query.before,
        since: parse_time(&query.since),
        until: parse_time(&query.until),
        text: Some(query.text.clone()).filter(|text| !text.is_empty()),
        ..Filter::default()
    };
    let statuses: Vec<Status> = query.status.into_iter().collect();
    unless_away(operator.requests.page(&filter, &statuses, ENTRIES).await)
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
            div { label for="since" { "From (UTC)" } input #since type="datetime-local" data-utc step="1" name="since" value=(query.since); }
            div { label for="until" { "To (UTC)" } input #until type="datetime-local" data-utc step="1" name="until" value=(query.until); }
            div { label for="text" { "Request id or text" } input #text type="search" name="text" value=(query.text) maxlength=(Filter::TEXT_CHARS_MAX); }
            button { "Show" }
            @if query.is_filtered() { a.button.plain href={ (path) "#log" } { "All" } }
        }
    }
}

/// The entries, newest first.
pub(super) fn entries(path: &str, log: Option<&requests::Page>, query: &LogQuery) -> Markup {
    let Some(log) = log else {
        return no_log("The requests");
    };
    html! {
        @if log.reports.is_empty() {
            p.panel role="status" {
                @if log.next.is_some() { "Nothing so far." }
                @else if query.is_filtered() { "No matching requests. Change the filter, or show all." }
                @else if query.before.is_some() { "This is the end of the log." }
                @else { "Waiting for the first request." }
            }
            p.row { (paging(path, log, query)) }
        } @else {
            (grid(path, log, query))
        }
    }
}

fn grid(path: &str, log: &requests::Page, query: &LogQuery) -> Markup {
    let columns = [
        Column::text("Status"),
        Column::number("HTTP"),
        Column::text("Errors"),
        Column::number("Items"),
        Column::number("Size"),
        Column::text("Event"),
        Column::text("Stream"),
        Column::text("From"),
        Column::text("Key"),
        Column::time("Received"),
    ];
    let rows = log.reports.iter().map(|report| row(path, report, query));
    Grid::new("Request log", "Request", columns)
        .ids()
        .rows(rows)
        .pager(paging(path, log, query))
        .markup()
}

fn row(path: &str, report: &Report, query: &LogQuery) -> Row {
    let entry = &report.row.entry;
    let id = entry.request_id.to_string();
    let errors: Vec<&str> = report.errors().collect();
    let event = entry.sender.as_ref().and_then(|said| said.event.as_deref());
    let with_status = query.with_status(report.status);
    let (client, key) = (entry.client.to_string(), &*entry.key);
    let with = |text: &str| format!("{path}{}#log", query.with_text(text));
    Row::of(&*id, format!("/requests/{id}"))
        .id(format!("request-{id}"))
        .cells([
            Cell::markup(html! { a.val href={ (path) (with_status) "#log" } { (badge::status(report.status)) } }),
            Cell::text(&entry.http_status.to_string()),
            Cell::text(&errors.join("; ")),
            Cell::text(&grouped(u64::from(entry.items))),
            Cell::text(&bytes(entry.bytes)),
            Cell::text(event.unwrap_or_default()),
            Cell::linked(&entry.stream, Some(&paths::stream(&entry.stream))),
            Cell::linked(&client, Some(&with(&client))),
            Cell::linked(key, Some(&with(key))),
            Cell::time(Some(&clock::rfc3339(entry.received_at))),
        ])
}

/// The links to other pages of the log.
fn paging(path: &str, log: &requests::Page, query: &LogQuery) -> Markup {
    let newest = format!("{path}#log");
    let newest = query.before.is_some().then_some(&*newest);
    let older = log
        .next
        .map(|next| format!("{path}{}#log", query.older(next)));
    let older = older.as_deref().map(|address| (address, "Older"));
    let shown = count(log.reports.len() as u64, "request");
    html! {
        (pages(&shown, newest, older))
        @if let Some(time_reached) = log.looked_back_to {
            span role="status" { "The log was searched back to " (time(&clock::rfc3339(time_reached))) ". " strong { "Older" } " continues from there." }
        }
    }
}
