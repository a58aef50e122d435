//! Streams, connectors, keys and read keys. The catalog keeps the settings of those that are made at run time in the
//! same form.
//!
//! **Invariant**: a key has exactly one of `secret`, `sha256`, `verify` and `certificate`; [`load`](crate::load) sees to it.

use base::key::KeyHash;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{KeyFields, KeyWhere, VERIFY, Verify};
use crate::checks::kinds;
use crate::record::{Element, record};
use crate::schema::{
    HISTORY_MAX, ITEMS_MAX, KEY_ORIGINS_MAX, KEY_STREAMS_MAX, RATE_MAX, STALE_SECONDS_MAX,
    VOLUME_MAX,
};
use crate::{Networks, Secret, checks};
use base::text::hex;

record! {
    /// `[[streams]]`: a named destination for items.
    pub struct Stream {
        /// Name of the stream: 1 to 128 characters, no control characters.
        name: String, Text(kinds::STREAM_NAME), required: true, fixed: true, example: r#""orders""#;
        /// Purpose, in at most 200 characters on one line.
        description: Option<String>, Text(kinds::DESCRIPTION), none: "no description",
            example: r#""Orders of the shop""#, placeholder: "TEXT", guide: "Pages and lists show it.",
            label: "Description (optional)";
        /// How an update treats fields that it does not include: `replace` removes them, `merge` keeps them.
        on_update: OnUpdate, Choice(&["replace", "merge"]), placeholder: "HOW",
            label: "On update",
            choices: &[("replace", "replace: remove fields that an update does not include"), ("merge", "merge: keep them")];
        /// Seconds without data after which renderers are notified that the stream is stale.
        stale_after_seconds: Option<u64>, Integer(1, STALE_SECONDS_MAX), none: "never", none_word: "never",
            flag: "stale-after", placeholder: "SECONDS", example: "60",
            label: "Stale after (seconds, optional)";
        /// Field that orders the updates of an item: a number or an RFC 3339 time. An update with a lower value changes nothing.
        version: Option<String>, Text(kinds::FIELD), none: "the order of acceptance", flag: "version-field",
            placeholder: "FIELD", example: r#""updated_at""#,
            guide: "The request of such an update is logged as `stale`. Where the field is missing or unreadable, the order of acceptance decides.",
            label: "Version field (optional)";
        /// Items whose field has one of these values are removals; `_event` is the event of the delivery.
        delete_when: Option<DeleteWhen>, Table(DeleteWhen::FIELDS), none: "no item", placeholder: "FIELD=VALUES",
            example: r#"{ field = "_event", is = ["orders/delete"] }"#,
            guide: "Written as `{ field = \"…\", is = [\"…\"] }`.";
        /// Seconds without an update after which an item is removed from the data pool.
        expire_after_seconds: Option<u32>, Integer(1, STALE_SECONDS_MAX), none: "never", none_word: "never",
            flag: "expire-after", placeholder: "SECONDS", example: "3600",
            guide: "Renderers are notified as for any other removal. At most 365 days.",
            label: "Expire items after (seconds, optional)";
        /// Largest number of items in the data pool. A full stream rejects new items.
        items_max: Option<u64>, Integer(1, ITEMS_MAX), none: "any number", none_word: "any", placeholder: "N",
            example: "100_000",
            guide: "Requests with new items are answered 429 `STREAM_FULL`; updates and removals of existing items are still accepted. Accepted items that are not yet in the data pool count toward the limit. A request that arrives before the stream is full is accepted as a whole, and so is a resent request, so the number can exceed the limit.",
            label: "Items (at most, optional)", group: "size";
        /// Largest size of the keys and fields of all items in the data pool, in bytes. A full stream rejects new items.
        bytes_max: Option<u64>, Integer(1, VOLUME_MAX), none: "any number", none_word: "any", placeholder: "BYTES",
            example: "1_000_000_000",
            guide: "Updates that are not larger than the item that they replace are still accepted.",
            label: "Bytes (at most, optional)", group: "size";
        /// Values of each field of an item that are kept in its history, with the request that wrote each; 0 keeps none.
        history: u32, Integer(0, HISTORY_MAX), placeholder: "N",
            guide: "See [the history of an item][item-history].",
            label: "History (values of each field, 0: none)";
    }
}

