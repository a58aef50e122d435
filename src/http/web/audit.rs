//! `/audit`: what was changed or done at run time, when and by whom.
//!
//! **Invariant**: it shows what `GET /api/admin/audit` answers, newest first, a page at a time.

use maud::{Markup, html};
use salvo_core::{Request, handler};

use super::frame::{NoPage, Page, Place};
use super::text::{text, text_of, time};
use crate::catalog::AuditEntry;
use crate::clock;
use crate::operate::Operator;

/// Entries on a page.
const ENTRIES: u32 = 50;
/// Characters of what something was, or is.
const CHARS_MAX: usize = 4_000;

/// `GET /audit`
pub(super) struct Audit(pub(super) Operator);

#[handler]
impl Audit {
    async fn handle(&self, req: &mut Request) -> Result<Page, NoPage> {
        page(&self.0, req).await
    }
}

async fn page(operator: &Operator, req: &mut Request) -> Result<Page, NoPage> {
    let before = req.query::<i64>("before");
    let (entries, more) = operator.audit(before, ENTRIES).await?;
    Ok(Page {
        title: "Audit trail".to_owned(),
        place: Place::Audit,
        still: html! {
            p.quiet { "Changes of connectors, keys, streams and read keys while the daemon runs, and what was done to dead letters, retries, items and backups: on these pages, with the command line or over the admin API. What a configuration declares is not among them." }
        },
        live: html! {
            (table(&entries, before.is_some()))
            p.row {
                @if before.is_some() { a.button.plain href="/audit" { "Newest" } }
                @if let Some(last) = entries.last().filter(|_| more) {
                    a.button.plain href={ "/audit?before=" (last.id) } { "Older" }
                }
            }
        },
        old: before.is_some(),
    })
}

fn table(entries: &[AuditEntry], later: bool) -> Markup {
    html! {
        @if entries.is_empty() {
            p.panel role="status" { @if later { "This is the end of the audit trail." } @else { "Nothing was changed yet." } }
        } @else {
            div.table { table {
                thead { tr { th { "Time" } th { "What" } th { "Name" } th { "By" } th { "From" } th { "Before and after" } } }
                tbody { @for entry in entries { tr {
                    td.tight data-label="Time" { (time(&clock::rfc3339(entry.at_ms))) }
                    td data-label="What" { span { (entry.action) " " (entry.kind.replace('_', " ")) } }
                    td data-label="Name" { span {
                        (text(&entry.name))
                        @if let Some(connector) = &entry.connector { span.quiet { " of " (text(connector)) } }
                    } }
                    td data-label="By" { span { (entry.who) } }
                    td data-label="From" { span { (text(&entry.client)) } }
                    td data-label="Before and after" { details {
                        summary { "Show" }
                        @for (word, value) in [("Before", &entry.before), ("After", &entry.after)] {
                            @if let Some(value) = value { p.quiet { (word) } pre { code { (text_of(value, CHARS_MAX)) } } }
                        }
                    } }
                } } }
            } }
        }
    }
}
