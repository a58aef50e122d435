//! Who may do what on the admin listener.
//!
//! **Invariant**: a role may do all that the roles before it may.

use serde::{Deserialize, Serialize};

use crate::config::Secret;

/// The name of the token `admin.token`.
pub const ADMIN: &str = "admin";

/// What a token may do, the least first.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Read `/metrics`, nothing else.
    #[default]
    Metrics,
    /// Read every page, and everything that the admin API answers to GET.
    Viewer,
    /// What runs the place day to day: retries, dead letters, sending again, samples of tools, backups.
    Operator,
    /// Everything: also streams, connectors, keys, and who is signed in.
    Admin,
}

impl Role {
    /// All roles, the least first.
    pub const ALL: [Self; 4] = [Self::Metrics, Self::Viewer, Self::Operator, Self::Admin];

    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Metrics => "metrics",
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

/// `[[admin.tokens]]`: a token beside the admin token; exactly one of `secret`, `sha256` and `certificate`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdminToken {
    /// Unique among the tokens; `admin` is the name of `admin.token`.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// The token itself.
    pub secret: Option<Secret>,
    /// The SHA-256 of the token, 64 lowercase hex digits.
    pub sha256: Option<String>,
    /// The SHA-256 fingerprint of a certificate that stands for it, as hex digits, with colons or without.
    pub certificate: Option<String>,
    /// From when on it is refused, in RFC 3339.
    pub expires_at: Option<String>,
}

impl AdminToken {
    /// The SHA-256 of the token. Always some after [`load`](crate::config::load).
    pub fn digest(&self) -> Option<[u8; 32]> {
        super::caller::digest(
            self.secret.as_ref(),
            self.sha256.as_deref(),
            self.certificate.as_deref(),
        )
    }
}