/// A stream in a list.
pub(crate) const STREAM: Element = Element {
    fields: Stream::FIELDS,
    one_of: &[],
};

record! {
    /// Which items are removals: those whose field has one of some values.
    #[derive(Eq)]
    pub struct DeleteWhen {
        /// Name of a field; `_event` is the event of the delivery.
        field: String, Text(kinds::FIELD), required: true, flag: "delete_field",
            label: "Removal field (optional)";
        /// Values of the field that mark a removal: texts, or numbers and booleans as text.
        is: Vec<String>, List(kinds::ANY, 1), required: true, flag: "delete_values",
            label: "Removal values";
    }
}

/// What an update does to the fields that it does not name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnUpdate {
    /// They are gone.
    #[default]
    Replace,
    /// They stay.
    Merge,
}

impl OnUpdate {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Replace => "replace",
            Self::Merge => "merge",
        }
    }
}

record! {
    /// `[[connectors]]`: a data source with its ingest keys.
    pub struct Connector {
        /// Name of the connector: 1 to 64 letters, digits, `_`, `.` or `-`; not `headgate` or `operator`.
        name: String, Text(kinds::CONNECTOR_NAME), required: true, fixed: true, example: r#""shop""#;
        /// Purpose, in at most 200 characters on one line.
        description: Option<String>, Text(kinds::DESCRIPTION), none: "no description",
            example: r#""The shop's webhooks""#, placeholder: "TEXT", label: "Description (optional)";
        /// How requests arrive: `ingest` for your own programs, `webhook` for providers that post to a URL.
        kind: ConnectorKind, Choice(&["ingest", "webhook"]), required: true, assumed: true, example: r#""webhook""#,
            guide: "Both addresses work for both kinds.", placeholder: "KIND", label: "Kind",
            choices: &[("webhook", "webhook: a provider posts to a URL"), ("ingest", "ingest: your own program")];
        /// Preset of the provider, one of `headgate preset list`. It determines how items and deliveries are
        /// identified.
        preset: Option<String>, Text(kinds::PRESET), none: "the scheme of its keys determines it",
            placeholder: "PRESET", example: r#""shopify""#, usual: "the scheme of its key",
            guide: "See [presets][tools-presets]. It applies at the connector's own address only.",
            late: true, label: "Provider", choices: &[("", "determined by its keys")];
        /// Field that identifies an item, such as `order.id`, in requests without `X-Item-Key`; several, separated by
        /// commas, identify it together; with `@delivery`, each delivery is an item.
        item_key: Option<String>, Text(kinds::FIELD), none: "the preset's field, or the position in the body",
            placeholder: "FIELD", example: r#""order.id""#, usual: "the preset's, or position",
            label: "Item key (optional)";
        /// Path of the array or object that holds the items in a body, such as `value`.
        items: Option<String>, Text(kinds::ITEMS_PATH), none: "the preset's path, or the whole body",
            placeholder: "PATH", example: r#""data.orders""#, usual: "the preset's, or the whole body",
            guide: "It applies at the connector's own address only.",
            late: true, label: "Path of the items (optional)";
        /// Field that orders the updates of an item: a number or an RFC 3339 time. It overrides the field of the stream.
        version: Option<String>, Text(kinds::FIELD), none: "the preset's field, or the stream's", flag: "version-field",
            placeholder: "FIELD", example: r#""updated_at""#, usual: "the preset's, or the stream's",
            late: true, label: "Version field (optional)";
        /// Items whose field has one of these values are removals; `_event` is the event of the delivery. It overrides the rule of the stream.
        delete_when: Option<DeleteWhen>, Table(DeleteWhen::FIELDS), none: "the preset's rule, or the stream's",
            placeholder: "FIELD=VALUES", example: r#"{ field = "_event", is = ["orders/delete"] }"#,
            usual: "the preset's, or the stream's", late: true;
        /// Seconds without an update after which an item is removed from the data pool. It overrides the time of the stream.
        expire_after_seconds: Option<u32>, Integer(1, STALE_SECONDS_MAX), none: "the stream's time", none_word: "never",
            flag: "expire-after", placeholder: "SECONDS", example: "3600", usual: "the stream's",
            late: true, label: "Expire items after (seconds, optional)";
        /// Whether the connector's keys can remove items.
        may_delete: Option<bool>, Boolean, none: "yes for `ingest`, no for `webhook`", none_word: "default",
            effective: true,
            placeholder: "ANSWER", example: "false", usual: "by kind",
            label: "Can remove items", choices: &[("", "default of its kind"), ("yes", "yes"), ("no", "no")];
        /// Requests per second for each key of the connector.
        requests_per_second: Option<u32>, Integer(1, RATE_MAX), none: "the limit of all keys", none_word: "default",
            inherits: "requests_per_second", flag: "rate", placeholder: "N", example: "50", usual: "`[limits]`",
            label: "Requests per second (optional)", group: "rate";
        /// Requests that each key of the connector can send at once.
        burst: Option<u32>, Integer(1, RATE_MAX), none: "the limit of all keys", none_word: "default",
            inherits: "burst", placeholder: "N", example: "100", usual: "`[limits]`",
            label: "Burst (optional)", group: "rate";
        /// Bytes of bodies per second that each key of the connector can store, on average; 0 is unlimited.
        bytes_per_second: Option<u64>, Integer(0, VOLUME_MAX), none: "the limit of all keys", none_word: "default",
            inherits: "bytes_per_second", placeholder: "BYTES", example: "100_000", usual: "`[limits]`",
            label: "Bytes per second (optional)", group: "volume";
        /// Bytes of bodies per UTC day that each key of the connector can store; 0 is unlimited.
        bytes_per_day: Option<u64>, Integer(0, VOLUME_MAX), none: "the limit of all keys", none_word: "default",
            inherits: "bytes_per_day", placeholder: "BYTES", example: "1_000_000_000", usual: "`[limits]`",
            label: "Bytes per day (optional)", group: "volume";
        /// Largest number of items in one request to the connector; 0 is unlimited. A larger request is rejected with 400.
        max_items_per_request: u32, Integer(0, 1_000_000), placeholder: "N", label: "Items per request (at most, 0: any)";
        /// Ingest keys of the connector.
        keys: Vec<Key>, Tables(&KEY), declared: true;
    }
}

