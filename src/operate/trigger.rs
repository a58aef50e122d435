//! Sends a delivery as a connector's provider would, to test the connector.
//!
//! **Invariant**: the delivery is signed with the connector's own secret, which does not leave the daemon, and takes
//! the same path as deliveries of the provider.

use bytes::Bytes;
use serde_json::json;
use thiserror::Error;
use uuid::Uuid;

use super::{By, Operator};
use base::clock::Unix;
use catalog::{AuditChange, IngestKey, ResourceKind};
use ingest::error::AcceptError;
use ingest::{Accepted, Address, Head, Reply};
use journal::log::Endpoint;
use webhook::{CannotSign, Draft, Headers, Preset, Sample, Signed};

#[derive(Debug)]
pub struct Triggered {
    pub event: String,
    /// The receipt; `None`: events of this kind are not stored.
    pub accepted: Option<Accepted>,
}

/// Why no delivery was sent, or why it was rejected.
#[derive(Debug, Error)]
pub enum TriggerError {
    /// The connector does not exist.
    #[error("there is no such connector")]
    NoConnector,
    /// It has no signing key.
    #[error(
        "no valid key of this connector verifies signatures, so nothing can be signed; send with its key: `headgate send`"
    )]
    NoKey,
    /// Another provider sends to it.
    #[error("this connector is for {is}")]
    OtherTool {
        /// The name of its preset.
        is: String,
    },
    /// There is no sample of the event.
    #[error("there is no sample of this event; there are {known}")]
    NoSample {
        /// The events that have a sample, as a list.
        known: String,
    },
    #[error(transparent)]
    CannotSign(#[from] CannotSign),
    #[error(transparent)]
    Refused(#[from] AcceptError),
}

impl Operator {
    /// Sends a sample of the connector's provider: of `event`, or its most common one. `tool` is the expected preset of
    /// the connector.
    ///
    /// # Errors
    /// See [`TriggerError`]; nothing was stored then.
    pub async fn trigger(
        &self,
        connector: &str,
        tool: Option<&str>,
        event: Option<&str>,
        by: By,
    ) -> Result<Triggered, TriggerError> {
        let connector = self.catalog.connector(connector);
        let connector = connector.ok_or(TriggerError::NoConnector)?;
        let now = Unix::now();
        let mut keys = connector.keys.iter();
        let key = keys.find(|key| key.signing.is_some() && key.is_valid_at(now));
        let key = key.ok_or(TriggerError::NoKey)?;
        let preset = key.preset.ok_or(TriggerError::NoKey)?;
        if tool.is_some_and(|tool| tool != preset.name) {
            return Err(TriggerError::OtherTool {
                is: preset.name.clone(),
            });
        }
        let sample = sample(preset, event)?;
        let reply = self.send_sample(key, sample, &by).await?;
        let accepted = match reply {
            Reply::Accepted(accepted) => Some(accepted),
            Reply::Challenge(_) => None,
        };
        let became = json!({
            "event": sample.event,
            "request_id": accepted.as_ref().map(|one| one.receipt.request_id.to_string()),
        });
        let change = AuditChange::done(
            "trigger",
            ResourceKind::Connector,
            connector.name.to_string(),
            became,
        );
        self.record(by, change).await;
        Ok(Triggered {
            event: sample.event.clone(),
            accepted,
        })
    }

    /// The URL is the public one, because some providers sign it.
    async fn send_sample(
        &self,
        key: &IngestKey,
        sample: &Sample,
        by: &By,
    ) -> Result<Reply, TriggerError> {
        let Some(signing) = &key.signing else {
            return Err(TriggerError::NoKey);
        };
        let now = Unix::now();
        let id = Uuid::now_v7().simple().to_string();
        let target = key.path();
        let url = [self.catalog.public_url().unwrap_or_default(), &target].concat();
        let body = sample.fill(&id, now);
        let signed = signing.verifier.sign(Draft {
            method: "POST",
            url: &url,
            body: body.as_bytes(),
            content_type: &sample.content_type,
            headers: &sample.headers,
            id: &id,
            event: &sample.event,
            now,
        })?;
        let target = signed.target(&target);
        let Signed { headers, body, .. } = signed.in_lower_case();
        let pairs: Vec<(&str, &[u8])> = (headers.iter())
            .map(|(name, value)| (name.as_str(), value.as_bytes()))
            .collect();
        let head = Head {
            request_id: by.request_id,
            received_at: now,
            endpoint: Endpoint::Webhook,
            stream: Some(&key.stream),
            authorization: None,
            access_token: None,
            certificate: None,
            address: Some(Address {
                connector: &key.connector,
                method: "POST",
                target: &target,
                headers: Headers(&pairs),
            }),
            content_type: Some(sample.content_type.as_bytes()),
            content_encoding: None,
            content_length: Some(body.len() as u64),
            item_key: None,
            idempotency_key: None,
            client: by.client,
            headers: None,
            trace: None,
        };
        let answer = match self.ingest.admit(head) {
            Ok(admitted) => self.ingest.store(admitted, Ok(Bytes::from(body))).await,
            Err(refusal) => self.ingest.refuse(refusal),
        };
        Ok(answer.result?)
    }
}

/// The sample of an event, or the most common one.
fn sample<'p>(preset: &'p Preset, event: Option<&str>) -> Result<&'p Sample, TriggerError> {
    let all = &preset.samples;
    let found = match event {
        Some(event) => all.iter().find(|sample| sample.event == event),
        None => all.first(),
    };
    found.ok_or_else(|| {
        let known: Vec<&str> = all.iter().map(|sample| sample.event.as_str()).collect();
        TriggerError::NoSample {
            known: match known.is_empty() {
                true => "none of this tool".to_owned(),
                false => known.join(", "),
            },
        }
    })
}
