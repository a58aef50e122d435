//! Streams: named destinations for items.
//!
//! **Invariant**: what was not made at run time is declared.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::config::OnUpdate;

/// A named destination for items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// Its name.
    pub name: Arc<str>,
    /// What an update does to the fields that it does not name.
    pub on_update: OnUpdate,
    /// After so long without data, renderers are told that it is stale.
    pub stale_after_seconds: Option<u64>,
    /// When it was made at run time: Unix time in milliseconds. None: it is declared.
    pub created_ms: Option<u64>,
}

impl Stream {
    /// For the audit trail.
    pub(super) fn shown(&self) -> Value {
        json!({
            "name": &*self.name,
            "on_update": self.on_update.as_str(),
            "stale_after_seconds": self.stale_after_seconds,
        })
    }
}
