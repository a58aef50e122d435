//! The history of an item on its page: the past values of its fields, each with the request that wrote it.
//!
//! **Invariant**: values of operators are marked with the operator. A page contains at most [`VALUES_MAX`] shortened
//! values.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::item::show_value;
use crate::frame::NoPage;
use crate::paths;
use crate::text::{count, grouped, text, time};
use base::clock;
use operate::{HistoryPage, Operator};
use pool::{PastKind, PastValue};

/// Maximum values on the page.
const VALUES_MAX: u32 = 2_000;
/// Maximum characters of a value.
const VALUE_CHARS_MAX: usize = 200;

/// Past values by field, newest first.
pub(super) struct History {
    fields: BTreeMap<String, Vec<PastValue>>,
    /// Older values exist.
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

    /// The history of each field; `is_here`: the item has the field.
    pub(super) fn of_all(&self, is_here: impl Fn(&str) -> bool) -> Markup {
        html! {
            @if !self.fields.is_empty() {
                h2 { "History" }
                div.panel { @for (field, past) in &self.fields {
                    details {
                        summary { (text(field)) ": " (count(past.len() as u64, "value")) @if !is_here(field) { span.quiet { " (removed)" } } }
                        (table(past))
                    }
                } }
            }
            @if self.more { p.quiet { "The newest " (grouped(VALUES_MAX.into())) " values of the history are shown." } }
        }
    }
}

fn table(past: &[PastValue]) -> Markup {
    html! {
        div.table { table {
            thead { tr { th { "Time" } th { "Value" } th { "Source" } } }
            tbody { @for one in past { tr {
                td data-label="Time" { (time(&clock::rfc3339(one.at))) }
                td data-label="Value" { (value(one)) }
                td data-label="Source" { (writer(one)) }
            } } }
        } }
    }
}

fn value(past: &PastValue) -> Markup {
    html! {
        @match &past.kind {
            PastKind::Gone => span.quiet { "field removed" },
            PastKind::Removed => span.quiet { "item removed" },
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
