//! What makes a value harmless in its place.
//!
//! **Invariant**: what an escape makes of any text cannot end the place that it is for, nor begin another.

use std::fmt::Write as _;

use base::text::percent_encoded;
use item::quote_into;

use super::fill::Rejection;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Escape {
    /// In one line: breaks become spaces. A break would otherwise begin a second command of a line protocol.
    Text,
    Json,
    /// Within the quotes of a JSON text.
    JsonText,
    /// A part of a path, a value of a query or of a form.
    Url,
    /// Between tags, or within quotes of an attribute.
    Xml,
    /// Within quotes of a command of AMCP.
    Amcp,
    /// A level of an MQTT topic. A `/`, `+` or `#` of a value would otherwise change the levels or match other topics.
    Topic,
    /// The value of a header.
    Header,
    /// The name of a file. A `/` of a value would otherwise lead into another folder.
    FileName,
}

/// Those that may be asked for.
const NAMED: [(&str, Escape); 7] = [
    ("text", Escape::Text),
    ("json", Escape::Json),
    ("url", Escape::Url),
    ("xml", Escape::Xml),
    ("amcp", Escape::Amcp),
    ("topic", Escape::Topic),
    ("header", Escape::Header),
];

impl Escape {
    pub(super) fn named(name: &str) -> Option<Self> {
        let found = NAMED.iter().find(|(known, _)| *known == name);
        found.map(|(_, escape)| *escape)
    }

    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        NAMED.into_iter().map(|(name, _)| name)
    }

    pub(super) fn name(self) -> &'static str {
        let found = NAMED.iter().find(|(_, escape)| *escape == self);
        found.map_or("", |(name, _)| name)
    }

    /// The text escaped. `ends` are characters that end a line; `is_first` says that nothing stands before it.
    pub(super) fn of(self, text: &str, ends: &str, is_first: bool) -> Result<String, Rejection> {
        Ok(match self {
            Self::Text => one_line(text, ends),
            Self::Json => {
                let mut out = String::with_capacity(text.len() + 2);
                item::string_into(text, &mut out);
                out
            }
            Self::JsonText => {
                let mut out = String::with_capacity(text.len());
                quote_into(text, &mut out);
                out
            }
            Self::Url => percent_encoded(text),
            Self::Xml => xml(text),
            Self::Amcp => {
                let line = one_line(text, ends);
                line.replace('\\', "\\\\").replace('"', "\\\"")
            }
            Self::Topic => encoded(text, |one| {
                matches!(one, '/' | '+' | '#' | '%') || one.is_control() || is_noncharacter(one)
            }),
            Self::Header => {
                if text.chars().any(|one| one.is_control() && one != '\t') {
                    return Err(Rejection("a header cannot have a control character"));
                }
                text.to_owned()
            }
            Self::FileName => {
                let name = encoded(text, |one| matches!(one, '/' | '\\') || one.is_control());
                match name.strip_prefix('.').filter(|_| is_first) {
                    Some(rest) => format!("%2E{rest}"),
                    None => name,
                }
            }
        })
    }
}

/// Each CR LF, CR, LF, NUL and character of `ends` as a space.
fn one_line(text: &str, ends: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let is_break = |one: char| matches!(one, '\r' | '\n' | '\0') || ends.contains(one);
    let one_line = text
        .chars()
        .map(|one| if is_break(one) { ' ' } else { one });
    one_line.collect()
}

/// Tabs and breaks are written as numbers, because a parser makes spaces of them in attributes.
fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for one in text.chars() {
        match one {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' => out.push_str("&#9;"),
            '\n' => out.push_str("&#10;"),
            '\r' => out.push_str("&#13;"),
            '\0'..='\x1f' | '\u{fffe}' | '\u{ffff}' => out.push(char::REPLACEMENT_CHARACTER),
            other => out.push(other),
        }
    }
    out
}

fn encoded(text: &str, is_reserved: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for one in text.chars() {
        if !is_reserved(one) {
            out.push(one);
            continue;
        }
        for byte in one.encode_utf8(&mut [0; 4]).bytes() {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// A code point that is no character and never will be one. MQTT lets a receiver close the connection because of one.
fn is_noncharacter(one: char) -> bool {
    matches!(one, '\u{fdd0}'..='\u{fdef}') || u32::from(one) & 0xfffe == 0xfffe
}
