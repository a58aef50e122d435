//! Reading request bodies.
//!
//! **Invariant**: no more than the limit is held, no longer than the deadline is waited.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use salvo_core::Request;
use salvo_core::http::{Body, ReqBody};
use serde::de::DeserializeOwned;

use super::error::ApiError;
use ::ingest::BodyError;
use base::budget::Portion;

/// What is read and dropped of a body that nobody wants, so that the client, which still sends,
/// gets to see the answer: twice what the proxies of `examples/deploy` let through. A proxy that cannot write the rest
/// answers 502 in place of the daemon.
const DRAIN_BYTES_MAX: u64 = 16 << 20;
/// What is reserved for a body at once, on its sender's word.
const RESERVED_BYTES_MAX: u64 = 2 << 20;
/// How long that may take.
pub(super) const DRAIN_SECONDS_MAX: u64 = 2;

/// Longest body of a request that is no submission.
const SMALL_BYTES_MAX: usize = 64 << 10;
/// How long it may take.
const SMALL_TIME_MAX: Duration = Duration::from_secs(10);

/// A small body.
pub(super) async fn small(req: &mut Request) -> Result<&Bytes, ApiError> {
    at_most(req, SMALL_BYTES_MAX).await
}

/// A body of at most so many bytes.
pub async fn at_most(req: &mut Request, bytes_max: usize) -> Result<&Bytes, ApiError> {
    let reading = req.payload_with_max_size(bytes_max);
    match tokio::time::timeout(SMALL_TIME_MAX, reading).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(_)) => Err(ApiError::invalid(format!(
            "the body cannot be read; it must have at most {bytes_max} bytes"
        ))),
        Err(_) => Err(ApiError::invalid("the body took too long")),
    }
}

/// The JSON object of a small body, `None` if there is no body.
pub async fn small_json<T: DeserializeOwned>(req: &mut Request) -> Result<Option<T>, ApiError> {
    let body = small(req).await?;
    if body.is_empty() {
        return Ok(None);
    }
    // An array would do for a structure too.
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(ApiError::invalid("the body must be a JSON object"));
    }
    serde_json::from_slice(body)
        .map(Some)
        .map_err(|error| ApiError::invalid(format!("the body is not the expected JSON: {error}")))
}

/// The whole body, in one buffer, of this portion.
pub(super) async fn read(
    body: &mut ReqBody,
    portion: &mut Portion,
    timeout_seconds: u64,
) -> Result<Bytes, BodyError> {
    tokio::time::timeout(Duration::from_secs(timeout_seconds), collect(body, portion))
        .await
        .unwrap_or(Err(BodyError::TooSlow(timeout_seconds)))
}

async fn collect(body: &mut ReqBody, portion: &mut Portion) -> Result<Bytes, BodyError> {
    let mut first = Bytes::new();
    let mut whole = BytesMut::new();
    loop {
        // What has sent nothing takes no room that others could need.
        let frame = match first.is_empty() && whole.is_empty() {
            true => body.frame().await,
            false if body.is_end_stream() => break,
            false => {
                let gives_way = portion.waits();
                tokio::select! {
                    biased;
                    frame = body.frame() => frame,
                    () = gives_way.cancelled() => return Err(BodyError::GaveWay),
                }
            }
        };
        let Some(frame) = frame else { break };
        let Ok(data) = frame.map_err(|_| BodyError::Broken)?.into_data() else {
            continue;
        };
        portion.take(data.len() as u64)?;
        // Most bodies are one frame: that needs no copy.
        if first.is_empty() && whole.is_empty() {
            first = data;
            continue;
        }
        if whole.is_empty() {
            let rest = body.size_hint().lower().min(RESERVED_BYTES_MAX);
            whole.reserve(first.len() + data.len() + usize::try_from(rest).unwrap_or(0));
            whole.extend_from_slice(&std::mem::take(&mut first));
        }
        whole.extend_from_slice(&data);
    }
    Ok(match whole.is_empty() {
        true => first,
        false => whole.freeze(),
    })
}

/// Reads what is left of a body and drops it, within bounds. True if that was all of it: then the
/// connection can be used again.
pub(super) async fn drain(body: &mut ReqBody) -> bool {
    let mut bytes = 0;
    let drained = async {
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return false };
            bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
            if bytes > DRAIN_BYTES_MAX {
                return false;
            }
        }
        true
    };
    tokio::time::timeout(Duration::from_secs(DRAIN_SECONDS_MAX), drained)
        .await
        .unwrap_or(false)
}
