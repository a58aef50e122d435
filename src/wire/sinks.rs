//! Sinks, what waits for them, and what they gave up.
//!
//! **Invariant**: what was done to a sink is answered with how much that was.

use serde_json::Value;
use serde_json::value::RawValue;

use crate::answers;

answers! {
    /// A sink and how it is.
    pub struct SinkData {
        /// Its name.
        name: String,
        /// The built-in plugin's name, or the path of the component; empty if the sink is not configured.
        plugin: String,
        /// The streams that it wants; `*` stands for any text.
        streams: Vec<String>,
        /// Those of them that it leaves to others.
        except: Vec<String>,
        /// The conditions on the items that it receives; null: all.
        #[serde(rename = "where")]
        conditions: Option<String>,
        /// The fields that it receives; null: all.
        fields: Option<String>,
        /// The streams that it may write in the data pool, if its plugin does.
        writes: Vec<String>,
        /// `starting`, `running`, `paused`, `crashed`; `filling`: it is handed what the data pool has; `failing`: its last batch became dead letters or failed several times, and it has
        /// taken nothing since, or its plugin does what it should not; or `unconfigured`: what it has not taken is kept until it
        /// is configured again, or forgotten.
        state: String,
        /// Why it does not run, or what it does.
        reason: Option<String>,
        /// When a paused sink is tried again, RFC 3339.
        paused_until: Option<String>,
        /// Everything up to this sequence number is behind it.
        cursor: u64,
        /// How much waits for it, at most: requests that it has not come to or that wait for another attempt, and items that
        /// it is yet to be filled with. 0 only if it has everything.
        lag: u64,
        /// When the oldest request arrived that waits for it, RFC 3339.
        waiting_since: Option<String>,
        /// Since when it does not have everything, RFC 3339.
        behind_since: Option<String>,
        /// About how many bytes of payloads wait for it; null where that is not looked at.
        backlog_bytes: Option<u64>,
        /// Batches that wait for another attempt; null: the data pool cannot be read.
        retries: Option<u64>,
        /// Items given up; null: the data pool cannot be read.
        dead_letters: Option<u64>,
        /// The last failure.
        last_error: Option<SinkError>,
        /// Why newer settings, or a newer file of its plugin, are not in use.
        refused: Option<String>,
        /// Whether it stands in the configuration, where alone it is changed and taken out.
        #[serde(default)]
        #[cfg_attr(feature = "schema", salvo(schema(required = true)))]
        declared: bool,
        /// When it was made at run time, RFC 3339.
        created_at: Option<String>,
        /// Whether it delivers, as far as it is up to operators.
        #[serde(default)]
        #[cfg_attr(feature = "schema", salvo(schema(required = true)))]
        enabled: bool,
        /// Who paused it; null: nobody, but it may pause by itself.
        paused_by: Option<String>,
        /// When they did, RFC 3339; null where the configuration says so.
        paused_at: Option<String>,
        /// What it follows: `journal`, all that is accepted; `latest`, the newest state of the data pool.
        mode: Option<String>,
        /// How it follows the newest state; null: it does not.
        latest: Option<LatestData>,
        /// How far it is filled; null: it is not being filled.
        filling: Option<FillingData>,
        /// What it never gets of the data pool because it begins with the journal; null: nothing, or that is not looked at, as
        /// in lists.
        missing: Option<MissingData>,
        /// What its beginning and its streams do not promise, in sentences.
        #[serde(default)]
        #[cfg_attr(feature = "schema", salvo(schema(required = true)))]
        notes: Vec<String>,
        /// Where it begins: `now`, `journal` or `state`.
        start: Option<String>,
        /// What it receives in place of an update that `where` leaves out: `skip`, nothing; `remove`, a removal of the item.
        leaves: Option<String>,
        /// In which order it gets operations: `key` or `strict`.
        ordering: Option<String>,
        /// How many calls of its plugin there may be at once.
        in_flight: Option<u64>,
        /// Its retries.
        #[cfg_attr(feature = "schema", salvo(schema(value_type = serde_json::Value)))]
        retry: Option<Value>,
        /// The size of its batches.
        #[cfg_attr(feature = "schema", salvo(schema(value_type = serde_json::Value)))]
        batch: Option<Value>,
        /// Its own limits; null members are as in `[plugins]`.
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
        /// What it may do, in sentences.
        #[serde(default)]
        #[cfg_attr(feature = "schema", salvo(schema(required = true)))]
        grants: Vec<String>,
        /// The shortest section that makes it, with `{"set": true}` for secrets; null if it is not configured.
        #[cfg_attr(feature = "schema", salvo(schema(value_type = serde_json::Value)))]
        section: Option<Value>,
    }

    /// How a sink follows the newest state of the data pool.
    pub struct LatestData {
        /// Whether it gets what is shown, with what operators correct and hold, instead of what sources sent.
        shown: bool,
        /// Calls of its plugin in a second, at most.
        max_rate: u32,
        /// Items that it refused since the start: they come again when they change.
        rejected: u64,
        /// Why it refused the last of them.
        last_rejected: Option<String>,
        /// When it last began anew with all items, RFC 3339.
        refilled_at: Option<String>,
        /// Why it did.
        refilled_because: Option<String>,
    }

    /// Items of the data pool that were written before the oldest request that the journal still had when the sink began.
    pub struct MissingData {
        /// How many.
        items: u64,
    }

    /// How far a sink is filled with what the data pool has.
    pub struct FillingData {
        /// Items that it has, or gave up.
        done: u64,
        /// Items that it does not have, about: more come, and some go.
        left: u64,
        /// When it began, RFC 3339.
        began_at: String,
    }

    /// A sink that begins anew with what the data pool has.
    pub struct RefilledData {
        /// Number of the filling: 1 is the first of the sink.
        fill: u32,
        /// Items of the data pool.
        items: u64,
    }

    /// A plugin that there is.
    pub struct PluginData {
        /// As `plugin` of a section names it.
        name: String,
        /// `built-in`; `store`: it was added; `file`: it was put into the plugins folder by hand.
        kind: String,
        /// As it says; null: it cannot be used.
        version: Option<String>,
        /// Its SHA-256, 64 hex digits.
        sha256: Option<String>,
        /// Bytes of the component.
        bytes: Option<u64>,
        /// What it can do only if its sink lets it: `http`, `postgres`, `folder`, `wire`, `pool`, `secrets`.
        asks_for: Vec<String>,
        /// Whether it hears of removals.
        removals: bool,
        /// JSON Schema of its settings; null: it takes none.
        #[cfg_attr(feature = "schema", salvo(schema(value_type = serde_json::Value)))]
        schema: Option<Value>,
        /// The sinks that use it.
        used_by: Vec<String>,
        /// Of one that was added: the file or address that it came from.
        source: Option<String>,
        /// Of one that was added: when, RFC 3339.
        added_at: Option<String>,
        /// Of one that was added: SHA-256 of what it was before, newest first, at most 5.
        previous: Vec<String>,
        /// Why it cannot be used.
        error: Option<String>,
    }

    /// A plugin that is gone.
    pub struct RemovedPluginData {
        /// Name of the plugin.
        name: String,
    }

    /// What came of trying a sink.
    pub struct TriedData {
        /// Whether the plugin took all items.
        ok: bool,
        /// Items that it was handed: those that `where` lets through.
        items: u32,
        /// The requests that it sent, or would have sent.
        requests: Vec<TrialRequestData>,
        /// What it would write in the data pool, and the statements for a database.
        writes: Vec<TrialWriteData>,
        /// What the plugin said.
        log: Vec<String>,
        /// Why it is not as it should be.
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
        /// Its body; of a long one the beginning.
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
        /// A statement, with how many items it is run.
        statement: Option<String>,
    }

    /// A sink that is gone, and what was kept for it.
    pub struct DeletedSinkData {
        /// Requests that it had not taken, at most.
        #[serde(default)]
        #[cfg_attr(feature = "schema", salvo(schema(required = true)))]
        lag: u64,
        /// Batches that waited for another attempt.
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

    /// An item that a sink gave up.
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
        /// Why it was given up.
        reason: String,
        /// How often the item was tried, since it was accepted or sent again: alone, in batches and in their halves, also
        /// in those that were taken in part.
        attempts: u32,
        /// When it was given up, RFC 3339.
        at: String,
    }

    /// What became of a selection of dead letters.
    pub struct SentAgainData {
        /// Items that wait for the sink again.
        sent_again: u64,
        /// Items that are still dead letters: their payloads could not be read, so there is nothing to send.
        skipped: u64,
        /// Items that are still dead letters: something that was accepted later has changed or removed them.
        #[serde(default)]
        #[cfg_attr(feature = "schema", salvo(schema(required = true)))]
        items_left: u64,
    }

    /// What became of a selection of dead letters.
    pub struct DiscardedData {
        /// Items that are gone.
        discarded: u64,
    }

    /// A batch that waits for another attempt.
    pub struct RetryData {
        /// Its id. What is left of the batch after another attempt keeps it; no other batch ever has it.
        id: String,
        /// How often it was tried. Halves of a batch have the attempts of the whole one.
        attempts: u32,
        /// When it is tried next, RFC 3339; later if the sink is paused then.
        due_at: String,
        /// Why the last attempt failed.
        reason: String,
        /// The request that its first item came with; null if the log does not know it any more.
        first_request_id: Option<String>,
        /// The stream of its first item, likewise.
        first_stream: Option<String>,
        /// Number of its items; null if the list of them is damaged.
        items: Option<u64>,
        /// Whether its items were dead letters that somebody sent again.
        sent_again: bool,
    }

    /// What was given up.
    pub struct GivenUpData {
        /// Batches that do not wait any more.
        given_up: u64,
        /// Dead letters that they became.
        dead_letters: u64,
    }

    /// What became of the retries of a sink.
    pub struct RetriedData {
        /// Batches that are tried again now.
        retries: u64,
    }
}
