//! `/connectors/{name}`: the request log of a connector, instructions for sending to it, its keys and its limits.
//!
//! **Invariant**: the text of a key is shown only once, on the page after its creation.

mod change;
mod first;
mod identity;
mod key;
mod keys;
mod limits;
mod list;
mod log;
mod new;
mod own_secret;
mod reasons;
mod sending;
mod settings;
mod tabs;
mod tools;
mod trial;
mod verification;

use std::sync::Arc;

use maud::{Markup, html};
use salvo_core::{Depot, Request, Router, handler};

use super::frame::{self, Head, NoPage, Page, Place, WithAside};
use super::guard::AsWrite;
use super::key::shown_once;
use super::node::on_node;
use super::text::grouped;
use super::{chart, form, paths, snippets};
use base::clock::Unix;
use catalog::Connector;
use first::First;
use http::sessions::IssuedKey;
use list::error_rate;
use log::LogQuery;
use observe::metrics::Minute;
use operate::{Operator, requests};
use tabs::Tab;
pub(super) use trial::routes as run;

/// Routes of connectors and their keys.
pub(super) fn routes(operator: &Operator) -> Router {
    let p = || operator.clone();
    Router::new()
        .push(form::route("new/connector", || new::NewConnector(p())))
        .push(
            Router::with_path("new/tool")
                .hoop(AsWrite)
                .get(tools::Tools),
        )
        .push(Router::with_path("presets").get(tools::Presets))
        .push(Router::with_path("connectors").get(list::Connectors(p())))
        .push(
            Router::with_path("connectors/{name}")
                .get(ShowConnector(p()))
                .push(form::route("change", || change::ChangeConnector(p())))
                .push(form::route("delete", || change::DeleteConnector(p())))
                .push(key::routes(operator)),
        )
}

/// `GET /connectors/{name}`
struct ShowConnector(Operator);

#[handler]
impl ShowConnector {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<WithAside, NoPage> {
        let issued = shown_once::take(req, depot).await?;
        page(&self.0, req, depot, issued.as_ref()).await
    }
}

/// The page of a connector. `issued` is a new key.
async fn page(
    operator: &Operator,
    req: &mut Request,
    depot: &Depot,
    issued: Option<&IssuedKey>,
) -> Result<WithAside, NoPage> {
    let name = paths::param(req, "name");
    let query = LogQuery::read(req)?;
    let tab = Tab::of(req)?;
    let Some(connector) = operator.catalog.connector(&name) else {
        return deleted(operator, name, &query).await;
    };
    let page_of_log = log::read(operator, &connector.name, &query).await?;
    let page_of_log = page_of_log.as_ref();
    let address = snippets::address(operator, req);
    let path = paths::connector(&name);
    let first = First::of(&connector, page_of_log, &query);
    let is_missing = page_of_log.is_some_and(|log| identity::is_missing(&connector, log));
    // Content that does not change while the page is open is not sent again.
    let asked = page_of_log.filter(|_| is_missing && !frame::is_poll(req));
    let question = identity::question(operator, &connector, asked).await;
    let shows_log = tab == Tab::Log;
    let is_newest = shows_log && query.before.is_none();
    let is_whole = is_newest && !query.is_filtered();
    let is_empty = is_whole && page_of_log.is_some_and(requests::Page::is_empty);
    let reasons = match is_whole && page_of_log.is_some() {
        true => reasons::panel(operator, &connector.name, &path).await?,
        false => html! {},
    };
    let keys = keys::table(&connector);
    let begins = issued.is_some() || is_empty;
    let hour = (operator.metrics.recent).hour(Some(&connector.name), Unix::now());
    let set_up = sending::all(operator, &connector, &address, depot, issued.is_none());
    let page = Page {
        title: connector.name.to_string(),
        place: Place::Connectors,
        head: head(operator, &connector, &path, &hour),
        still: html! {
            @if let Some(issued) = issued { (sending::issued(&connector, &address, issued)) }
            (first.line(issued.is_some(), is_missing))
            (question)
            (tabs::links(&connector, tab))
            @if begins || tab == Tab::SetUp { (set_up) }
            @if begins { (frame::aside(&keys)) }
            @if tab == Tab::Limits { (limits::table(operator, &connector)) }
            @if shows_log { (log::filter(&path, &query)) }
        },
        live: html! {
            @if query.before.is_none() { (own_secret::awaited(&connector, depot)) }
            @if tab == Tab::Keys { (keys) }
            @if is_newest { (last_hour(operator, &hour)) (reasons) }
            (first.news(is_missing))
            @if shows_log {
                (log::entries(&path, page_of_log, &query))
            }
        },
        old: query.before.is_some(),
    };
    Ok(WithAside(page, shown_if(is_empty, keys)))
}

/// The state of the connector, and links to its forms.
fn head(operator: &Operator, connector: &Connector, path: &str, hour: &[Minute]) -> Head {
    let sum: Minute = hour.iter().copied().sum();
    let kind = connector
        .preset()
        .map_or(connector.kind.as_str(), |preset| &preset.title);
    Head {
        above: vec![("/connectors".to_owned(), "Connectors".to_owned())],
        state: html! {
            @if sum.errors > 0 { span.badge.warn { "Rejecting" } }
            @else if sum.requests > 0 { span.badge.good { "Accepting" } }
            span.quiet { (kind) ", " (grouped(sum.accepted())) " accepted, " (grouped(sum.errors)) " rejected in the last hour" (on_node(operator)) }
        },
        actions: html! {
            @if trial::tool_of(connector).is_some() { a.button.main href={ (path) "?tab=setup#event" } { "Send test" } }
        },
    }
}

fn shown_if(is_shown: bool, part: Markup) -> Markup {
    match is_shown {
        true => part,
        false => html! {},
    }
}

/// The request log of a deleted connector.
async fn deleted(operator: &Operator, name: String, query: &LogQuery) -> Result<WithAside, NoPage> {
    if !operator.journal.log_has_connector(&name).await? {
        return Err(NoPage::NotFound(
            "There is no such connector. The page Connectors lists the connectors.",
        ));
    }
    let page_of_log = log::read(operator, &name.as_str().into(), query).await?;
    let path = paths::connector(&name);
    let page = Page {
        title: name,
        place: Place::Connectors,
        head: Head {
            above: vec![("/connectors".to_owned(), "Connectors".to_owned())],
            ..Head::default()
        },
        still: html! {
            p.panel { "This connector was deleted. Its requests stay in the log until they are too old." }
            h2 #log { "Request log" }
            (log::filter(&path, query))
        },
        live: html! {
            (log::entries(&path, page_of_log.as_ref(), query))
        },
        old: query.before.is_some(),
    };
    Ok(WithAside(page, html! {}))
}

fn last_hour(operator: &Operator, hour: &[Minute]) -> Markup {
    let sum: Minute = hour.iter().copied().sum();
    html! {
        p.row {
            span { "Last hour" (on_node(operator)) ": " strong { (grouped(sum.requests)) } " requests, " strong { (grouped(sum.items)) } " items, " (error_rate(sum)) " rejected" }
            (chart::sparkline("requests of each minute of the last hour", hour))
        }
    }
}

/// The connector in the path.
fn find_connector(operator: &Operator, req: &Request) -> Result<Arc<Connector>, NoPage> {
    let connector = operator.catalog.connector(&paths::param(req, "name"));
    connector.ok_or(NoPage::NotFound(
        "There is no such connector. The page Connectors lists the connectors.",
    ))
}