/// A connector in a list.
pub(crate) const CONNECTOR: Element = Element {
    fields: Connector::FIELDS,
    one_of: &[],
};

/// How the requests of a connector come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConnectorKind {
    /// `POST /api/ingest`.
    #[default]
    Ingest,
    /// `POST /api/webhook/{stream}`, or `POST /api/webhook/{stream}/{connector}`.
    Webhook,
}

impl ConnectorKind {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::Webhook => "webhook",
        }
    }
}

record! {
    /// An ingest key: exactly one of `secret`, `sha256`, `verify` and `certificate`.
    pub struct Key {
        /// Name of the key, unique within the connector: 1 to 64 letters, digits, `_`, `.` or `-`.
        name: String, Text(kinds::NAME), required: true, fixed: true, example: r#""main""#;
        /// Owner or purpose of the key, in at most 200 characters on one line.
        description: Option<String>, Text(kinds::DESCRIPTION), none: "no description",
            example: r#""In the shop's settings""#, placeholder: "TEXT", label: "Description (optional)";
        /// Stream that the key writes to. It must exist.
        stream: String, Text(kinds::STREAM), required: true, fixed: true, example: r#""orders""#, placeholder: "STREAM", label: "Stream";
        /// Ingest key: it begins with `ik_` and has at least 24 characters.
        secret: Option<Secret>, Secret, none: "another field identifies the key", declared: true,
            example: r#"{ env = "SHOP_KEY" }"#;
        /// SHA-256 of the key as 64 hex digits, instead of `secret`; `headgate key new` prints it.
        sha256: Option<String>, Digest(kinds::SHA256_OF_KEY), none: "another field identifies the key", declared: true,
            example: r#""9f86d081…""#, alternative: true;
        /// SHA-256 fingerprint of a client's certificate, instead of `secret`; it requires TLS.
        certificate: Option<String>, Text(kinds::FINGERPRINT), none: "another field identifies the key", declared: true,
            example: r#""AB:CD:…""#, alternative: true, guide: "See [encryption](#encryption).";
        /// Time from which the key is rejected, in RFC 3339.
        expires_at: Option<String>, Time, none: "never", none_word: "never", flag: "expires", placeholder: "TIME",
            example: "2030-01-31T00:00:00Z", usual: "never", label: "Expires at (UTC, optional)";
        /// Networks, addresses or `unix` that the key is accepted from; an empty list allows every client.
        networks: Networks, List(kinds::PLACE, 0), placeholder: "NETWORK", flag: "network",
            guide: "Requests from elsewhere are answered 403.", label: "Networks (optional)";
        /// Whether the key is accepted as `?access_token=` of webhook requests. URLs are kept in logs and histories.
        allow_in_url: bool, Boolean, label: "Allow in URLs";
        /// Scheme and secret of a provider that signs its requests, instead of `secret`.
        verify: Option<Verify>, Table(VERIFY), none: "requests carry the key itself", fixed: true;
    }
}

