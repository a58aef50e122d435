//! Responses to senders and providers.
//!
//! **Invariant**: a 2xx response to a request with items means that the items are on disk.

use salvo_core::http::header::{CONTENT_TYPE, HeaderName, HeaderValue, LOCATION};
use salvo_core::http::{ResBody, StatusCode};
use salvo_core::{Request, Response};
use uuid::Uuid;

use crate::envelope;
use crate::error::ApiError;
use crate::middleware::set_request_id;
use crate::rate;
use ::ingest::{Accepted, Answer, Reply};
use item::quote_into;
use journal::log::Endpoint;
use webhook::handshake::Challenge;

const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
const X_HEADGATE_NOTICE: HeaderName = HeaderName::from_static("x-headgate-notice");
const WITHOUT_ITEM_KEY: &str = "this item has no item key, so the next one overwrites it; set item_key for the connector, or send X-Item-Key";

/// Writes the answer of the pipeline.
pub(super) fn write(answer: Answer, endpoint: Endpoint, req: &Request, res: &mut Response) {
    if let Some(quota) = answer.quota {
        rate::write_headers(res, "key", quota, answer.volume);
    }
    match answer.result {
        Ok(Reply::Accepted(accepted)) => {
            if accepted.without_item_key && endpoint == Endpoint::Webhook {
                let notice = HeaderValue::from_static(WITHOUT_ITEM_KEY);
                res.headers_mut().insert(X_HEADGATE_NOTICE, notice);
            }
            acknowledge(res, &accepted);
        }
        Ok(Reply::Challenge(challenge)) => write_challenge(res, challenge),
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

fn acknowledge(res: &mut Response, accepted: &Accepted) {
    let receipt = &accepted.receipt;
    let mut buffer = Uuid::encode_buffer();
    let id: &str = (receipt.request_id.hyphenated()).encode_lower(&mut buffer);
    let mut number = itoa::Buffer::new();
    let items = number.format(receipt.items);
    let before = r#"{"success":true,"data":{"stream":""#;
    let after = [
        r#"","items_received":"#,
        items,
        r#","request_id":""#,
        id,
        r#""}}"#,
    ];
    let bytes: usize = after.iter().map(|part| part.len()).sum();
    let mut json = String::with_capacity(before.len() + accepted.stream.len() + bytes);
    json.push_str(before);
    quote_into(&accepted.stream, &mut json);
    json.extend(after);
    if receipt.replayed {
        set_request_id(res, receipt.request_id);
        res.headers_mut()
            .insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    }
    let headers = res.headers_mut();
    if let Ok(location) = HeaderValue::try_from(["/api/requests/", id].concat()) {
        headers.insert(LOCATION, location);
    }
    let status = StatusCode::from_u16(accepted.status).unwrap_or(StatusCode::ACCEPTED);
    if let Some((kind, text)) = accepted.answer {
        res.status_code(status);
        res.headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        res.replace_body(ResBody::Once(text.into()));
        return;
    }
    match status {
        // Some providers require a content type even without a body.
        StatusCode::NO_CONTENT => envelope::write_json(res, status, Vec::new()),
        status => envelope::write_json(res, status, json.into_bytes()),
    }
}
