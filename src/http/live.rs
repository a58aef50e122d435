//! Pushing to renderers: `GET /api/live` as Server-Sent Events or WebSocket.
//!
//! **Invariant**: both transports send the messages of [`Subscription::next`] one at a time, when the connection can
//! take more. No queue grows for a slow renderer.

mod events;
mod screen;
pub mod wanted;

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use salvo_core::conn::ConnCtrl;
use salvo_core::http::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue, SEC_WEBSOCKET_PROTOCOL,
    UPGRADE,
};
use salvo_core::http::{Method, StatusCode, Version};
use salvo_core::{Request, Response};
use salvo_extra::websocket::{Message, WebSocket, WebSocketUpgrade};
use salvo_oapi::endpoint;
use tokio_util::sync::CancellationToken;
use tungstenite::Utf8Bytes;
use tungstenite::protocol::WebSocketConfig;

use super::connections::Shared;
use super::error::ApiError;
use super::filter;
use super::middleware::client;
use super::reader::{self, Readers, SUBPROTOCOL};
use super::ticket::choose;
use ::live::{Cut, Frame, RATE_MAX, Subscribe, Subscription, Transport};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
/// Maximum bytes of a message from a renderer over a WebSocket; no message is read.
const INBOUND_BYTES_MAX: usize = 4 << 10;

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
        let cut = CancellationToken::new();
        let wish = self.wish(req, transport, cut.clone()).await;
        let mut wish = wish.inspect_err(|error| self.0.note_refused(req, error))?;
        match transport {
            Transport::Sse => {
                if let Some(connection) = req.extensions().get::<ConnCtrl>() {
                    // Slow or silent renderers are not disconnected.
                    connection.relax_timeouts();
                }
                let connection = req.extensions().get::<Arc<Shared>>().cloned();
                if let Some(connection) = connection.clone() {
                    wish.cut = Cut(Box::new(move || connection.cut()));
                }
                let subscription = self.0.live.subscribe(wish);
                match connection.filter(|_| *req.method() == Method::GET) {
                    Some(connection) => hand_over(&connection, req, res, subscription),
                    // The head is all that a HEAD request gets.
                    None => begin_events(res),
                }
            }
            Transport::WebSocket => {
                let live = Arc::clone(&self.0.live);
                let config = WebSocketConfig::default()
                    .read_buffer_size(INBOUND_BYTES_MAX)
                    .write_buffer_size(0)
                    .max_message_size(Some(INBOUND_BYTES_MAX))
                    .max_frame_size(Some(INBOUND_BYTES_MAX));
                let upgraded = WebSocketUpgrade::with_config(config)
                    .protocols(&[SUBPROTOCOL])
                    .upgrade(req, res, async move |socket| {
                        tokio::select! {
                            () = send_messages(socket, live.subscribe(wish)) => {}
                            () = cut.cancelled() => {}
                        }
                    })
                    .await;
                if let Err(error) = upgraded {
                    res.headers_mut().remove(UPGRADE);
                    res.headers_mut().remove(SEC_WEBSOCKET_PROTOCOL);
                    return Err(ApiError::invalid(error.brief));
                }
            }
        }
        Ok(())
    }
}

impl GetLive {
    async fn wish(
        &self,
        req: &mut Request,
        transport: Transport,
        cut: CancellationToken,
    ) -> Result<Subscribe, ApiError> {
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
            cut: Cut(Box::new(move || cut.cancel())),
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

/// Begins a response of events, and passes the connection on to who writes them.
fn hand_over(connection: &Shared, req: &Request, res: &mut Response, subscription: Subscription) {
    begin_events(res);
    let is_chunked = req.version() >= Version::HTTP_11;
    connection.hand_over(Box::new(move |taken, shared| {
        Box::pin(events::write(taken, shared, subscription, is_chunked))
    }));
}

async fn send_messages(mut socket: WebSocket, mut subscription: Subscription) {
    loop {
        tokio::select! {
            biased;
            frame = subscription.next() => {
                let Some(frame) = frame else { break };
                let Ok(text) = Utf8Bytes::try_from(frame.json()) else { break };
                if socket.send(Message::text(text)).await.is_err() {
                    return;
                }
            }
            // The library answers pings; all other messages are ignored.
            received = socket.recv() => match received {
                Some(Ok(message)) if !message.is_close() => {}
                _ => return,
            },
        }
    }
    let _ = socket.close().await;
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
