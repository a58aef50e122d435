//! `/sources/{name}`: a connector, how to send to it, and its request log.
//!
//! **Invariant**: the log is newest first, and `Older` leads to exactly the entries after the last one.

use std::sync::Arc;

use maud::{Markup, html};
use salvo_core::http::StatusCode;
use salvo_core::{Depot, Request, Response, handler};

use super::frame::{self, NoPage, Page, Place};
use super::sources::{error_rate, kind, streams};
use super::text::{grouped, plain, segment, text, time};
use super::{badge, snippets};
use crate::catalog::Connector;
use crate::clock;
use crate::delivery::report::{self, Report, Status};
use crate::http::Parts;
use crate::journal::log::Filter;
use crate::metrics::Minute;

/// Entries of the log on a page.
const ENTRIES: u32 = 50;

/// `GET /sources/{name}`
pub(super) struct Source(pub(super) Parts);

#[handler]
impl Source {
    async fn handle(&self, req: &mut Request, depot: &mut Depot, res: &mut Response) {
        let page = page(&self.0, req).await;
        frame::answer(&self.0.sessions, req, depot, res, page);
    }
}

/// What of the log is wanted.
#[derive(Debug, Default)]
struct Wanted {
    status: Option<Status>,
    /// As the form has them: `2026-01-31T12:00`, UTC.
    since: String,
    until: String,
    text: String,
    before: Option<u64>,
}

async fn page(parts: &Parts, req: &mut Request) -> Result<Page, NoPage> {
    let name = req.param::<String>("name").unwrap_or_default();
    let wanted = Wanted::read(req)?;
    let Some(connector) = parts.catalog.connector(&name) else {
        return deleted(parts, name, &wanted).await;
    };
    let log = log(parts, &connector.name, &wanted).await?;
    let address = snippets::address(parts, req);
    let path = format!("/sources/{}", segment(&name));
    Ok(Page {
        title: connector.name.to_string(),
        place: Place::Sources,
        still: html! {
            (sending(&connector, &address))
            (keys(&connector))
            h2 #log { "Request log" }
            (filter(&path, &wanted))
        },
        live: html! {
            @if wanted.before.is_none() { (last_hour(parts, &connector)) }
            (entries(&log, &wanted))
            (paging(&path, &log, &wanted))
        },
        old: wanted.before.is_some(),
    })
}

/// What the log still has of a connector that is deleted.
async fn deleted(parts: &Parts, name: String, wanted: &Wanted) -> Result<Page, NoPage> {
    if !parts.journal.log_has_connector(&name).await? {
        return Err(NoPage::NotFound(
            "There is no connector of this name. The page Data sources lists them.",
        ));
    }
    let log = log(parts, &name.as_str().into(), wanted).await?;
    let path = format!("/sources/{}", segment(&name));
    Ok(Page {
        title: name,
        place: Place::Sources,
        still: html! {
            p.panel { "This connector was deleted. Its requests stay in the log until they are too old." }
            h2 #log { "Request log" }
            (filter(&path, wanted))
        },
        live: html! {
            (entries(&log, wanted))
            (paging(&path, &log, wanted))
        },
        old: wanted.before.is_some(),
    })
}

impl Wanted {
    fn read(req: &mut Request) -> Result<Self, NoPage> {
        let text = |name: &str| req.query::<String>(name).unwrap_or_default();
        let refused = |why: &str| NoPage::Refused(StatusCode::BAD_REQUEST, why.to_owned());
        let status = match text("status").as_str() {
            "" => None,
            name => {
                Some(Status::from_name(name).ok_or_else(|| refused("There is no such status."))?)
            }
        };
        let before = match text("before").as_str() {
            "" => None,
            number => Some(
                (number.parse())
                    .map_err(|_| refused("The page before has the link to this one."))?,
            ),
        };
        let wanted = Self {
            status,
            since: text("since"),
            until: text("until"),
            text: text("text")
                .trim()
                .chars()
                .take(Filter::TEXT_CHARS_MAX)
                .collect(),
            before,
        };
        for time in [&wanted.since, &wanted.until] {
            if !time.is_empty() && unix_ms(time).is_none() {
                return Err(refused("A time is wanted like 2026-01-31T12:00, in UTC."));
            }
        }
        Ok(wanted)
    }

