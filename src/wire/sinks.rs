//! Sinks, what waits for them, and what they gave up.
//!
//! **Invariant**: what was done to a sink is answered with how much that was.

use serde_json::Value;
use serde_json::value::RawValue;

use crate::answers;

answers! {
    /// A sink and its state.
    pub struct SinkData {
        /// Its name.
        name: String,
        /// The built-in plugin's name, or the path of the component; empty if the sink is not configured.
        plugin: String,
        /// The streams that it receives; `*` matches any text.
        streams: Vec<String>,
        /// Streams that it does not receive.
        except: Vec<String>,
        /// The conditions on the items that it receives; null: all.
        #[serde(rename = "where")]
        conditions: Option<String>,
        /// The fields that it receives; null: all.
        fields: Option<String>,
        /// The streams that its plugin can write in the data pool.
        writes: Vec<String>,
        /// The streams whose items its plugin can make.
        makes: Vec<String>,
        /// `starting`, `running`, `paused`, `crashed`; `filling`: it receives the items of the data pool; `failing`:
        /// its last batch became dead letters or failed several times with no success since, or its plugin misbehaves;
        /// `elsewhere`: another node of the cluster runs it; `unconfigured`: its backlog is kept until it is configured again, or deleted.
        state: String,
        /// Of a cluster: the node that runs it, if there is one. Its last failure, what it refused and why newer settings are not
        /// in use are known on that node only.
        #[serde(skip_serializing_if = "Option::is_none")]
        node: Option<String>,
        /// Why it does not run, or how it misbehaves.
        reason: Option<String>,
        /// When a paused sink is retried, RFC 3339.
        paused_until: Option<String>,
        /// The sink has finished all requests up to this sequence number.
        cursor: u64,
        /// Upper bound of its backlog: undelivered requests, requests that wait for a retry, and items that it is still
        /// to be filled with. 0 only if nothing is left.
        lag: u64,
        /// When the oldest waiting request was received, RFC 3339.
        waiting_since: Option<String>,
        /// When its backlog began, RFC 3339.
        behind_since: Option<String>,
        /// Estimated bytes of waiting payloads; null if not measured.
        backlog_bytes: Option<u64>,
        /// Batches that wait for a retry; null: the data pool cannot be read.
        retries: Option<u64>,
        /// Number of its dead letters; null: the data pool cannot be read.
        dead_letters: Option<u64>,
        /// The last failure.
        last_error: Option<SinkError>,
        /// Why newer settings or a newer plugin file are not in use.
        refused: Option<String>,
        /// Whether it is defined in the configuration; to change or delete it, edit it there.
        #[serde(default)]
        #[cfg_attr(feature = "schema", salvo(schema(required = true)))]
        declared: bool,
        /// When it was created at run time, RFC 3339.
        created_at: Option<String>,
        /// Whether operators have enabled delivery.
        #[serde(default)]
        #[cfg_attr(feature = "schema", salvo(schema(required = true)))]
        enabled: bool,
        /// The operator who paused it; null: none, but it can pause after failures.
        paused_by: Option<String>,
        /// When the operator paused it, RFC 3339; null if the configuration disables it.
        paused_at: Option<String>,
        /// `journal`: it receives all accepted requests; `latest`: the newest state of the data pool.
        mode: Option<String>,
        /// How it follows the newest state; null: it does not.
        latest: Option<LatestData>,
        /// Progress of its refill; null: it is not being filled.
        filling: Option<FillingData>,
        /// Items of the data pool that it never receives because it starts with the journal; null: none, or not
        /// checked, as in lists.
        missing: Option<MissingData>,
        /// Limits of its start and of its streams, as sentences.
        #[serde(default)]
        #[cfg_attr(feature = "schema", salvo(schema(required = true)))]
        notes: Vec<String>,
        /// Its start: `now`, `journal` or `state`.
        start: Option<String>,
        /// What it receives in place of an update that does not match `where`: `skip`, nothing; `remove`, a removal of
        /// the item.
        leaves: Option<String>,
        /// Order of its operations: `key` or `strict`.
        ordering: Option<String>,
        /// Maximum number of concurrent calls of its plugin.
        in_flight: Option<u64>,
        /// Its retries.
        #[cfg_attr(feature = "schema", salvo(schema(value_type = serde_json::Value)))]
        retry: Option<Value>,
        /// The size of its batches.
        #[cfg_attr(feature = "schema", salvo(schema(value_type = serde_json::Value)))]
        batch: Option<Value>,
        /// Its limits; null members have the value of `[plugins]`.
        #[cfg_attr(feature = "schema", salvo(schema(value_type = serde_json::Value)))]
        limits: Option<Value>,
        /// What it may call; the values of headers are `{"set": true}`.
        #[cfg_attr(feature = "schema", salvo(schema(value_type = serde_json::Value)))]
        http: Option<Value>,
        /// The database that it may write to; its URL is `{"set": true}`.
        #[cfg_attr(feature = "schema", salvo(schema(value_type = serde_json::Value)))]
        postgres: Option<Value>,
        /// The folder that it may write files in.
        #[cfg_attr(feature = "schema", salvo(schema(value_type = serde_json::Value)))]
        folder: Option<Value>,
        /// What it may connect to.
        #[cfg_attr(feature = "schema", salvo(schema(value_type = serde_json::Value)))]
        wire: Option<Value>,
        /// The settings of its plugin.
        #[cfg_attr(feature = "schema", salvo(schema(value_type = serde_json::Value)))]
        config: Option<Value>,
        /// The secrets that it may read, each as `{"set": true}`.
        #[cfg_attr(feature = "schema", salvo(schema(value_type = serde_json::Value)))]
        secrets: Option<Value>,
        /// Its permissions, as sentences.
        #[serde(default)]
        #[cfg_attr(feature = "schema", salvo(schema(required = true)))]
        grants: Vec<String>,
        /// The shortest section that creates it, with `{"set": true}` for secrets; null if it is not configured.
        #[cfg_attr(feature = "schema", salvo(schema(value_type = serde_json::Value)))]
        section: Option<Value>,
    }

    /// How a sink follows the newest state of the data pool.
    pub struct LatestData {
        /// Whether it receives the shown values, with overrides and holds, instead of the values of the sources.
        shown: bool,
        /// Maximum calls of its plugin per second.
        max_rate: u32,
        /// Items that it rejected since the start; they are sent again when they change.
        rejected: u64,
        /// The reason for the last rejection.
        last_rejected: Option<String>,
        /// Time of the last refill with all items, RFC 3339.
        refilled_at: Option<String>,
        /// The reason for it.
        refilled_because: Option<String>,
    }

    /// Items of the data pool that were written before the oldest request that the journal still had when the sink began.
    pub struct MissingData {
        /// How many.
        items: u64,
    }

    /// Progress of filling a sink with the items of the data pool.
    pub struct FillingData {
        /// Items that were delivered, or became dead letters.
        done: u64,
        /// Estimated number of items that are left.
        left: u64,
        /// When it began, RFC 3339.
        began_at: String,
    }

    /// The refill of a sink with the items of the data pool.
    pub struct RefilledData {
        /// Number of the refill, from 1.
        fill: u32,
        /// Items of the data pool.
        items: u64,
    }

    /// A plugin.
    pub struct PluginData {
        /// Name of the plugin, as in `plugin` of a section.
        name: String,
        /// `built-in`; `store`: added; `file`: copied into the plugins directory by hand.
        kind: String,
        /// The version that it reports; null: the plugin cannot be used.
        version: Option<String>,
        /// Its SHA-256, 64 hex digits.
        sha256: Option<String>,
        /// Bytes of the component.
        bytes: Option<u64>,
        /// Permissions that it requests: `http`, `postgres`, `folder`, `wire`, `pool`, `secrets`.
        asks_for: Vec<String>,
        /// Whether it receives removals.
        removals: bool,
        /// JSON Schema of its settings; null: it takes none.
        #[cfg_attr(feature = "schema", salvo(schema(value_type = serde_json::Value)))]
        schema: Option<Value>,
        /// The sinks that use it.
        used_by: Vec<String>,
        /// For an added plugin: the file or URL of its origin.
        source: Option<String>,
        /// For an added plugin: when it was added, RFC 3339.
        added_at: Option<String>,
        /// For an added plugin: SHA-256 of the previous components, newest first, at most 5.
        previous: Vec<String>,
        /// Why it cannot be used.
        error: Option<String>,
    }

    /// A removed plugin.
    pub struct RemovedPluginData {
        /// Name of the plugin.
        name: String,
    }

    /// The result of trying a sink.
    pub struct TriedData {
        /// Whether the plugin accepted all items.
        ok: bool,
        /// Number of items that match `where` and were passed to the plugin.
        items: u32,
        /// The requests that it sent, or would have sent.
        requests: Vec<TrialRequestData>,
        /// What it would write in the data pool, and the statements for a database.
        writes: Vec<TrialWriteData>,
        /// Messages of the plugin.
        log: Vec<String>,
        /// The error, if any.
        error: Option<String>,
    }

    /// A request of a trial.
    pub struct TrialRequestData {
        /// Its method.
        method: String,
        /// Where it goes; secrets are masked.
        url: String,
        /// Its headers; secrets are masked.
        headers: std::collections::BTreeMap<String, String>,
        /// Its body, or the beginning of a long one.
        body: String,
    }

    /// What a trial would write.
    pub struct TrialWriteData {
        /// `upsert`, `delete`, `publish`; or `statement` for a database.
        action: String,
        /// The stream of an item.
        stream: Option<String>,
        /// The key of an item.
        key: Option<String>,
        /// The fields of an item that is updated.
        #[cfg_attr(feature = "schema", salvo(schema(value_type = serde_json::Value)))]
        fields: Option<Value>,
        /// A statement, with the number of items that it runs for.
        statement: Option<String>,
    }

    /// A deleted sink, and the data that was kept for it.
    pub struct DeletedSinkData {
        /// Undelivered requests, at most.
        #[serde(default)]
        #[cfg_attr(feature = "schema", salvo(schema(required = true)))]
        lag: u64,
        /// Batches that waited for a retry.
        retries: u64,
        /// Dead letters.
        dead_letters: u64,
    }

    /// A failure of a sink.
    pub struct SinkError {
        /// When, RFC 3339.
        at: String,
        /// In the plugin's words.
        reason: String,
    }

    /// An item that a sink could not deliver.
    pub struct DeadLetterData {
        /// Its id; newer ones are higher.
        id: String,
        /// The request that it came with.
        request_id: String,
        /// Its stream.
        stream: String,
        /// Its position in the request, from 0.
        position: u32,
        /// Its key.
        key: String,
        /// `upsert`, or `remove` of an item that was to be removed.
        action: String,
        /// Its fields; null if the payload could not be read.
        #[cfg_attr(feature = "schema", salvo(schema(value_type = serde_json::Value)))]
        fields: Option<Box<RawValue>>,
        /// Why it could not be delivered.
        reason: String,
        /// Number of attempts since the item was accepted or sent again: alone, in batches and in halves of batches,
        /// including those that were accepted in part.
        attempts: u32,
        /// When it became a dead letter, RFC 3339.
        at: String,
    }

    /// The result for the selected dead letters.
    pub struct SentAgainData {
        /// Items that wait for the sink again.
        sent_again: u64,
        /// Items that stay dead letters because their payloads are unreadable.
        skipped: u64,
        /// Items that stay dead letters because a later request changed or removed them.
        #[serde(default)]
        #[cfg_attr(feature = "schema", salvo(schema(required = true)))]
        items_left: u64,
    }

    /// The result for the selected dead letters.
    pub struct DiscardedData {
        /// Number of deleted dead letters.
        discarded: u64,
    }

    /// A batch that waits for a retry.
    pub struct RetryData {
        /// Its id. The rest of the batch keeps it after an attempt; no other batch ever has it.
        id: String,
        /// Number of attempts. Halves of a batch have the attempts of the whole batch.
        attempts: u32,
        /// Time of the next attempt, RFC 3339; later if the sink is paused.
        due_at: String,
        /// Why the last attempt failed.
        reason: String,
        /// The request that its first item came with; null if it is no longer in the log.
        first_request_id: Option<String>,
        /// The stream of its first item; null if it is no longer in the log.
        first_stream: Option<String>,
        /// Number of its items; null if the list of them is damaged.
        items: Option<u64>,
        /// Whether its items were dead letters that an operator sent again.
        sent_again: bool,
    }

    /// The ended retries.
    pub struct EndedRetriesData {
        /// Number of batches whose retries were ended.
        #[serde(default)]
        #[cfg_attr(feature = "schema", salvo(schema(required = true)))]
        ended: u64,
        /// Deprecated: the same as `ended`, under its name of version 0.1. Version 0.3 removes it.
        #[serde(default, rename = "given_up")]
        #[cfg_attr(feature = "schema", salvo(schema(required = true)))]
        old_ended: u64,
        /// Number of dead letters that they became.
        dead_letters: u64,
    }

    /// The result for the waiting batches of a sink.
    pub struct RetriedData {
        /// Number of batches that are retried now.
        retries: u64,
    }
}
