//! The connected renderers, and tickets for those who have an admin token.
//!
//! **Invariant**: `lag` is 0 exactly when the renderer was sent every change of its streams.

use std::sync::Arc;

use salvo_core::{Request, Router};
use salvo_oapi::{RouterExt, endpoint};
use serde_json::json;

use super::by;
use base::clock;
use catalog::{AuditChange, Reader, ResourceKind};
use http::access::token_of;
use http::acts::hold_data;
use http::envelope::{self, Listing, Success};
use http::error::ApiError;
use http::ticket::{TicketRequest, give_ticket};
use operate::Operator;
use operate::renderers::Connected;
use pool::Pool;
use pool::acts::ActCounts;
use wire::{RendererData, TicketData};

/// The renderers and their tickets.
pub(super) fn routes(operator: &Operator) -> Router {
    Router::new()
        .oapi_tag("renderers")
        .push(Router::with_path("renderers").get(ListRenderers(operator.clone())))
        .push(Router::with_path("tickets").post(PostAdminTicket(operator.clone())))
}

struct ListRenderers(Operator);

/// The connected renderers.
#[endpoint(operation_id = "list_renderers")]
impl ListRenderers {
    async fn handle(&self) -> Result<Listing<RendererData>, ApiError> {
        let acts = self.0.in_pool(Pool::act_counts).await?;
        let renderers = self.0.renderers();
        let node = self.0.node();
        let renderers = renderers.iter().map(|one| renderer_data(one, &acts, node));
        Ok(envelope::list(renderers.collect(), None))
    }
}

fn renderer_data(connected: &Connected, acts: &[ActCounts], node: Option<&str>) -> RendererData {
    let renderer = &connected.renderer;
    let held = connected.held(acts);
    let held = held.map(|(stream, held)| (stream.to_owned(), hold_data(held.clone())));
    RendererData {
        id: renderer.id,
        node: node.map(str::to_owned),
        key: renderer.key.to_string(),
        operate: renderer.operates(),
        streams: renderer.streams.iter().map(ToString::to_string).collect(),
        transport: renderer.transport.as_str().to_owned(),
        client: renderer.client.clone(),
        connected_at: clock::rfc3339(renderer.connected_at),
        position: connected.position.to_string(),
        lag: connected.lag,
        held: held.collect(),
    }
}

struct PostAdminTicket(Operator);

/// Get a ticket for any streams.
///
/// What `POST /api/tickets` gives to who has a read key.
#[endpoint(
    operation_id = "create_ticket",
    request_body(content = Option<TicketRequest>, description = "Optional. Default: all streams.", example = json!({"streams": ["orders"]})),
    responses(
        (status_code = 201, body = Success<TicketData>, description = "The ticket."),
        (status_code = 404, description = "No such stream."),
    ),
)]
impl PostAdminTicket {
    async fn handle(&self, req: &mut Request) -> Result<Success<TicketData>, ApiError> {
        let streams = self.0.catalog.readable_streams();
        let streams = streams.iter().map(|one| Arc::clone(&one.name)).collect();
        let token = token_of(req)?;
        let mut reader = Reader::new(&token.name, streams);
        reader.expires_at = token.expires_at;
        let reader = Arc::new(reader);
        let (ticket, streams) = give_ticket(&self.0.live, reader, None, req).await?;
        let streams = json!({ "streams": streams.iter().map(|one| &**one).collect::<Vec<_>>() });
        let change = AuditChange::done("create", ResourceKind::Ticket, &*token.name, streams);
        self.0.record_access(by(req), change).await;
        Ok(ticket)
    }
}
