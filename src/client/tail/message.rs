//! The messages of the live API, as far as `tail` looks into them.
//!
//! `follow` reads them, `view` shows them.
//!
//! **Invariant**: what later versions add never makes reading fail: unknown types are [`Kind::Other`],
//! unknown members are skipped.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use settings::Millis;

/// A message. Members that its type does not have are empty.
#[derive(Debug)]
pub(super) struct Message<'a> {
    pub(super) kind: Kind,
    /// The position to resume from after this message, `EPOCH:SEQ`.
    pub(super) id: Option<String>,
    pub(super) body: Body<'a>,
}

/// What a message says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Snapshot,
    Update,
    Remove,
    Reset,
    Stale,
    Fresh,
    Heartbeat,
    Bye,
    Other,
}

/// The members beside type and id.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Body<'a> {
    pub(super) stream: String,
    #[serde(borrow)]
    pub(super) items: Vec<Item<'a>>,
    pub(super) keys: Vec<String>,
    pub(super) complete: bool,
    pub(super) reason: Option<String>,
    pub(super) updated_at: Option<String>,
    pub(super) stale_after_seconds: Option<u64>,
    pub(super) retry_ms: Option<Millis>,
}

/// An item, its fields unread.
#[derive(Debug, Deserialize)]
pub(super) struct Item<'a> {
    pub(super) key: String,
    #[serde(borrow)]
    pub(super) fields: &'a RawValue,
    pub(super) updated_at: Option<String>,
}

#[derive(Deserialize)]
struct Head {
    #[serde(rename = "type")]
    kind: String,
    id: Option<String>,
}

/// Reads a message.
pub(super) fn read(data: &str) -> serde_json::Result<Message<'_>> {
    let head: Head = serde_json::from_str(data)?;
    let kind = match head.kind.as_str() {
        "snapshot" => Kind::Snapshot,
        "update" => Kind::Update,
        "remove" => Kind::Remove,
        "reset" => Kind::Reset,
        "stale" => Kind::Stale,
        "fresh" => Kind::Fresh,
        "heartbeat" => Kind::Heartbeat,
        "bye" => Kind::Bye,
        _ => Kind::Other,
    };
    // Of an unknown type, members may mean something else.
    let body = match kind {
        Kind::Other => Body::default(),
        _ => serde_json::from_str(data)?,
    };
    let id = head.id;
    Ok(Message { kind, id, body })
}

/// The fields of an item in their order, values as written.
pub(crate) struct Fields<'a>(pub(crate) Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the fields of an item")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Fields(fields))
    }
}
