//! `/sources/{name}`: a connector, how to send to it, and its request log.
//!
//! **Invariant**: a key's text is shown only on the page that follows its making.

mod change;
mod key;
mod list;
mod log;
mod new;
mod settings;

use std::sync::Arc;

use maud::{Markup, html};
use salvo_core::{Depot, Request, Router, handler};

use super::frame::{self, NoPage, Page, Place, WithAside};
use super::key::shown_once;
use super::origin::origin;
use super::sessions::IssuedKey;
use super::text::{grouped, plain, text, time};
use super::{chart, description, form, paths, snippets};
use crate::catalog::Connector;
use crate::clock;
use crate::metrics::Minute;
use crate::operate::Operator;
use crate::operate::requests::{self, Report};
use key::{last_used, state};
use list::{error_rate, streams};
use log::LogQuery;

/// Connectors, their keys, and what can be done to both.
pub(super) fn routes(operator: &Operator) -> Router {
    let p = || operator.clone();
    Router::new()
        .push(form::route("new/source", || new::NewConnector(p())))
        .push(Router::with_path("sources").get(list::Connectors(p())))
        .push(
            Router::with_path("sources/{name}")
                .get(ShowConnector(p()))
                .push(form::route("change", || change::ChangeConnector(p())))
                .push(form::route("delete", || change::DeleteConnector(p())))
                .push(key::routes(operator)),
        )
}

/// `GET /sources/{name}`
struct ShowConnector(Operator);

#[handler]
impl ShowConnector {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<WithAside, NoPage> {
        let issued = shown_once::take(req, depot);
        page(&self.0, req, issued.as_ref()).await
    }
}

/// The page, and its keys.
async fn page(
    operator: &Operator,
    req: &mut Request,
    issued: Option<&IssuedKey>,
) -> Result<WithAside, NoPage> {
    let name = paths::param(req, "name");
    let query = LogQuery::read(req)?;
    let Some(connector) = operator.catalog.connector(&name) else {
        let page = deleted(operator, name, &query).await?;
        return Ok(WithAside(page, html! {}));
    };
    let page_of_log = log::read(operator, &connector.name, &query).await?;
    let address = snippets::address(operator, req);
    let path = paths::connector(&name);
    let first = First::of(&connector, &page_of_log, &query);
    let keys = keys(&connector);
    let page = Page {
        title: connector.name.to_string(),
        place: Place::Connectors,
        still: html! {
            @if let Some(issued) = issued { (issued_key(&connector, &address, issued)) }
            (first.line(issued.is_some()))
            (sending(operator, &connector, &address, issued.is_none()))
            (frame::aside(&keys))
            h2 #log { "Request log" }
            (log::filter(&path, &query))
        },
        live: html! {
            @if query.before.is_none() { (last_hour(operator, &connector)) }
            (first.news())
            (log::entries(&page_of_log, &query))
            (log::paging(&path, &page_of_log, &query))
        },
        old: query.before.is_some(),
    };
    Ok(WithAside(page, keys))
}

/// The log of a connector that was deleted.
async fn deleted(operator: &Operator, name: String, query: &LogQuery) -> Result<Page, NoPage> {
    if !operator.journal.log_has_connector(&name).await? {
        return Err(NoPage::NotFound(
            "There is no connector of this name. The page Data sources lists them.",
        ));
    }
    let page_of_log = log::read(operator, &name.as_str().into(), query).await?;
    let path = paths::connector(&name);
    Ok(Page {
        title: name,
        place: Place::Connectors,
        still: html! {
            p.panel { "This connector was deleted. Its requests stay in the log until they are too old." }
            h2 #log { "Request log" }
            (log::filter(&path, query))
        },
        live: html! {
            (log::entries(&page_of_log, query))
            (log::paging(&path, &page_of_log, query))
        },
        old: query.before.is_some(),
    })
}

/// The key that was just issued, and requests to paste that hold it.
fn issued_key(connector: &Connector, address: &snippets::Address, issued: &IssuedKey) -> Markup {
    let stream = connector.key(&issued.key).map(|key| &*key.stream);
    html! {
        div.panel.made {
            (shown_once::panel(issued, "key"))
            @if let Some(stream) = stream {
                p { "A first request to " (text(stream)) ", ready to paste:" }
                (shown_once::snippets(address, stream, Some(issued)))
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
    let path = paths::connector(&connector.name);
    html! {
        div.panel {
            dl {
                (description::fact(connector.description.as_deref()))
                dt { "Kind" } dd { (connector.kind.as_str()) }
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
                dt { "Made" } dd { (origin(operator, "connectors", &connector.name, connector.created_ms)) }
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
                (shown_once::snippets(address, stream, None))
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
            a.button.plain href={ (paths::connector(&connector.name)) "/new-key" } { "New key" }
        }
        @if connector.keys.is_empty() {
            p.panel { "It has no key, so nothing can be sent." }
        } @else {
            div.table { table {
                thead { tr { th { "Key" } th { "Begins with" } th { "Stream" } th { "State" } th { "Last used" } th { "" } } }
                tbody { @for key in &connector.keys { tr {
                    td data-label="Key" { span { (text(&key.name)) (description::below(key.description.as_deref())) } }
                    td.mono data-label="Begins with" { @let prefix = key.prefix(); @if prefix.is_empty() { span.quiet { "known after its first request" } } @else { span { (text(&prefix)) "…" } } }
                    td data-label="Stream" { a href=(paths::stream(&key.stream)) { (text(&key.stream)) } }
                    td data-label="State" { span { (state(key)) } }
                    td data-label="Last used" { (last_used(key)) }
                    td.tight data-label="" { @if key.created_ms.is_some() {
                        a.button.plain href=(paths::ingest_key(key)) aria-label={ "Rotate, change or revoke the key " (plain(&key.name)) } { "Rotate or revoke" }
                    } @else { span.badge { "declared" } } }
                } } }
            } }
        }
    }
}

fn last_hour(operator: &Operator, connector: &Connector) -> Markup {
    let hour = (operator.metrics.recent).hour(Some(&connector.name), clock::unix_ms());
    let sum = hour.iter().copied().fold(Minute::default(), Minute::and);
    html! {
        p.row {
            span { "Last hour: " strong { (grouped(sum.requests)) } " requests, " strong { (grouped(sum.items)) } " items, " (error_rate(sum)) " refused" }
            (chart::sparkline("requests of each minute of the last hour", &hour))
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
    fn of(connector: &Connector, log: &'a requests::Page, query: &LogQuery) -> Self {
        let is_whole = log.next.is_none() && query.before.is_none() && !query.is_filtered();
        let Some(since_ms) = connector.created_ms.filter(|_| is_whole) else {
            return Self::Unknown;
        };
        // A connector of the same name that is gone has left its log.
        let own = |report: &&Report| report.row.entry.received_ms >= since_ms;
        let first = log.reports.iter().rev().find(own);
        first.map_or(Self::Waiting, Self::Came)
    }

    /// For the script of the page, which shows it where the key was shown.
    fn news(self) -> Markup {
        html! { @if let Self::Came(report) = self { p #first-came hidden { (came(report)) } } }
    }

    /// The line that is shown while somebody waits for it.
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

/// The connector that the path names.
fn find_connector(operator: &Operator, req: &Request) -> Result<Arc<Connector>, NoPage> {
    let connector = operator.catalog.connector(&paths::param(req, "name"));
    connector.ok_or(NoPage::NotFound(
        "There is no connector of this name. The page Data sources lists them.",
    ))
}
