//! The history of an item on its page: the values that its fields had, with the request that wrote each.
//!
//! **Invariant**: what an operator wrote is marked, with who it was. A page holds at most [`VALUES_MAX`] shortened values.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::item::show_value;
use crate::frame::NoPage;
use crate::paths;
use crate::text::{count, grouped, text, time};
use base::clock;
use operate::{HistoryPage, Operator};
use pool::{PastKind, PastValue};

/// Values on the page.
const VALUES_MAX: u32 = 2_000;
/// Characters of a value.
const VALUE_CHARS_MAX: usize = 200;

/// Past values by field, newest first.
pub(super) struct History {
    fields: BTreeMap<String, Vec<PastValue>>,
    /// There are older ones.
    more: bool,
}

impl History {
    pub(super) async fn of(operator: &Operator, stream: &str, key: &str) -> Result<Self, NoPage> {
        let page = HistoryPage {
            limit: VALUES_MAX,
            ..HistoryPage::default()
        };
        let past = operator.item_history(stream, key, &page).await?;
        let past = past.unwrap_or_default();
        let more = past.len() >= VALUES_MAX as usize;
        let mut fields: BTreeMap<String, Vec<PastValue>> = BTreeMap::new();
        for one in past {
            fields.entry(one.field.clone()).or_default().push(one);
        }
        Ok(Self { fields, more })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Below the value of a field; nothing if nothing is known.
    pub(super) fn of_field(&self, field: &str) -> Markup {
        html! {
            @if let Some(past) = self.fields.get(field) {
                details {
                    summary { "History: " (count(past.len() as u64, "value")) }
                    (table(past))
                }
            }
        }
    }

    /// Of the fields that are not `shown` above.
    pub(super) fn of_others(&self, shown: impl Fn(&str) -> bool) -> Markup {
        let others: Vec<_> = self
            .fields
            .iter()
            .filter(|(field, _)| !shown(field))
            .collect();
        html! {
            @if !others.is_empty() {
                h2 { "History of fields that are gone" }
                div.panel { @for (field, past) in others {
                    details {
                        summary { (text(field)) ": " (count(past.len() as u64, "value")) }
                        (table(past))
                    }
                } }
            }
            @if self.more { p.quiet { "Of the history, the newest " (grouped(VALUES_MAX.into())) " values are shown." } }
        }
    }
}

fn table(past: &[PastValue]) -> Markup {
    html! {
        div.table { table {
            thead { tr { th { "Time" } th { "Value" } th { "Written by" } } }
            tbody { @for one in past { tr {
                td data-label="Time" { (time(&clock::rfc3339(one.at))) }
                td data-label="Value" { (value(one)) }
                td data-label="Written by" { (writer(one)) }
            } } }
        } }
    }
}

fn value(past: &PastValue) -> Markup {
    html! {
        @match &past.kind {
            PastKind::Gone => span.quiet { "the field is gone" },
            PastKind::Removed => span.quiet { "the item was removed" },
            PastKind::Act { verb, .. } if verb == "release" => span.quiet { "released" },
            _ => (show_value(past.value.as_deref().unwrap_or("null"), VALUE_CHARS_MAX)),
        }
    }
}

fn writer(past: &PastValue) -> Markup {
    html! {
        @match &past.kind {
            PastKind::Act { verb, by, until } => {
                span.badge.warn { (verb) } " by " (text(by))
                @if let Some(until) = until { ", until " (time(&clock::rfc3339(*until))) }
            }
            _ => a.mono href=(paths::request(&past.request_id)) { (past.request_id) },
        }
    }
}
