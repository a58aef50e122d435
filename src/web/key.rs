//! What pages of ingest keys and of read keys have in common.
//!
//! **Invariant**: the two kinds of keys end in the same words.

pub(super) mod shown_once;

use maud::{Markup, html};

use super::form::{Field, Typed};
use super::text::time;
use base::clock::{self, Unix};
use catalog::KeyState;
use settings::Networks;

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

/// From where a key is taken.
const NETWORKS: Field<'_> = Field {
    name: "networks",
    label: "Networks (optional)",
    hint: "From where it is taken: 10.0.0.0/8, single addresses, or unix, with commas between them. Without any: from everywhere.",
};
const NETWORKS_CHARS_MAX: usize = 2_000;

/// The field for the networks of a key.
pub(super) fn networks_field(typed: &Typed) -> Markup {
    typed.input(NETWORKS, NETWORKS_CHARS_MAX, false)
}

/// What stands in it at first.
pub(super) fn initial_networks(networks: &Networks) -> (&'static str, String) {
    (NETWORKS.name, networks.to_string())
}

/// What it says.
pub(super) fn read_networks(typed: &mut Typed) -> Networks {
    let said = typed.text(NETWORKS.name);
    let texts = said.split([',', ' ']).filter(|text| !text.is_empty());
    Networks::of(texts).unwrap_or_else(|message| {
        typed.reject(NETWORKS.name, message);
        Networks::default()
    })
}

/// Among the facts of a key.
pub(super) fn networks_fact(networks: &Networks) -> Markup {
    html! { @if !networks.is_empty() { dt { "Taken from" } dd.mono { (networks) } } }
}

/// Whether a key can be used, and how long.
pub(super) fn state(state: KeyState, expires_at: Option<Unix>, is_replaced: bool) -> Markup {
    let ends = expires_at.map(|ends_at| time(&clock::rfc3339(ends_at)));
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
