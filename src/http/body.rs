//! Reading request bodies.
//!
//! **Invariant**: the size of a body in memory never exceeds the limit, and reading it never exceeds the deadline.

use std::pin::pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use http_body_util::BodyExt;
use salvo_core::Request;
use salvo_core::http::{Body, ReqBody};
use serde::de::DeserializeOwned;

use super::error::ApiError;
use ::ingest::BodyError;
use base::budget::Portion;

/// Bytes that are read and dropped from a rejected body, so that the client, which is still sending, receives the
/// response. This is twice the limit of the proxies in `examples/deploy`. A proxy that cannot write the rest answers
/// 502 in place of the daemon.
const DRAIN_BYTES_MAX: u64 = 16 << 20;
/// Maximum memory that is reserved at once because of a `Content-Length`. A client can announce any length and send
/// nothing.
const RESERVED_BYTES_MAX: u64 = 2 << 20;
/// Maximum time for reading and dropping a body.
pub(super) const DRAIN_SECONDS_MAX: u64 = 2;

/// Maximum bytes of a body without items.
const SMALL_BYTES_MAX: usize = 64 << 10;
/// Maximum time for reading it.
const SMALL_TIME_MAX: Duration = Duration::from_secs(10);

/// Reads a small body.
pub(super) async fn small(req: &mut Request) -> Result<&Bytes, ApiError> {
    at_most(req, SMALL_BYTES_MAX).await
}

/// Reads a body of at most `bytes_max` bytes.
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

/// Parses the JSON object of a small body; `None` if the body is empty.
pub async fn small_json<T: DeserializeOwned>(req: &mut Request) -> Result<Option<T>, ApiError> {
    let body = small(req).await?;
    if body.is_empty() {
        return Ok(None);
    }
    // serde would accept an array for a structure.
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(ApiError::invalid("the body must be a JSON object"));
    }
    serde_json::from_slice(body)
        .map(Some)
        .map_err(|error| ApiError::invalid(format!("the body is not the expected JSON: {error}")))
}

/// Reads the whole body into one buffer, within the memory of `portion`.
pub(super) async fn read(
    body: &mut ReqBody,
    portion: &mut Portion,
    timeout_seconds: u64,
) -> Result<Bytes, BodyError> {
    let mut reading = pin!(collect(body, portion));
    // Most bodies have arrived by now and need no timer.
    if let Some(read) = reading.as_mut().now_or_never() {
        return read;
    }
    tokio::time::timeout(Duration::from_secs(timeout_seconds), reading)
        .await
        .unwrap_or(Err(BodyError::TooSlow(timeout_seconds)))
}

async fn collect(body: &mut ReqBody, portion: &mut Portion) -> Result<Bytes, BodyError> {
    let mut first = Bytes::new();
    let mut whole = BytesMut::new();
    loop {
        // A body whose sender has sent nothing uses no memory that others could need.
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
        // Most bodies are one frame and need no copy.
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

/// Reads the rest of a body and drops it, within the limits. Returns whether that was the whole rest: then the
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
