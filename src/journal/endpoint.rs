//! The endpoints that requests come to.
//!
//! **Invariant**: the number of each stands in files and never changes.

/// The endpoint that a request came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// `POST /api/ingest`
    Ingest,
    /// `POST /api/webhook/{stream}`, or the address of a connector below it
    Webhook,
    /// `DELETE /api/streams/{stream}/items/{key}`
    Items,
    /// None: the daemon removes what expired.
    Expiry,
    /// None: the daemon tells its problems.
    Problems,
}

impl Endpoint {
    /// `ingest`, `webhook`, `items`, `expiry` or `problems`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::Webhook => "webhook",
            Self::Items => "items",
            Self::Expiry => "expiry",
            Self::Problems => "problems",
        }
    }

    pub(super) fn code(self) -> i64 {
        match self {
            Self::Ingest => 0,
            Self::Webhook => 1,
            Self::Items => 2,
            Self::Expiry => 3,
            Self::Problems => 4,
        }
    }

    pub(super) fn from_code(code: i64) -> Self {
        match code {
            1 => Self::Webhook,
            2 => Self::Items,
            3 => Self::Expiry,
            4 => Self::Problems,
            _ => Self::Ingest,
        }
    }
}
