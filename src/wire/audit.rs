//! The audit log.
//!
//! **Invariant**: what an entry says of things is JSON as it was written.

use serde_json::Value;

use crate::answers;

answers! {
    /// A change at run time, or an act.
    pub struct AuditData {
        /// Rises with each change.
        id: String,
        /// When, RFC 3339 in UTC with milliseconds.
        at: String,
        /// Who did it: `admin token`, or `admin page` for a session; with another token of the configuration,
        /// `token NAME` or `page of token NAME`.
        who: String,
        /// Their address, or `unix`.
        client: String,
        /// `change`, `create`, `delete`, `discard`, `end_retries`, `forget`, `remove`, `resend`, `retry`, `revoke`,
        /// `role_refused`, `rotate`, `sign_in`, `sign_in_refused`, `sign_out`, `take-secret` or `trigger`. Entries of version 0.1 have
        /// `give_up` for `end_retries`, and `send_again` for `resend`.
        action: String,
        /// `stream`, `connector`, `key`, `read_key`, `request`, `sink`, `item`, `backup`, `ticket`, `session` or
        /// `sign_in_link`.
        kind: String,
        /// Name of what was changed.
        name: String,
        /// Connector of a key or a request.
        connector: Option<String>,
        /// State before; null: it did not exist.
        before: Option<Value>,
        /// State after; null: deleted. After a rotation, both keys, `new` and `old`. For acts on a sink, the numbers.
        after: Option<Value>,
        /// SHA-256 over this entry and the digest of the one before it, in hexadecimal; null: it was removed.
        digest: Option<String>,
    }

    /// The result of verifying the audit log.
    pub struct VerifiedData {
        /// Whether all entries are unchanged, and the digest `expect`, if given, is among them.
        good: bool,
        /// Number of valid entries, up to the first invalid one.
        entries: u64,
        /// The first of them; null: there is none.
        oldest: Option<ChainHeadData>,
        /// The last of them. Its digest, noted elsewhere, shows later that nothing up to it was changed or cut off.
        newest: Option<ChainHeadData>,
        /// The first invalid entry; null: all are valid.
        mismatch: Option<ChainMismatchData>,
        /// Deprecated: the same as `mismatch`, under its name of version 0.1. Version 0.3 removes it.
        #[serde(rename = "misfit")]
        old_mismatch: Option<ChainMismatchData>,
        /// Whether the digest `expect` is in the audit log; null: none was asked for.
        expected: Option<bool>,
    }

    /// An entry and its digest.
    pub struct ChainHeadData {
        /// The entry's id.
        id: String,
        /// When it was written, RFC 3339.
        at: String,
        /// Its digest.
        digest: String,
    }

    /// An invalid entry.
    pub struct ChainMismatchData {
        /// The entry's id.
        id: String,
        /// When it says that it was written, RFC 3339; null: that cannot be read.
        at: Option<String>,
        /// The reason.
        reason: String,
    }
}
