//! The renderers that are connected, and tickets for whoever has the admin token.
//!
//! **Invariant**: `lag` is 0 exactly when the renderer was sent every change of its streams.

use std::sync::Arc;

use salvo_core::{Request, Response};
use salvo_oapi::{ToSchema, endpoint};
use serde::Serialize;
use serde_json::json;

use super::super::Parts;
use super::super::envelope::{self, ErrorBody, Listing, Success};
use super::super::live::{TicketData, TicketRequest, give_ticket};
use super::change::{actor, note};
use crate::catalog::{AuditChange, Kind, Reader};
use crate::clock;
use crate::live::Renderer;

/// A renderer that is connected.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct RendererData {
    /// Rises with each connection.
    pub(in crate::http) id: u64,
    /// Name of its read key.
    pub(in crate::http) key: String,
    /// What it follows.
    pub(in crate::http) streams: Vec<String>,
    /// `sse` or `websocket`.
    pub(in crate::http) transport: &'static str,
    /// Where it is connected from.
    pub(in crate::http) client: String,
    /// Since when, RFC 3339.
    pub(in crate::http) connected_at: String,
    /// The position that it was told last.
    pub(in crate::http) position: String,
    /// By how many numbers it is behind; an upper bound of the changes that wait for it.
    pub(in crate::http) lag: u64,
}

/// `GET /api/admin/renderers`
pub(in crate::http) struct ListRenderers(pub(in crate::http) Parts);

/// The renderers that are connected.
#[endpoint(
    operation_id = "list_renderers",
    tags("renderers"),
    responses(
        (status_code = 200, body = Listing<RendererData>, description = "All of them."),
        (status_code = 401, body = ErrorBody, description = "No valid admin token."),
    ),
    security(("admin_token" = [])),
)]
impl ListRenderers {
    async fn handle(&self, res: &mut Response) {
        envelope::list(res, renderers(&self.0), None);
    }
}

/// The renderers that are connected.
pub(in crate::http) fn renderers(parts: &Parts) -> Vec<RendererData> {
    let renderers = parts.live.renderers();
    let renderers = renderers.iter();
    renderers
        .map(|renderer| RendererData::new(parts, renderer))
        .collect()
}

impl RendererData {
    fn new(parts: &Parts, renderer: &Renderer) -> Self {
        let changes = parts.pool.changes();
        let told = renderer.position();
        let behind = renderer
            .streams
            .iter()
            .any(|stream| !changes.has_nothing_after(stream, told));
        let mut position = parts.live.position();
        let lag = match behind {
            true => position.seq.saturating_sub(told),
            false => 0,
        };
        position.seq = told;
        Self {
            id: renderer.id,
            key: renderer.key.to_string(),
            streams: renderer.streams.iter().map(ToString::to_string).collect(),
            transport: renderer.transport.as_str(),
            client: renderer.client.clone(),
            connected_at: clock::rfc3339(renderer.connected_ms),
            position: position.to_string(),
            lag,
        }
    }
}

/// `POST /api/admin/tickets`
pub(in crate::http) struct PostAdminTicket(pub(in crate::http) Parts);

/// Get a ticket for any streams.
///
/// What `POST /api/tickets` gives to who has a read key.
#[endpoint(
    operation_id = "create_ticket",
    tags("renderers"),
    request_body(content = Option<TicketRequest>, description = "May be absent: all streams.", example = json!({"streams": ["orders"]})),
    responses(
        (status_code = 201, body = Success<TicketData>, description = "The ticket."),
        (status_code = 400, body = ErrorBody, description = "The body cannot be used."),
        (status_code = 401, body = ErrorBody, description = "No valid admin token."),
        (status_code = 404, body = ErrorBody, description = "No such stream."),
    ),
    security(("admin_token" = [])),
)]
impl PostAdminTicket {
    async fn handle(&self, req: &mut Request, res: &mut Response) {
        let streams = self.0.catalog.streams();
        let streams = streams.iter().map(|one| Arc::clone(&one.name)).collect();
        let reader = Arc::new(Reader::new("admin", streams));
        let given = give_ticket(&self.0, reader, None, req, res).await;
        if let Some(streams) = given {
            let streams =
                json!({ "streams": streams.iter().map(|one| &**one).collect::<Vec<_>>() });
            let change = AuditChange::done("create", Kind::Ticket, "admin", streams);
            note(&self.0, &actor("admin token", req), change).await;
        }
    }
}
