//! Whether a request may be stored: there is room in its stream, and its key has bytes left.
//!
//! **Invariant**: a stream that is full takes no new items; those that are there can be updated, and removed, as long as its
//! bytes do not grow. What was accepted before it was full is delivered all the same: by that it may be passed.

use std::collections::HashMap;
use std::sync::Arc;

use super::Ingest;
use super::request::Known;
use crate::error::AcceptError;
use item::{Action, Items};

/// What waits for room is to ask again after so long.
const RETRY_AFTER_SECONDS: u64 = 30;

impl Ingest {
    /// Whether there is room for a request; takes the bytes of its body from what its key may have stored, and returns
    /// how many.
    pub(super) async fn make_room(
        &self,
        known: &Known<'_>,
        items: &Items,
        body: &[u8],
    ) -> Result<u64, AcceptError> {
        self.check_size(known, items).await?;
        charge(known, body)
    }

    /// Whether there is room for the items in their stream.
    async fn check_size(&self, known: &Known<'_>, items: &Items) -> Result<(), AcceptError> {
        let key = &known.caller.key;
        let rules = &key.rules;
        if (rules.items_max, rules.bytes_max) == (None, None)
            || known.caller.test
            || items.removals() == items.len()
        {
            return Ok(());
        }
        let size = self.pool.sizes().of(&key.stream);
        let over = |used: u64, max: Option<u64>| max.filter(|max| used >= *max);
        let over_items = over(size.items, rules.items_max);
        let over_bytes = over(size.bytes, rules.bytes_max);
        let (what, max, setting) = match (over_items, over_bytes) {
            (Some(max), _) => ("items", max, "items_max"),
            (None, Some(max)) => ("bytes", max, "bytes_max"),
            (None, None) => return Ok(()),
        };
        // Of operations on one key the last one decides how much there will be.
        let mut last: HashMap<&str, usize> = HashMap::new();
        for item in items {
            match item.action {
                Action::Upsert => last.insert(item.key, item.fields.len()),
                Action::Remove => last.remove(item.key),
            };
        }
        let keys: Vec<&str> = last.keys().copied().collect();
        let held = self.pool.held(&key.stream, &keys).await;
        let held = held.map_err(|error| {
            tracing::error!(%error, "the data pool cannot be read: nobody can tell what is new in a full stream");
            AcceptError::Unavailable {
                reason: "the data pool cannot be read",
                retry_after_seconds: RETRY_AFTER_SECONDS,
            }
        })?;
        let bytes: usize = last.values().sum();
        let grows = over_bytes.is_some() && bytes as u64 > held.bytes;
        if held.items == keys.len() as u64 && !grows {
            return Ok(());
        }
        Err(match known.tries_again_after_429() {
            true => AcceptError::StreamFull {
                stream: Arc::clone(&key.stream),
                what,
                max,
                setting,
                retry_after_seconds: RETRY_AFTER_SECONDS,
            },
            false => AcceptError::Unavailable {
                reason: "the stream is full",
                retry_after_seconds: RETRY_AFTER_SECONDS,
            },
        })
    }
}

/// Takes the bytes of a body that is about to be stored from what its key may; returns how many. Of a test key nothing is
/// stored.
fn charge(known: &Known<'_>, body: &[u8]) -> Result<u64, AcceptError> {
    let bytes = match known.caller.test {
        true => return Ok(0),
        false => body.len() as u64,
    };
    match known.caller.key.volume.take(bytes) {
        Ok(()) => Ok(bytes),
        Err(over) if known.tries_again_after_429() => Err(AcceptError::OverVolume {
            bytes_max: over.bytes_max,
            per: over.per,
            retry_after_seconds: over.retry_after_seconds,
        }),
        Err(over) => Err(AcceptError::Unavailable {
            reason: "too many bytes with this key",
            retry_after_seconds: over.retry_after_seconds,
        }),
    }
}
