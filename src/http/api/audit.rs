//! The audit trail: changes at run time, and what was done that cannot be undone.
//!
//! **Invariant**: a page is newest first, and `next` leads to exactly the entries after it.

use salvo_core::{Request, Router};
use salvo_oapi::{RouterExt, ToSchema, endpoint};
use serde::Serialize;
use serde_json::Value;

use super::paging::{cursor, limit};
use crate::catalog::AuditEntry;
use crate::clock;
use crate::http::envelope::{self, Listing};
use crate::http::error::ApiError;
use crate::operate::Operator;

/// The audit trail.
pub(super) fn routes(operator: &Operator) -> Router {
    Router::with_path("audit")
        .oapi_tag("audit")
        .get(ListAudit(operator.clone()))
}

/// A change at run time, or something that was done.
#[derive(Debug, Serialize, ToSchema)]
struct AuditData {
    /// Rises with each change.
    id: String,
    /// When, RFC 3339 in UTC with milliseconds.
    at: String,
    /// By what they were admitted who made it: `admin token`, or `admin page` for a session.
    who: String,
    /// Their address, or `unix`.
    client: String,
    /// `create`, `change`, `delete`, `rotate`, `revoke`, `send_again`, `retry`, `discard`, `remove`…
    action: String,
    /// `stream`, `connector`, `key`, `read_key`, `request`, `sink`, `item`, `backup`, `ticket` or
    /// `sign_in_link`.
    kind: String,
    /// Name of what was changed.
    name: String,
    /// Connector of a key or a request.
    connector: Option<String>,
    /// What it was; null: it did not exist.
    before: Option<Value>,
    /// What it is; null: it is gone. After a rotation both keys, `new` and `old`. Of what was done to a sink: how much.
    after: Option<Value>,
}

impl From<AuditEntry> for AuditData {
    fn from(entry: AuditEntry) -> Self {
        let json = |text: Option<String>| text.and_then(|text| serde_json::from_str(&text).ok());
        Self {
            id: entry.id.to_string(),
            at: clock::rfc3339(entry.at_ms),
            who: entry.who,
            client: entry.client,
            action: entry.action,
            kind: entry.kind,
            name: entry.name,
            connector: entry.connector,
            before: json(entry.before),
            after: json(entry.after),
        }
    }
}

struct ListAudit(Operator);

/// Changes at run time, and what was done to dead letters, retries, items and files, newest first.
///
/// The newest 100,000 are kept.
#[endpoint(
    operation_id = "list_audit",
    parameters(
        ("limit" = Option<u32>, Query, description = "1 to 500, default 50."),
        ("cursor" = Option<String>, Query, description = "`next` of the page before."),
    ),
)]
impl ListAudit {
    async fn handle(&self, req: &mut Request) -> Result<Listing<AuditData>, ApiError> {
        let (limit, before) = (limit(req)?, cursor(req)?);
        let (entries, more) = self.0.audit(before, limit).await?;
        let next = entries.last().filter(|_| more);
        let next = next.map(|last| last.id.to_string());
        let entries = entries.into_iter().map(AuditData::from);
        Ok(envelope::list(entries.collect(), next))
    }
}
