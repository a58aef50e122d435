//! Why recent requests of a connector were rejected or failed: groups by reason, on the page of its log.
//!
//! **Invariant**: the number of entries that are read is limited, and the heading states the number of requests in the
//! groups.

use std::sync::Arc;
use std::time::Duration;

use maud::{Markup, html};

use crate::frame::NoPage;
use crate::text::{grouped, segment, text_of, time};
use base::clock::{self, Unix};
use journal::log::Filter;
use operate::Operator;
use operate::requests::{Report, Status};

/// Maximum entries that are read.
const ENTRIES: u32 = 200;
/// Maximum age of an entry.
const AGE: Duration = Duration::from_hours(24);
const REASONS_MAX: usize = 8;
/// Maximum characters of a reason.
const REASON_CHARS_MAX: usize = 200;
/// Minimum characters of the text for the filter; a shorter text would match too much.
const WORDS_CHARS_MIN: usize = 4;

/// A reason, and its requests.
#[derive(Debug, PartialEq, Eq)]
struct Group {
    /// The reason of the newest request.
    reason: String,
    /// The text for the filter of the log.
    words: String,
    status: Status,
    count: u64,
    newest: Unix,
}

impl Group {
    /// The query of the log that shows these requests. The log does not contain reasons of sinks, so no text can find
    /// them.
    fn query(&self) -> String {
        match self.status {
            Status::Failed => "?status=failed".to_owned(),
            status => format!("?status={}&text={}", status.as_str(), segment(&self.words)),
        }
    }
}

/// The groups of the last day, the largest first.
pub(super) async fn panel(
    operator: &Operator,
    connector: &Arc<str>,
    path: &str,
) -> Result<Markup, NoPage> {
    let filter = Filter {
        connector: Some(Arc::clone(connector)),
        since: Some(Unix::now() - AGE),
        ..Filter::default()
    };
    let statuses = [Status::Rejected, Status::Failed];
    let page = operator.requests.page(&filter, &statuses, ENTRIES).await?;
    let groups = groups(&page.reports);
    let total: u64 = groups.iter().map(|group| group.count).sum();
    Ok(html! {
        @if total > 1 {
            section.panel.reasons aria-label="Reasons" {
                p.quiet {
                    @if page.next.is_some() { "The last " } (grouped(total)) " rejected or failed requests of the last 24 hours, by reason:"
                }
                ul { @for group in groups.iter().take(REASONS_MAX) { li {
                    a href={ (path) (group.query()) "#log" } {
                        strong { (grouped(group.count)) " ×" } " " (text_of(&group.reason, REASON_CHARS_MAX))
                    }
                    " " span.quiet { (time(&clock::rfc3339(group.newest))) }
                } } }
                @if groups.len() > REASONS_MAX { p.quiet { (groups.len() - REASONS_MAX) " more reasons are in the log." } }
            }
        }
    })
}

/// Groups reports, newest first, by their reasons.
fn groups(reports: &[Report]) -> Vec<Group> {
    let mut groups: Vec<(String, Group)> = Vec::new();
    for report in reports {
        let Some(reason) = report.errors().next() else {
            continue;
        };
        let (pattern, words) = shape(reason);
        let known = groups
            .iter_mut()
            .find(|(own, group)| *own == pattern && group.status == report.status);
        match known {
            Some((_, group)) => group.count += 1,
            None => groups.push((
                pattern,
                Group {
                    reason: reason.to_owned(),
                    words,
                    status: report.status,
                    count: 1,
                    newest: report.row.entry.received_at,
                },
            )),
        }
    }
    let mut groups: Vec<Group> = groups.into_iter().map(|(_, group)| group).collect();
    // Stable: groups of the same size stay newest first.
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    groups
}

/// A reason without its numbers, which differ between requests, and the longest part between them.
fn shape(reason: &str) -> (String, String) {
    let mut parts = reason.split(|character: char| character.is_ascii_digit());
    let pattern: Vec<&str> = parts.clone().filter(|part| !part.is_empty()).collect();
    let longest = parts
        .by_ref()
        .max_by_key(|part| part.len())
        .unwrap_or_default();
    let words = match longest.trim() {
        short if short.chars().count() < WORDS_CHARS_MIN => reason,
        words => words,
    };
    let words = words.chars().take(Filter::TEXT_CHARS_MAX).collect();
    (pattern.join("#"), words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_that_differ_in_their_numbers_are_one_and_the_filter_finds_them_all() {
        let (one, words) = shape("item 0 has no field \"id\"");
        let (other, _) = shape("item 17 has no field \"id\"");
        assert_eq!(one, other);
        assert_eq!(words, "has no field \"id\"");
        assert_ne!(one, shape("item 0 has no field \"key\"").0);
        assert_eq!(shape("400").1, "400");
        assert_eq!(shape("").1, "");
    }
}
