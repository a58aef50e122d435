//! What is said of an item beside its key and its fields, and its bytes in the encoding.
//!
//! **Invariant**: an item that is an update without a version and without an end takes no bytes here.

use std::num::NonZeroU32;

use super::{Version, WITH_FLAGS, WITH_META_2};

/// In a `key_len`: [`ItemMeta::BYTES`] bytes follow the shape.
pub(super) const HAS_META: u32 = 1 << 31;
/// In a `key_len`: the item is a removal.
pub(super) const IS_REMOVAL: u32 = 1 << 30;
/// In a `key_len`: behind these bytes stands the version as it was sent.
pub(super) const HAS_TEXT: u32 = 1 << 29;
/// In a `key_len`: the item replaces all that is there, also where updates merge.
pub(super) const IS_WHOLE: u32 = 1 << 28;
/// What is no length in a `key_len`.
pub(super) const FLAGS: u32 = HAS_META | IS_REMOVAL | HAS_TEXT | IS_WHOLE;
/// Stands for no version.
const NO_VERSION: i128 = i128::MIN;
/// The same in encoding 2, whose versions are thousandths in 64 bits.
const NO_VERSION_2: i64 = i64::MIN;

/// What is asked of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Action {
    /// It is new, or replaces what there is.
    #[default]
    Upsert,
    /// It is to go: only stream and key say which.
    Remove,
}

impl Action {
    /// `upsert` or `remove`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Upsert => "upsert",
            Self::Remove => "remove",
        }
    }

    /// The flag that says it.
    pub(super) fn flag(self) -> u32 {
        match self {
            Self::Upsert => 0,
            Self::Remove => IS_REMOVAL,
        }
    }
}

/// How an item relates to others of its key, beside the order of acceptance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemMeta {
    /// Its source's count or time of changes: it does not take the place of a higher one.
    pub version: Option<Version>,
    /// It expires after so long without another update.
    pub expire_after_seconds: Option<NonZeroU32>,
    /// It takes the place of the whole item, also in a stream whose updates merge: an operator has put it.
    pub is_whole: bool,
}

impl ItemMeta {
    /// Bytes that it takes, where it says something.
    pub(super) const BYTES: usize = 20;

    /// Of a removal that has no version, by a tool whose versions are times: its arrival stands for one.
    pub const REMOVAL_IN_TIME: ItemMeta = ItemMeta {
        version: None,
        expire_after_seconds: Some(NonZeroU32::MIN),
        is_whole: false,
    };

    /// Whether it is that. A removal expires never.
    pub fn is_removal_in_time(&self) -> bool {
        *self == Self::REMOVAL_IN_TIME
    }

    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        let version = self.version.map_or(NO_VERSION, Version::millionths);
        let seconds = self.expire_after_seconds.map_or(0, NonZeroU32::get);
        let mut bytes = [0; Self::BYTES];
        bytes[..16].copy_from_slice(&version.to_le_bytes());
        bytes[16..].copy_from_slice(&seconds.to_le_bytes());
        bytes
    }
}

/// What flags say of an item, and the bytes that follow.
pub(super) struct Said<'a> {
    pub(super) action: Action,
    pub(super) meta: ItemMeta,
    pub(super) sent_version: &'a [u8],
    pub(super) rest: &'a [u8],
}

/// None if the encoding has no such flags, or the bytes are too few.
#[cold]
pub(super) fn split(encoding: u8, flags: u32, bytes: &[u8]) -> Option<Said<'_>> {
    let mut said = Said {
        action: match flags & IS_REMOVAL {
            0 => Action::Upsert,
            _ => Action::Remove,
        },
        meta: ItemMeta::default(),
        sent_version: &[],
        rest: bytes,
    };
    let knows = match encoding {
        WITH_FLAGS => FLAGS,
        WITH_META_2 => HAS_META,
        _ => 0,
    };
    if flags & !knows != 0 || flags & (HAS_META | HAS_TEXT) == HAS_TEXT {
        return None;
    }
    if flags & HAS_META != 0 {
        let (version, rest) = match encoding {
            WITH_FLAGS => {
                let (version, rest) = bytes.split_first_chunk()?;
                let version = i128::from_le_bytes(*version);
                let version = (version != NO_VERSION).then_some(Version::from_millionths(version));
                (version, rest)
            }
            _ => {
                let (version, rest) = bytes.split_first_chunk()?;
                let version = i64::from_le_bytes(*version);
                let version =
                    (version != NO_VERSION_2).then_some(Version::from_thousandths(version));
                (version, rest)
            }
        };
        let (seconds, rest) = rest.split_first_chunk()?;
        said.meta = ItemMeta {
            version,
            expire_after_seconds: NonZeroU32::new(u32::from_le_bytes(*seconds)),
            is_whole: false,
        };
        said.rest = rest;
    }
    said.meta.is_whole = flags & IS_WHOLE != 0;
    if flags & HAS_TEXT != 0 {
        let (len, rest) = said.rest.split_first()?;
        (said.sent_version, said.rest) = rest.split_at_checked(usize::from(*len))?;
    }
    Some(said)
}
