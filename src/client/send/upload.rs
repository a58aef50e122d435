//! Sends a batch until it is accepted, or until a retry is pointless.
//!
//! `send` calls it for each batch in order, because the last accepted update of an item wins.
//!
//! **Invariant**: every attempt of a batch has the same idempotency key and the same bytes, so that an attempt whose
//! response was lost is not applied twice.

use std::time::Duration;

use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use tokio_util::sync::CancellationToken;

use super::batch::{SendBatch, idempotency_key};
use crate::client::{Answer, CallError, Client, Envelope, Refusal};
use crate::error::CliError;
use crate::patience::{ABSENT_MAX, Patience};
use base::backoff;
use base::text::percent_encoded;
use wire::ReceiptData;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
const ITEM_KEY: HeaderName = HeaderName::from_static("x-item-key");
/// Maximum length of a prefix; the hash must fit into the 255 characters of an idempotency key.
const PREFIX_LEN_MAX: usize = 190;

#[derive(Debug, Clone, Copy)]
pub struct Pauses {
    /// Maximum first pause; each further one may be twice as long.
    pub first: Duration,
    /// Maximum pause of the command itself.
    pub max: Duration,
    /// Maximum pause that the server can request.
    pub asked_max: Duration,
    /// Maximum wait for a server that has never answered; `None`: all retries.
    pub absent_max: Option<Duration>,
    /// Duration of a second of the server's `Retry-After`; tests make it short.
    pub second: Duration,
}

impl Default for Pauses {
    fn default() -> Pauses {
        Pauses {
            first: Duration::from_millis(500),
            max: Duration::from_secs(15),
            asked_max: Duration::from_secs(300),
            absent_max: Some(ABSENT_MAX),
            second: Duration::from_secs(1),
        }
    }
}

impl Pauses {
    /// The pause before a retry, counted from 1: the server's if it requested one, otherwise a computed one.
    fn before(&self, retry: u32, asked_seconds: Option<u32>) -> Duration {
        match asked_seconds {
            Some(seconds) => self.second.saturating_mul(seconds).min(self.asked_max),
            None => backoff::pause(self.first, self.max, retry),
        }
    }
}

/// The destination of batches, and their headers.
pub struct Upload<'a> {
    client: &'a Client,
    path: String,
    headers: HeaderMap,
    options: &'a UploadOptions,
    pauses: Pauses,
    stop: &'a CancellationToken,
    patience: Patience,
}

/// The options of `send` for requests.
#[derive(Debug, Clone, Default)]
pub struct UploadOptions {
    /// The stream that the key is expected to have.
    pub stream: Option<String>,
    /// The field that identifies each item.
    pub item_key: Option<String>,
    /// The prefix of idempotency keys.
    pub prefix: Option<String>,
    /// Maximum retries of a batch.
    pub retries_max: u32,
}

/// The result of an accepted batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    pub stream: String,
    /// It was a duplicate, and was not processed again.
    pub replayed: bool,
}

/// Why a batch was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    /// The server rejected it, or did not respond in all attempts.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The server has never answered.
    #[error(transparent)]
    Absent(#[from] CliError),
    /// The user stopped the command before the next attempt.
    #[error("stopped")]
    Stopped,
}

