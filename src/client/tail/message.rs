//! The messages of the live API that `tail` reads.
//!
//! `follow` reads them, `view` shows them.
//!
//! **Invariant**: additions of later versions never cause an error: unknown types are [`Kind::Other`], unknown members
//! are skipped.

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

/// The type of a message.
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

/// The members other than type and id.
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

/// An item with unparsed fields.
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
    // Members of an unknown type may have another meaning.
    let body = match kind {
        Kind::Other => Body::default(),
        _ => serde_json::from_str(data)?,
    };
    let id = head.id;
    Ok(Message { kind, id, body })
}

/// The fields of an item in their order, with values as written.
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
