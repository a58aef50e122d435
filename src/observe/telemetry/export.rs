//! Sends spans to a collector: OTLP over HTTP, in batches. It is written here, because the libraries of OpenTelemetry
//! would add nine crates and 360 KB.
//!
//! **Invariant**: it has a queue of its own and holds nobody up. A batch is tried for [`BATCH_TIME_MAX`] and then dropped
//! and counted; the log has one line when sending begins to fail, and one when it works again.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Client, StatusCode, redirect};
use serde_json::Value as Json;
use thiserror::Error;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{Span, otlp};
use crate::metrics::Metrics;
use base::backoff;
use settings::Otlp;

/// Spans of one request.
const BATCH_MAX: usize = 512;
/// How long a batch that is not full waits for more.
const LINGER: Duration = Duration::from_secs(1);
/// Of one request, its answer included.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(10);
/// Of all attempts at a batch.
const BATCH_TIME_MAX: Duration = Duration::from_secs(30);
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// What is left is sent within this time when the daemon stops.
const FAREWELL_MAX: Duration = Duration::from_secs(2);
/// Bytes of an answer that are looked at.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// Why spans were not taken.
#[derive(Debug, Error)]
enum Refused {
    /// Another attempt may help, after this time if the collector says so.
    #[error("{0}")]
    Again(String, Option<Duration>),
    #[error("{0}")]
    ForGood(String),
}

/// The task that sends.
#[derive(Debug)]
pub struct Exporter {
    spans: mpsc::Receiver<Span>,
    client: Client,
    url: String,
    headers: HeaderMap,
    resource: Json,
    metrics: Arc<Metrics>,
    /// The log has it.
    fails: bool,
}

impl Exporter {
    pub(super) fn new(
        endpoint: &str,
        settings: &Otlp,
        spans: mpsc::Receiver<Span>,
        metrics: Arc<Metrics>,
    ) -> Result<Self, reqwest::Error> {
        let is_encrypted = endpoint.starts_with("https:");
        let client = Client::builder()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .timeout(REQUEST_TIME_MAX)
            .user_agent(concat!("headgate/", env!("CARGO_PKG_VERSION")))
            .tls_built_in_root_certs(is_encrypted)
            .build()?;
        let headers = settings.headers.iter().filter_map(|(name, secret)| {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            let mut value = HeaderValue::from_str(secret.reveal()).ok()?;
            value.set_sensitive(true);
            Some((name, value))
        });
        Ok(Self {
            spans,
            client,
            url: format!("{endpoint}/v1/traces"),
            headers: headers.collect(),
            resource: otlp::resource(&settings.service_name),
            metrics,
            fails: false,
        })
    }

    /// Sends until the daemon stops, and then what is left.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let mut batch = Vec::new();
            tokio::select! {
                _ = self.spans.recv_many(&mut batch, BATCH_MAX) => {}
                () = stop.cancelled() => break,
            }
            if batch.is_empty() {
                return;
            }
            let filling = async {
                while batch.len() < BATCH_MAX {
                    let room = BATCH_MAX - batch.len();
                    if self.spans.recv_many(&mut batch, room).await == 0 {
                        return;
                    }
                }
            };
            tokio::select! {
                _ = timeout(LINGER, filling) => {}
                () = stop.cancelled() => {}
            }
            self.send(&batch, &stop).await;
        }
        let rest = async {
            loop {
                let mut batch = Vec::new();
                while batch.len() < BATCH_MAX
                    && let Ok(span) = self.spans.try_recv()
                {
                    batch.push(span);
                }
                if batch.is_empty() {
                    return;
                }
                self.send(&batch, &stop).await;
            }
        };
        let _ = timeout(FAREWELL_MAX, rest).await;
    }

    /// Tries until the collector has taken or refused them, or their time is over. After `stop` once.
    async fn send(&mut self, batch: &[Span], stop: &CancellationToken) {
        let body = otlp::body(&self.resource, batch);
        let deadline = Instant::now() + BATCH_TIME_MAX;
        let count = batch.len() as u64;
        for attempt in 1.. {
            let refused = match self.attempt(body.clone()).await {
                Ok(rejected) => {
                    let rejected = rejected.min(count);
                    self.metrics.spans_sent.inc_by(count - rejected);
                    self.metrics.spans_dropped.inc_by(rejected);
                    if std::mem::take(&mut self.fails) {
                        tracing::info!("traces are sent again");
                    }
                    return;
                }
                Err(refused) => refused,
            };
            if !std::mem::replace(&mut self.fails, true) {
                tracing::warn!(reason = %refused.to_string().escape_debug(), "cannot export traces; ingestion is not affected");
            }
            let after = match refused {
                Refused::Again(_, after) => after,
                Refused::ForGood(_) => break,
            };
            let usual = backoff::pause(PAUSE_FIRST, PAUSE_MAX, attempt);
            let pause = after.unwrap_or(usual).max(usual);
            if stop.is_cancelled() || Instant::now() + pause > deadline {
                break;
            }
            tokio::select! {
                () = sleep(pause) => {}
                () = stop.cancelled() => {}
            }
        }
        self.metrics.spans_dropped.inc_by(count);
    }

    /// How many the collector rejects of those that it takes.
    async fn attempt(&self, body: Vec<u8>) -> Result<u64, Refused> {
        let request = (self.client.post(&self.url))
            .header(CONTENT_TYPE, "application/json")
            .headers(self.headers.clone())
            .body(body);
        let failed = |error: reqwest::Error| {
            // Without the URL, and with what the system says.
            let error = error.without_url();
            let mut cause = error.source();
            while let Some(deeper) = cause.and_then(|cause| cause.source()) {
                cause = Some(deeper);
            }
            let cause = cause.map(|cause| format!(": {cause}"));
            Refused::Again(format!("{error}{}", cause.unwrap_or_default()), None)
        };
        let response = request.send().await.map_err(failed)?;
        let status = response.status();
        if status.is_success() {
            let is_short = response
                .content_length()
                .is_some_and(|bytes| bytes <= ANSWER_BYTES_MAX);
            return match is_short {
                true => Ok(otlp::rejected(&response.bytes().await.unwrap_or_default())),
                false => Ok(0),
            };
        }
        let words = format!("the collector answered {}", status.as_u16());
        let passes = matches!(
            status,
            StatusCode::TOO_MANY_REQUESTS
                | StatusCode::BAD_GATEWAY
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT
        );
        if !passes {
            return Err(Refused::ForGood(words));
        }
        let after = response.headers().get(RETRY_AFTER);
        let after = after.and_then(|seconds| seconds.to_str().ok()?.parse().ok());
        Err(Refused::Again(words, after.map(Duration::from_secs)))
    }
}