/// An ingest key in a list.
pub(crate) const KEY: Element = Element {
    fields: Key::FIELDS,
    one_of: &["secret", "sha256", "verify", "certificate"],
};

record! {
    /// `[[read_keys]]`: a key for renderers; exactly one of `secret`, `sha256` and `certificate`.
    pub struct ReadKey {
        /// Name of the read key: 1 to 64 letters, digits, `_`, `.` or `-`.
        name: String, Text(kinds::NAME), required: true, fixed: true, example: r#""lobby-screen""#;
        /// Owner or purpose of the key, in at most 200 characters on one line.
        description: Option<String>, Text(kinds::DESCRIPTION), none: "no description",
            example: r#""The player in the lobby""#, placeholder: "TEXT", label: "Description (optional)";
        /// Streams that the key reads. All of them must exist.
        streams: Vec<String>, List(kinds::STREAM, 1), required: true, example: r#"["orders"]"#, placeholder: "STREAM",
            flag: "stream", entries_max: KEY_STREAMS_MAX, boxes: true, label: "Streams";
        /// Read key: it begins with `rk_`, or `ok_` for an operate key, and has at least 24 characters.
        secret: Option<Secret>, Secret, none: "another field identifies the key", declared: true,
            example: r#"{ file = "lobby-screen.key" }"#;
        /// SHA-256 of the key as 64 hex digits, instead of `secret`; `headgate key new` prints it.
        sha256: Option<String>, Digest(kinds::SHA256_OF_KEY), none: "another field identifies the key", declared: true,
            example: r#""9f86d081…""#, alternative: true;
        /// SHA-256 fingerprint of a client's certificate, instead of `secret`; it requires TLS.
        certificate: Option<String>, Text(kinds::FINGERPRINT), none: "another field identifies the key", declared: true,
            example: r#""AB:CD:…""#, alternative: true, guide: "See [encryption](#encryption).";
        /// Time from which the key is rejected, in RFC 3339.
        expires_at: Option<String>, Time, none: "never", none_word: "never", flag: "expires", placeholder: "TIME",
            example: "2030-01-31T00:00:00Z", usual: "never", label: "Expires at (UTC, optional)";
        /// Networks, addresses or `unix` that the key is accepted from; an empty list allows every client.
        networks: Networks, List(kinds::PLACE, 0), placeholder: "NETWORK", flag: "network",
            guide: "Tickets of the key are accepted from the same addresses.", label: "Networks (optional)";
        /// Whether the key is accepted as `?token=`, for programs that cannot set headers. URLs are kept in logs and histories.
        allow_in_url: bool, Boolean, label: "Allow in URLs";
        /// Feeds per second that the key can request.
        requests_per_second: Option<u32>, Integer(1, RATE_MAX), none: "50", none_word: "default", flag: "rate",
            placeholder: "N", example: "50", usual: "50", guide: "See [feeds][feeds].",
            label: "Feeds per second (optional)";
        /// Origins whose pages can read with the key, in addition to `live.origins`; `"null"` for pages from files, `"*"` for any.
        origins: Vec<String>, List(kinds::ORIGIN, 0), placeholder: "ORIGIN", flag: "origin", entries_max: KEY_ORIGINS_MAX,
            label: "Origins (optional)";
        /// Items that the key sees: conditions that must all hold. Others do not exist for it.
        r#where: Option<KeyWhere>, Text(kinds::KEY_CONDITIONS), none: "all items of its streams", none_word: "all",
            placeholder: "CONDITIONS", example: r#""team:red""#, guide: "See [limits of a read key][limits].",
            label: "Only items where (optional)";
        /// Fields that the key sees: names, and `home.*` for all names that begin with `home.`. Others do not exist for
        /// it.
        fields: Option<KeyFields>, Text(kinds::KEY_FIELDS), none: "all fields", none_word: "all", placeholder: "FIELDS",
            example: r#""home.name,home.score""#, guide: "See [limits of a read key][limits].",
            label: "Only these fields (optional)";
        /// What the screen with this key should show: a path or a URL, without the key.
        page: Option<String>, Text(kinds::PAGE), none: "nothing in particular", none_word: "any",
            placeholder: "PAGE", example: r#""/render/orders""#, guide: "See [screens][screens].",
            label: "Page that it should show (optional)";
        /// Whether a screen with this key should always be connected, or poll: if it is away, that is a problem.
        expect: bool, Boolean, guide: "See [screens][screens].", label: "Should always be there";
        /// Seconds after which an expected screen that is away is a problem.
        away_after_seconds: u32 = 60, Integer(1, STALE_SECONDS_MAX), placeholder: "SECONDS", flag: "away-after",
            label: "Away after (seconds)";
        /// Whether the key can also override and hold what its streams show: an operate key. It cannot be changed afterwards.
        operate: bool, Boolean, fixed: true, guide: "See [acting on what is shown][acts].", label: "May override and hold";
    }
}