impl<'a> Upload<'a> {
    /// Prepares the requests, and checks the values of their headers.
    pub fn new(
        client: &'a Client,
        options: &'a UploadOptions,
        pauses: Pauses,
        stop: &'a CancellationToken,
    ) -> Result<Upload<'a>, CliError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(field) = &options.item_key {
            let value = HeaderValue::from_bytes(field.as_bytes()).ok();
            let value = value.filter(|_| !field.trim().is_empty()).ok_or_else(|| {
                CliError::wrong_use(
                    "--item-key needs the name of a field, without control characters",
                )
            })?;
            headers.insert(ITEM_KEY, value);
        }
        if let Some(prefix) = &options.prefix {
            let visible = prefix.bytes().all(|byte| byte.is_ascii_graphic());
            if !visible || prefix.is_empty() || prefix.len() > PREFIX_LEN_MAX {
                return Err(CliError::wrong_use(format!(
                    "--idempotency-prefix needs 1 to {PREFIX_LEN_MAX} visible ASCII characters"
                )));
            }
        }
        let path = match &options.stream {
            Some(stream) => format!("/api/ingest?stream={}", percent_encoded(stream)),
            None => "/api/ingest".to_owned(),
        };
        Ok(Upload {
            client,
            path,
            headers,
            options,
            pauses,
            stop,
            patience: Patience::new(pauses.absent_max),
        })
    }

    /// Sends a batch, with retries if they can help. `on_retry` gets the reason before each pause.
    pub async fn send(
        &self,
        batch: &SendBatch,
        mut on_retry: impl FnMut(&str),
    ) -> Result<Accepted, UploadError> {
        let UploadOptions {
            stream,
            item_key,
            prefix,
            ..
        } = self.options;
        let key = idempotency_key(
            prefix.as_deref(),
            stream.as_deref(),
            item_key.as_deref(),
            batch,
        );
        let key = HeaderValue::try_from(key).expect("hexadecimal digits and a checked prefix");
        let mut headers = self.headers.clone();
        headers.insert(IDEMPOTENCY_KEY, key);
        let retries_max = self.options.retries_max;
        let mut retries = 0;
        loop {
            let call = self.client.call(
                Method::POST,
                &self.path,
                headers.clone(),
                batch.body.clone(),
            );
            let answer = call.await;
            if !matches!(answer, Err(CallError::NoAnswer { .. })) {
                self.patience.answered();
            }
            let (error, asked_seconds) = match answer {
                Ok(answer) if answer.status == 202 => {
                    return Ok(self.receipt(&answer, batch.items)?);
                }
                Ok(answer) if is_passing(answer.status) => {
                    let asked = retry_after_seconds(&answer.headers);
                    (CallError::Refused(Refusal::decode(&answer)), asked)
                }
                Ok(answer) if (200..300).contains(&answer.status) => {
                    let reason = format!("status {} in place of 202", answer.status);
                    return Err(self.client.foreign(reason).into());
                }
                Ok(answer) => return Err(CallError::Refused(Refusal::decode(&answer)).into()),
                Err(error @ CallError::NoAnswer { .. }) => (error, None),
                Err(error) => return Err(error.into()),
            };
            if retries >= retries_max {
                return Err(error.into());
            }
            retries += 1;
            let pause = self.pauses.before(retries, asked_seconds);
            let pause = self.patience.pause(pause, &error.to_string())?;
            on_retry(&format!(
                "batch {}: {error}; retry {retries} of {retries_max} in {:.1} s",
                batch.number + 1,
                pause.as_secs_f64()
            ));
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return Err(UploadError::Stopped),
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Checks that the server received all items.
    fn receipt(&self, answer: &Answer, items: u64) -> Result<Accepted, CallError> {
        let receipt: Envelope<ReceiptData> = self.client.envelope(answer)?;
        let ReceiptData {
            stream,
            items_received,
            ..
        } = receipt.data;
        if u64::from(items_received) != items {
            return Err(self.client.foreign(format!(
                "it counts {items_received} items where {items} were sent"
            )));
        }
        let replayed = answer.headers.get(IDEMPOTENT_REPLAYED);
        let replayed = replayed.is_some_and(|value| value == "true");
        Ok(Accepted { stream, replayed })
    }
}

/// Whether the same request may succeed later.
fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 429 | 500..=599)
}

/// The server's pause in whole seconds; a date, which only foreign proxies send, is ignored.
fn retry_after_seconds(headers: &HeaderMap) -> Option<u32> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_obey_the_server() {
        let pauses = Pauses::default();
        for (retry, full) in [(1, 500), (2, 1_000), (6, 15_000), (u32::MAX, 15_000)] {
            let pause = pauses.before(retry, None).as_millis();
            assert!((full / 2..=full).contains(&pause), "{retry}: {pause}");
        }
        assert_eq!(pauses.before(1, Some(7)).as_secs(), 7);
        assert_eq!(pauses.before(9, Some(u32::MAX)).as_secs(), 300);
    }
}
