//! Responses to senders and providers.
//!
//! **Invariant**: a 2xx response to a request with items means that the items are on disk.

use bytes::Bytes;
use salvo_core::http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use salvo_core::http::{ResBody, StatusCode};
use salvo_core::{Request, Response};
use uuid::Uuid;

use crate::error::ApiError;
use crate::middleware::X_REQUEST_ID;
use crate::rate::{self, insert};
use ::ingest::{Accepted, Answer, Reply};
use catalog::{QuotaState, VolumeLeft};
use item::quote_into;
use journal::log::Endpoint;
use webhook::handshake::Challenge;

const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
const X_HEADGATE_NOTICE: HeaderName = HeaderName::from_static("x-headgate-notice");
/// Bytes of the texts of an acknowledgement without the name of the stream, at most, unless bytes are limited. The
/// buffer has this size from the start, so that it never grows.
const TEXT_BYTES: usize = 256;
/// Headers that fit a map that is used again. A larger map would stay with an idle connection.
const HEADERS_MAX: usize = 12;
const WITHOUT_ITEM_KEY: &str = "this item has no item key, so the next one overwrites it; set item_key for the connector, or send X-Item-Key";

/// Writes the answer of the pipeline.
pub(super) fn write(answer: Answer, endpoint: Endpoint, req: &mut Request, res: &mut Response) {
    let left = answer.quota.map(|quota| (quota, answer.volume));
    let result = match answer.result {
        Ok(Reply::Accepted(accepted)) => return acknowledge(&accepted, left, endpoint, req, res),
        Ok(Reply::Challenge(challenge)) => Ok(challenge),
        Err(error) => Err(error),
    };
    if let Some((quota, volume)) = left {
        rate::write_headers(res, "key", quota, volume);
    }
    match result {
        Ok(challenge) => write_challenge(res, challenge),
        Err(error) => ApiError::from(error).answer(req, res),
    }
}

/// Answers the challenge of a provider in the provider's format.
fn write_challenge(res: &mut Response, challenge: Challenge) {
    res.status_code(StatusCode::from_u16(challenge.status).unwrap_or_default());
    let headers = res.headers_mut();
    let kind = challenge.content_type;
    if let Some(Ok(kind)) = kind.map(|kind| HeaderValue::from_str(&kind)) {
        headers.insert(CONTENT_TYPE, kind);
    }
    for (name, value) in challenge.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), value.parse()) {
            headers.insert(name, value);
        }
    }
    res.replace_body(ResBody::Once(challenge.body.into()));
}

/// Acknowledges a request: all texts are in one buffer, and the headers in the map of the request.
fn acknowledge(
    accepted: &Accepted,
    left: Option<(QuotaState, VolumeLeft)>,
    endpoint: Endpoint,
    req: &mut Request,
    res: &mut Response,
) {
    let receipt = &accepted.receipt;
    let mut buffer = Uuid::encode_buffer();
    // For a duplicate, the ID of the first request.
    let id: &str = (receipt.request_id.hyphenated()).encode_lower(&mut buffer);
    let mut number = itoa::Buffer::new();
    let items = number.format(receipt.items);
    let mut text = String::with_capacity(TEXT_BYTES + accepted.stream.len());
    text.extend(["/api/requests/", id]);
    let location = ..text.len();
    let request_id = text.len() - id.len()..text.len();
    let rate = left.map(|(quota, volume)| rate::push(&mut text, "key", quota, volume));
    let json = text.len()..;
    text.push_str(r#"{"success":true,"data":{"stream":""#);
    quote_into(&accepted.stream, &mut text);
    text.extend([r#"","items_received":"#, items]);
    text.extend([r#","request_id":""#, id, r#""}}"#]);
    let text = Bytes::from(text);

    let headers = map_of(req, res);
    insert(headers, X_REQUEST_ID, text.slice(request_id));
    for (name, part) in rate.into_iter().flatten() {
        insert(headers, name, text.slice(part));
    }
    if accepted.without_item_key && endpoint == Endpoint::Webhook {
        let notice = HeaderValue::from_static(WITHOUT_ITEM_KEY);
        headers.insert(X_HEADGATE_NOTICE, notice);
    }
    if receipt.replayed {
        headers.insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    }
    insert(headers, LOCATION, text.slice(location));
    let status = StatusCode::from_u16(accepted.status).unwrap_or(StatusCode::ACCEPTED);
    let (kind, body) = match (accepted.answer, status) {
        (Some((kind, body)), _) => (kind, Bytes::from_static(body.as_bytes())),
        // Some providers require a content type even without a body.
        (None, StatusCode::NO_CONTENT) => ("application/json", Bytes::new()),
        (None, _) => ("application/json", text.slice(json)),
    };
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    res.status_code(status);
    res.replace_body(ResBody::Once(body));
}

/// The map of the response, with what it has so far. It is the map of the request, which was read: the connection reads its
/// next request into the same one. A large map would stay with an idle connection.
fn map_of<'a>(req: &mut Request, res: &'a mut Response) -> &'a mut HeaderMap {
    let mut headers = std::mem::take(req.headers_mut());
    if headers.capacity() <= HEADERS_MAX {
        headers.clear();
        headers.extend(std::mem::take(res.headers_mut()));
        *res.headers_mut() = headers;
    }
    res.headers_mut()
}

#[cfg(test)]
mod tests;
