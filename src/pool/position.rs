//! A place in the sequence of changes, and its text: what a renderer resumes from.
//!
//! **Invariant**: what is displayed is read back as the same place.

use base::order::{ChangeSeq, Epoch};

/// A place in the sequence of changes: `epoch:seq`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Another epoch's numbers mean nothing in this one.
    pub epoch: Epoch,
    pub seq: ChangeSeq,
}

impl Position {
    /// Reads `epoch:seq`.
    pub fn parse(text: &str) -> Option<Self> {
        let (epoch, seq) = text.split_once(':')?;
        let number = |text: &str| {
            let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| text.parse().ok()).flatten()
        };
        Some(Self {
            epoch: Epoch::new(number(epoch)?),
            seq: ChangeSeq::new(number(seq)?),
        })
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}:{}", self.epoch, self.seq)
    }
}
