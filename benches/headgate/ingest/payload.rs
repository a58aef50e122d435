//! The bodies that are sent, and the rows that they become.
//!
//! Called by the rounds (requests), by the plain upsert (rows) and by the check that the pool holds what was sent.
//!
//! **Invariant:** every item carries a revision that was never sent before, so that no write is skipped because
//! the row is unchanged, and nested and flat form of one shape hold the same fields in the same order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Items in one array body.
pub(crate) const ARRAY_ITEMS: usize = 5_000;

/// Keys of small objects that are sent again and again.
const FEW_KEYS: u64 = 100;

/// Keys that small objects draw from where there are many.
const MANY_KEYS: u64 = 100_000;

/// Keys that larger objects and recurring arrays use again and again.
pub(crate) const RECURRING_KEYS: u64 = 5_000;

/// Keys that random arrays draw from.
pub(crate) const RANDOM_KEYS: u64 = 200_000;

/// The field that `X-Item-Key` names.
pub(crate) const ITEM_KEY: &str = "order.id";

const KEY_SLOT: &str = "KKKKKK";
const REVISION_SLOT: &str = "RRRRRRRRRR";
/// The first revision has as many digits as the slot: a JSON number must not begin with 0.
const REVISION_FIRST: u64 = 1_000_000_000;

/// One kind of body, with a stream and a key of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Shape {
    /// One object of about 200 bytes, the same 100 keys again and again.
    Small,
    /// One object of about 200 bytes, keys drawn from 100,000.
    Many,
    /// One object of about 2 KB, the same 5,000 keys again and again.
    Medium,
    /// 5,000 items just under 1 MB, the same 5,000 keys each time.
    Recurring,
    /// 5,000 items just under 1 MB, keys drawn from 200,000.
    Random,
}

impl Shape {
    /// Every shape, in the order in which they run.
    pub(crate) const ALL: [Self; 5] = [
        Self::Small,
        Self::Many,
        Self::Medium,
        Self::Recurring,
        Self::Random,
    ];

    /// The name on the command line and of the stream.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Many => "many",
            Self::Medium => "medium",
            Self::Recurring => "recurring",
            Self::Random => "random",
        }
    }

    /// What the table calls it.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Small => "200 B, 100 keys",
            Self::Many => "200 B, 100,000 keys",
            Self::Medium => "2 KB",
            Self::Recurring => "1 MB, recurring keys",
            Self::Random => "1 MB, random keys",
        }
    }

    /// The ingest key whose stream this shape fills.
    pub(crate) fn ingest_key(self) -> String {
        format!("ik_bench_{}_0123456789abcdef", self.name())
    }

    /// Keep-alive connections that send it.
    pub(crate) fn connections(self) -> usize {
        if self.is_array() { 8 } else { 64 }
    }

    /// Items in one request.
    pub(crate) fn items(self) -> usize {
        if self.is_array() { ARRAY_ITEMS } else { 1 }
    }

    /// Whether the body is an array of [`ARRAY_ITEMS`].
    pub(crate) fn is_array(self) -> bool {
        matches!(self, Self::Recurring | Self::Random)
    }

    /// Whether the pool has every key of it before the rounds, which send too few requests to name them all.
    pub(crate) fn is_filled(self) -> bool {
        self.is_array() || self == Self::Many
    }

    /// Keys that the stream has once each of them was sent.
    pub(crate) fn keys(self) -> u64 {
        match self {
            Self::Small => FEW_KEYS,
            Self::Many => MANY_KEYS,
            Self::Medium | Self::Recurring => RECURRING_KEYS,
            Self::Random => RANDOM_KEYS,
        }
    }

    /// The item as it is submitted, with slots for key and revision.
    pub(crate) fn nested(self) -> String {
        let order = format!(
            r#"{{"order":{{"id":"{KEY_SLOT}","total":129.90,"currency":"EUR","revision":{REVISION_SLOT}}},"customer":{{"name":"Ada Lovelace","city":"London"}},"status":"confirmed","tags":["new","gifts"],"position":12"#
        );
        match self {
            Self::Medium => {
                let lines: Vec<String> = (1..=MEDIUM_LINES)
                    .map(|line| {
                        format!(r#""{line:02}":{{"sku":"A-{line:02}-774","title":"Enamel mug, \"steel\" {line}","price":12.50,"amount":{line}}}"#)
                    })
                    .collect();
                format!("{order},\"lines\":{{{}}}}}", lines.join(","))
            }
            _ => order + "}",
        }
    }

    /// The item as the pool keeps it, with slots for key and revision.
    pub(crate) fn flat(self) -> String {
        let order = format!(
            r#"{{"order.id":"{KEY_SLOT}","order.total":129.90,"order.currency":"EUR","order.revision":{REVISION_SLOT},"customer.name":"Ada Lovelace","customer.city":"London","status":"confirmed","tags":["new","gifts"],"position":12"#
        );
        match self {
            Self::Medium => {
                let lines: Vec<String> = (1..=MEDIUM_LINES)
                    .map(|line| {
                        format!(r#""lines.{line:02}.sku":"A-{line:02}-774","lines.{line:02}.title":"Enamel mug, \"steel\" {line}","lines.{line:02}.price":12.50,"lines.{line:02}.amount":{line}"#)
                    })
                    .collect();
                format!("{order},{}}}", lines.join(","))
            }
            _ => order + "}",
        }
    }
}

/// Order lines that bring the medium body to about 2 KB.
const MEDIUM_LINES: usize = 23;

/// Source of revisions that never repeat, shared by everything that sends or writes.
#[derive(Clone, Debug)]
pub(crate) struct Revisions(Arc<AtomicU64>);

impl Revisions {
    /// Starts with the first one.
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicU64::new(REVISION_FIRST)))
    }

    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// The order in which one sender names keys.
