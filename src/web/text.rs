//! Formats of untrusted text on pages.
//!
//! **Invariant**: shown text is escaped, bidirectionally isolated and limited in length; invisible characters, and
//! those that change the direction of the text around them, are written as escapes.

use std::borrow::Cow;

use maud::{Markup, html};

pub(super) use base::text::{percent_encoded as segment, visible, visible_json};

/// Maximum characters of a text in a table or a sentence.
const CHARS_MAX: usize = 160;

pub(super) fn text(text: &str) -> Markup {
    text_of(text, CHARS_MAX)
}

/// A text, shortened to `chars_max` characters.
pub(super) fn text_of(text: &str, chars_max: usize) -> Markup {
    let (shown, left) = shortened(text, chars_max);
    html! {
        bdi { (shown) @if left > 0 { "…" } }
        @if left > 0 { span.quiet { " (" (grouped(left as u64)) " more characters)" } }
    }
}

/// A shortened text without markup, for attributes and titles.
pub(super) fn plain(text: &str) -> String {
    let (shown, left) = shortened(text, CHARS_MAX);
    format!("{shown}{}", if left > 0 { "…" } else { "" })
}

/// The visible form of the first `chars_max` characters, and how many are left out.
fn shortened(text: &str, chars_max: usize) -> (Cow<'_, str>, usize) {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => (visible(&text[..end]), text[end..].chars().count()),
        None => (visible(text), 0),
    }
}

/// A whole number with commas: `1,234,567`.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A size with a unit: `1.5 MB`.
pub(super) fn bytes(bytes: u64) -> String {
    let steps = [("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10)];
    match steps.into_iter().find(|(_, size)| bytes >= *size) {
        Some((unit, size)) => {
            let tenths = bytes / (size / 10).max(1);
            format!("{}.{} {unit}", grouped(tenths / 10), tenths % 10)
        }
        None => format!("{bytes} bytes"),
    }
}

/// A count with its noun: `1 item`, `2 items`.
pub(super) fn count(number: u64, thing: &str) -> String {
    let plural = match number {
        1 => "",
        _ if thing.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{} {thing}{plural}", grouped(number))
}

/// A readable time from RFC 3339 in UTC. The script of the pages shows it in the reader's zone.
pub(super) fn time(rfc3339: &str) -> Markup {
    let seconds = rfc3339.split(['.', 'Z']).next().unwrap_or_default();
    let shown = seconds.replacen('T', " ", 1);
    html! { time datetime=(rfc3339) title={ (shown) " UTC" } { (shown) } }
}

/// A message as a sentence with a capital and a period.
pub(super) fn as_sentence(message: &str) -> String {
    let mut characters = message.chars();
    let first = characters.next().map(|first| first.to_ascii_uppercase());
    let end = (!message.ends_with(['.', '?'])).then_some('.');
    first.into_iter().chain(characters).chain(end).collect()
}

#[cfg(test)]
mod tests;
