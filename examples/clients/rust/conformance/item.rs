//! Items of the kit, as a program of Rust would have them.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::de::{MapAccess, Visitor};
use serde::ser::{SerializeMap as _, SerializeSeq as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::Error;

/// Of an object, in their order.
#[derive(Default)]
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Members(members))
    }
}

/// What a program would have: exact numbers, and what JSON lacks.
pub(super) enum Item {
    Raw(Box<RawValue>),
    Text(String),
    Float(f64),
    Time(SystemTime),
    List(Vec<Item>),
    Object(Vec<(String, Item)>),
}

impl Item {
    fn of(raw: &RawValue) -> Self {
        let text = raw.get();
        match text.as_bytes().first() {
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
                Self::List(items.into_iter().map(Self::of).collect())
            }
            Some(b'{') => {
                let members: Members = serde_json::from_str(text).unwrap_or_default();
                if let [(name, value)] = &*members.0
                    && name == "$"
                {
                    return Self::special(value.get().trim_matches('"'));
                }
                let members = members.0.iter();
                let members = members.map(|(name, value)| (name.clone(), Self::of(value)));
                Self::Object(members.collect())
            }
            Some(b'"') => match serde_json::from_str(text) {
                Ok(text) => Self::Text(text),
                Err(_) => Self::Raw(raw.to_owned()),
            },
            _ => Self::Raw(raw.to_owned()),
        }
    }

    fn special(name: &str) -> Self {
        match name {
            "nan" => Self::Float(f64::NAN),
            "inf" => Self::Float(f64::INFINITY),
            "-inf" => Self::Float(f64::NEG_INFINITY),
            "time" => Self::Time(UNIX_EPOCH + Duration::from_secs(1_772_361_000)),
            // A text of Rust is Unicode; raw JSON may have half a character.
            _ => Self::Raw(RawValue::from_string(r#""\ud800""#.to_owned()).expect("JSON")),
        }
    }
}

impl Serialize for Item {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Raw(raw) => raw.serialize(serializer),
            Self::Text(text) => text.serialize(serializer),
            Self::Float(value) => value.serialize(serializer),
            Self::Time(at) => at.serialize(serializer),
            Self::List(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    list.serialize_element(item)?;
                }
                list.end()
            }
            Self::Object(members) => {
                let mut map = serializer.serialize_map(Some(members.len()))?;
                for (name, value) in members {
                    map.serialize_entry(name, value)?;
                }
                map.end()
            }
        }
    }
}

/// Makes items of texts.
pub(super) fn items(texts: &[String]) -> Result<Vec<Item>, Error> {
    let item = |text: &String| {
        let raw: Box<RawValue> = serde_json::from_str(text)
            .map_err(|error| Error::usage(format!("no JSON: {error}")))?;
        Ok(Item::of(&raw))
    };
    texts.iter().map(item).collect()
}