#[derive(Clone, Debug)]
pub(crate) enum Keys {
    /// One after the other, and again from 0 after `count`.
    Cycle { next: u64, count: u64 },
    /// Uniformly drawn from `0..count` (xorshift; the seed makes runs repeatable).
    Random { state: u64, count: u64 },
}

impl Keys {
    /// The keys of `shape` for sender number `sender`.
    pub(crate) fn of(shape: Shape, sender: usize) -> Self {
        let (sender, count) = (sender as u64, shape.keys());
        match shape {
            Shape::Many | Shape::Random => Self::Random {
                state: 0x9E37_79B9_7F4A_7C15 ^ (sender + 1).wrapping_mul(0xD1B5_4A32_D192_ED03),
                count,
            },
            Shape::Recurring => Self::Cycle { next: 0, count },
            Shape::Small | Shape::Medium => Self::Cycle {
                next: sender * count / shape.connections() as u64 % count,
                count,
            },
        }
    }

    /// Every key of `shape` once, in order: fills the pool before the rounds.
    pub(crate) fn every(shape: Shape) -> Self {
        Self::Cycle {
            next: 0,
            count: shape.keys(),
        }
    }

    fn next(&mut self) -> u64 {
        match self {
            Self::Cycle { next, count } => {
                let key = *next;
                *next = (key + 1) % *count;
                key
            }
            Self::Random { state, count } => {
                *state ^= *state << 13;
                *state ^= *state >> 7;
                *state ^= *state << 17;
                (*state >> 16) % *count
            }
        }
    }
}

/// A whole HTTP request in one buffer, given new keys and revisions in place before each sending.
#[derive(Debug)]
pub(crate) struct Requests {
    bytes: Vec<u8>,
    body_at: usize,
    slots: Vec<Slot>,
    keys: Keys,
    revisions: Revisions,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    key_at: usize,
    revision_at: usize,
}

impl Slot {
    fn find(template: &str, offset: usize) -> Self {
        let at = |slot| offset + template.find(slot).unwrap_or_default();
        Self {
            key_at: at(KEY_SLOT),
            revision_at: at(REVISION_SLOT),
        }
    }

    fn fill(self, bytes: &mut [u8], key: u64, revision: u64) {
        write_digits(&mut bytes[self.key_at..][..KEY_SLOT.len()], key);
        write_digits(
            &mut bytes[self.revision_at..][..REVISION_SLOT.len()],
            revision,
        );
    }
}

/// What a body is made of: items, and what stands before and after them.
#[derive(Debug)]
pub(crate) struct Body {
    /// One item, with slots for key and revision.
    pub(crate) item: String,
    /// What the body begins with.
    pub(crate) open: &'static str,
    /// What it ends with.
    pub(crate) close: &'static str,
    /// How many items there are.
    pub(crate) items: usize,
}

