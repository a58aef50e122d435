//! Streams, connectors, keys and read keys. The catalog keeps the settings of those that are made at run time in the
//! same form.
//!
//! **Invariant**: a key has exactly one of `secret`, `sha256`, `verify` and `certificate`; [`load`](crate::config::load) sees to it.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::Verify;
use crate::config::{Networks, Secret, checks};
use crate::text::hex;

/// `[[streams]]`: a named destination for items.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Stream {
    /// 1 to 128 characters, no control characters.
    pub name: String,
    /// What it is for, in free words; at most 200 characters.
    pub description: Option<String>,
    /// What an update does to the fields that it does not name.
    pub on_update: OnUpdate,
    /// After so long without data, renderers are told that the stream is stale.
    pub stale_after_seconds: Option<u64>,
    /// The field that says how new an item is: a number or a time. One that is lower than the pool's changes nothing.
    pub version: Option<String>,
    /// Which items are removals.
    pub delete_when: Option<DeleteWhen>,
    /// After so long without another update an item is removed from the data pool.
    pub expire_after_seconds: Option<u32>,
    /// Items that it may have in the data pool; one that is full takes no new ones.
    pub items_max: Option<u64>,
    /// Bytes of their keys and fields.
    pub bytes_max: Option<u64>,
}

/// Which items are removals: those whose field has one of some values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DeleteWhen {
    /// The name of a field; `_event`: the event of the delivery.
    pub field: String,
    /// Texts, or numbers and booleans as text.
    pub is: Vec<String>,
}

/// What an update does to the fields that it does not name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnUpdate {
    /// They are gone.
    #[default]
    Replace,
    /// They stay.
    Merge,
}

impl OnUpdate {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Replace => "replace",
            Self::Merge => "merge",
        }
    }
}

/// `[[connectors]]`: a data source with its ingest keys.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Connector {
    /// 1 to 64 letters, digits, `_`, `.` or `-`.
    pub name: String,
    /// What it is for, in free words; at most 200 characters.
    pub description: Option<String>,
    /// How its requests come.
    pub kind: ConnectorKind,
    /// The tool that sends, by the name of its preset: what its requests are called and how its items are identified.
    /// Without it, the scheme that its keys are verified by says so.
    pub preset: Option<String>,
    /// The item key of requests without `X-Item-Key`; `@delivery`: each delivery is an item of its own.
    pub item_key: Option<String>,
    /// Where the items are in a body that holds more: the path of an array or an object.
    pub items: Option<String>,
    /// Overrides [`Stream::version`] for what it sends.
    pub version: Option<String>,
    /// Overrides [`Stream::delete_when`] for what it sends.
    pub delete_when: Option<DeleteWhen>,
    /// Overrides [`Stream::expire_after_seconds`] for what it sends.
    pub expire_after_seconds: Option<u32>,
    /// Whether its keys may remove items; without it, those of `ingest` may and those of `webhook` may not.
    pub may_delete: Option<bool>,
    /// Overrides [`requests_per_second`](crate::config::Limits::requests_per_second) for each of its keys.
    pub requests_per_second: Option<u32>,
    /// Overrides [`burst`](crate::config::Limits::burst) for each of its keys.
    pub burst: Option<u32>,
    /// Overrides [`bytes_per_second`](crate::config::Limits::bytes_per_second) for each of its keys; 0: any number.
    pub bytes_per_second: Option<u64>,
    /// Overrides [`bytes_per_day`](crate::config::Limits::bytes_per_day), likewise.
    pub bytes_per_day: Option<u64>,
    /// Its ingest keys.
    pub keys: Vec<Key>,
}

/// How the requests of a connector come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConnectorKind {
    /// `POST /api/ingest`.
    #[default]
    Ingest,
    /// `POST /api/webhook/{stream}`, or `POST /api/webhook/{stream}/{connector}`.
    Webhook,
}

impl ConnectorKind {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::Webhook => "webhook",
        }
    }
}

