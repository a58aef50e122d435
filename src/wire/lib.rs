//! What answers of the admin API say: words that the daemon writes and the command line reads.
//!
//! **Invariant**: plain data. It names no other package, so that both sides can use it.
#![deny(unsafe_code)]
#![warn(missing_docs)]

/// The status of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Stored, not yet in every sink.
    Accepted,
    /// In every sink that wants its stream.
    Processed,
    /// In every sink, and none of its items changed the data pool: it had a higher version of them.
    Stale,
    /// Some sink gave up on some of its items.
    Failed,
    /// Some sink gave up on some of its items, and somebody discarded them.
    Discarded,
    /// Refused.
    Rejected,
    /// A repeat.
    Duplicate,
    /// Came with a test key.
    Test,
    /// Removed an item.
    Removed,
    /// A greeting of a tool, or an event that is none: answered, with nothing to store.
    Handshake,
}

impl Status {
    /// All of them.
    pub const ALL: [Status; 10] = [
        Status::Accepted,
        Status::Processed,
        Status::Stale,
        Status::Failed,
        Status::Discarded,
        Status::Rejected,
        Status::Duplicate,
        Status::Test,
        Status::Removed,
        Status::Handshake,
    ];

    /// Its name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Processed => "processed",
            Self::Stale => "stale",
            Self::Failed => "failed",
            Self::Discarded => "discarded",
            Self::Rejected => "rejected",
            Self::Duplicate => "duplicate",
            Self::Test => "test",
            Self::Removed => "removed",
            Self::Handshake => "handshake",
        }
    }

    /// The status with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }
}
