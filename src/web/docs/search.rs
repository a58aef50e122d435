//! The search of the documentation: sections of the guide, and operations of the API.
//!
//! **Invariant**: a hit contains every word of the search, in upper or lower case.

use maud::{Markup, html};
use serde_json::Value;

use super::operation::Operation;
use guide::GuidePage;

const HITS_MAX: usize = 40;
const WORDS_MAX: usize = 10;
/// Characters of an excerpt before the first match; `AFTER` counts from the start of the match.
const BEFORE: usize = 60;
const AFTER: usize = 140;

struct Hit {
    address: String,
    title: String,
    text: String,
    /// Matches in the heading; more matches come first.
    in_title: usize,
}

/// The search results as a list.
pub(super) fn results(query: &str, pages: &[GuidePage], document: &Value) -> Markup {
    let words = words(query);
    let mut hits: Vec<Hit> = places(pages, document)
        .filter(|hit| {
            let whole = format!("{} {}", hit.title, hit.text).to_lowercase();
            words.iter().all(|word| whole.contains(word))
        })
        .collect();
    for hit in &mut hits {
        let title = hit.title.to_lowercase();
        hit.in_title = words.iter().filter(|word| title.contains(*word)).count();
    }
    hits.sort_by_key(|hit| std::cmp::Reverse(hit.in_title));
    let more = hits.len() > HITS_MAX;
    hits.truncate(HITS_MAX);
    html! {
        @if hits.is_empty() {
            p.panel { "No results for all of these words. Try fewer words, or the beginning of a word." }
        } @else {
            ul.hits { @for hit in &hits { li {
                a href=(hit.address) { (marked(&hit.title, &words)) }
                p { (marked(&excerpt(&hit.text, &words), &words)) }
            } } }
            @if more { p.quiet { "More than " (HITS_MAX) " results. Add a word to narrow them down." } }
        }
    }
}

fn words(query: &str) -> Vec<String> {
    let words = query.split_whitespace().map(str::to_lowercase);
    words.take(WORDS_MAX).collect()
}

fn places<'a>(pages: &'a [GuidePage], document: &'a Value) -> impl Iterator<Item = Hit> + 'a {
    let sections = pages.iter().flat_map(|page| {
        page.sections.iter().map(|section| Hit {
            address: match section.anchor {
                "" => format!("/docs/{}", page.name),
                anchor => format!("/docs/{}#{anchor}", page.name),
            },
            title: match section.level {
                1 => section.heading.to_owned(),
                _ => format!("{}: {}", page.title(), section.heading),
            },
            text: section.text.to_owned(),
            in_title: 0,
        })
    });
    let operations = Operation::all(document).map(|operation| Hit {
        address: format!("/docs/api#{}", operation.id()),
        title: format!("API: {}", operation.summary()),
        text: format!(
            "{} {}\n{}",
            operation.method.to_uppercase(),
            operation.path,
            operation.said["description"].as_str().unwrap_or_default()
        ),
        in_title: 0,
    });
    sections.chain(operations)
}

/// The text around the first match.
fn excerpt(text: &str, words: &[String]) -> String {
    let at = words.iter().filter_map(|word| find(text, word)).min();
    let at = at.map_or(0, |(begin, _)| text[..begin].chars().count());
    let skipped = at.saturating_sub(BEFORE);
    let shown: String = text
        .chars()
        .skip(skipped)
        .take(BEFORE + AFTER)
        .map(|character| if character == '\n' { ' ' } else { character })
        .collect();
    // Cut words are dropped.
    let begins = match shown.split_once(' ') {
        Some((_, rest)) if skipped > 0 => format!("… {rest}"),
        _ => shown,
    };
    match begins.rsplit_once(' ') {
        Some((most, _)) if text.chars().count() > skipped + BEFORE + AFTER => format!("{most} …"),
        _ => begins,
    }
}

/// The text with the matches marked.
fn marked(text: &str, words: &[String]) -> Markup {
    let mut rest = text;
    let mut found = Vec::new();
    while let Some((begin, end)) = words.iter().filter_map(|word| find(rest, word)).min() {
        found.push((&rest[..begin], &rest[begin..end]));
        rest = &rest[end..];
    }
    html! {
        @for (before, word) in found { (before) mark { (word) } }
        (rest)
    }
}

/// Start and end of a lower-case word in a text.
fn find(text: &str, word: &str) -> Option<(usize, usize)> {
    text.char_indices().find_map(|(begin, _)| {
        let mut end = begin;
        let mut wanted = word.chars().peekable();
        for character in text[begin..].chars() {
            if wanted.peek().is_none() {
                break;
            }
            for lower in character.to_lowercase() {
                if wanted.next() != Some(lower) {
                    return None;
                }
            }
            end += character.len_utf8();
        }
        (wanted.peek().is_none() && end > begin).then_some((begin, end))
    })
}

#[cfg(test)]
mod tests;
