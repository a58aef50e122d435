//! The request of a submission: the same bytes and the same idempotency key at every attempt.

use bytes::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::Method;

use crate::error::Error;
use crate::field;
use crate::transport::Call;

/// The request of a send and of a batch.
pub(crate) fn submission(
    body: Bytes,
    idempotency_key: &str,
    item_key: Option<&str>,
    stream: Option<&str>,
) -> Result<Call, Error> {
    let mut headers = headers(idempotency_key, item_key)?;
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let path = match stream {
        Some(stream) => format!("/api/ingest?stream={}", segment(stream)),
        None => "/api/ingest".to_owned(),
    };
    Ok(Call {
        method: Method::POST,
        path,
        headers,
        body,
    })
}

/// What every submission and removal says.
pub(crate) fn headers(idempotency_key: &str, item_key: Option<&str>) -> Result<HeaderMap, Error> {
    let value = |text: &str| {
        HeaderValue::from_bytes(text.as_bytes())
            .map_err(|_| Error::usage("the key has characters that are not allowed in a header"))
    };
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert("idempotency-key", value(idempotency_key)?);
    if let Some(field) = item_key {
        field::check_name(field)?;
        headers.insert("x-item-key", value(field)?);
    }
    Ok(headers)
}

/// A name as one part of a path or a query.
pub(crate) fn segment(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                text.push(byte.into());
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}
