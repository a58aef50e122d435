//! What part of a limit a node of a cluster may use.
//!
//! **Invariant**: never nothing, and never more than the whole.

/// What part of a limit a node may use: of [`NodeShare::WHOLE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeShare(u32);

impl NodeShare {
    pub const WHOLE: Self = Self(1 << 16);
    pub const MIN: Self = Self(1 << 6);

    /// So many parts of the whole; at least the smallest share, at most all of it.
    pub fn of_parts(parts: u32) -> Self {
        Self(parts).clamp(Self::MIN, Self::WHOLE)
    }

    pub fn parts(self) -> u32 {
        self.0
    }

    /// What each of so many nodes has where all have the same.
    pub fn of_equals(nodes: u32) -> Self {
        Self::of_parts(Self::WHOLE.0 / nodes.max(1))
    }
}
