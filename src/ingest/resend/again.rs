//! Runs the pipeline over a body that was refused.
//!
//! **Invariant**: the settings of today count; nothing is stored here.

use super::{AgainError, CHALLENGE};
use crate::context::Context;
use crate::interpret::{Reading, Repeats};
use crate::{Address, Head, Ingest};
use catalog::{Connector, Rules};
use item::Items;
use journal::{LogEntry, Outcome, RejectedBody};
use webhook::Headers;

impl Ingest {
    /// The pipeline over a body that was refused, that came with the key of this prefix: what it comes to goes into the log
    /// entry. An operator may have corrected them because of this body.
    pub(super) fn run_again(
        &self,
        kept: &RejectedBody,
        connector: &Connector,
        prefix: &str,
        log: &mut LogEntry,
    ) -> Result<Again, AgainError> {
        let mut keys = connector.keys.iter();
        if *kept.stream != *log.stream && !keys.any(|key| *key.stream == *kept.stream) {
            return Err(AgainError::NoStream(kept.stream.clone()));
        }
        self.check_stream(&kept.stream)?;
        if kept.body.len() as u64 > self.limits.body_bytes_max {
            return Err(self.too_large().into());
        }
        let headers = kept.headers.as_deref().unwrap_or_default();
        let headers: Vec<_> = (headers.iter())
            .map(|(name, value)| (name.as_str(), value.as_bytes()))
            .collect();
        let address = kept.headers.is_some().then_some(Address {
            connector: &connector.name,
            method: "POST",
            target: "",
            headers: Headers(&headers),
        });
        let head = head_of(kept, log, address);
        let form = head.form()?;
        let item_key = connector.item_key.as_deref();
        let used = connector.keys.iter().find(|key| *key.prefix() == *prefix);
        let preset = used.map_or_else(|| connector.preset(), |key| key.preset);
        let named = self.read_headers(&head, form, item_key, preset)?;
        let rules = (connector.keys.iter()).find(|key| *key.stream == *kept.stream);
        let rules = rules.map_or_else(Rules::default, |key| key.rules.clone());
        let signing = used.and_then(|key| key.signing.as_deref());
        let context = Context {
            request_id: log.request_id,
            address: head.address,
            preset,
            signing,
            items: connector.items.as_deref(),
            rules: &rules,
        };
        let delivered = match self.read_delivery(context, &named, &kept.body)? {
            Reading::Delivery(delivered) => delivered,
            Reading::Challenge(..) => return Err(AgainError::NothingToSend(CHALLENGE)),
        };
        log.stream = kept.stream.as_ref().into();
        if kept.test {
            log.outcome = Outcome::Test;
        }
        log.bytes = kept.body.len() as u64;
        log.item_key = delivered.item_key;
        log.idempotency_key = delivered.idempotency_key;
        Ok(Again {
            items: delivered.items,
            repeats: delivered.repeats,
        })
    }
}

/// The head of a request that is sent again.
fn head_of<'a>(kept: &'a RejectedBody, log: &LogEntry, address: Option<Address<'a>>) -> Head<'a> {
    Head {
        request_id: log.request_id,
        received_at: log.received_at,
        endpoint: log.endpoint,
        stream: Some(&kept.stream),
        authorization: None,
        access_token: None,
        certificate: None,
        address,
        content_type: kept.content_type.as_deref(),
        // Elsewhere a body is kept decompressed.
        content_encoding: address
            .and_then(|address| address.headers.get("content-encoding"))
            .map(str::as_bytes),
        content_length: None,
        item_key: kept.item_key.as_deref(),
        idempotency_key: kept.idempotency_key.as_deref(),
        client: log.client,
        headers: None,
        trace: None,
    }
}

/// What a body that was refused comes to.
pub(super) struct Again {
    pub(super) items: Items,
    pub(super) repeats: Repeats,
}
