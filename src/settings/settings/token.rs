//! Who may do what on the admin listener.
//!
//! **Invariant**: a role may do all that the roles before it may.

use serde::{Deserialize, Serialize};

use crate::Secret;
use crate::checks::kinds;
use crate::record::{Element, record};

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

record! {
    /// `[[admin.tokens]]`: a token beside the admin token; exactly one of `secret`, `sha256` and `certificate`.
    pub struct AdminToken {
        /// Name of the token; `admin` is the name of `admin.token`.
        name: String, Text(kinds::NAME), required: true, example: r#""grafana""#;
        /// Role of the token: `viewer`, `operator`, `admin`, or `metrics` for `/metrics` alone.
        role: Role, Choice(&["viewer", "operator", "admin", "metrics"]), required: true, example: r#""metrics""#,
            guide: "See [roles][roles].";
        /// Token of at least 24 characters; `openssl rand -hex 24` creates one.
        secret: Option<Secret>, Secret, none: "another field identifies the token",
            example: r#"{ env = "GRAFANA_TOKEN" }"#;
        /// SHA-256 of the token as 64 hex digits, instead of `secret`.
        sha256: Option<String>, Digest(kinds::SHA256_OF_TOKEN), none: "another field identifies the token",
            example: r#""9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08""#, alternative: true;
        /// SHA-256 fingerprint of a client's certificate, instead of `secret`; it requires TLS.
        certificate: Option<String>, Text(kinds::FINGERPRINT), none: "another field identifies the token",
            example: r#""AB:CD:…""#, alternative: true, guide: "See [encryption](#encryption).";
        /// Time from which the token is rejected, in RFC 3339.
        expires_at: Option<String>, Time, none: "never", example: "2030-01-31T00:00:00Z", usual: "never";
    }
}

/// A token in a list.
pub(crate) const ADMIN_TOKEN: Element = Element {
    fields: AdminToken::FIELDS,
    one_of: &["secret", "sha256", "certificate"],
};

impl AdminToken {
    /// The SHA-256 of the token. Always some after [`load`](crate::load).
    pub fn digest(&self) -> Option<[u8; 32]> {
        super::caller::digest(
            self.secret.as_ref(),
            self.sha256.as_deref(),
            self.certificate.as_deref(),
        )
    }
}
