//! Sinks, what waits for them, and what they gave up.
//!
//! **Invariant**: what was done to a sink is answered with how much that was.

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
        /// `starting`, `running`, `paused`, `crashed`; `failing`: it runs, and does what it should not; or `unconfigured`: what
        /// it has not taken is kept until it is back in the configuration, or forgotten.
        state: String,
        /// Why it does not run, or what it does.
        reason: Option<String>,
        /// When a paused sink is tried again, RFC 3339.
        paused_until: Option<String>,
        /// Everything up to this sequence number is behind it.
        cursor: u64,
        /// By how many sequence numbers it is behind; an upper bound of the requests that wait.
        lag: u64,
        /// When the oldest request arrived that waits for it, RFC 3339.
        waiting_since: Option<String>,
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
    }

    /// A failure of a sink.
    pub struct SinkError {
        /// When, RFC 3339.
        at: String,
        /// In the plugin's words.
        reason: String,
    }

    /// What was forgotten of a sink.
    pub struct ForgottenData {
        /// Batches that waited for another attempt.
        retries: u64,
        /// Dead letters.
        dead_letters: u64,
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
        /// How often it was tried.
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
