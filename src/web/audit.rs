//! `/audit`: the audit log, which records who changed what and when.
//!
//! **Invariant**: it shows the response of `GET /api/admin/audit`, newest first, in pages.

use maud::{Markup, html};
use salvo_core::{Request, handler};

use super::form::filter::{before, check_times, refusal};
use super::form::parse_time;
use super::frame::{Head, NoPage, Page, Place};
use super::grid::{Cell, Column, Grid, Row, pages};
use super::text::{segment, text, text_of, time};
use base::clock;
use catalog::{AUDIT_ACTIONS, AuditEntry, AuditFilter, ResourceKind, current_action};
use operate::Operator;

/// Maximum entries on a page.
const ENTRIES: u32 = 50;
/// Maximum characters of a name in the filter.
const TYPED_CHARS_MAX: usize = 256;
/// Maximum characters of the state before or after a change.
const CHARS_MAX: usize = 4_000;

/// `GET /audit`
pub(super) struct Audit(pub(super) Operator);

#[handler]
impl Audit {
    async fn handle(&self, req: &mut Request) -> Result<Page, NoPage> {
        page(&self.0, req).await
    }
}

/// `GET /audit/{id}`
pub(super) struct AuditEntryPage(pub(super) Operator);

#[handler]
impl AuditEntryPage {
    async fn handle(&self, req: &mut Request) -> Result<Page, NoPage> {
        let id = req.param::<i64>("id").unwrap_or_default();
        let filter = AuditFilter {
            before: id.checked_add(1),
            ..AuditFilter::default()
        };
        let (found, _) = self.0.audit(filter, 1).await?;
        let entry = found.into_iter().find(|entry| entry.id == id);
        let entry = entry.ok_or(NoPage::NotFound(
            "The audit log has no such entry. The newest 100,000 are kept.",
        ))?;
        Ok(Page {
            title: format!("{} {}", entry.action, entry.kind.replace('_', " ")),
            place: Place::Audit,
            head: Head {
                above: vec![("/audit".to_owned(), "Audit log".to_owned())],
                ..Head::default()
            },
            still: entry_facts(&entry),
            live: html! {},
            old: true,
        })
    }
}

fn entry_facts(entry: &AuditEntry) -> Markup {
    html! {
        div.panel { dl {
            dt { "Name" } dd { (text(&entry.name)) }
            @if let Some(connector) = &entry.connector { dt { "Connector" } dd { (text(connector)) } }
            dt { "By" } dd { (text(&entry.who)) }
            dt { "From" } dd { (text(&entry.client)) }
            dt { "Time" } dd { (time(&clock::rfc3339(entry.at))) }
        } }
        @for (word, value) in [("Before", &entry.before), ("After", &entry.after)] {
            @if let Some(value) = value { h2 { (word) } pre tabindex="0" { code { (text_of(value, CHARS_MAX)) } } }
        }
        p.row { a.button.plain href="/audit" { "Audit log" } }
    }
}

/// The filter of the form; an empty text filters nothing.
#[derive(Debug, Clone)]
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
            action: current_action(&text("action")).to_owned(),
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

    /// The URL of the newest page, or of the page before an entry.
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
        head: Head::default(),
        still: html! {
            p.quiet { "Changes to streams, connectors, keys, read keys and sinks, and actions on items, dead letters, retries and backups. They were made on these pages, on the command line or through the admin API. Changes of configuration files are not included." }
            (form(&query))
        },
        live: html! {
            (table(&entries, more, &query))
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
            (select("action", "Action", &AUDIT_ACTIONS, &query.action))
            (select("kind", "Object", &ResourceKind::ALL.map(ResourceKind::as_str), &query.kind))
            div { label for="name" { "Name, or connector" } input #name type="search" name="name" value=(query.name) maxlength=(TYPED_CHARS_MAX); }
            div { label for="who" { "By" } input #who type="search" name="who" value=(query.who) maxlength=(TYPED_CHARS_MAX); }
            div { label for="since" { "From (UTC)" } input #since type="datetime-local" data-utc step="1" name="since" value=(query.since); }
            div { label for="until" { "To (UTC)" } input #until type="datetime-local" data-utc step="1" name="until" value=(query.until); }
            button { "Show" }
            @if query.is_filtered() { a.button.plain href="/audit" { "All" } }
        }
    }
}

fn table(entries: &[AuditEntry], more: bool, query: &Query) -> Markup {
    let newest = query.before.is_some().then(|| query.address(None));
    let last = entries.last().filter(|_| more);
    let older = last.map(|last| query.address(Some(last.id)));
    let older = older.as_deref().map(|address| (address, "Older"));
    let shown = match entries.len() {
        1 => "1 entry".to_owned(),
        entries => format!("{entries} entries"),
    };
    let pager = pages(&shown, newest.as_deref(), older);
    html! {
        @if entries.is_empty() {
            p.panel role="status" {
                @if query.before.is_some() { "This is the end of the audit log." }
                @else if query.is_filtered() { "No matching entries." }
                @else { "No changes recorded." }
            }
            p.row { (pager) }
        } @else {
            (Grid::new("Audit log", "What", columns()).rows(entries.iter().map(|entry| row(entry, query))).pager(pager).markup())
        }
    }
}

fn columns() -> [Column; 7] {
    [
        Column::text("Name"),
        Column::text("Of"),
        Column::text("By"),
        Column::text("From"),
        Column::text("Before"),
        Column::text("After"),
        Column::time("Time"),
    ]
}

fn row(entry: &AuditEntry, query: &Query) -> Row {
    let with = |change: fn(&mut Query, String), value: &str| {
        let mut query = query.clone();
        change(&mut query, value.to_owned());
        query.address(None)
    };
    let by_name = with(|query, name| query.name = name, &entry.name);
    let by_who = with(|query, who| query.who = who, &entry.who);
    let what = format!("{} {}", entry.action, entry.kind.replace('_', " "));
    let json = |text: &Option<String>| Cell::text(text.as_deref().unwrap_or_default());
    Row::of(what, format!("/audit/{}", entry.id))
        .id(format!("entry-{}", entry.id))
        .cells([
            Cell::linked(&entry.name, Some(&by_name)),
            Cell::text(entry.connector.as_deref().unwrap_or_default()),
            Cell::linked(&entry.who, Some(&by_who)),
            Cell::text(&entry.client),
            json(&entry.before),
            json(&entry.after),
            Cell::time(Some(&clock::rfc3339(entry.at))),
        ])
}
