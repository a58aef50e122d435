//! The list of keys on the page of a connector.
//!
//! **Invariant**: the list never contains the text of a key.

use maud::{Markup, html};

use super::key::{form_of, last_used, state};
use crate::text::{plain, text, time};
use crate::{description, paths};
use base::clock;
use catalog::Connector;

pub(super) fn table(connector: &Connector) -> Markup {
    html! {
        div.heading {
            h2 { "Keys" }
            a.button.plain href={ (paths::connector(&connector.name)) "/new-key" } { "New key" }
        }
        @if connector.keys.is_empty() {
            p.panel { "No keys, so no requests can be sent. " a href={ (paths::connector(&connector.name)) "/new-key" } { "Create a key" } "." }
        } @else {
            div.table { table {
                thead { tr { th { "Key" } th { "Begins with" } th { "Stream" } th { "State" } th { "Last used" } td {} } }
                tbody { @for key in &connector.keys { tr {
                    td data-label="Key" { span { (text(&key.name)) (description::below(key.description.as_deref())) } }
                    td data-label="Begins with" { (form_of(key)) }
                    td data-label="Stream" { a href=(paths::stream(&key.stream)) { (text(&key.stream)) } }
                    td data-label="State" { span { (state(key)) } }
                    td data-label="Last used" { span {
                        (last_used(key))
                        @if let Some(at) = key.refused_at() { br; span.badge.warn { "last rejected" } " " (time(&clock::rfc3339(at))) }
                    } }
                    td.tight data-label="" { @if key.created_at.is_some() {
                        a.button.plain href=(paths::ingest_key(key)) aria-label={ "Rotate, change or revoke the key " (plain(&key.name)) } { "Rotate or revoke" }
                    } @else { span.badge { "declared" } } }
                } } }
            } }
        }
    }
}
