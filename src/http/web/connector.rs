//! `/sources/{name}`: a connector, how to send to it, and its request log.
//!
//! **Invariant**: the log is newest first, and `Older` leads to exactly the entries after the last one. A key's text
//! is shown only on the page that follows its making.

mod change;
mod key;
mod list;
mod new;

use std::sync::Arc;

use maud::{Markup, html};
use salvo_core::http::StatusCode;
use salvo_core::{Depot, Request, Router, handler};

use super::form::Ending;
use super::form::{self, unix_ms};
use super::frame::{self, NoPage, Page, Place, WithAside};
use super::sessions::Made;
use super::text::{grouped, plain, segment, text, text_of, time};
use super::{badge, key_shown_once, snippets};
use crate::catalog::Connector;
use crate::clock;
use crate::journal::log::Filter;
use crate::metrics::Minute;
use crate::operate::Operator;
use crate::operate::requests::{self, Report, Status};
use change::path;
use key::{key_path, last_used, state};
use list::{error_rate, kind, streams};

/// Characters of an error in the log.
const ERROR_CHARS_MAX: usize = 400;
/// Entries of the log on a page.
const ENTRIES: u32 = 50;

/// Connectors, their keys, and what can be done to both.
pub(super) fn routes(operator: &Operator) -> Router {
    let p = || operator.clone();
    let end_key = |path: &str, ending| {
        Router::with_path(path)
            .get(key::ShowEndKey(p(), ending))
            .post(key::EndKey(p(), ending))
    };
    let key = Router::with_path("keys/{key}")
        .get(key::ShowKey(p()))
        .push(Router::with_path("change").post(key::ChangeKey(p())))
        .push(Router::with_path("rotate").post(key::RotateKey(p())))
        .push(end_key("revoke", Ending::Revoke))
        .push(end_key("delete", Ending::Delete));
    Router::new()
        .push(
            Router::with_path("new/source")
                .get(new::ShowNewConnector(p()))
                .post(new::NewConnector(p())),
        )
        .push(Router::with_path("sources").get(list::Connectors(p())))
        .push(
            Router::with_path("sources/{name}")
                .get(ShowConnector(p()))
                .push(
                    Router::with_path("change")
                        .get(change::ShowChange(p()))
                        .post(change::Change(p())),
                )
                .push(
                    Router::with_path("delete")
                        .get(change::ShowDelete(p()))
                        .post(change::Delete(p())),
                )
                .push(
                    Router::with_path("new-key")
                        .get(key::ShowNewKey(p()))
                        .post(key::NewKey(p())),
                )
                .push(key),
        )
}

/// `GET /sources/{name}`
struct ShowConnector(Operator);