impl Body {
    /// As the daemon takes it.
    pub(crate) fn of(shape: Shape) -> Self {
        let (open, close) = if shape.is_array() {
            ("[", "]")
        } else {
            ("", "")
        };
        Self {
            item: shape.nested(),
            open,
            close,
            items: shape.items(),
        }
    }

    /// An array of the items of `shape`, also where that sends single objects.
    fn array_of(shape: Shape) -> Self {
        Self {
            item: shape.nested(),
            open: "[",
            close: "]",
            items: ARRAY_ITEMS,
        }
    }
}

impl Requests {
    /// Requests of `shape` that name `keys`.
    pub(crate) fn new(shape: Shape, keys: Keys, revisions: &Revisions) -> Self {
        let head = |length| request_head(&shape.ingest_key(), ITEM_KEY, length);
        Self::with(&Body::of(shape), head, keys, revisions)
    }

    /// Arrays that name every key of `shape` once, in order.
    pub(crate) fn every_key(shape: Shape, revisions: &Revisions) -> Self {
        let head = |length| request_head(&shape.ingest_key(), ITEM_KEY, length);
        Self::with(&Body::array_of(shape), head, Keys::every(shape), revisions)
    }

    /// The same with another body; `head` is given its length.
    pub(crate) fn with(
        body: &Body,
        head: impl FnOnce(usize) -> String,
        keys: Keys,
        revisions: &Revisions,
    ) -> Self {
        let Body {
            item, open, close, ..
        } = body;
        let items = vec![item.as_str(); body.items].join(",");
        let text = format!("{open}{items}{close}");
        let head = head(text.len());
        let first = head.len() + open.len();
        let slots = (0..body.items)
            .map(|index| Slot::find(item, first + index * (item.len() + 1)))
            .collect();
        Self {
            body_at: head.len(),
            bytes: [head, text].concat().into_bytes(),
            slots,
            keys,
            revisions: revisions.clone(),
        }
    }

    /// The next request, complete with its head.
    pub(crate) fn next(&mut self) -> &[u8] {
        let revision = self.revisions.next();
        for slot in &self.slots {
            slot.fill(&mut self.bytes, self.keys.next(), revision);
        }
        &self.bytes
    }

    /// Bytes of the body.
    pub(crate) fn body_len(&self) -> usize {
        self.bytes.len() - self.body_at
    }
}

/// The head of a POST to `/api/ingest`.
pub(crate) fn request_head(ingest_key: &str, item_key: &str, body_len: usize) -> String {
    format!(
        "POST /api/ingest HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {ingest_key}\r\n\
         Content-Type: application/json\r\nX-Item-Key: {item_key}\r\nContent-Length: {body_len}\r\n\r\n"
    )
}

/// The rows that array bodies become, for the plain upsert.
#[derive(Debug)]
pub(crate) struct Rows {
    template: Vec<u8>,
    slot: Slot,
    keys: Keys,
    revisions: Revisions,
}

impl Rows {
    /// Rows of `shape` that name `keys`.
    pub(crate) fn new(shape: Shape, keys: Keys, revisions: &Revisions) -> Self {
        let flat = shape.flat();
        Self {
            slot: Slot::find(&flat, 0),
            template: flat.into_bytes(),
            keys,
            revisions: revisions.clone(),
        }
    }

    /// Key and fields of the rows of one array.
    pub(crate) fn next_array(&mut self) -> Vec<(String, String)> {
        let revision = self.revisions.next();
        (0..ARRAY_ITEMS)
            .map(|_| {
                let key = self.keys.next();
                self.slot.fill(&mut self.template, key, revision);
                (
                    key_text(key),
                    String::from_utf8_lossy(&self.template).into_owned(),
                )
            })
            .collect()
    }
}

/// The fields that the pool must hold for `key` of `shape`, apart from the revision, which is taken from `found`.
pub(crate) fn expected_fields(
    shape: Shape,
    key: u64,
    found: &serde_json::Value,
) -> serde_json::Result<serde_json::Value> {
    let revision = found["order.revision"].to_string();
    let text = shape
        .flat()
        .replace(KEY_SLOT, &key_text(key))
        .replace(REVISION_SLOT, &revision);
    serde_json::from_str(&text)
}

/// A key as it is written in the item.
pub(crate) fn key_text(key: u64) -> String {
    format!("{key:06}")
}

fn write_digits(slot: &mut [u8], mut number: u64) {
    for digit in slot.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}
