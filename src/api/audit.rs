//! The audit log: changes at run time, and what was done that cannot be undone.
//!
//! **Invariant**: a page is newest first, and `next` leads to exactly the entries after it. Verifying changes nothing.

use salvo_core::{Request, Router};
use salvo_oapi::{RouterExt, ToSchema, endpoint};
use serde::Serialize;
use serde_json::Value;

use super::paging::{cursor, limit};
use super::time;
use base::clock;
use catalog::key::KeyHashError;
use catalog::{AUDIT_ACTIONS, AuditEntry, AuditFilter, ChainHead, ResourceKind, Verified};
use http::envelope::{self, Listing, Success};
use http::error::ApiError;
use operate::Operator;

/// Longer is no name, and nobody is called.
const TEXT_CHARS_MAX: usize = 256;

/// The audit log.
pub(super) fn routes(operator: &Operator) -> Router {
    Router::with_path("audit")
        .oapi_tag("audit")
        .get(ListAudit(operator.clone()))
        .push(Router::with_path("verify").get(VerifyAudit(operator.clone())))
}

/// A change at run time, or something that was done.
#[derive(Debug, Serialize, ToSchema)]
struct AuditData {
    /// Rises with each change.
    id: String,
    /// When, RFC 3339 in UTC with milliseconds.
    at: String,
    /// By what they were admitted who made it: `admin token`, or `admin page` for a session; with another token of the
    /// configuration `token NAME`, or `page of token NAME`.
    who: String,
    /// Their address, or `unix`.
    client: String,
    /// `change`, `create`, `delete`, `discard`, `forget`, `give_up`, `remove`, `retry`, `revoke`, `role_refused`, `rotate`,
    /// `send_again`, `sign_in`, `sign_in_refused`, `sign_out`, `take-secret` or `trigger`.
    action: String,
    /// `stream`, `connector`, `key`, `read_key`, `request`, `sink`, `item`, `backup`, `ticket`, `session` or
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
    /// SHA-256 over this entry and the digest of the one before it, in hexadecimal; null: somebody took it away.
    digest: Option<String>,
}

impl From<AuditEntry> for AuditData {
    fn from(entry: AuditEntry) -> Self {
        let json = |text: Option<String>| text.and_then(|text| serde_json::from_str(&text).ok());
        Self {
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
}

struct ListAudit(Operator);

/// Changes at run time, and what was done to dead letters, retries, items and files, newest first.
///
/// The newest 100,000 are kept.
#[endpoint(
    operation_id = "list_audit",
    parameters(
        ("action" = Option<String>, Query, description = "Only what was done with this verb."),
        ("kind" = Option<String>, Query, description = "Only what was done to things of this kind."),
        ("name" = Option<String>, Query, description = "Only what was done to what has this name, or belongs to the connector of this name. At most 256 characters."),
        ("who" = Option<String>, Query, description = "Only what these did: `who` of an entry, or the name at its end, so that `night-shift` is `token night-shift` and `page of token night-shift`. At most 256 characters."),
        ("since" = Option<String>, Query, description = "At or after this time, RFC 3339."),
        ("until" = Option<String>, Query, description = "At or before this time, RFC 3339."),
        ("limit" = Option<u32>, Query, description = "1 to 500, default 50."),
        ("cursor" = Option<String>, Query, description = "`next` of the page before, with the same filters."),
    ),
)]
impl ListAudit {
    async fn handle(&self, req: &mut Request) -> Result<Listing<AuditData>, ApiError> {
        let (filter, limit) = (filter(req)?, limit(req)?);
        let (entries, more) = self.0.audit(filter, limit).await?;
        let next = entries.last().filter(|_| more);
        let next = next.map(|last| last.id.to_string());
        let entries = entries.into_iter().map(AuditData::from);
        Ok(envelope::list(entries.collect(), next))
    }
}

fn filter(req: &mut Request) -> Result<AuditFilter, ApiError> {
    let kinds = ResourceKind::ALL.map(ResourceKind::as_str);
    Ok(AuditFilter {
        before: cursor(req)?,
        action: word(req, "action", &AUDIT_ACTIONS)?,
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

/// What became of reading the whole audit log.
#[derive(Debug, Serialize, ToSchema)]
struct VerifiedData {
    /// Whether every entry is as it was written, and the digest that was asked for, if one was, is among them.
    good: bool,
    /// Entries that fit, up to the first that does not.
    entries: u64,
    /// The first of them; null: there is none.
    oldest: Option<MarkData>,
    /// The last of them. Its digest, noted elsewhere, shows later that nothing up to it was changed or cut off.
    newest: Option<MarkData>,
    /// The first entry that does not fit; null: all do.
    misfit: Option<ChainMismatchData>,
    /// Whether the digest `expect` is in the audit log; null: none was asked for.
    expected: Option<bool>,
}

/// An entry and its digest.
#[derive(Debug, Serialize, ToSchema)]
struct MarkData {
    /// The entry's id.
    id: String,
    /// When it was written, RFC 3339.
    at: String,
    /// Its digest.
    digest: String,
}

/// An entry that does not fit.
#[derive(Debug, Serialize, ToSchema)]
struct ChainMismatchData {
    /// The entry's id.
    id: String,
    /// When it says that it was written, RFC 3339; null: that cannot be read.
    at: Option<String>,
    /// What does not fit.
    reason: String,
}

impl From<ChainHead> for MarkData {
    fn from(mark: ChainHead) -> Self {
        Self {
            id: mark.id.to_string(),
            at: clock::rfc3339(mark.at),
            digest: mark.digest.to_string(),
        }
    }
}

impl From<Verified> for VerifiedData {
    fn from(verified: Verified) -> Self {
        Self {
            good: verified.is_good(),
            entries: verified.entries,
            oldest: verified.oldest.map(MarkData::from),
            newest: verified.newest.map(MarkData::from),
            misfit: verified.misfit.map(|misfit| ChainMismatchData {
                id: misfit.id.to_string(),
                at: misfit.at.map(clock::rfc3339),
                reason: misfit.reason,
            }),
            expected: verified.expected,
        }
    }
}

struct VerifyAudit(Operator);

/// Read the whole audit log, and see whether it is as it was written.
///
/// Each entry carries a digest over its content and the digest before it, so that an entry that was changed, taken out or
/// moved is found. That the newest entries were cut off, or the whole trail was made anew, only a digest shows that was
/// noted elsewhere: `expect`.
#[endpoint(
    operation_id = "verify_audit",
    parameters(
        ("expect" = Option<String>, Query, description = "A digest that must be in the audit log, 64 hexadecimal digits."),
    ),
    responses((status_code = 200, body = Success<VerifiedData>, description = "What was found, also if it is not good.")),
)]
impl VerifyAudit {
    async fn handle(&self, req: &mut Request) -> Result<Success<VerifiedData>, ApiError> {
        let expected = req.query::<String>("expect").map(|text| text.parse());
        let expected = expected
            .transpose()
            .map_err(|error: KeyHashError| ApiError::invalid(format!("expect: {error}")))?;
        let verified = self.0.verify_audit(expected).await?;
        Ok(envelope::ok(verified.into()))
    }
}
