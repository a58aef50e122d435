//! Pushing to renderers: `GET /api/live` as Server-Sent Events or WebSocket.
//!
//! **Invariant**: both transports send the messages of a subscription one at a time, when the connection can take more.
//! No queue grows for a slow renderer.

mod connection;
mod events;
mod messages;
mod screen;
pub mod wanted;

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use hyper::upgrade::OnUpgrade;
use salvo_core::conn::ConnCtrl;
use salvo_core::http::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue, UPGRADE,
};
use salvo_core::http::{Method, StatusCode, Version};
use salvo_core::{Request, Response};
use salvo_oapi::endpoint;

use super::connections::{Shared, Writer};
use super::error::ApiError;
use super::filter;
use super::middleware::client;
use super::reader::{self, Readers};
use super::ticket::choose;
use ::live::{Cut, Frame, RATE_MAX, Subscribe, Transport};
use connection::Connection;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
const PARAMETERS: [&str; 11] = [
    "streams", "key", "where", "fields", "since", "max_rate", "token", "screen", "page", "size",
    "v",
];

/// `GET /api/live`
pub struct GetLive(pub Readers);

/// Follow streams.
///
/// Server-Sent Events, or a WebSocket if the request asks to upgrade; the messages are the same JSON. First a
/// `snapshot` of each stream, then `update` and `remove` as they happen; `heartbeat`, `stale`, `fresh`, `reset`
/// and `bye`. After you apply a message, its `id` is the position to resume from.
#[endpoint(
    operation_id = "live",
    tags("read"),
    parameters(
        ("streams" = Option<String>, Query, description = "Names separated by commas; all streams of the key if absent."),
        ("key" = Option<String>, Query, description = "Keys separated by commas: only these items."),
        ("where" = Option<String>, Query, description = "Conditions that an item must meet, such as `status:live,score>2`. An item that no longer meets them is sent as `remove`."),
        ("fields" = Option<String>, Query, description = "Fields in their order, such as `id,home.*` or `-note`; all if absent."),
        ("since" = Option<String>, Query, description = "The id of the last applied message; later changes follow."),
        ("Last-Event-ID" = Option<String>, Header, description = "Like `since`, in the header that browsers send; takes precedence over `since`."),
        ("max_rate" = Option<u32>, Query, description = "Flushes per second, 1 to 1000."),
        ("screen" = Option<String>, Query, description = "Name of the screen, for the list of screens and for `control` messages."),
        ("page" = Option<String>, Query, description = "The page that the screen shows; the part after `#` is omitted."),
        ("size" = Option<String>, Query, description = "Its size in pixels, such as `1920x1080`."),
        ("v" = Option<String>, Query, description = "The version of its page."),
        ("token" = Option<String>, Query, description = "A ticket, or a read key that is marked `allow_in_url`."),
    ),
    responses(
        (status_code = 200, content_type = "text/event-stream", body = String, description = "Server-Sent Events."),
        (status_code = 101, description = "A WebSocket. The key can be offered as a subprotocol in addition to `headgate`."),
        (status_code = 400, description = "A parameter is unknown or invalid."),
        (status_code = 403, description = "The page's origin is not allowed."),
        (status_code = 404, description = "The key does not read such a stream."),
        (status_code = 429, description = "The key has reached its limit of connections."),
        (status_code = 503, description = "The daemon is stopping, the limit of connected renderers is reached, or the database of the cluster does not answer and a ticket was sent."),
    ),
)]
impl GetLive {
    async fn handle(&self, req: &mut Request, res: &mut Response) -> Result<(), ApiError> {
        let upgrade = req.headers().contains_key(UPGRADE);
        let transport = if upgrade {
            Transport::WebSocket
        } else {
            Transport::Sse
        };
        let connection = req.extensions().get::<Arc<Shared>>().cloned();
        let connection = connection.ok_or_else(|| ApiError::invalid("the connection ends"))?;
        let wish = self.wish(req, transport, &connection).await;
        let wish = wish.inspect_err(|error| self.0.note_refused(req, error))?;
        let live = Arc::clone(&self.0.live);
        match transport {
            Transport::Sse => {
                begin_events(res);
                // The head is all that a HEAD request gets.
                if *req.method() == Method::GET {
                    let is_chunked = req.version() >= Version::HTTP_11;
                    let subscription = live.subscribe(wish);
                    connection.hand_over(Box::new(move |taken, _, shared| {
                        let connection = Connection::new(taken, shared);
                        events::write(connection, subscription, is_chunked).boxed()
                    }));
                }
            }
            Transport::WebSocket => {
                let upgrade = req.extensions_mut().remove::<OnUpgrade>();
                let upgrade = upgrade.ok_or(messages::NO_UPGRADE);
                let upgrade = upgrade.and_then(|upgrade| {
                    messages::accept(req, res)?;
                    Ok(upgrade)
                });
                let writer: Writer<_> = Box::new(move |taken, early, shared| {
                    let connection = Connection::new(taken, shared);
                    messages::send(connection, early, live.subscribe(wish)).boxed()
                });
                connection.upgrade(upgrade.map_err(ApiError::invalid)?, writer);
            }
        }
        // Slow or silent renderers are not disconnected.
        if let Some(control) = req.extensions().get::<ConnCtrl>() {
            control.relax_timeouts();
        }
        Ok(())
    }
}

