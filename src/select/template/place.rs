//! What a place asks of the text around its values, and of what comes out.
//!
//! **Invariant**: scheme, host and port of a URL are the template's, never a value's; a value never becomes a step of a path,
//! a tag, or a level of a topic.

use super::escape::Escape;
use super::fill::Rejection;
use super::{Part, Placed, Template};
use crate::error::SyntaxError;

/// Bytes of an MQTT topic, at most. The protocol writes the length of a topic with 16 bits.
const TOPIC_BYTES_MAX: usize = 65_535;

/// Where what a template makes will stand.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TemplatePlace {
    /// A feed, whose writer escapes.
    Feed,
    /// A body that is plain text.
    Plain,
    /// The payload of a message.
    Payload,
    /// A URL, or a part of one.
    Url,
    /// The value of a header.
    Header,
    /// A body that is JSON.
    Json,
    /// A body that is XML or HTML.
    Xml,
    /// A body that is a form.
    Form,
    /// A line, ended by these characters.
    Line { end: String },
    /// The topic of a message.
    Topic,
    /// The name of a file.
    FileName,
}

impl TemplatePlace {
    /// As errors and schemas name it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Feed => "feed",
            Self::Plain => "plain",
            Self::Payload => "payload",
            Self::Url => "url",
            Self::Header => "header",
            Self::Json => "json",
            Self::Xml => "xml",
            Self::Form => "form",
            Self::Line { .. } => "line",
            Self::Topic => "topic",
            Self::FileName => "name",
        }
    }

    /// Elsewhere an unescaped value could end its place and begin another.
    pub(super) fn takes_raw(&self) -> bool {
        matches!(self, Self::Plain | Self::Payload)
    }

    pub(super) fn escape(&self) -> Option<Escape> {
        match self {
            Self::Feed | Self::Plain | Self::Payload => None,
            Self::Url | Self::Form => Some(Escape::Url),
            Self::Header => Some(Escape::Header),
            Self::Json => Some(Escape::JsonText),
            Self::Xml => Some(Escape::Xml),
            Self::Line { .. } => Some(Escape::Text),
            Self::Topic => Some(Escape::Topic),
            Self::FileName => Some(Escape::FileName),
        }
    }

    /// Characters that end a line beside its breaks.
    pub(super) fn ends(&self) -> &str {
        match self {
            Self::Line { end } => end,
            _ => "",
        }
    }
}

/// What is wrong with the text of a template in its place.
pub(super) fn check(
    place: &TemplatePlace,
    text: &str,
    parts: &[Placed],
) -> Result<(), SyntaxError> {
    let texts = || {
        parts.iter().filter_map(|(part, _)| match part {
            Part::Text(text) => Some(text.as_str()),
            Part::Value(_) => None,
        })
    };
    let has = |is_wrong: fn(char) -> bool| texts().any(|text| text.contains(is_wrong));
    match place {
        TemplatePlace::Url => url(text, parts),
        TemplatePlace::Xml => xml(parts),
        TemplatePlace::Header if has(|one| one.is_control() && one != '\t') => Err(
            SyntaxError::new(1, "a header cannot have a control character"),
        ),
        TemplatePlace::Topic if has(|one| matches!(one, '+' | '#') || one.is_control()) => {
            Err(SyntaxError::new(
                1,
                "`+`, `#` and control characters may not stand in a topic",
            ))
        }
        _ => Ok(()),
    }
}

/// What is wrong with what came out. Escapes do not suffice here, because a dot needs none and still is a step of a
/// path.
pub(super) fn check_filled(template: &Template, filled: &str) -> Result<(), Rejection> {
    match template.place {
        TemplatePlace::Url => {
            let path = path_of(filled);
            let is_step = |part: &str| {
                let part = part.to_ascii_lowercase().replace("%2e", ".");
                matches!(&*part, "." | "..")
            };
            if path.split('/').any(is_step) {
                return Err(Rejection("`.` and `..` may not be a part of the path"));
            }
        }
        TemplatePlace::Topic => {
            // Values have no slash in a topic: its levels are those of the template.
            let without = template.probe("x");
            let mut levels = filled.split('/').zip(without.split('/'));
            if levels.any(|(level, own)| level.is_empty() && !own.is_empty()) {
                return Err(Rejection("a level of the topic is empty"));
            }
            if filled.starts_with('$') && !without.starts_with('$') {
                return Err(Rejection("a topic that begins with `$` is the broker's"));
            }
            if filled.len() > TOPIC_BYTES_MAX {
                return Err(Rejection("a topic has 65,535 bytes at most"));
            }
        }
        _ => {}
    }
    Ok(())
}

/// The path of a URL whose beginning was checked.
fn path_of(url: &str) -> &str {
    let behind_scheme = url.split_once("://").map_or("", |(_, rest)| rest);
    let (before_query, _) = behind_scheme.split_once('?').unwrap_or((behind_scheme, ""));
    before_query.split_once('/').map_or("", |(_, path)| path)
}