/// A read key in a list.
pub(crate) const READ_KEY: Element = Element {
    fields: ReadKey::FIELDS,
    one_of: &["secret", "sha256", "certificate"],
};

impl Key {
    /// What it is known by: the SHA-256 of its text, where it has one. Always some after [`load`](crate::load),
    /// but for a key that awaits its tool's secret.
    pub fn digest(&self) -> Option<[u8; 32]> {
        match &self.verify {
            Some(verify) if verify.awaits_secret() => None,
            Some(verify) => Some(verify.digest(&self.stream)),
            None => digest(
                self.secret.as_ref(),
                self.sha256.as_deref(),
                self.certificate.as_deref(),
            ),
        }
    }
}

impl ReadKey {
    /// Whether both do the same, whatever is said of them and whichever streams there are.
    pub fn does_like(&self, other: &Self) -> bool {
        let alike = Self {
            description: other.description.clone(),
            streams: other.streams.clone(),
            page: other.page.clone(),
            expect: other.expect,
            away_after_seconds: other.away_after_seconds,
            ..self.clone()
        };
        alike == *other
    }

    /// The SHA-256 of the key. Always some after [`load`](crate::load).
    pub fn digest(&self) -> Option<[u8; 32]> {
        digest(
            self.secret.as_ref(),
            self.sha256.as_deref(),
            self.certificate.as_deref(),
        )
    }
}

/// What is known of a key or a token by one of the three.
pub(super) fn digest(
    secret: Option<&Secret>,
    sha256: Option<&str>,
    certificate: Option<&str>,
) -> Option<[u8; 32]> {
    match (secret, sha256, certificate) {
        (Some(secret), ..) => Some(Sha256::digest(secret.reveal()).into()),
        (None, Some(digits), _) => checks::digest_of_hex(digits),
        (None, None, Some(fingerprint)) => checks::digest_of_fingerprint(fingerprint)
            .map(|fingerprint| *KeyHash::of_certificate(fingerprint).as_bytes()),
        (None, None, None) => None,
    }
}

/// What stands in place of a key's prefix.
pub fn shown_certificate(fingerprint: [u8; 32]) -> String {
    format!("cert_{}", hex(&fingerprint[..4]))
}