impl GetLive {
    async fn wish(
        &self,
        req: &mut Request,
        transport: Transport,
        connection: &Arc<Shared>,
    ) -> Result<Subscribe, ApiError> {
        let connection = Arc::clone(connection);
        let (reader, allowed) = self.0.follower(req).await?;
        filter::only(req, &PARAMETERS)?;
        let filter = filter::filter(req)?;
        let streams = match wanted::streams(req.uri().query().unwrap_or_default()) {
            None => allowed,
            Some(names) => choose(&names, &allowed)?,
        };
        let max_rate = match req.query::<String>("max_rate") {
            None => None,
            Some(text) => match text.parse() {
                Ok(rate @ 1..=RATE_MAX) => Some(rate),
                _ => {
                    return Err(ApiError::invalid(format!(
                        "max_rate must be a whole number from 1 to {RATE_MAX}, in flushes per second"
                    )));
                }
            },
        };
        let last_event_id = req.headers().get(LAST_EVENT_ID);
        let last_event_id = last_event_id.map(|id| id.to_str().unwrap_or_default().to_owned());
        Ok(Subscribe {
            streams,
            filter,
            since: last_event_id.or_else(|| req.query::<String>("since")),
            max_rate,
            transport,
            client: client(req).to_string(),
            agent: reader::agent(req.headers()),
            screen: screen::of(req)?,
            cut: Cut(Box::new(move || connection.cut())),
            permit: self.0.live.permit(&reader)?,
            reader,
        })
    }
}

/// Begins a response of events: the body waits after the first one.
fn begin_events(res: &mut Response) {
    let headers = res.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // The connection ends after the last message, so it can be closed then.
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    // Proxies must not buffer the events.
    headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
    res.status_code(StatusCode::OK);
    let hint = Bytes::from(Frame::retry_hint());
    let begin = stream::once(async { Ok::<Bytes, std::io::Error>(hint) });
    res.stream(begin.chain(stream::pending()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_names_are_found_however_their_commas_are_written() {
        let allowed: Vec<Arc<str>> = ["a", "b", "c,d", "e f"].map(Into::into).into();
        let check = |query: &str, expected: Option<&[&str]>| {
            let names = wanted::streams(query).unwrap_or_default();
            let chosen = choose(&names, &allowed).ok();
            let chosen: Option<Vec<&str>> = chosen
                .as_ref()
                .map(|streams| streams.iter().map(|stream| &**stream).collect());
            assert_eq!(chosen.as_deref(), expected, "{query}");
        };
        check("streams=a,b", Some(&["a", "b"]));
        check("x=1&streams=a%2Cb", Some(&["a", "b"]));
        check("streams=c%2Cd,a", Some(&["c,d", "a"]));
        check("streams=a&streams=b&streams=a", Some(&["a", "b"]));
        check("streams=e%20f", Some(&["e f"]));
        check("streams=e+f", Some(&["e f"]));
        check("streams=a,z", None);
        check("streams=a%2Cz", None);
        assert!(wanted::streams("since=1").is_none());
        assert!(wanted::streams("streams=").is_none());
    }
}
