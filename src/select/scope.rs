//! What a name stands for: a field of an item, or what the daemon knows of it.
//!
//! **Invariant**: which own names there are depends on the place alone. A field that has such a name is hidden by it where
//! it is named.

use std::borrow::Cow;

use item::{field_name, members, string_into};

use crate::error::quoted;
use crate::value::Value;

/// What the daemon knows of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Own {
    /// `_key`: what identifies the item.
    Key,
    /// `_stream`: the stream that it belongs to.
    Stream,
    /// `_updated_at`: when its data arrived.
    UpdatedAt,
    /// `_received_at`: when the request arrived that brought it.
    ReceivedAt,
    /// `_request_id`: that request.
    RequestId,
    /// `_date`: the day on which that request arrived, in UTC.
    Date,
    /// `_position`: 1 for the first row of a feed, and so on.
    Position,
    /// `_fields`: its fields as a JSON object.
    Fields,
    /// `_count`: how many items there are.
    Count,
    /// `_items`: the items as a JSON array.
    Items,
}

/// Characters of the day in a time of RFC 3339.
const DATE_CHARS: usize = 10;

const OWN: [(&str, Own); 10] = [
    ("_key", Own::Key),
    ("_stream", Own::Stream),
    ("_updated_at", Own::UpdatedAt),
    ("_received_at", Own::ReceivedAt),
    ("_request_id", Own::RequestId),
    ("_date", Own::Date),
    ("_position", Own::Position),
    ("_fields", Own::Fields),
    ("_count", Own::Count),
    ("_items", Own::Items),
];

impl Own {
    pub(crate) fn named(name: &str) -> Option<Self> {
        let found = OWN.iter().find(|(known, _)| *known == name);
        found.map(|(_, own)| *own)
    }

    fn name(self) -> &'static str {
        let found = OWN.iter().find(|(_, own)| *own == self);
        found.map_or("", |(name, _)| name)
    }
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Source {
    Own(Own),
    /// A field, its name as JSON writes it. It is compared with the text of the item, so that no name of an item is
    /// decoded.
    Field(String),
}

impl Source {
    /// The field with this name.
    pub fn field(name: &str) -> Self {
        let mut quoted = String::with_capacity(name.len() + 2);
        string_into(name, &mut quoted);
        Self::Field(quoted)
    }

    pub fn name(&self) -> Cow<'_, str> {
        match self {
            Self::Own(own) => own.name().into(),
            Self::Field(quoted) => field_name(quoted),
        }
    }
}

/// Which own names there are, and how a text is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scope {
    own: &'static [Own],
    /// Own names of other places are those of fields.
    takes_others: bool,
    has_fields: bool,
    /// The lenience that URLs of feeds rely on.
    pub(crate) is_feed: bool,
}

impl Scope {
    pub const FEED: Self = Self {
        own: &[Own::Key, Own::Stream, Own::UpdatedAt, Own::Position],
        takes_others: true,
        has_fields: true,
        is_feed: true,
    };
    pub const LIVE: Self = Self {
        own: &[Own::Key, Own::Stream, Own::UpdatedAt],
        takes_others: false,
        has_fields: true,
        is_feed: false,
    };
    pub const SINK: Self = Self {
        own: &[
            Own::Key,
            Own::Stream,
            Own::UpdatedAt,
            Own::ReceivedAt,
            Own::RequestId,
        ],
        ..Self::LIVE
    };
    pub const TEMPLATE: Self = Self {
        own: &[
            Own::Key,
            Own::Stream,
            Own::UpdatedAt,
            Own::ReceivedAt,
            Own::RequestId,
            Own::Fields,
        ],
        ..Self::LIVE
    };
    /// Answers of receivers: all names are fields.
    pub const ANSWER: Self = Self {
        own: &[],
        takes_others: true,
        has_fields: true,
        is_feed: false,
    };
    /// Templates of removals, which have no fields.
    pub const REMOVAL: Self = Self {
        own: &[Own::Key, Own::Stream, Own::RequestId],
        has_fields: false,
        ..Self::LIVE
    };
    /// Templates of several items together.
    pub const BATCH: Self = Self {
        own: &[Own::Items, Own::Count, Own::Stream],
        has_fields: false,
        ..Self::LIVE
    };

    /// No field is in it, because one file has the rows of many items.
    pub const FILE_NAME: Self = Self {
        own: &[Own::Stream, Own::Date],
        has_fields: false,
        ..Self::LIVE
    };

    /// What a name stands for, or what is wrong with it. An own name of another place is refused instead of read as a
    /// field, so that nobody gets an empty value unnoticed.
    pub(crate) fn source(self, name: &str) -> Result<Source, String> {
        match Own::named(name) {
            Some(own) if self.own.contains(&own) => Ok(Source::Own(own)),
            found if !self.has_fields || found.is_some() && !self.takes_others => {
                let known: Vec<&str> = self.own.iter().map(|own| own.name()).collect();
                let known = known.join(", ");
                Err(format!("{} is not known here; {known} are", quoted(name)))
            }
            _ => Ok(Source::field(name)),
        }
    }
}

/// What the language looks at: an item, and what is known of it. An own name that a text does not have
/// ([`crate::Where::names`]) may be left empty, so that nothing is worked out that no text uses.
#[derive(Debug, Clone, Copy, Default)]
pub struct Record<'a> {
    pub key: &'a str,
    pub stream: &'a str,
    pub updated_at: &'a str,
    pub received_at: &'a str,
    pub request_id: &'a str,
    /// From 1.
    pub position: usize,
    pub fields: &'a str,
    /// Of several items together: how many there are, and all of them as a JSON array.
    pub count: usize,
    pub items: &'a str,
}

impl<'a> Record<'a> {
    /// What it has of one source. Looks through all fields.
    pub fn value(&self, source: &Source) -> Value<'a> {
        match source {
            Source::Own(own) => self.own(*own),
            Source::Field(name) => members(self.fields)
                .find(|(field, _)| field == name)
                .map_or(Value::Empty, |(_, json)| Value::of(json)),
        }
    }

    /// What is known of it.
    pub fn own(&self, own: Own) -> Value<'a> {
        let text = |text: &'a str| Value::Text(text.into());
        match own {
            Own::Key => text(self.key),
            Own::Stream => text(self.stream),
            Own::UpdatedAt => text(self.updated_at),
            Own::ReceivedAt => text(self.received_at),
            Own::RequestId => text(self.request_id),
            Own::Date => text(self.received_at.get(..DATE_CHARS).unwrap_or_default()),
            Own::Position => Value::Number(self.position.to_string().into()),
            Own::Fields => Value::Json(self.fields),
            Own::Count => Value::Number(self.count.to_string().into()),
            Own::Items => Value::Json(self.items),
        }
    }
}