/// An ingest key: exactly one of `secret`, `sha256`, `verify` and `certificate`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Key {
    /// Unique within the connector.
    pub name: String,
    /// Who has it, or where it is used, in free words; at most 200 characters.
    pub description: Option<String>,
    /// The one stream that it may submit to.
    pub stream: String,
    /// The key itself.
    pub secret: Option<Secret>,
    /// The SHA-256 of the key, 64 lowercase hex digits.
    pub sha256: Option<String>,
    /// How requests are verified that carry a signature in place of a key.
    pub verify: Option<Verify>,
    /// The SHA-256 fingerprint of a certificate that stands for it, as hex digits, with colons or without.
    pub certificate: Option<String>,
    /// From when on it is refused, in RFC 3339.
    pub expires_at: Option<String>,
    /// Whether it may stand in a URL, for tools that can set nothing else.
    pub allow_in_url: bool,
    /// From where it is taken; without a list, from everywhere.
    pub networks: Networks,
}

/// `[[read_keys]]`: a key for renderers; exactly one of `secret`, `sha256` and `certificate`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReadKey {
    /// Unique among the read keys.
    pub name: String,
    /// Who has it, or where it is used, in free words; at most 200 characters.
    pub description: Option<String>,
    /// The streams that it may read.
    pub streams: Vec<String>,
    /// The key itself.
    pub secret: Option<Secret>,
    /// The SHA-256 of the key, 64 lowercase hex digits.
    pub sha256: Option<String>,
    /// The SHA-256 fingerprint of a certificate that stands for it, as hex digits, with colons or without.
    pub certificate: Option<String>,
    /// From when on it is refused, in RFC 3339.
    pub expires_at: Option<String>,
    /// Whether it may stand in a URL, for programs that can neither set headers nor run a script.
    pub allow_in_url: bool,
    /// From where it is taken; without a list, from everywhere.
    pub networks: Networks,
    /// How many feeds it may ask for in a second; absent: 50.
    pub requests_per_second: Option<u32>,
    /// Origins whose pages may read with it, beside those of [`Live`](crate::config::Live).
    pub origins: Vec<String>,
}

impl Key {
    /// What it is known by: the SHA-256 of its text, where it has one. Always some after [`load`](crate::config::load),
    /// but for a key that awaits its tool's secret.
    pub fn digest(&self) -> Option<[u8; 32]> {
        match &self.verify {
            Some(verify) if verify.awaits_secret() => None,
            Some(verify) => Some(verify.digest(&self.stream)),
            None => digest(
                self.secret.as_ref(),
                self.sha256.as_deref(),
                self.certificate.as_deref(),
            ),
        }
    }
}

impl ReadKey {
    /// Whether both do the same, whatever is said of them and whichever streams there are.
    pub fn does_like(&self, other: &Self) -> bool {
        let alike = Self {
            description: other.description.clone(),
            streams: other.streams.clone(),
            ..self.clone()
        };
        alike == *other
    }

    /// The SHA-256 of the key. Always some after [`load`](crate::config::load).
    pub fn digest(&self) -> Option<[u8; 32]> {
        digest(
            self.secret.as_ref(),
            self.sha256.as_deref(),
            self.certificate.as_deref(),
        )
    }
}

/// What is known of a key or a token by one of the three.
pub(super) fn digest(
    secret: Option<&Secret>,
    sha256: Option<&str>,
    certificate: Option<&str>,
) -> Option<[u8; 32]> {
    match (secret, sha256, certificate) {
        (Some(secret), ..) => Some(Sha256::digest(secret.reveal()).into()),
        (None, Some(digits), _) => checks::digest_of_hex(digits),
        (None, None, Some(fingerprint)) => {
            checks::digest_of_fingerprint(fingerprint).map(digest_of_certificate)
        }
        (None, None, None) => None,
    }
}

/// What a key is known by that a certificate with this SHA-256 stands for. Of no text that can be sent it is the SHA-256,
/// because nobody can find one with the opposite of a given digest.
pub fn digest_of_certificate(fingerprint: [u8; 32]) -> [u8; 32] {
    let digest: [u8; 32] = Sha256::digest(fingerprint).into();
    digest.map(|byte| !byte)
}

/// What stands in place of a key's prefix.
pub fn shown_certificate(fingerprint: [u8; 32]) -> String {
    format!("cert_{}", hex(&fingerprint[..4]))
}