/// A `#` is refused, because what follows it is never sent.
fn url(text: &str, parts: &[Placed]) -> Result<(), SyntaxError> {
    for (part, _) in parts {
        let is_wrong = |one: char| one.is_control() || matches!(one, ' ' | '\\' | '#');
        if matches!(part, Part::Text(text) if text.contains(is_wrong)) {
            let expected = "spaces, control characters, `\\` and `#` may not stand in a URL";
            return Err(SyntaxError::new(1, expected));
        }
    }
    let (beginning, first_value) = match parts {
        [] => ("", None),
        [(Part::Value(_), at), ..] => ("", Some(*at)),
        [(Part::Text(text), _)] => (text.as_str(), None),
        [(Part::Text(text), _), (_, at), ..] => (text.as_str(), Some(*at)),
    };
    match (has_host(beginning, first_value.is_none()), first_value) {
        (true, _) => Ok(()),
        (false, Some(at)) => Err(SyntaxError::new(at, "a template may not stand in the host")),
        (false, None) => {
            let expected = "a URL begins with `http://` or `https://` and a host";
            let at = if text.is_empty() { 1 } else { parts[0].1 };
            Err(SyntaxError::new(at, expected))
        }
    }
}

/// Whether a text is a scheme, a host, perhaps a port, and the beginning of a path or a query. A whole URL may end behind
/// the host. A value in it would let an item choose where the request goes.
fn has_host(text: &str, is_whole: bool) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else {
        return false;
    };
    let is_http = ["http", "https"]
        .iter()
        .any(|one| scheme.eq_ignore_ascii_case(one));
    let (authority, ends) = match rest.find(['/', '?']) {
        Some(at) => (&rest[..at], true),
        None => (rest, is_whole),
    };
    let is_in_name = |one: char| one.is_ascii_alphanumeric() || matches!(one, '-' | '.' | '_');
    let (is_host, behind) = match authority.strip_prefix('[') {
        Some(inside) => match inside.split_once(']') {
            Some((address, behind)) => (is_address(address), behind),
            None => return false,
        },
        None => {
            let end = authority.find(':').unwrap_or(authority.len());
            let (host, behind) = authority.split_at(end);
            (!host.is_empty() && host.chars().all(is_in_name), behind)
        }
    };
    let is_port = |port: &str| port.parse::<u16>().is_ok() && !port.starts_with('+');
    let has_port = behind.is_empty() || behind.strip_prefix(':').is_some_and(is_port);
    is_http && ends && is_host && has_port
}

/// Whether this is written as an IPv6 address is.
fn is_address(text: &str) -> bool {
    text.parse::<std::net::Ipv6Addr>().is_ok()
}

/// Where the text of XML is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Within {
    Content,
    /// Within a tag, outside of quotes.
    Tag,
    /// Within these quotes of an attribute.
    Quotes(char),
    /// Within something that ends with this text.
    Until(&'static str),
}

/// Refuses values that stand elsewhere than between tags and within quotes of attributes. In a name, a comment or a
/// script the escape of XML would not suffice.
fn xml(parts: &[Placed]) -> Result<(), SyntaxError> {
    let mut within = Within::Content;
    for (part, at) in parts {
        match part {
            Part::Text(text) => within = behind(within, text),
            Part::Value(_) if matches!(within, Within::Content | Within::Quotes(_)) => {}
            Part::Value(_) => {
                let expected = "a template may stand between tags and within quotes of an attribute, nowhere else in XML";
                return Err(SyntaxError::new(*at, expected));
            }
        }
    }
    Ok(())
}

/// Where a text leads to.
fn behind(mut within: Within, text: &str) -> Within {
    let mut rest = text;
    while let Some(one) = rest.chars().next() {
        let mut length = one.len_utf8();
        within = match (within, one) {
            (Within::Content, '<') => {
                let (opened, opening) = opened(rest);
                length = opening;
                opened
            }
            (Within::Tag, '>') => Within::Content,
            (Within::Tag, '"' | '\'') => Within::Quotes(one),
            (Within::Quotes(quote), one) if one == quote => Within::Tag,
            (Within::Until(end), _) if rest.starts_with(end) => {
                length = end.len();
                Within::Content
            }
            (within, _) => within,
        };
        rest = &rest[length..];
    }
    within
}

/// What begins with a `<`, and the length of that beginning.
fn opened(text: &str) -> (Within, usize) {
    let known = [
        ("<!--", "-->"),
        ("<![CDATA[", "]]>"),
        ("<?", "?>"),
        ("<!", ">"),
    ];
    let found = known.iter().find(|(begin, _)| text.starts_with(begin));
    found.map_or((Within::Tag, 1), |(begin, end)| {
        (Within::Until(end), begin.len())
    })
}