    fn is_filtered(&self) -> bool {
        self.status.is_some()
            || !(self.since.is_empty() && self.until.is_empty() && self.text.is_empty())
    }

    /// The query of the page that begins before a position.
    fn query(&self, before: u64) -> String {
        let status = self.status.map_or("", Status::as_str);
        format!(
            "?status={status}&since={}&until={}&text={}&before={before}",
            segment(&self.since),
            segment(&self.until),
            segment(&self.text)
        )
    }
}

/// A time as forms send it, in UTC, with or without seconds.
fn unix_ms(text: &str) -> Option<u64> {
    clock::parse_rfc3339(&format!("{text}Z"))
        .or_else(|| clock::parse_rfc3339(&format!("{text}:00Z")))
}

async fn log(parts: &Parts, connector: &Arc<str>, wanted: &Wanted) -> Result<report::Page, NoPage> {
    let filter = Filter {
        connector: Some(Arc::clone(connector)),
        before: wanted.before,
        since_ms: unix_ms(&wanted.since),
        until_ms: unix_ms(&wanted.until),
        text: Some(wanted.text.clone()).filter(|text| !text.is_empty()),
        ..Filter::default()
    };
    let statuses: Vec<Status> = wanted.status.into_iter().collect();
    Ok((parts.delivery)
        .report_page(&filter, &statuses, ENTRIES)
        .await?)
}

fn sending(connector: &Connector, address: &snippets::Address) -> Markup {
    let streams = streams(connector);
    html! {
        div.panel {
            dl {
                dt { "Kind" } dd { (kind(connector)) }
                dt { "Item key" } dd { @match &connector.item_key {
                    Some(field) => { (text(field)) },
                    None => span.quiet { "none: a request names it with X-Item-Key, or items are identified by their position" },
                } }
                dt { "Made" } dd {
                    @if connector.created_ms.is_none() { "in the configuration, so it is changed there" }
                    @else { "while the daemon runs; " code { "headgate connector" } " and " code { "headgate key" } " change it" }
                }
                @for (place, stream) in streams.iter().enumerate() {
                    dt { "URL for " (text(stream)) }
                    dd { div.copy {
                        code id={ "url-" (place) } { (address.url(stream)) }
                        button.plain type="button" data-copy={ "url-" (place) } { "Copy" }
                    } }
                }
            }
        }
        @if let Some(stream) = streams.first() {
            div.panel {
                p { "Send a test. Put the key's secret into the variable " code { "HEADGATE_KEY" } "; it is not shown here." }
                @for (place, (language, code)) in snippets::all(address, stream).iter().enumerate() {
                    details name="snippet" {
                        summary { (language) }
                        pre { code id={ "snippet-" (place) } { (code) } }
                        button.plain type="button" data-copy={ "snippet-" (place) } { "Copy" }
                    }
                }
            }
        }
    }
}

fn keys(connector: &Connector) -> Markup {
    html! {
        h2 { "Keys" }
        @if connector.keys.is_empty() {
            p.panel { "It has no key, so nothing can be sent." }
        } @else {
            div.table { table {
                thead { tr { th { "Key" } th { "Begins with" } th { "Stream" } th.number { "Requests per second" } th.number { "Burst" } th { "Ends" } } }
                tbody { @for key in &connector.keys { tr {
                    td data-label="Key" { span { (text(&key.name)) } }
                    td.mono data-label="Begins with" { @let prefix = key.prefix(); @if prefix.is_empty() { span.quiet { "known after its first request" } } @else { span { (text(&prefix)) "…" } } }
                    td data-label="Stream" { a href={ "/streams/" (segment(&key.stream)) } { (text(&key.stream)) } }
                    td.number data-label="Requests per second" { (grouped(u64::from(key.quota.requests_per_second()))) }
                    td.number data-label="Burst" { (grouped(u64::from(key.quota.burst()))) }
                    td data-label="Ends" { span { @if key.revoked_ms.is_some() { span.badge.bad { "revoked" } } @else { @match key.expires_ms {
                        Some(ends) if ends <= clock::unix_ms() => { span.badge.bad { "ended" } " " (time(&clock::rfc3339(ends))) },
                        Some(ends) => { (time(&clock::rfc3339(ends))) },
                        None => { "never" },
                    } } } }
                } } }
            } }
        }
    }
}

