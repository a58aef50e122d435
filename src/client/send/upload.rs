//! Sends one batch until it is accepted, or until trying again is pointless.
//!
//! `send` calls it for one batch after the other, in order, because what is accepted later wins.
//!
//! **Invariant**: every attempt at a batch carries the same idempotency key and the same bytes, so
//! that an attempt whose answer was lost is not applied twice.

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
/// The longest prefix that leaves room for the hash in the 255 characters of an idempotency key.
const PREFIX_LEN_MAX: usize = 190;

/// How long to wait between attempts.
#[derive(Debug, Clone, Copy)]
pub struct Pauses {
    /// The longest first pause; each further one may be twice as long.
    pub first: Duration,
    /// No pause of our own is longer.
    pub max: Duration,
    /// No pause that the server asks for is longer.
    pub asked_max: Duration,
    /// How long a server is waited for that has never answered; none: for all retries.
    pub absent_max: Option<Duration>,
    /// How long a second of the server's `Retry-After` lasts; tests make it short.
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
    /// The pause before the given retry, counted from 1: the server's if it named one, else one of our own.
    fn before(&self, retry: u32, asked_seconds: Option<u32>) -> Duration {
        match asked_seconds {
            Some(seconds) => self.second.saturating_mul(seconds).min(self.asked_max),
            None => backoff::pause(self.first, self.max, retry),
        }
    }
}

/// Where batches go, and what is said with each.
pub struct Upload<'a> {
    client: &'a Client,
    path: String,
    headers: HeaderMap,
    options: &'a UploadOptions,
    pauses: Pauses,
    stop: &'a CancellationToken,
    patience: Patience,
}

/// The options of `send` that concern requests.
#[derive(Debug, Clone, Default)]
pub struct UploadOptions {
    /// The stream that the key is believed to have.
    pub stream: Option<String>,
    /// The field that identifies each item.
    pub item_key: Option<String>,
    /// What idempotency keys begin with.
    pub prefix: Option<String>,
    /// How many times a batch is tried again.
    pub retries_max: u32,
}

/// What became of an accepted batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// The stream that it went to.
    pub stream: String,
    /// It had been accepted before, and was not processed again.
    pub replayed: bool,
}

/// Why a batch was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    /// The server won't have it, or could not be reached often enough.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The server has never answered.
    #[error(transparent)]
    Absent(#[from] CliError),
    /// The user asked to stop while a failed batch waited for its next attempt.
    #[error("stopped")]
    Stopped,
}

impl<'a> Upload<'a> {
    /// Prepares the requests; checks what goes into their headers.
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

    /// Sends a batch, again and again where that can help. `on_retry` is told why, before each pause.
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

    /// Checks that the server received what was sent.
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

/// The server's wish in whole seconds; a date, which only foreign proxies send, is ignored.
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
