//! The request log.
//!
//! **Invariant**: a page is newest first, and `next` leads to exactly the entries after it.

use std::sync::Arc;

use salvo_core::{Request, Router};
use salvo_oapi::{RouterExt, endpoint};
use uuid::Uuid;

use super::paging::{cursor, limit};
use super::{param, time};
use base::clock;
use http::envelope::{self, Listing, Success};
use http::error::ApiError;
use http::{sink_state, stale};
use ingest::AgainError;
use journal::StorageError;
use journal::log::{Filter, Sender};
use operate::Operator;
use operate::requests::{Report, Status};
use wire::{HeaderData, LoggedRequest};

/// Looking into the request log.
pub(super) fn routes(operator: &Operator) -> Router {
    Router::new()
        .oapi_tag("requests")
        .push(Router::with_path("connectors/{id}/requests").get(ListRequests(operator.clone())))
        .push(Router::with_path("requests/{request_id}").get(GetRequest(operator.clone())))
}

fn header((name, value): (&str, Option<&str>)) -> HeaderData {
    HeaderData {
        name: name.to_owned(),
        value: value.map(str::to_owned),
    }
}

fn logged(report: &Report) -> LoggedRequest {
    let entry = &report.row.entry;
    let said = |what: fn(&Sender) -> Option<&str>| {
        let said = entry.sender.as_deref().and_then(what);
        said.map(str::to_owned)
    };
    LoggedRequest {
        timestamp: clock::rfc3339(entry.received_at),
        request_id: entry.request_id.to_string(),
        items_received: entry.items,
        status: report.status.as_str().to_owned(),
        errors: report.errors().map(str::to_owned).collect(),
        stale: stale::listed(report),
        stale_count: report.left_behind.count,
        connector: entry.connector.to_string(),
        stream: entry.stream.to_string(),
        endpoint: entry.endpoint.as_str().to_owned(),
        http_status: entry.http_status,
        key: entry.key.to_string(),
        bytes: entry.bytes,
        client: entry.client.to_string(),
        item_key: entry.item_key.as_deref().map(str::to_owned),
        idempotency_key: entry.idempotency_key.as_deref().map(str::to_owned),
        duplicate_of: report.row.duplicate_of.map(|id| id.to_string()),
        scheme: said(|sender| sender.scheme.as_deref()),
        event: said(|sender| sender.event.as_deref()),
        delivery_id: said(|sender| sender.delivery.as_deref()),
        headers: entry.headers().map(header).collect(),
        sent_again_from: entry.sent_again_from.map(|id| id.to_string()),
        sent_again_as: None,
        processed_at: report.processed_at.map(clock::rfc3339),
        sinks: report.sinks.iter().map(sink_state::data).collect(),
    }
}

struct ListRequests(Operator);

/// The request log of a connector, newest first.
///
/// The log of a deleted connector stays until its entries are too old. Filters without an index, such as `text`, search
/// a part of the log per page. A page can then be shorter than `limit`, or empty; continue with `next` until it is
/// null.
#[endpoint(
    operation_id = "list_requests",
    parameters(
        ("id" = String, Path, description = "Id of the connector."),
        ("status" = Option<String>, Query, description = "Only these statuses, separated by commas: accepted, processed, stale, failed, discarded, rejected, duplicate, test, removed, handshake."),
        ("since" = Option<String>, Query, description = "Received at or after this time, RFC 3339."),
        ("until" = Option<String>, Query, description = "Received at or before this time, RFC 3339."),
        ("text" = Option<String>, Query, description = "Only requests with this text in error, idempotency key, delivery id, key or client, ignoring the case of A to Z; or the request with this id. At most 200 characters."),
        ("limit" = Option<u32>, Query, description = "1 to 500, default 50."),
        ("cursor" = Option<String>, Query, description = "`next` of the previous page."),
    ),
)]
impl ListRequests {
    async fn handle(&self, req: &mut Request) -> Result<Listing<LoggedRequest>, ApiError> {
        let name = connector_name(&self.0, &param(req, "id")).await?;
        let name = name.ok_or_else(|| {
            let message = "there is no connector with this id; /api/admin/connectors lists them";
            ApiError::not_found("CONNECTOR_NOT_FOUND", message)
        })?;
        let (filter, statuses, limit) = query(req)?;
        let filter = Filter {
            connector: Some(name),
            ..filter
        };
        let page = self.0.requests.page(&filter, &statuses, limit).await?;
        let requests = page.reports.iter().map(logged).collect();
        Ok(envelope::list(
            requests,
            page.next.map(|next| next.to_string()),
        ))
    }
}

/// The name of a connector that exists, or that the log still has requests of.
async fn connector_name(operator: &Operator, id: &str) -> Result<Option<Arc<str>>, StorageError> {
    if let Some(connector) = operator.catalog.connector(id) {
        return Ok(Some(Arc::clone(&connector.name)));
    }
    let logged = operator.journal.log_has_connector(id).await?;
    Ok(logged.then(|| id.into()))
}

fn query(req: &mut Request) -> Result<(Filter, Vec<Status>, u32), ApiError> {
    let mut statuses = Vec::new();
    if let Some(list) = req.query::<String>("status") {
        for name in list.split(',').filter(|name| !name.is_empty()) {
            match Status::from_name(name) {
                Some(status) => statuses.push(status),
                None => {
                    let names = Status::ALL.map(Status::as_str).join(", ");
                    return Err(ApiError::invalid(format!(
                        "status must be among {names}, separated by commas"
                    )));
                }
            }
        }
    }
    let since = time(req, "since")?;
    let until = time(req, "until")?;
    let text = req.query::<String>("text").filter(|text| !text.is_empty());
    if text
        .as_ref()
        .is_some_and(|text| text.chars().count() > Filter::TEXT_CHARS_MAX)
    {
        return Err(ApiError::invalid(format!(
            "text must have at most {} characters",
            Filter::TEXT_CHARS_MAX
        )));
    }
    let filter = Filter {
        before: cursor(req)?,
        since,
        until,
        text,
        ..Filter::default()
    };
    Ok((filter, statuses, limit(req)?))
}

struct GetRequest(Operator);

/// One request.
#[endpoint(
    operation_id = "admin_get_request",
    parameters(("request_id" = String, Path, description = "UUID.")),
    responses((status_code = 200, body = Success<LoggedRequest>, description = "The request.")),
)]
impl GetRequest {
    async fn handle(&self, req: &mut Request) -> Result<Success<LoggedRequest>, ApiError> {
        let report = find(&self.0, req).await?;
        let id = report.row.entry.request_id;
        let sent_again_as = self.0.journal.sent_again_as(id).await?;
        Ok(envelope::ok(LoggedRequest {
            sent_again_as: Some(sent_again_as.iter().map(ToString::to_string).collect()),
            ..logged(&report)
        }))
    }
}

/// The id in the path; one that is none names nothing.
pub(super) fn id(req: &Request) -> Result<Uuid, AgainError> {
    Uuid::try_parse(&param(req, "request_id")).map_err(|_| AgainError::NotFound)
}

/// The request that the path names.
pub(super) async fn find(operator: &Operator, req: &Request) -> Result<Report, ApiError> {
    let report = operator.requests.find(id(req)?).await?;
    report.ok_or_else(|| AgainError::NotFound.into())
}
