//! What can be set of a verification, beside its secrets.
//!
//! Settings files, the catalog and the pages store [`Options`]; [`Verifier::new`](super::Verifier::new) judges them.
//!
//! **Invariant**: no field holds a secret, so that options may be shown and stored anywhere.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What can be set of a verification, beside its secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Options {
    /// The name of a preset, or `hmac` or `token`.
    pub scheme: String,
    /// How far a signed timestamp may be from this machine's clock; 0 checks no clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerance_seconds: Option<u64>,
    /// The URL that the sender signs, where it is not the public one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The status of the answer: 200, 202 or 204.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<u16>,
    /// `hmac` and `token`: the header with the signatures, or the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// `hmac`: how a signature begins in the header, such as `sha256=`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// `hmac`: the one character between several signatures in the header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub separator: Option<String>,
    /// `hmac`: what is signed: text with `{body}`, `{ts}`, `{id}`, `{url}` and `{method}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signed: Option<String>,
    /// `hmac`: `sha1`, `sha256`, `sha384` or `sha512`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// `hmac`: how signatures are written, `hex` or `base64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
    /// `hmac`: how the secret is written, `text`, `hex` or `base64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_encoding: Option<String>,
    /// `hmac`: where the timestamp stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Timestamp>,
    /// `hmac` and `token`: where the delivery's id stands, `header:NAME` or `body:PATH`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// `hmac` and `token`: where the event's name stands, `header:NAME` or `body:PATH`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// The name of an algorithm, such as `ed25519`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<String>,
    /// Where the signature stands, in place of `header`: `header:NAME`, `query:NAME`, `body:PATH` or `item:PATH`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// Whether the signature does not cover the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsigned_body: Option<bool>,
    /// What single presets have alone, by name, where it is none of the fields below.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// `sns`: the ARN of the topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// `paypal`: the id of the webhook, which is signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook_id: Option<String>,
    /// `pubsub`: the audience of the push subscription.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    /// `pubsub`: the service account of the push subscription.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
}

impl Options {
    /// A preset as it is.
    pub fn of(scheme: &str) -> Options {
        Options {
            scheme: scheme.to_owned(),
            ..Options::default()
        }
    }

    /// What single tools have alone, by name: the [`Preset::options`](super::Preset::options) of all.
    pub fn details(&self) -> Vec<(&str, &str)> {
        let fields = [
            ("topic", &self.topic),
            ("webhook_id", &self.webhook_id),
            ("audience", &self.audience),
            ("email", &self.email),
        ];
        let own = fields
            .into_iter()
            .filter_map(|(name, text)| Some((name, text.as_deref()?)));
        let others = self
            .options
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str()));
        own.chain(others).collect()
    }

    /// Whether an option of this name has a field of its own.
    pub fn has_field(name: &str) -> bool {
        matches!(name, "topic" | "webhook_id" | "audience" | "email")
    }

    /// Sets one of them, or takes it away.
    pub fn set_detail(&mut self, name: &str, text: Option<String>) {
        match (name, text) {
            ("topic", text) => self.topic = text,
            ("webhook_id", text) => self.webhook_id = text,
            ("audience", text) => self.audience = text,
            ("email", text) => self.email = text,
            (_, Some(text)) => drop(self.options.insert(name.to_owned(), text)),
            (_, None) => drop(self.options.remove(name)),
        }
    }
}

/// Where a timestamp stands: exactly one of `header`, `part` and `body`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Timestamp {
    /// A header of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// How its part of the signature header begins, such as `t=`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// A field of the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// `s`, `ms` or `rfc3339`; `s` if it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
}
