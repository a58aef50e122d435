//! Acts of operators: what they did, and what they do to items and streams.
//!
//! **Invariant**: values are the JSON that was given, digit by digit.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::answers;

answers! {
    /// What an act did. Members that its verb does not have are absent.
    pub struct ActData {
        /// UUIDv7; the same as in `X-Request-Id` of the first answer.
        request_id: String,
        /// Number of the last change that it made: a screen whose position is at or above it shows it.
        seq: u64,
        /// The sum, of an add.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", salvo(schema(value_type = Option<serde_json::Value>)))]
        value: Option<Box<RawValue>>,
        /// How many overrides ended, of a release.
        #[serde(skip_serializing_if = "Option::is_none")]
        released: Option<u64>,
        /// How many holds were made, changed or ended; of an undo the keys that are shown otherwise now.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", salvo(schema(value_type = Option<serde_json::Value>)))]
        changed: Option<serde_json::Value>,
        /// Of how many keys what waited is shown, of a take.
        #[serde(skip_serializing_if = "Option::is_none")]
        taken: Option<u64>,
        /// Keys that are held all the same, of a resume.
        #[serde(skip_serializing_if = "Option::is_none")]
        still_held: Option<Vec<String>>,
        /// Fields of a PUT that are not seen, because they are overridden.
        #[serde(skip_serializing_if = "Option::is_none")]
        overridden: Option<Vec<String>>,
        /// The verb of the act that was undone.
        #[serde(skip_serializing_if = "Option::is_none")]
        undone: Option<String>,
        /// Operators who wrote the same fields since, of an undo.
        #[serde(skip_serializing_if = "Option::is_none")]
        covered_by: Option<Vec<String>>,
        /// Whether everything is as if the act had not been made, of an undo.
        #[serde(skip_serializing_if = "Option::is_none")]
        exact: Option<bool>,
    }

    /// An override.
    pub struct OverrideData {
        /// What is shown.
        #[cfg_attr(feature = "schema", salvo(schema(value_type = serde_json::Value)))]
        value: Option<Box<RawValue>>,
        /// What the source says now; absent: it has no such field.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", salvo(schema(value_type = Option<serde_json::Value>)))]
        source: Option<Box<RawValue>>,
        /// While the item is held and a change waits: what a release would show now.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", salvo(schema(value_type = Option<serde_json::Value>)))]
        kept: Option<Box<RawValue>>,
        /// Who made it.
        by: String,
        /// When, RFC 3339.
        at: String,
        /// When it ends, RFC 3339; null: when it is released.
        until: Option<String>,
    }

    /// A hold.
    pub struct HoldData {
        /// The key; absent: the whole stream.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        /// Since when, RFC 3339.
        since: String,
        /// Who made it.
        by: String,
        /// When it ends, RFC 3339; null: when it is resumed.
        until: Option<String>,
    }

    /// How much of a stream operators hold and override.
    pub struct ActCountsData {
        /// Its name.
        stream: String,
        /// The hold of the whole stream, or null.
        held: Option<HoldData>,
        /// How many keys are held by themselves.
        held_keys: u64,
        /// Keys of which a change of the source waits.
        waiting: u64,
        /// Items with overrides.
        overridden: u64,
        /// Their overridden fields.
        overridden_fields: u64,
    }

    /// What operators do to a stream.
    pub struct StreamActsData {
        /// Its name.
        stream: String,
        /// The hold of the whole stream, or null.
        held: Option<HoldData>,
        /// Holds of single keys; at most 500.
        held_keys: Vec<HoldData>,
        /// Keys of which a change of the source waits.
        waiting: u64,
        /// Overridden fields by key: how many; at most 500 keys.
        overridden: BTreeMap<String, u64>,
    }
}
