//! What identifies the items of a tool.
//!
//! **Invariant**: of several ways to identify an item, the first that is there counts.

use crate::path::Path;

/// What identifies an item: the first of these that is there. The messages of one tool may name the same thing in
/// different fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemKey(pub Vec<KeyFields>);

/// One way to identify an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyFields {
    /// Fields that are the key together.
    Fields(Vec<Path>),
    /// The delivery's id.
    Delivery,
}

impl ItemKey {
    /// The one field that it is, if it is no more than that.
    pub fn single(&self) -> Option<&Path> {
        match self.0.as_slice() {
            [KeyFields::Fields(fields)] => match fields.as_slice() {
                [field] => Some(field),
                _ => None,
            },
            _ => None,
        }
    }

    /// The fields that come first.
    pub fn first(&self) -> String {
        let described = self.described();
        let first = described.split(", else ").next();
        first.unwrap_or_default().to_owned()
    }

    /// For people: `data.id`, `source and id`, `data.email_id, else data.id`.
    pub fn described(&self) -> String {
        let one = |fields: &KeyFields| match fields {
            KeyFields::Delivery => "@delivery".to_owned(),
            KeyFields::Fields(fields) => {
                let texts: Vec<&str> = fields.iter().map(Path::text).collect();
                texts.join(" and ")
            }
        };
        let all: Vec<String> = self.0.iter().map(one).collect();
        all.join(", else ")
    }
}
