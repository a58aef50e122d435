//! A key as it is stored.
//!
//! **Invariant**: what is shown of it has no secret.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::KeyHash;
use base::clock::{self, Unix};
use settings::{Networks, Verify};

/// What is written down of an ingest key.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KeyRow {
    pub(crate) connector: Arc<str>,
    pub(crate) name: Box<str>,
    pub(crate) description: Option<Box<str>>,
    pub(crate) hash: KeyHash,
    /// None while only the digest is known.
    pub(crate) prefix: Option<Arc<str>>,
    pub(crate) stream: Arc<str>,
    pub(crate) expires_at: Option<Unix>,
    pub(crate) revoked_at: Option<Unix>,
    pub(crate) created_at: Option<Unix>,
    pub(crate) allow_in_url: bool,
    pub(crate) networks: Networks,
    /// In place of a text of its own: how what it signs is verified.
    pub(crate) verify: Option<Arc<Verify>>,
}

impl KeyRow {
    /// What can be set of it, but for what it is found by. Every field is named, so that the compiler asks for a new one.
    pub(crate) fn settings(&self) -> settings::Key {
        settings::Key {
            name: self.name.to_string(),
            description: self.description.as_deref().map(str::to_owned),
            stream: self.stream.to_string(),
            expires_at: self.expires_at.map(clock::rfc3339),
            networks: self.networks.clone(),
            allow_in_url: self.allow_in_url,
            verify: self.verify.as_deref().cloned(),
            secret: None,
            sha256: None,
            certificate: None,
        }
    }

    /// For the audit log.
    pub(crate) fn shown(&self) -> Value {
        json!({
            "connector": &*self.connector,
            "name": &*self.name,
            "description": self.description,
            "prefix": self.prefix.as_deref(),
            "stream": &*self.stream,
            "expires_at": self.expires_at.map(clock::rfc3339),
            "revoked_at": self.revoked_at.map(clock::rfc3339),
            "allow_in_url": self.allow_in_url,
            "networks": self.networks,
            "verify": self.verify,
        })
    }
}
