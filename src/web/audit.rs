//! `/audit`: what was changed or done at run time, when and by whom.
//!
//! **Invariant**: it shows what `GET /api/admin/audit` answers, newest first, a page at a time.

use maud::{Markup, html};
use salvo_core::{Request, handler};

use super::form::filter::{before, check_times, refusal};
use super::form::parse_time;
use super::frame::{NoPage, Page, Place};
use super::text::{segment, text, text_of, time};
use base::clock;
use catalog::{AUDIT_ACTIONS, AuditEntry, AuditFilter, ResourceKind};
use operate::Operator;

/// Entries on a page.
const ENTRIES: u32 = 50;
/// Characters of a name that is looked for.
const TYPED_CHARS_MAX: usize = 256;
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

/// Which entries are asked for, as the form has them; an empty text is no wish.
#[derive(Debug)]
struct Query {
    action: String,
    kind: String,
    name: String,
    who: String,
    /// `2026-01-31T12:00`, UTC.
    since: String,
    until: String,
    before: Option<i64>,
}

impl Query {
    fn read(req: &mut Request) -> Result<Self, NoPage> {
        let text = |name: &str| req.query::<String>(name).unwrap_or_default();
        let typed = |name: &str| text(name).trim().chars().take(TYPED_CHARS_MAX).collect();
        let query = Self {
            action: text("action"),
            kind: text("kind"),
            name: typed("name"),
            who: typed("who"),
            since: text("since"),
            until: text("until"),
            before: before(req)?,
        };
        let is_of = |word: &String, words: &[&str]| word.is_empty() || words.contains(&&**word);
        if !is_of(&query.action, &AUDIT_ACTIONS)
            || !is_of(&query.kind, &ResourceKind::ALL.map(ResourceKind::as_str))
        {
            return Err(refusal("The audit log has no entry with this name."));
        }
        check_times([&query.since, &query.until])?;
        Ok(query)
    }

    fn fields(&self) -> [(&'static str, &str); 6] {
        [
            ("action", &self.action),
            ("kind", &self.kind),
            ("name", &self.name),
            ("who", &self.who),
            ("since", &self.since),
            ("until", &self.until),
        ]
    }

    fn is_filtered(&self) -> bool {
        self.fields().iter().any(|(_, text)| !text.is_empty())
    }

    fn filter(&self) -> AuditFilter {
        let given = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        AuditFilter {
            before: self.before,
            action: given(&self.action),
            kind: given(&self.kind),
            name: given(&self.name),
            who: given(&self.who),
            since: parse_time(&self.since),
            until: parse_time(&self.until),
        }
    }

    /// The address of the newest page, or of the one that begins before an entry.
    fn address(&self, before: Option<i64>) -> String {
        let fields = self.fields().map(|(name, text)| (name, segment(text)));
        let before = before.map(|before| ("before", before.to_string()));
        let given = fields.into_iter().filter(|(_, text)| !text.is_empty());
        let parts: Vec<String> = (before.into_iter().chain(given))
            .map(|(name, text)| format!("{name}={text}"))
            .collect();
        match parts.is_empty() {
            true => "/audit".to_owned(),
            false => format!("/audit?{}", parts.join("&")),
        }
    }
}

async fn page(operator: &Operator, req: &mut Request) -> Result<Page, NoPage> {
    let query = Query::read(req)?;
    let (entries, more) = operator.audit(query.filter(), ENTRIES).await?;
    let is_later = query.before.is_some();
    Ok(Page {
        title: "Audit log".to_owned(),
        place: Place::Audit,
        still: html! {
            p.quiet { "Changes of connectors, keys, streams and read keys while the daemon runs, and what was done to dead letters, retries, items and backups: on these pages, with the command line or over the admin API. What a configuration declares is not among them." }
            (form(&query))
        },
        live: html! {
            (table(&entries, &query))
            p.row {
                @if is_later { a.button.plain href=(query.address(None)) { "Newest" } }
                @if let Some(last) = entries.last().filter(|_| more) {
                    a.button.plain href=(query.address(Some(last.id))) { "Older" }
                }
            }
        },
        old: is_later,
    })
}

/// The form that filters the audit log.
fn form(query: &Query) -> Markup {
    let select = |id: &str, label: &str, words: &[&str], chosen: &str| {
        html! {
            div {
                label for=(id) { (label) }
                select id=(id) name=(id) {
                    option value="" { "all" }
                    @for word in words { option value=(word) selected[chosen == *word] { (word) } }
                }
            }
        }
    };
    html! {
        form.filter method="get" action="/audit" {
            (select("action", "What was done", &AUDIT_ACTIONS, &query.action))
            (select("kind", "To what", &ResourceKind::ALL.map(ResourceKind::as_str), &query.kind))
            div { label for="name" { "Name, or connector" } input #name type="search" name="name" value=(query.name) maxlength=(TYPED_CHARS_MAX); }
            div { label for="who" { "By" } input #who type="search" name="who" value=(query.who) maxlength=(TYPED_CHARS_MAX); }
            div { label for="since" { "From (UTC)" } input #since type="datetime-local" step="1" name="since" value=(query.since); }
            div { label for="until" { "To (UTC)" } input #until type="datetime-local" step="1" name="until" value=(query.until); }
            button { "Show" }
            @if query.is_filtered() { a.button.plain href="/audit" { "All" } }
        }
    }
}

fn table(entries: &[AuditEntry], query: &Query) -> Markup {
    html! {
        @if entries.is_empty() {
            p.panel role="status" {
                @if query.before.is_some() { "This is the end of the audit log." }
                @else if query.is_filtered() { "No entry is like this." }
                @else { "Nothing was changed yet." }
            }
        } @else {
            div.table { table {
                thead { tr { th { "Time" } th { "What" } th { "Name" } th { "By" } th { "From" } th { "Before and after" } } }
                tbody { @for entry in entries { tr {
                    td.tight data-label="Time" { (time(&clock::rfc3339(entry.at))) }
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
