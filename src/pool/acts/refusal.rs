//! Why an act is refused.
//!
//! **Invariant**: each says what to do, and nothing was changed.

use thiserror::Error;

/// Why an act was not made.
#[derive(Debug, Clone, Error, PartialEq, Eq)]
pub enum ActRefused {
    /// Of these keys.
    #[error("the stream shows no item with the key {}; check the key, or give \"create\": true to show an item that no source has", list(.0))]
    NoItem(Vec<String>),
    /// The same of a hold: what is not shown cannot be held.
    #[error("the stream shows no item with the key {}; check the keys, none is held", list(.0))]
    NoneToHold(Vec<String>),
    /// Of this item.
    #[error("the item shows no field {}; check the name, or give \"create\": true to show a field that the item does not have", list(.0))]
    NoField(Vec<String>),
    /// The value of this field, or the sum.
    #[error(
        "{field} shows no number that this can be added to, or the sum has over 100 digits; give the whole value with an override"
    )]
    NotANumber { field: String },
    /// With this act.
    #[error("{fields} fields of the stream would be overridden, {max} may be; release some first")]
    TooManyOverrides { fields: u64, max: u64 },
    /// With this act.
    #[error(
        "{keys} keys of the stream would be held, {max} may be; hold the stream instead, or resume some first"
    )]
    TooManyHeld { keys: u64, max: u64 },
    #[error("the stream has {items} items, one of at most {max} can be held; hold single keys")]
    TooLargeToHold { items: u64, max: u64 },
    /// By this operator, in this stream.
    #[error("none of your acts in this stream can be undone any more")]
    NothingToUndo,
    /// Somebody has built on it.
    #[error("your {verb} cannot be undone: {}; give \"skip\": true to take it off your list and leave everything as it is", because.join("; "))]
    Conflict {
        verb: String,
        /// Sentences without an end.
        because: Vec<String>,
    },
    /// With another verb or body.
    #[error("this Idempotency-Key was used for another act; use a new one for each act")]
    KeyReused,
}

impl ActRefused {
    /// A code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoItem(_) | Self::NoneToHold(_) => "ITEM_NOT_FOUND",
            Self::NoField(_) => "FIELD_NOT_FOUND",
            Self::NotANumber { .. } => "NOT_A_NUMBER",
            Self::TooManyOverrides { .. } => "TOO_MANY_OVERRIDES",
            Self::TooManyHeld { .. } | Self::TooLargeToHold { .. } => "TOO_MANY_HELD",
            Self::NothingToUndo => "NOTHING_TO_UNDO",
            Self::Conflict { .. } => "UNDO_CONFLICT",
            Self::KeyReused => "IDEMPOTENCY_KEY_REUSED",
        }
    }

    /// Each of what it is about.
    pub fn details(&self) -> &[String] {
        match self {
            Self::NoItem(names) | Self::NoneToHold(names) | Self::NoField(names) => names,
            Self::Conflict { because, .. } => because,
            _ => &[],
        }
    }
}

fn list(names: &[String]) -> String {
    const NAMED_MAX: usize = 5;
    let mut quoted: Vec<String> = names
        .iter()
        .take(NAMED_MAX)
        .map(|name| format!("{name:?}"))
        .collect();
    if names.len() > NAMED_MAX {
        quoted.push(format!("{} more", names.len() - NAMED_MAX));
    }
    quoted.join(", ")
}
