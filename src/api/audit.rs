//! The audit log: changes at run time, and what was done that cannot be undone.
//!
//! **Invariant**: a page is newest first, and `next` leads to exactly the entries after it. Verifying changes nothing.

use salvo_core::{Request, Router};
use salvo_oapi::{RouterExt, endpoint};

use super::paging::{cursor, limit};
use super::time;
use base::clock;
use catalog::key::KeyHashError;
use catalog::{AuditEntry, AuditFilter, ChainHead, ResourceKind, Verified, action_names};
use http::envelope::{self, Listing, Success};
use http::error::ApiError;
use operate::Operator;
use wire::{AuditData, ChainHeadData, ChainMismatchData, VerifiedData};

/// Longer is no name, and nobody is called.
const TEXT_CHARS_MAX: usize = 256;

/// The audit log.
pub(super) fn routes(operator: &Operator) -> Router {
    Router::with_path("audit")
        .oapi_tag("audit")
        .get(ListAudit(operator.clone()))
        .push(Router::with_path("verify").get(VerifyAudit(operator.clone())))
}

fn entry_data(entry: AuditEntry) -> AuditData {
    let json = |text: Option<String>| text.and_then(|text| serde_json::from_str(&text).ok());
    AuditData {
        id: entry.id.to_string(),
        at: clock::rfc3339(entry.at),
        who: entry.who,
        client: entry.client,
        action: entry.action,
        kind: entry.kind,
        name: entry.name,
        connector: entry.connector,
        before: json(entry.before),
        after: json(entry.after),
        digest: entry.digest.map(|digest| digest.to_string()),
    }
}

struct ListAudit(Operator);

/// Changes at run time, and what was done to dead letters, retries, items and files, newest first.
///
/// The newest 100,000 are kept.
#[endpoint(
    operation_id = "list_audit",
    parameters(
        ("action" = Option<String>, Query, description = "Only entries with this action. In version 0.1, `resend` was `send_again` and `end_retries` was `give_up`; either name finds both."),
        ("kind" = Option<String>, Query, description = "Only entries about this kind of resource."),
        ("name" = Option<String>, Query, description = "Only entries about resources with this name, or of the connector with this name. At most 256 characters."),
        ("who" = Option<String>, Query, description = "Only entries of this actor: `who` of an entry, or the name at its end. `night-shift` matches `token night-shift` and `page of token night-shift`. At most 256 characters."),
        ("since" = Option<String>, Query, description = "At or after this time, RFC 3339."),
        ("until" = Option<String>, Query, description = "At or before this time, RFC 3339."),
        ("limit" = Option<u32>, Query, description = "1 to 500, default 50."),
        ("cursor" = Option<String>, Query, description = "`next` of the previous page, with the same filters."),
    ),
)]
impl ListAudit {
    async fn handle(&self, req: &mut Request) -> Result<Listing<AuditData>, ApiError> {
        let (filter, limit) = (filter(req)?, limit(req)?);
        let (entries, more) = self.0.audit(filter, limit).await?;
        let next = entries.last().filter(|_| more);
        let next = next.map(|last| last.id.to_string());
        let entries = entries.into_iter().map(entry_data);
        Ok(envelope::list(entries.collect(), next))
    }
}

fn filter(req: &mut Request) -> Result<AuditFilter, ApiError> {
    let kinds = ResourceKind::ALL.map(ResourceKind::as_str);
    Ok(AuditFilter {
        before: cursor(req)?,
        action: word(req, "action", &action_names())?,
        kind: word(req, "kind", &kinds)?,
        name: text(req, "name")?,
        who: text(req, "who")?,
        since: time(req, "since")?,
        until: time(req, "until")?,
    })
}

/// One of a few words.
fn word(req: &mut Request, name: &str, known: &[&str]) -> Result<Option<String>, ApiError> {
    let word = req.query::<String>(name);
    match word.as_deref() {
        Some(word) if !known.contains(&word) => {
            let known = known.join(", ");
            Err(ApiError::invalid(format!("{name} must be one of {known}")))
        }
        _ => Ok(word),
    }
}

fn text(req: &mut Request, name: &str) -> Result<Option<String>, ApiError> {
    let text = req.query::<String>(name);
    let chars = text.as_ref().map_or(1, |text| text.chars().count());
    match (1..=TEXT_CHARS_MAX).contains(&chars) {
        true => Ok(text),
        false => Err(ApiError::invalid(format!(
            "{name} must have 1 to {TEXT_CHARS_MAX} characters"
        ))),
    }
}

fn chain_head_data(head: ChainHead) -> ChainHeadData {
    ChainHeadData {
        id: head.id.to_string(),
        at: clock::rfc3339(head.at),
        digest: head.digest.to_string(),
    }
}

/// What was found when an audit log was read, of a daemon or of a file.
pub fn verified_data(verified: Verified) -> VerifiedData {
    let mismatch = verified.mismatch.as_ref();
    let mismatch = mismatch.map(|mismatch| ChainMismatchData {
        id: mismatch.id.to_string(),
        at: mismatch.at.map(clock::rfc3339),
        reason: mismatch.reason.clone(),
    });
    VerifiedData {
        good: verified.is_good(),
        entries: verified.entries,
        oldest: verified.oldest.map(chain_head_data),
        newest: verified.newest.map(chain_head_data),
        old_mismatch: mismatch.clone(),
        mismatch,
        expected: verified.expected,
    }
}

struct VerifyAudit(Operator);

/// Verify the whole audit log.
///
/// Each entry has a digest over its content and the previous digest, so a changed, removed or moved entry is found. To
/// detect that the newest entries were cut off, or the whole log was rewritten, pass a digest that you noted earlier as
/// `expect`.
#[endpoint(
    operation_id = "verify_audit",
    parameters(
        ("expect" = Option<String>, Query, description = "A digest that must be in the audit log, 64 hexadecimal digits."),
    ),
    responses((status_code = 200, body = Success<VerifiedData>, description = "The result, also if the chain is broken.")),
)]
impl VerifyAudit {
    async fn handle(&self, req: &mut Request) -> Result<Success<VerifiedData>, ApiError> {
        let expected = req.query::<String>("expect").map(|text| text.parse());
        let expected = expected
            .transpose()
            .map_err(|error: KeyHashError| ApiError::invalid(format!("expect: {error}")))?;
        let verified = self.0.verify_audit(expected).await?;
        Ok(envelope::ok(verified_data(verified)))
    }
}
