//! What pages of ingest keys and of read keys have in common.
//!
//! **Invariant**: the two kinds of keys end in the same words.

pub(super) mod shown_once;

use maud::{Markup, html};

use super::form::Field;
use super::text::time;
use crate::catalog::KeyState;
use crate::clock;

/// A way of ending a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// It stays in the list.
    Revoke,
    /// It is no longer listed.
    Delete,
}

/// When a key ends.
pub(super) const ENDS: Field<'_> = Field {
    name: "expires_at",
    label: "Ends (UTC, optional)",
    hint: "Without a time it never ends.",
};

/// Whether a key can be used, and how long.
pub(super) fn state(state: KeyState, expires_ms: Option<u64>, is_replaced: bool) -> Markup {
    let ends = expires_ms.map(|ends_ms| time(&clock::rfc3339(ends_ms)));
    html! {
        @match (state, ends) {
            (KeyState::Revoked, _) => span.badge.bad { "revoked" },
            (KeyState::Expired, Some(ends)) => { span.badge.bad { "ended" } " " (ends) },
            (KeyState::Expired, None) => span.badge.bad { "ended" },
            (KeyState::Active, Some(ends)) if is_replaced => { span.badge.warn { "grace until" } " " (ends) },
            (KeyState::Active, Some(ends)) => { span.badge.good { "active" } " ends " (ends) },
            (KeyState::Active, None) => span.badge.good { "active" },
        }
    }
}
