//! Item policy: version field, removal condition, expiry, limits, and what updates do.
//!
//! **Invariant**: settings of a connector override those of its stream.

use std::num::NonZeroU32;

use super::Connector;
use settings::{DeleteWhen, OnUpdate, Stream};

/// What is set of the items of a key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// The field that says how new an item is.
    pub version: Option<Box<str>>,
    pub delete_when: Option<DeleteWhen>,
    /// After so long without another update an item goes.
    pub expire_after_seconds: Option<NonZeroU32>,
    /// Items that the stream may have in the data pool. A connector cannot set it, because a stream may have items of
    /// several.
    pub items_max: Option<u64>,
    /// Bytes of their keys and fields.
    pub bytes_max: Option<u64>,
    /// Whether updates are merged into what the stream has.
    pub merges: bool,
}

impl Rules {
    pub(super) fn of(connector: &Connector, stream: Option<&Stream>) -> Self {
        let version = connector.version.as_deref();
        let delete_when = connector.delete_when.as_ref();
        let seconds = connector.expire_after_seconds;
        Self {
            version: (version.or_else(|| stream?.version.as_deref())).map(Into::into),
            delete_when: (delete_when.or_else(|| stream?.delete_when.as_ref())).cloned(),
            expire_after_seconds: (seconds.or_else(|| stream?.expire_after_seconds))
                .and_then(NonZeroU32::new),
            items_max: stream.and_then(|stream| stream.items_max),
            bytes_max: stream.and_then(|stream| stream.bytes_max),
            merges: stream.is_some_and(|stream| stream.on_update == OnUpdate::Merge),
        }
    }
}
