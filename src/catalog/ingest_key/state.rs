//! Whether a key can be used.
//!
//! **Invariant**: a revocation counts before an end.

use base::clock::Unix;

/// Whether a key can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyState {
    /// It can.
    Active,
    /// Its time has run out.
    Expired,
    /// Somebody revoked it.
    Revoked,
}

impl KeyState {
    /// As shown to people and programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }

    pub(crate) fn of(expires_at: Option<Unix>, revoked_at: Option<Unix>, now: Unix) -> Self {
        match (expires_at, revoked_at) {
            (_, Some(_)) => Self::Revoked,
            (Some(expires_at), _) if expires_at <= now => Self::Expired,
            _ => Self::Active,
        }
    }
}
