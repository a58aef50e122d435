//! Streams, connectors and keys.
//!
//! **Invariant**: no secret is in them, except where one was made: the answer that has it says so.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::{HoldData, OverrideData, ShownSettings, answers};

answers! {
    /// What is known of a tool that sends.
    pub struct PresetData {
        /// Its name, as settings have it.
        name: String,
        /// The name of the tool.
        title: String,
        /// Whether its deliveries are verified; else an ingest key is needed.
        signed: bool,
        /// The signature does not cover the body.
        unsigned_body: bool,
        /// What identifies an item; null: nothing, or the delivery.
        item_key: Option<String>,
        /// What shows that deliveries of the tool are verified: `vector`, a real one; `itself`, only such as were made by
        /// the same rules; `not signed here`.
        proved: String,
        /// `built in`, the path of its file, or the configuration file that has it.
        source: String,
        /// Its file, with all that it extends; null in lists.
        toml: Option<String>,
    }

    /// A stream.
    pub struct StreamData {
        /// What can be set of it.
        #[serde(flatten)]
        settings: ShownSettings,
        /// Items that it has in the data pool.
        items: u64,
        /// The bytes of their keys and fields.
        bytes: u64,
        /// Whether it stands in a configuration file, and so cannot be changed at run time.
        declared: bool,
        /// When it was made at run time, RFC 3339.
        created_at: Option<String>,
    }

    /// An item of the data pool, for operators.
    pub struct StoredItem {
        /// What identifies it in its stream.
        key: String,
        /// Its fields, flattened.
        #[cfg_attr(feature = "schema", salvo(schema(value_type = serde_json::Value)))]
        fields: Box<RawValue>,
        /// Names of the fields that operators have overridden; absent: none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        overridden: Vec<String>,
        /// When its data arrived, RFC 3339.
        updated_at: String,
        /// Number of its last change in the one sequence over all streams.
        seq: u64,
        /// The request that wrote it; empty: no source did.
        request_id: String,
        /// The overrides, by field.
        #[serde(default)]
        overrides: BTreeMap<String, OverrideData>,
        /// The hold that covers it, or null.
        #[serde(default)]
        held: Option<HoldData>,
        /// Whether a change of its source waits for the end of a hold.
        #[serde(default)]
        waits: bool,
    }

    /// A value that a field of an item had, or what an operator wrote over it.
    pub struct PastValueData {
        /// Name of the field.
        field: String,
        /// `value`: the source wrote it; `gone`: an update of the source did not have the field any more; `removed`: the
        /// item was removed; `override`, `add` or `release`: an operator wrote over what the source says.
        kind: String,
        /// The value; null also where there is none.
        #[cfg_attr(feature = "schema", salvo(schema(value_type = Option<serde_json::Value>)))]
        value: Option<Box<RawValue>>,
        /// When the request arrived or the operator acted, RFC 3339.
        at: String,
        /// Number of the change in the one sequence over all streams.
        seq: u64,
        /// The request that wrote it; empty: an act of which nothing else is kept.
        request_id: String,
        /// The operator; absent: the source.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// When the override ends or ended, RFC 3339; absent: when it is released.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<String>,
    }

    /// An item that an operator removed.
    pub struct RemovedData {
        /// The request that removes it.
        request_id: String,
        /// Whether it is gone from the data pool; otherwise it will be.
        removed: bool,
    }

    /// A connector.
    pub struct ConnectorData {
        /// Its id.
        id: String,
        /// What can be set of it.
        #[serde(flatten)]
        settings: ShownSettings,
        /// Whether it stands in a configuration file, and so cannot be changed at run time.
        declared: bool,
        /// When it was made at run time, RFC 3339.
        created_at: Option<String>,
        /// Its address for each stream that its keys name, by name.
        webhooks: Vec<WebhookAddress>,
        /// Its keys, without their secrets, by name.
        keys: Vec<KeyData>,
        /// The key that was made with it, shown only then; absent where none was made, or its tool signs.
        #[serde(skip_serializing_if = "Option::is_none")]
        secret: Option<String>,
    }

    /// Where a connector takes what is for a stream.
    pub struct WebhookAddress {
        /// The stream.
        stream: String,
        /// The path, on the service listener.
        path: String,
        /// The same as a whole URL; null unless `server.public_url` says what stands before the path.
        url: Option<String>,
    }

    /// An ingest key without its secret.
    pub struct KeyData {
        /// What can be set of it.
        #[serde(flatten)]
        settings: ShownSettings,
        /// The part that may be shown; empty while only the digest is known.
        prefix: String,
        /// Where to send, on the service listener.
        path: String,
        /// The same as a whole URL; null unless `server.public_url` says what stands before the path.
        url: Option<String>,
        /// `active`, `expired` or `revoked`.
        state: String,
        /// When it was revoked, RFC 3339.
        revoked_at: Option<String>,
        /// Whether it stands in a configuration file, and so cannot be changed at run time.
        declared: bool,
        /// When it was made at run time, RFC 3339.
        created_at: Option<String>,
        /// When somebody came with it last, RFC 3339; null: not yet, as far as is known.
        last_used_at: Option<String>,
        /// When somebody came with it last after it had expired or was revoked, RFC 3339; null: nobody did, as far as is known.
        last_refused_at: Option<String>,
        /// When the tool sent the secret that is awaited, RFC 3339; null: it did not.
        secret_sent_at: Option<String>,
    }

    /// A new ingest key.
    pub struct MadeKey {
        /// The key itself, shown only here; null: it has no text, its tool signs.
        secret: Option<String>,
        /// What will be shown of it.
        key: KeyData,
        /// After a rotation: the one before, which ends.
        previous: Option<KeyData>,
    }

    /// The secret that a tool has sent.
    pub struct TakenSecret {
        /// The secret, shown only here, to be entered in the tool.
        secret: String,
        /// The key. If it is defined in the configuration, the secret has to be set there.
        key: KeyData,
    }

    /// A read key without its secret.
    pub struct ReadKeyData {
        /// What can be set of it. Of its streams that are gone it reads nothing.
        #[serde(flatten)]
        settings: ShownSettings,
        /// The part that may be shown; empty while only the digest is known.
        prefix: String,
        /// `active`, `expired` or `revoked`.
        state: String,
        /// When it was revoked, RFC 3339.
        revoked_at: Option<String>,
        /// Whether it stands in a configuration file, and so cannot be changed at run time.
        declared: bool,
        /// When it was made at run time, RFC 3339.
        created_at: Option<String>,
    }

    /// A new read key.
    pub struct MadeReadKey {
        /// The key itself, shown only here.
        secret: String,
        /// What will be shown of it.
        key: ReadKeyData,
    }
}
