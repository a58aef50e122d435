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
}

impl Endpoint {
    /// `ingest`, `webhook` or `items`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::Webhook => "webhook",
            Self::Items => "items",
        }
    }

    pub(super) fn code(self) -> i64 {
        match self {
            Self::Ingest => 0,
            Self::Webhook => 1,
            Self::Items => 2,
        }
    }

    pub(super) fn from_code(code: i64) -> Self {
        match code {
            1 => Self::Webhook,
            2 => Self::Items,
            _ => Self::Ingest,
        }
    }
}
