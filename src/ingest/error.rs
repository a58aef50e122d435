//! The request path's errors, free of the web framework.
//!
//! `ingest` raises them; the request log and `http` need their status and code.
//!
//! **Invariant**: the text of an error is for the caller: it says what to do next and holds neither
//! a secret nor an inner error.

use item::flatten::FlattenError;
use thiserror::Error;

pub use item::flatten::Detail;

/// Why a request was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AcceptError {
    /// Key missing, malformed, unknown, expired or revoked: one answer for all, so that nobody learns which keys
    /// exist.
    #[error(
        "the ingest key is missing, unknown, expired or revoked; send a valid key in the header `Authorization: Bearer ik_…`"
    )]
    Unauthorized,
    /// The stream that the caller names is not the key's stream.
    #[error(
        "this key is for another stream; check the stream name in the URL, or use a key for that stream"
    )]
    StreamNotFound,
    /// The key's connector may not remove items.
    #[error(
        "keys of the connector {connector:?} cannot remove items; to allow it, an operator sets `may_delete = true` on the connector"
    )]
    NotAllowed { connector: std::sync::Arc<str> },
    /// The key is not taken from where the request comes from.
    #[error(
        "this key cannot be used from {address}; to allow the address, an operator adds it to the key's `networks`"
    )]
    AddressNotAllowed {
        /// An address, or `unix`.
        address: String,
    },
    /// Over the key's rate.
    #[error(
        "the rate limit is exceeded; retry in {retry_after_seconds} s, or send several items per request"
    )]
    RateLimited {
        /// Whole seconds, at least 1.
        retry_after_seconds: u64,
    },
    /// Over the bytes that the key may have stored.
    #[error(
        "this key has used its quota of {bytes_max} bytes per {per}; retry in {retry_after_seconds} s, or ask an operator to raise the quota"
    )]
    OverVolume {
        bytes_max: u64,
        /// `second` or `day`.
        per: &'static str,
        /// Whole seconds, at least 1.
        retry_after_seconds: u64,
    },
    /// The stream has as much in the data pool as it may.
    #[error(
        "the stream {stream:?} is full ({max} {what}); existing items can still be updated and removed. Remove items, or ask an operator to raise {setting}"
    )]
    StreamFull {
        stream: std::sync::Arc<str>,
        /// `items`, or `bytes`.
        what: &'static str,
        /// So many of them.
        max: u64,
        /// The setting of the stream that says so.
        setting: &'static str,
        /// Whole seconds until it is worth another try.
        retry_after_seconds: u64,
    },
    #[error("the body exceeds the limit of {limit_bytes} bytes; split it into several requests")]
    PayloadTooLarge { limit_bytes: u64 },
    /// The body is compressed in a way that is not known here.
    #[error("{message}")]
    UnknownEncoding {
        /// What the header says, and what to send.
        message: String,
    },
    /// Anything wrong with body or headers.
    #[error("{message}")]
    InvalidPayload {
        /// What is wrong and what to do.
        message: String,
        /// At most 20 places.
        details: Vec<Detail>,
    },
    /// Storage full, failing, overloaded or shutting down.
    #[error("{reason}; nothing was stored. Retry in {retry_after_seconds} s")]
    Unavailable {
        /// What is the matter, without inner detail.
        reason: &'static str,
        /// Whole seconds, at least 1.
        retry_after_seconds: u64,
    },
}

impl AcceptError {
    /// The HTTP status and the code that stand for it: the table of the service's specification.
    pub fn status(&self) -> (u16, &'static str) {
        match self {
            Self::InvalidPayload { .. } => (400, "INVALID_PAYLOAD"),
            Self::Unauthorized => (401, "UNAUTHORIZED"),
            Self::NotAllowed { .. } => (403, "FORBIDDEN"),
            Self::AddressNotAllowed { .. } => (403, "ADDRESS_NOT_ALLOWED"),
            Self::StreamNotFound => (404, "STREAM_NOT_FOUND"),
            Self::StreamFull { .. } => (429, "STREAM_FULL"),
            Self::PayloadTooLarge { .. } => (413, "PAYLOAD_TOO_LARGE"),
            Self::UnknownEncoding { .. } => (415, "UNSUPPORTED_ENCODING"),
            Self::RateLimited { .. } | Self::OverVolume { .. } => (429, "RATE_LIMITED"),
            Self::Unavailable { .. } => (503, "UNAVAILABLE"),
        }
    }

    /// An `InvalidPayload` without places.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::InvalidPayload {
            message: message.into(),
            details: Vec::new(),
        }
    }
}

impl From<FlattenError> for AcceptError {
    fn from(error: FlattenError) -> Self {
        Self::InvalidPayload {
            message: error.message,
            details: error.details,
        }
    }
}
