//! Tickets: a ticket replaces a read key in a URL, once.
//!
//! **Invariant**: a ticket is only for streams that its key reads, and no cache keeps the response that contains it.

use std::sync::Arc;

use salvo_core::Request;
use salvo_oapi::{ToSchema, endpoint};
use serde::Deserialize;

use super::body;
use super::envelope::{self, Success};
use super::error::ApiError;
use super::reader::{self, Readers};
use ::live::Live;
use ::live::tickets::Grant;
use base::clock;
use catalog::Reader;
use wire::TicketData;

/// The request for a ticket.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TicketRequest {
    /// The streams of the ticket. Default: all streams of the key.
    streams: Option<Vec<String>>,
    /// The origin that can use the ticket. Default: the origin of the requesting page.
    origin: Option<String>,
}

/// `POST /api/tickets`
pub struct PostTicket(pub Readers);

/// Get a ticket.
///
/// It replaces the read key in a URL: once, within 30 seconds, for these streams, from this origin.
#[endpoint(
    operation_id = "create_ticket",
    tags("read"),
    request_body(content = Option<TicketRequest>, description = "Optional.", example = json!({"streams": ["orders"]})),
    responses(
        (status_code = 201, body = Success<TicketData>, description = "The ticket."),
        (status_code = 403, description = "The page's origin is not allowed."),
        (status_code = 404, description = "The key does not read such a stream."),
        (status_code = 503, description = "The database of the cluster does not answer."),
    ),
)]
impl PostTicket {
    async fn handle(&self, req: &mut Request) -> Result<Success<TicketData>, ApiError> {
        let reader = self.0.with_key(req);
        let reader = reader.inspect_err(|error| self.0.note_refused(req, error))?;
        let origin = reader::page_origin(req.headers()).map(str::to_owned);
        let (ticket, _) = give_ticket(&self.0.live, reader, origin, req).await?;
        Ok(ticket)
    }
}

/// Reads the request, and returns the ticket and its streams.
pub async fn give_ticket(
    live: &Live,
    reader: Arc<Reader>,
    origin: Option<String>,
    req: &mut Request,
) -> Result<(Success<TicketData>, Vec<Arc<str>>), ApiError> {
    let wanted: Option<TicketRequest> = body::small_json(req).await?;
    let wanted = wanted.unwrap_or_default();
    let streams = match &wanted.streams {
        None => reader.streams.clone(),
        Some(names) => choose(names, &reader.streams)?,
    };
    if streams.is_empty() && wanted.streams.is_some() {
        let message = "`streams` must name a stream; omit it for all streams of the key";
        return Err(ApiError::invalid(message));
    }
    let grant = Grant {
        reader,
        streams: streams.clone(),
        origin: wanted.origin.or(origin),
    };
    let (ticket, ends_at) = live.tickets.give(grant).await?;
    let ticket = TicketData {
        ticket,
        expires_at: clock::rfc3339(ends_at),
    };
    Ok((envelope::created(ticket), streams))
}

/// Finds streams by name among the allowed ones.
pub(super) fn choose(names: &[String], allowed: &[Arc<str>]) -> Result<Vec<Arc<str>>, ApiError> {
    let find = |name: &str| allowed.iter().find(|stream| &***stream == name).cloned();
    let mut chosen: Vec<Arc<str>> = Vec::new();
    for name in names {
        let found = match find(name) {
            Some(stream) => vec![stream],
            None => {
                let parts = name
                    .split(',')
                    .map(|part| find(part).ok_or_else(reader::no_stream));
                parts.collect::<Result<_, _>>()?
            }
        };
        for stream in found {
            if !chosen.contains(&stream) {
                chosen.push(stream);
            }
        }
    }
    Ok(chosen)
}
