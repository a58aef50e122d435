//! The common part of the pages of ingest keys and read keys.
//!
//! **Invariant**: the pages of both kinds of keys use the same texts.

pub(super) mod shown_once;

use maud::{Markup, html};

use super::text::time;
use base::clock::{self, Unix};
use catalog::KeyState;
use settings::Networks;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// The key stays in the list.
    Revoke,
    /// The key is no longer listed.
    Delete,
}

/// The networks as an entry in the list of facts of a key.
pub(super) fn networks_fact(networks: &Networks) -> Markup {
    html! { @if !networks.is_empty() { dt { "Allowed networks" } dd.mono { (networks) } } }
}

/// The state of a key, and its expiry.
pub(super) fn state(state: KeyState, expires_at: Option<Unix>, is_replaced: bool) -> Markup {
    let ends = expires_at.map(|ends_at| time(&clock::rfc3339(ends_at)));
    html! {
        @match (state, ends) {
            (KeyState::Revoked, _) => span.badge.bad { "revoked" },
            (KeyState::Expired, Some(ends)) => { span.badge.bad { "ended" } " " (ends) },
            (KeyState::Expired, None) => span.badge.bad { "ended" },
            (KeyState::Active, Some(ends)) if is_replaced => { span.badge.warn { "grace until" } " " (ends) },
            (KeyState::Active, Some(ends)) => { span.badge.good { "active" } " expires " (ends) },
            (KeyState::Active, None) => span.badge.good { "active" },
        }
    }
}
