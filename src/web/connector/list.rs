//! `/connectors`: the connectors, and whether they receive data.
//!
//! **Invariant**: the page makes one indexed read of the request log per connector, however long the log is.

use std::sync::Arc;

use maud::html;
use salvo_core::{Request, handler};

use crate::frame::{Head, NoPage, Page, Place};
use crate::grid::{Cell, Column, Grid, Row, Sorting, count_of};
use crate::node::{no_log, unless_away};
use crate::text::{count, grouped, text};
use crate::{badge, chart, description, paths};
use base::clock::{self, Unix};
use catalog::Connector;
use delivery::ReadError;
use journal::log::Filter;
use observe::metrics::Minute;
use operate::Operator;
use operate::requests::Report;

/// `GET /connectors`
pub(super) struct Connectors(pub(super) Operator);

#[handler]
impl Connectors {
    async fn handle(&self, req: &mut Request) -> Result<Page, NoPage> {
        page(&self.0, &Sorting::of(req)).await
    }
}

async fn page(operator: &Operator, sorting: &Sorting) -> Result<Page, NoPage> {
    let now = Unix::now();
    let mut rows: Vec<Listed> = Vec::new();
    // Names in the log; none: it cannot be read now.
    let logged = unless_away(operator.journal.log_connectors().await)?;
    for connector in operator.catalog.connectors() {
        let hour = operator.metrics.recent.hour(Some(&connector.name), now);
        let newest = match logged {
            Some(_) => unless_away(newest(operator, &connector).await)?.flatten(),
            None => None,
        };
        rows.push((connector, newest, hour));
    }
    let is_away = logged.is_none();
    let mut deleted = logged.unwrap_or_default();
    deleted.retain(|name| !rows.iter().any(|(connector, ..)| *connector.name == **name));
    let columns = [
        Column::text("Streams"),
        Column::text("Kind"),
        Column::text("Last status"),
        Column::number("Last hour"),
        Column::number("Rejected"),
        Column::text("Requests"),
        Column::text("Description"),
        Column::text("Defined in"),
        Column::time("Last request"),
    ];
    let live = html! {
        @if rows.is_empty() {
            p.panel { "No connectors. " a href="/new/tool" { "Connect a tool" } ", " a href="/new/connector" { "create a connector for a program" } ", or define it in the configuration." }
        } @else {
            (Grid::new("Connectors", "Connector", columns).sorted(rows.iter().map(row), usize::MAX, sorting).pager(count_of(&count(rows.len() as u64, "connector"))).markup())
        }
        @if let Some(node) = operator.node().filter(|_| !rows.is_empty()) {
            p.quiet { "Last hour, Rejected and Requests are those of node " (text(node)) "." }
        }
        @if is_away && !rows.is_empty() { (no_log("The last status and the last request of each connector")) }
        @if !deleted.is_empty() {
            p { "Deleted, with requests in the log: " @for (place, name) in deleted.iter().enumerate() {
                @if place > 0 { ", " } a href=(paths::connector(name)) { (text(name)) }
            } }
        }
    };
    Ok(Page {
        title: "Connectors".to_owned(),
        place: Place::Connectors,
        head: Head {
            actions: html! { a.button.plain href="/new/connector" { "New connector" } a.button.main href="/new/tool" { "Connect a tool" } },
            ..Head::default()
        },
        still: html! {},
        live,
        old: false,
    })
}

/// A connector, its newest request, and the minutes of its last hour.
type Listed = (Arc<Connector>, Option<Report>, Vec<Minute>);

fn row((connector, newest, hour): &Listed) -> Row {
    let sum: Minute = hour.iter().copied().sum();
    let kind = match connector.preset() {
        Some(preset) => format!("{} ({})", connector.kind.as_str(), preset.title),
        None => connector.kind.as_str().to_owned(),
    };
    let status = newest
        .as_ref()
        .map(|report| (badge::status(report.status), report.status.as_str()));
    let received_at = (newest.as_ref()).map(|report| clock::rfc3339(report.row.entry.received_at));
    Row::of(&*connector.name, paths::connector(&connector.name)).cells([
        Cell::text(&connector.streams().join(", ")),
        Cell::text(&kind),
        status.map_or_else(Cell::none, |(badge, word)| Cell::markup(badge).valued(word)),
        Cell::text(&grouped(sum.requests)),
        Cell::text(&error_rate(sum)),
        Cell::markup(chart::sparkline(
            "requests of each minute of the last hour",
            hour,
        )),
        Cell::text(connector.description.as_deref().unwrap_or_default()),
        Cell::text(description::place(connector.created_at)),
        Cell::time(received_at.as_deref()),
    ])
}

async fn newest(operator: &Operator, connector: &Connector) -> Result<Option<Report>, ReadError> {
    let filter = Filter {
        connector: Some(connector.name.clone()),
        ..Filter::default()
    };
    let page = operator.requests.page(&filter, &[], 1).await?;
    Ok(page.reports.into_iter().next())
}

/// The share of rejected requests.
pub(super) fn error_rate(sum: Minute) -> String {
    match (sum.errors, sum.requests) {
        (_, 0) => "–".to_owned(),
        (0, _) => "0 %".to_owned(),
        (errors, requests) => match errors.saturating_mul(1_000) / requests {
            0 => "< 0.1 %".to_owned(),
            tenths => format!("{}.{} %", tenths / 10, tenths % 10),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_rate_is_never_rounded_to_nothing() {
        let check = |errors, requests, expected| {
            let sum = Minute {
                requests,
                errors,
                ..Minute::default()
            };
            assert_eq!(error_rate(sum), expected);
        };
        check(0, 0, "–");
        check(0, 10, "0 %");
        check(1, 3, "33.3 %");
        check(1, 1_000_000, "< 0.1 %");
        check(7, 7, "100.0 %");
    }
}
