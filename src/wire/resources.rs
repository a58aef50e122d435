//! Streams, connectors and keys.
//!
//! **Invariant**: no secret is in them, except where one was made: the answer that has it says so.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::{HoldData, OverrideData, ShownSettings, answers};

answers! {
    /// A preset: the built-in settings of a provider.
    pub struct PresetData {
        /// Its name in settings.
        name: String,
        /// The name of the provider.
        title: String,
        /// Whether its deliveries are verified; otherwise, they need an ingest key.
        signed: bool,
        /// The signature does not cover the body.
        unsigned_body: bool,
        /// The item key; null: none, or the delivery.
        item_key: Option<String>,
        /// How the verification was tested: `vector`, with a real delivery; `itself`, only with deliveries that were
        /// signed by the same rules; `not signed here`.
        proved: String,
        /// `built in`, the path of its file, or the configuration file that defines it.
        source: String,
        /// Its file, including the presets that it extends; null in lists.
        toml: Option<String>,
    }

    /// A stream.
    pub struct StreamData {
        /// Its settings.
        #[serde(flatten)]
        settings: ShownSettings,
        /// Number of its items in the data pool.
        items: u64,
        /// Size of their keys and fields in bytes.
        bytes: u64,
        /// Whether it is defined in a configuration file, so it cannot be changed at run time.
        declared: bool,
        /// When it was created at run time, RFC 3339.
        created_at: Option<String>,
    }

    /// An item of the data pool, for operators.
    pub struct StoredItem {
        /// Identifies the item in its stream.
        key: String,
        /// Its fields, flattened.
        #[cfg_attr(feature = "schema", salvo(schema(value_type = serde_json::Value)))]
        fields: Box<RawValue>,
        /// Names of the fields that operators have overridden; absent: none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        overridden: Vec<String>,
        /// When its data arrived, RFC 3339.
        updated_at: String,
        /// Number of its last change; all streams share one sequence.
        seq: u64,
        /// The request that wrote it; empty: no source did.
        request_id: String,
        /// The overrides, by field.
        #[serde(default)]
        overrides: BTreeMap<String, OverrideData>,
        /// The hold that covers it, or null.
        #[serde(default)]
        held: Option<HoldData>,
        /// Whether a change of the source waits for the end of a hold.
        #[serde(default)]
        waits: bool,
    }

    /// A past value of a field, or an override of an operator.
    pub struct PastValueData {
        /// Name of the field.
        field: String,
        /// `value`: the source wrote it; `gone`: an update of the source no longer had the field; `removed`: the item
        /// was removed; `override`, `add` or `release`: an act of an operator.
        kind: String,
        /// The value; null if there is none.
        #[cfg_attr(feature = "schema", salvo(schema(value_type = Option<serde_json::Value>)))]
        value: Option<Box<RawValue>>,
        /// When the request arrived or the operator acted, RFC 3339.
        at: String,
        /// Number of the change; all streams share one sequence.
        seq: u64,
        /// The request that wrote it; empty if it is no longer stored.
        request_id: String,
        /// The operator; absent: the source.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// Expiry of the override, RFC 3339; absent: until it is released.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<String>,
    }

    /// An item that an operator removed.
    pub struct RemovedData {
        /// The request that removes it.
        request_id: String,
        /// Whether the item is already removed from the data pool.
        removed: bool,
    }

    /// A connector.
    pub struct ConnectorData {
        /// Its id.
        id: String,
        /// Its settings.
        #[serde(flatten)]
        settings: ShownSettings,
        /// Whether it is defined in a configuration file, so it cannot be changed at run time.
        declared: bool,
        /// When it was created at run time, RFC 3339.
        created_at: Option<String>,
        /// Its address for each stream that its keys name, by name.
        webhooks: Vec<WebhookAddress>,
        /// Its keys, without their secrets, by name.
        keys: Vec<KeyData>,
        /// The key that was created with it, shown only in this response; absent if none was created, or the key
        /// verifies signatures.
        #[serde(skip_serializing_if = "Option::is_none")]
        secret: Option<String>,
    }

    /// The URL of a connector for a stream.
    pub struct WebhookAddress {
        /// The stream.
        stream: String,
        /// The path, on the service listener.
        path: String,
        /// The full URL; null unless `server.public_url` is set.
        url: Option<String>,
    }

    /// An ingest key without its secret.
    pub struct KeyData {
        /// Its settings.
        #[serde(flatten)]
        settings: ShownSettings,
        /// Its visible beginning; empty while only the digest is known.
        prefix: String,
        /// Where to send, on the service listener.
        path: String,
        /// The full URL; null unless `server.public_url` is set.
        url: Option<String>,
        /// `active`, `expired` or `revoked`.
        state: String,
        /// When it was revoked, RFC 3339.
        revoked_at: Option<String>,
        /// Whether it is defined in a configuration file, so it cannot be changed at run time.
        declared: bool,
        /// When it was created at run time, RFC 3339.
        created_at: Option<String>,
        /// When it was last used, RFC 3339; null: never, as far as known.
        last_used_at: Option<String>,
        /// When it was last used after it had expired or was revoked, RFC 3339; null: never, as far as known.
        last_refused_at: Option<String>,
        /// When the provider sent the expected secret, RFC 3339; null: not yet.
        secret_sent_at: Option<String>,
    }

    /// A new ingest key.
    pub struct MadeKey {
        /// The key itself, shown only here; null: the key verifies signatures and has no text.
        secret: Option<String>,
        /// The key, as it is shown later.
        key: KeyData,
        /// After a rotation: the previous key, which expires.
        previous: Option<KeyData>,
    }

    /// The signing secret that a provider has sent.
    pub struct TakenSecret {
        /// The secret, shown only here, to enter in the provider's settings.
        secret: String,
        /// The key. If it is defined in the configuration, set the secret there.
        key: KeyData,
    }

    /// A read key without its secret.
    pub struct ReadKeyData {
        /// Its settings. Deleted streams in it have no effect.
        #[serde(flatten)]
        settings: ShownSettings,
        /// Its visible beginning; empty while only the digest is known.
        prefix: String,
        /// `active`, `expired` or `revoked`.
        state: String,
        /// When it was revoked, RFC 3339.
        revoked_at: Option<String>,
        /// Whether it is defined in a configuration file, so it cannot be changed at run time.
        declared: bool,
        /// When it was created at run time, RFC 3339.
        created_at: Option<String>,
    }

    /// A new read key.
    pub struct MadeReadKey {
        /// The key itself, shown only here.
        secret: String,
        /// The key, as it is shown later.
        key: ReadKeyData,
    }
}

/// How a key verifies the signatures of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeySigning {
    /// The provider has not sent its secret yet.
    pub awaits_secret: bool,
}

impl KeyData {
    /// Its name, unique within the connector.
    pub fn name(&self) -> &str {
        self.settings.text("name").unwrap_or_default()
    }

    /// The stream that it writes to.
    pub fn stream(&self) -> &str {
        self.settings.text("stream").unwrap_or_default()
    }

    /// When it expires, RFC 3339; `None`: never.
    pub fn expires_at(&self) -> Option<&str> {
        self.settings.text("expires_at")
    }

    /// `None`: requests carry the key itself.
    pub fn signing(&self) -> Option<KeySigning> {
        let verify = self.settings["verify"].as_object()?;
        let awaits_secret = verify.get("secret").is_none_or(Value::is_null);
        Some(KeySigning { awaits_secret })
    }
}

impl ReadKeyData {
    /// Whether it is an operate key.
    pub fn operates(&self) -> bool {
        self.settings["operate"] == true
    }
}
