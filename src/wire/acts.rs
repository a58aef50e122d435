//! Acts of operators: what they did, and what they do to items and streams.
//!
//! **Invariant**: values are the JSON that was given, digit by digit.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::answers;

answers! {
    /// The result of an act. Members that do not apply to the verb are absent.
    pub struct ActData {
        /// UUIDv7; the same as in `X-Request-Id` of the first answer.
        request_id: String,
        /// Number of its last change: a screen with this position or a higher one shows it.
        seq: u64,
        /// For `add`: the sum.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", salvo(schema(value_type = Option<serde_json::Value>)))]
        value: Option<Box<RawValue>>,
        /// For `release`: the number of released overrides.
        #[serde(skip_serializing_if = "Option::is_none")]
        released: Option<u64>,
        /// The number of holds that were created, changed or ended. For `undo`: the keys whose shown values changed.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", salvo(schema(value_type = Option<serde_json::Value>)))]
        changed: Option<serde_json::Value>,
        /// For `take`: the number of keys whose waiting changes are shown now.
        #[serde(skip_serializing_if = "Option::is_none")]
        taken: Option<u64>,
        /// For `resume`: keys that are still held.
        #[serde(skip_serializing_if = "Option::is_none")]
        still_held: Option<Vec<String>>,
        /// For a PUT: fields that are not shown because they are overridden.
        #[serde(skip_serializing_if = "Option::is_none")]
        overridden: Option<Vec<String>>,
        /// The verb of the act that was undone.
        #[serde(skip_serializing_if = "Option::is_none")]
        undone: Option<String>,
        /// For `undo`: operators who have written the same fields since.
        #[serde(skip_serializing_if = "Option::is_none")]
        covered_by: Option<Vec<String>>,
        /// For `undo`: whether the act was undone completely.
        #[serde(skip_serializing_if = "Option::is_none")]
        exact: Option<bool>,
    }

    /// An override.
    pub struct OverrideData {
        /// What is shown.
        #[cfg_attr(feature = "schema", salvo(schema(value_type = serde_json::Value)))]
        value: Option<Box<RawValue>>,
        /// Current value of the source; absent: the source has no such field.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", salvo(schema(value_type = Option<serde_json::Value>)))]
        source: Option<Box<RawValue>>,
        /// While the item is held and a change waits: the value that a release would show.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", salvo(schema(value_type = Option<serde_json::Value>)))]
        kept: Option<Box<RawValue>>,
        /// The operator.
        by: String,
        /// When, RFC 3339.
        at: String,
        /// Expiry, RFC 3339; null: until it is released.
        until: Option<String>,
    }

    /// A hold.
    pub struct HoldData {
        /// The key; absent: the whole stream.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        /// Since when, RFC 3339.
        since: String,
        /// The operator.
        by: String,
        /// Expiry, RFC 3339; null: until it is resumed.
        until: Option<String>,
    }

    /// The numbers of holds and overrides of a stream.
    pub struct ActCountsData {
        /// Its name.
        stream: String,
        /// The hold of the whole stream, or null.
        held: Option<HoldData>,
        /// Number of keys with their own holds.
        held_keys: u64,
        /// Number of keys with waiting changes.
        waiting: u64,
        /// Items with overrides.
        overridden: u64,
        /// Number of overridden fields.
        overridden_fields: u64,
    }

    /// The holds and overrides of a stream.
    pub struct StreamActsData {
        /// Its name.
        stream: String,
        /// The hold of the whole stream, or null.
        held: Option<HoldData>,
        /// Holds of single keys; at most 500.
        held_keys: Vec<HoldData>,
        /// Number of keys with waiting changes.
        waiting: u64,
        /// Number of overridden fields by key; at most 500 keys.
        overridden: BTreeMap<String, u64>,
    }
}
