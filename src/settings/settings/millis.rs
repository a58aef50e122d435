//! Times that files and messages write as whole milliseconds, in fields whose names end in `_ms`.
//!
//! **Invariant**: what is written is read back as it was.

use std::ops::Deref;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use base::clock::millis;

/// A duration, written as a number of milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Millis(Duration);

impl Millis {
    /// So many milliseconds.
    pub const fn new(ms: u64) -> Self {
        Self(Duration::from_millis(ms))
    }
}

impl Deref for Millis {
    type Target = Duration;

    fn deref(&self) -> &Duration {
        &self.0
    }
}

impl Serialize for Millis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(millis(self.0))
    }
}

impl<'de> Deserialize<'de> for Millis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u64::deserialize(deserializer).map(Self::new)
    }
}
