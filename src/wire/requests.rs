//! Requests: their receipts, the log, what is kept of one, and what one became that was sent again.
//!
//! **Invariant**: ids and times are texts, whose order is that of time.

use crate::answers;

answers! {
    /// What a caller is told of an accepted request.
    pub struct ReceiptData {
        /// The key's stream.
        stream: String,
        /// Number of items.
        items_received: u32,
        /// UUIDv7; the same as in `X-Request-Id`.
        request_id: String,
    }

    /// What became of a request, for its caller.
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
        /// Why it was refused, why sinks gave up on it, or which of its items are older than what the data pool has.
        errors: Vec<String>,
        /// Its operations that are older than what the data pool has, the first 20.
        stale: Vec<StaleData>,
        /// How many there are.
        stale_count: u64,
        /// When the last sink had it; null until then.
        processed_at: Option<String>,
        /// The sinks that want its stream.
        sinks: Vec<SinkStateData>,
    }

    /// One entry of the request log.
    pub struct LoggedRequest {
        /// When it arrived, RFC 3339 in UTC with milliseconds.
        timestamp: String,
        /// UUIDv7.
        request_id: String,
        /// Number of items; 0 if it was refused.
        items_received: u32,
        /// `accepted`, `processed`, `stale`, `failed`, `discarded`, `rejected`, `duplicate`, `test`, `removed` or `handshake`.
        status: String,
        /// Why it was refused, what is odd about it, why sinks gave up on it, or which of its items are older than what the
        /// data pool has.
        errors: Vec<String>,
        /// Its operations that are older than what the data pool has, the first 20.
        stale: Vec<StaleData>,
        /// How many there are.
        stale_count: u64,
        /// Name of the connector.
        connector: String,
        /// The key's stream.
        stream: String,
        /// `ingest` or `webhook`.
        endpoint: String,
        /// The status that was answered.
        http_status: u16,
        /// The part of the key that may be shown.
        key: String,
        /// Size of the body in bytes.
        bytes: u64,
        /// Address of the caller.
        client: String,
        /// The field that identified the items.
        item_key: Option<String>,
        /// The caller's idempotency key.
        idempotency_key: Option<String>,
        /// The first request, for a repeat.
        duplicate_of: Option<String>,
        /// How a delivery to the address of its connector was verified: the scheme; null: it came with a key.
        scheme: Option<String>,
        /// The event of such a delivery, as its tool names it.
        event: Option<String>,
        /// The id of such a delivery.
        delivery_id: Option<String>,
        /// Headers worth knowing.
        headers: Vec<HeaderData>,
        /// The request that this one was sent again from.
        sent_again_from: Option<String>,
        /// What it became when it was sent again, newest first, at most 20; only where a single request is asked for.
        #[serde(skip_serializing_if = "Option::is_none")]
        sent_again_as: Option<Vec<String>>,
        /// When the last sink had it; null until then.
        processed_at: Option<String>,
        /// The sinks that want its stream.
        sinks: Vec<SinkStateData>,
    }

    /// A header of a request.
    pub struct HeaderData {
        /// Its name, in lower case.
        name: String,
        /// The beginning of its value; null: the value is not kept.
        value: Option<String>,
    }

    /// How one sink stands to a request.
    pub struct SinkStateData {
        /// Name of the sink.
        name: String,
        /// `waiting`, `done`, `retrying`, `failed`, or `discarded`: an operator discarded items that the sink had given up.
        state: String,
        /// When it was done or discarded, where that is still known.
        at: Option<String>,
    }

    /// An operation that is older than what the data pool has.
    pub struct StaleData {
        /// Position of the item in the request, from 0.
        item: u32,
        /// Its version, as it was sent.
        version: String,
        /// The version that its key has reached.
        reached: String,
        /// Names of the fields that count all the same, as nothing newer has written them; of a removal, of those that it
        /// removed. Only where there are some, in streams whose updates merge.
        #[serde(skip_serializing_if = "Option::is_none")]
        taken: Option<Vec<String>>,
    }

    /// What a request became that was sent again.
    pub struct AgainData {
        /// The new request; or the one that was accepted first with the same idempotency key. Null: there is none, because
        /// all items were left.
        request_id: Option<String>,
        /// The request that was sent again.
        sent_again_from: String,
        /// The stream.
        stream: String,
        /// Number of items that were sent.
        items_received: u32,
        /// Number of items that were left as they are in the data pool, because something accepted later changed or removed
        /// them.
        #[serde(default)]
        #[cfg_attr(feature = "schema", salvo(schema(required = true)))]
        items_left: u32,
        /// Whether its idempotency key had been accepted before, so that nothing was stored again.
        replayed: bool,
    }

    /// What was sent.
    pub struct TriggeredData {
        /// The request that was accepted; null: events of this type are not stored.
        request_id: Option<String>,
        /// Its event.
        event: String,
        /// The stream.
        stream: Option<String>,
        /// Number of items.
        items_received: u32,
    }

    /// What is kept of a request.
    pub struct ContentData {
        /// `items`, `body` (of a refused request), or null: nothing.
        kept: Option<String>,
        /// Why nothing is kept, and what to do.
        reason: Option<String>,
        /// The first items, flattened, at most 50.
        items: Vec<ItemContent>,
        /// Items that are not shown here.
        items_left_out: usize,
        /// The body as text, at most 20,000 characters; bytes that are no UTF-8 are replaced.
        body: Option<String>,
        /// Bytes of the body that are not shown here.
        body_bytes_left_out: usize,
    }

    /// An item of a request.
    pub struct ItemContent {
        /// What identifies it in the stream.
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
        /// JSON text of its value, at most 500 characters of it.
        value: String,
        /// Bytes of the value that are not shown here.
        bytes_left_out: usize,
    }
}