fn filter(path: &str, wanted: &Wanted) -> Markup {
    html! {
        form.filter method="get" action={ (path) "#log" } {
            div {
                label for="status" { "Status" }
                select #status name="status" {
                    option value="" { "all" }
                    @for status in Status::ALL {
                        option value=(status.as_str()) selected[wanted.status == Some(status)] { (status.as_str()) }
                    }
                }
            }
            div { label for="since" { "From (UTC)" } input #since type="datetime-local" step="1" name="since" value=(wanted.since); }
            div { label for="until" { "To (UTC)" } input #until type="datetime-local" step="1" name="until" value=(wanted.until); }
            div { label for="text" { "Request id or text" } input #text type="search" name="text" value=(wanted.text) maxlength=(Filter::TEXT_CHARS_MAX); }
            button { "Show" }
            @if wanted.is_filtered() { a.button.plain href={ (path) "#log" } { "All" } }
        }
    }
}

fn last_hour(parts: &Parts, connector: &Connector) -> Markup {
    let hour = (parts.metrics.recent).hour(Some(&connector.name), clock::unix_ms());
    let sum = hour.iter().copied().fold(Minute::default(), Minute::and);
    html! {
        p.row {
            span { "Last hour: " strong { (grouped(sum.requests)) } " requests, " strong { (grouped(sum.items)) } " items, " (error_rate(sum)) " refused" }
            (super::chart::sparkline("requests of each minute of the last hour", &hour))
        }
    }
}

fn entries(log: &report::Page, wanted: &Wanted) -> Markup {
    html! {
        @if log.reports.is_empty() {
            p.panel role="status" {
                @if log.next.is_some() { "Nothing so far." }
                @else if wanted.is_filtered() { "No request is like this." }
                @else if wanted.before.is_some() { "This is the end of the log." }
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
            td.tight data-label="Time" { (time(&clock::rfc3339(entry.received_ms))) }
            td data-label="Status" { (badge::status(report.status)) }
            td.number data-label="Items" { (grouped(u64::from(entry.items))) }
            td data-label="Errors" { @if let Some(error) = &entry.error { span { (text(error)) } } }
            td.mono data-label="Request" { a id={ "request-" (id) } href={ "/requests/" (id) } { (id) } }
            td data-label="Stream" { span { (text(&entry.stream)) } }
            td data-label="From" { span { (plain(&entry.client.to_string())) } }
        }
    }
}

fn paging(path: &str, log: &report::Page, wanted: &Wanted) -> Markup {
    html! {
        @if let Some(time_ms) = log.looked_back_to_ms {
            p role="status" { "The log was looked through back to " (time(&clock::rfc3339(time_ms))) ". " strong { "Older" } " goes on from there." }
        }
        p.row {
            @if wanted.before.is_some() { a.button.plain href={ (path) "#log" } { "Newest" } }
            @if let Some(next) = log.next { a.button.plain href={ (path) (wanted.query(next)) "#log" } { "Older" } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::unix_ms;

    #[test]
    fn times_of_a_form_are_utc() {
        assert_eq!(unix_ms("1970-01-01T00:01"), Some(60_000));
        assert_eq!(unix_ms("1970-01-01T00:01:02"), Some(62_000));
        assert_eq!(unix_ms("yesterday"), None);
    }
}
