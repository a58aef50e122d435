//! The result of a trial on a page.
//!
//! **Invariant**: the result contains no secrets; they were masked before.

use maud::{Markup, html};

use crate::text::{count, text, text_of};
use delivery::Tried;

/// Maximum characters of a body; `REASON_CHARS_MAX` applies to a reason.
const BODY_CHARS_MAX: usize = 8_000;
const REASON_CHARS_MAX: usize = 600;
/// Maximum items that are shown of those that would be written.
const CHANGES_MAX: usize = 20;

/// The result of the trial.
pub(super) fn shown(tried: &Tried) -> Markup {
    html! {
        section.panel role="status" {
            h2 { "Result" }
            p { (count(u64::from(tried.items), "item")) " reached the plugin. Nothing was sent, and nothing is stored." }
            @if let Some(error) = &tried.error { p.problem role="alert" { "The plugin rejects it: " (text_of(error, REASON_CHARS_MAX)) } }
            @for request in &tried.seen.requests {
                p { strong { (text(&request.method)) " " (text(&request.url)) } }
                pre tabindex="0" { code {
                    @for (name, value) in &request.headers { (text(name)) ": " (text(value)) "\n" }
                    "\n" (text_of(&request.body, BODY_CHARS_MAX))
                } }
            }
            @for statement in &tried.seen.statements { pre tabindex="0" { code { (text_of(statement, BODY_CHARS_MAX)) } } }
            @for change in tried.changes.iter().take(CHANGES_MAX) {
                p { (change.action) " in " (text(&change.stream)) ": " (text(&change.key)) " " code { (text_of(change.fields.as_deref().unwrap_or_default(), REASON_CHARS_MAX)) } }
            }
            @for line in &tried.seen.log { p.quiet { (text_of(line, REASON_CHARS_MAX)) } }
        }
    }
}