#[handler]
impl ShowConnector {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<WithAside, NoPage> {
        let made = key_shown_once::take(req, depot);
        page(&self.0, req, made.as_ref()).await
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

/// The page, and its keys.
async fn page(
    operator: &Operator,
    req: &mut Request,
    made: Option<&Made>,
) -> Result<WithAside, NoPage> {
    let name = req.param::<String>("name").unwrap_or_default();
    let wanted = Wanted::read(req)?;
    let Some(connector) = operator.catalog.connector(&name) else {
        let page = deleted(operator, name, &wanted).await?;
        return Ok(WithAside(page, html! {}));
    };
    let log = log(operator, &connector.name, &wanted).await?;
    let address = snippets::address(operator, req);
    let path = path(&name);
    let first = First::of(&connector, &log, &wanted);
    let keys = keys(&connector);
    let page = Page {
        title: connector.name.to_string(),
        place: Place::Connectors,
        still: html! {
            @if let Some(made) = made { (shown_once(&connector, &address, made)) }
            (first.line(made.is_some()))
            (sending(operator, &connector, &address, made.is_none()))
            (frame::aside(&keys))
            h2 #log { "Request log" }
            (filter(&path, &wanted))
        },
        live: html! {
            @if wanted.before.is_none() { (last_hour(operator, &connector)) }
            (first.news())
            (entries(&log, &wanted))
            (paging(&path, &log, &wanted))
        },
        old: wanted.before.is_some(),
    };
    Ok(WithAside(page, keys))
}

/// What the log still has of a connector that is deleted.
async fn deleted(operator: &Operator, name: String, wanted: &Wanted) -> Result<Page, NoPage> {
    if !operator.journal.log_has_connector(&name).await? {
        return Err(NoPage::NotFound(
            "There is no connector of this name. The page Data sources lists them.",
        ));
    }
    let log = log(operator, &name.as_str().into(), wanted).await?;
    let path = format!("/sources/{}", segment(&name));
    Ok(Page {
        title: name,
        place: Place::Connectors,
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

async fn log(
    operator: &Operator,
    connector: &Arc<str>,
    wanted: &Wanted,
) -> Result<requests::Page, NoPage> {
    let filter = Filter {
        connector: Some(Arc::clone(connector)),
        before: wanted.before,
        since_ms: unix_ms(&wanted.since),
        until_ms: unix_ms(&wanted.until),
        text: Some(wanted.text.clone()).filter(|text| !text.is_empty()),
        ..Filter::default()
    };
    let statuses: Vec<Status> = wanted.status.into_iter().collect();
    Ok((operator.requests)
        .page(&filter, &statuses, ENTRIES)
        .await?)
}

/// The key that was just made, and requests to paste that hold it.
fn shown_once(connector: &Connector, address: &snippets::Address, made: &Made) -> Markup {
    let stream = connector.key(&made.key).map(|key| &*key.stream);
    html! {
        div.panel.made {
            (key_shown_once::panel(made, "key"))
            @if let Some(stream) = stream {
                p { "A first request to " (text(stream)) ", ready to paste:" }
                (key_shown_once::snippets(address, stream, Some(made)))
            }
        }
    }
}

fn sending(
    operator: &Operator,
    connector: &Connector,
    address: &snippets::Address,
    with_snippets: bool,
) -> Markup {
    let streams = streams(connector);
    let path = path(&connector.name);
    html! {
        div.panel {
            dl {
                dt { "Kind" } dd { (kind(connector)) }
                dt { "Item key" } dd { @match &connector.item_key {
                    Some(field) => { (text(field)) },
                    None => span.quiet { "none: a request names it with X-Item-Key, or items are identified by their position" },
                } }
                dt { "May remove items" } dd { @if connector.may_delete() { "yes" } @else { "no" } }
                dt { "Limit of each key" } dd { (limit(operator, connector)) }
                @for (place, stream) in streams.iter().enumerate() {
                    dt { "Webhook URL for " (text(stream)) }
                    dd { (url(&format!("url-{place}"), &address.url(stream))) }
                }
                dt { "URL for the key's stream" } dd { (url("url", &address.ingest_url())) }
                dt { "Made" } dd { @match connector.created_ms {
                    Some(created_ms) => { (time(&clock::rfc3339(created_ms))) },
                    None => { (form::declared("connectors", &operator.configuration.declared_in("connectors", &connector.name))) },
                } }
            }
            @if connector.created_ms.is_some() {
                p.row {
                    a.button.plain href={ (path) "/change" } { "Change" }
                    a.button.danger href={ (path) "/delete" } { "Delete…" }
                }
            }
        }
        @if let Some(stream) = streams.first().filter(|_| with_snippets) {
            div.panel {
                p { "Send a test. Put the key's secret into the variable " code { "HEADGATE_KEY" } "; it is not shown here." }
                (key_shown_once::snippets(address, stream, None))
            }
        }
    }
}

fn url(id: &str, url: &str) -> Markup {
    html! { div.copy { code id=(id) { (url) } button.plain type="button" data-copy=(id) { "Copy" } } }
}

fn limit(operator: &Operator, connector: &Connector) -> String {
    let (rate, burst) = operator.catalog.rate();
    format!(
        "{} requests per second, {} at once",
        grouped(u64::from(connector.requests_per_second.unwrap_or(rate))),
        grouped(u64::from(connector.burst.unwrap_or(burst)))
    )
}

fn keys(connector: &Connector) -> Markup {
    html! {
        div.heading {
            h2 { "Keys" }
            a.button.plain href={ (path(&connector.name)) "/new-key" } { "New key" }
        }
        @if connector.keys.is_empty() {
            p.panel { "It has no key, so nothing can be sent." }
        } @else {
            div.table { table {
                thead { tr { th { "Key" } th { "Begins with" } th { "Stream" } th { "State" } th { "Last used" } th { "" } } }
                tbody { @for key in &connector.keys { tr {
                    td data-label="Key" { span { (text(&key.name)) } }
                    td.mono data-label="Begins with" { @let prefix = key.prefix(); @if prefix.is_empty() { span.quiet { "known after its first request" } } @else { span { (text(&prefix)) "…" } } }
                    td data-label="Stream" { a href={ "/streams/" (segment(&key.stream)) } { (text(&key.stream)) } }
                    td data-label="State" { span { (state(key)) } }
                    td data-label="Last used" { (last_used(key)) }
                    td.tight data-label="" { @if key.created_ms.is_some() {
                        a.button.plain href=(key_path(key)) aria-label={ "Rotate, change or revoke the key " (plain(&key.name)) } { "Rotate or revoke" }
                    } @else { span.badge { "declared" } } }
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

fn last_hour(operator: &Operator, connector: &Connector) -> Markup {
    let hour = (operator.metrics.recent).hour(Some(&connector.name), clock::unix_ms());
    let sum = hour.iter().copied().fold(Minute::default(), Minute::and);
    html! {
        p.row {
            span { "Last hour: " strong { (grouped(sum.requests)) } " requests, " strong { (grouped(sum.items)) } " items, " (error_rate(sum)) " refused" }
            (super::chart::sparkline("requests of each minute of the last hour", &hour))
        }
    }
}

/// The first request of a connector, as far as the page knows.
#[derive(Debug, Clone, Copy)]
enum First<'a> {
    /// It is not asked for: the connector is declared, or has a long log.
    Unknown,
    /// None has come.
    Waiting,
    Came(&'a Report),
}

impl<'a> First<'a> {
    fn of(connector: &Connector, log: &'a requests::Page, wanted: &Wanted) -> Self {
        let is_whole = log.next.is_none() && wanted.before.is_none() && !wanted.is_filtered();
        let Some(since_ms) = connector.created_ms.filter(|_| is_whole) else {
            return Self::Unknown;
        };
        // A connector of the same name that is gone has left its log.
        let own = |report: &&Report| report.row.entry.received_ms >= since_ms;
        let first = log.reports.iter().rev().find(own);
        first.map_or(Self::Waiting, Self::Came)
    }

    /// What the live part tells the script of the page, which shows it where the key was shown.
    fn news(self) -> Markup {
        html! { @if let Self::Came(report) = self { p #first-came hidden { (came(report)) } } }
    }

    /// Where it stands while somebody waits for it.
    fn line(self, is_new: bool) -> Markup {
        html! {
            @match self {
                Self::Waiting => p #first.panel role="status" { "Waiting for your first request." },
                Self::Came(report) if is_new => p #first.panel.good role="status" { (came(report)) },
                Self::Came(_) | Self::Unknown => {},
            }
        }
    }
}

fn came(report: &Report) -> Markup {
    let entry = &report.row.entry;
    html! {
        "Your first request came at " (time(&clock::rfc3339(entry.received_ms))) ": "
        a href={ "/requests/" (entry.request_id) } { "see what became of it" } "."
    }
}

fn entries(log: &requests::Page, wanted: &Wanted) -> Markup {
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
            td data-label="Errors" { span { @for (place, error) in report.errors().enumerate() {
                @if place > 0 { "; " } (text_of(error, ERROR_CHARS_MAX))
            } } }
            td.mono data-label="Request" { a id={ "request-" (id) } href={ "/requests/" (id) } { (id) } }
            td data-label="Stream" { span { (text(&entry.stream)) } }
            td data-label="From" { span { (plain(&entry.client.to_string())) } }
        }
    }
}

fn paging(path: &str, log: &requests::Page, wanted: &Wanted) -> Markup {
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
