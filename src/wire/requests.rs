//! Requests: their receipts, the log, what is kept of one, and what one became that was sent again.
//!
//! **Invariant**: ids and times are texts, whose order is that of time.

use crate::answers;

answers! {
    /// The receipt of an accepted request.
    pub struct ReceiptData {
        /// The key's stream.
        stream: String,
        /// Number of items.
        items_received: u32,
        /// UUIDv7; the same as in `X-Request-Id`.
        request_id: String,
    }

    /// The status of a request, for its sender.
    pub struct RequestState {
        /// UUIDv7.
        request_id: String,
        /// When it arrived, RFC 3339 in UTC.
        timestamp: String,
        /// Its stream.
        stream: String,
        /// `accepted`, `processed`, `stale`, `failed`, `discarded`, `rejected`, `duplicate`, `test`, `removed` or `handshake`.
        status: String,
        /// Number of items.
        items_received: u32,
        /// Why the request was rejected, why sinks could not deliver it, or which of its items are older than the data
        /// pool.
        errors: Vec<String>,
        /// The first 20 of its updates and removals that are older than the data pool.
        stale: Vec<StaleData>,
        /// Number of all of them.
        stale_count: u64,
        /// When the last sink finished it; null until then.
        processed_at: Option<String>,
        /// The sinks that receive its stream.
        sinks: Vec<SinkStateData>,
    }

    /// One entry of the request log.
    pub struct LoggedRequest {
        /// When it arrived, RFC 3339 in UTC with milliseconds.
        timestamp: String,
        /// UUIDv7.
        request_id: String,
        /// Number of items; 0 if it was rejected.
        items_received: u32,
        /// `accepted`, `processed`, `stale`, `failed`, `discarded`, `rejected`, `duplicate`, `test`, `removed` or `handshake`.
        status: String,
        /// Why the request was rejected, warnings, why sinks could not deliver it, or which of its items are older than
        /// the data pool.
        errors: Vec<String>,
        /// The first 20 of its updates and removals that are older than the data pool.
        stale: Vec<StaleData>,
        /// Number of all of them.
        stale_count: u64,
        /// Name of the connector.
        connector: String,
        /// The key's stream.
        stream: String,
        /// `ingest` or `webhook`.
        endpoint: String,
        /// The status of the response.
        http_status: u16,
        /// The visible beginning of the key.
        key: String,
        /// Size of the body in bytes.
        bytes: u64,
        /// Address of the sender.
        client: String,
        /// The field that identified the items.
        item_key: Option<String>,
        /// The sender's idempotency key.
        idempotency_key: Option<String>,
        /// For a duplicate: the first request.
        duplicate_of: Option<String>,
        /// For a verified delivery: the scheme; null: the request had a key.
        scheme: Option<String>,
        /// For a verified delivery: the event, as the provider names it.
        event: Option<String>,
        /// For a verified delivery: its id.
        delivery_id: Option<String>,
        /// Selected headers.
        headers: Vec<HeaderData>,
        /// For a resent request: the original request.
        sent_again_from: Option<String>,
        /// The requests that resent this one, newest first, at most 20; only in the response for a single request.
        #[serde(skip_serializing_if = "Option::is_none")]
        sent_again_as: Option<Vec<String>>,
        /// When the last sink finished it; null until then.
        processed_at: Option<String>,
        /// The sinks that receive its stream.
        sinks: Vec<SinkStateData>,
    }

    /// A header of a request.
    pub struct HeaderData {
        /// Its name, in lower case.
        name: String,
        /// The beginning of its value; null: the value is not stored.
        value: Option<String>,
    }

    /// The state of a request in one sink.
    pub struct SinkStateData {
        /// Name of the sink.
        name: String,
        /// `waiting`, `done`, `retrying`, `failed`, or `discarded`: an operator discarded items that the sink could not
        /// deliver.
        state: String,
        /// When it was done or discarded, if known.
        at: Option<String>,
    }

    /// An update or removal that is older than the data pool.
    pub struct StaleData {
        /// Position of the item in the request, from 0.
        item: u32,
        /// Its version, as it was sent.
        version: String,
        /// The version that the key has in the data pool.
        reached: String,
        /// Names of the fields that were still written, because no newer update has them; for a removal, of the removed
        /// fields. Absent if none; only in streams whose updates merge.
        #[serde(skip_serializing_if = "Option::is_none")]
        taken: Option<Vec<String>>,
    }

    /// The result of resending a request.
    pub struct ResentData {
        /// The new request, or the first one with the same idempotency key. Null: none, because all items stayed
        /// unchanged.
        request_id: Option<String>,
        /// The request that was sent again.
        sent_again_from: String,
        /// The stream.
        stream: String,
        /// Number of items that were sent.
        items_received: u32,
        /// Number of items that stayed unchanged, because a later request changed or removed them.
        #[serde(default)]
        #[cfg_attr(feature = "schema", salvo(schema(required = true)))]
        items_left: u32,
        /// Whether its idempotency key had been accepted before, so that nothing was stored again.
        replayed: bool,
    }

    /// The sent sample.
    pub struct TriggeredData {
        /// The accepted request; null: events of this type are not stored.
        request_id: Option<String>,
        /// Its event.
        event: String,
        /// The stream.
        stream: Option<String>,
        /// Number of items.
        items_received: u32,
    }

    /// The stored content of a request.
    pub struct ContentData {
        /// `items`, `body` (of a rejected request), or null: nothing.
        kept: Option<String>,
        /// Why nothing is stored, and what to do.
        reason: Option<String>,
        /// The first items, flattened, at most 50.
        items: Vec<ItemContent>,
        /// Items that are not shown here.
        items_left_out: usize,
        /// The body as text, at most 20,000 characters; bytes that are not UTF-8 are replaced.
        body: Option<String>,
        /// Bytes of the body that are not shown here.
        body_bytes_left_out: usize,
    }

    /// An item of a request.
    pub struct ItemContent {
        /// Identifies the item in the stream.
        key: String,
        /// Its first fields, at most 200.
        fields: Vec<FieldContent>,
        /// Fields that are not shown here.
        fields_left_out: usize,
    }

    /// A field of an item.
    pub struct FieldContent {
        /// Its flattened name.
        name: String,
        /// JSON text of its value, cut after 500 characters.
        value: String,
        /// Bytes of the value that are not shown here.
        bytes_left_out: usize,
    }
}
