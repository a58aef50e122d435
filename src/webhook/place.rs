//! Where a text stands in a request: `header:NAME`, `query:NAME`, `body:PATH`, `item:PATH`, `part:PREFIX`.
//!
//! Presets and the settings of `hmac` name places; layouts, handshakes and the pipeline look there.
//!
//! **Invariant**: a place is where it says and nowhere else: `Authorization` and cookies are never echoed.

use super::Headers;
use super::path::Path;

/// The most places of one list.
const PLACES_MAX: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A header, by its name.
    Header(String),
    /// A parameter of the query.
    Query(String),
    Body(Path),
    /// Fields of one item of the body.
    Item(Path),
    /// The part of the signature's header that begins so.
    Part(String),
}

impl Place {
    /// The place that a text says.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Place, String> {
        match text.split_once(':') {
            Some(("header", name)) => Ok(Place::Header(header_name(name)?)),
            Some(("query", name)) if !name.is_empty() => Ok(Place::Query(name.to_owned())),
            Some(("body", path)) if !path.is_empty() => Ok(Place::Body(Path::parse(path)?)),
            Some(("item", path)) if !path.is_empty() => Ok(Place::Item(Path::parse(path)?)),
            Some(("part", prefix)) => Ok(Place::Part(prefix.to_owned())),
            _ => Err(format!(
                "`{}` is not a place; write `header:NAME`, `query:NAME`, `body:PATH`, `item:PATH` or `part:PREFIX`",
                text.escape_debug()
            )),
        }
    }

    pub fn written(&self) -> String {
        match self {
            Place::Header(name) => format!("header:{name}"),
            Place::Query(name) => format!("query:{name}"),
            Place::Body(path) => format!("body:{path}"),
            Place::Item(path) => format!("item:{path}"),
            Place::Part(prefix) => format!("part:{prefix}"),
        }
    }

    pub(super) fn header(&self) -> Option<&str> {
        match self {
            Place::Header(name) => Some(name),
            _ => None,
        }
    }
}

/// Where an id or the name of an event stands: the first of several that is there. One of several places is the texts of
/// all of them together. Tools have renamed their headers, and send one or the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source(pub(super) Vec<Vec<Place>>);

impl Source {
    pub fn of(place: Place) -> Source {
        Source(vec![vec![place]])
    }

    /// What stands there; `field` reads fields of the body. Nothing and empty text are the same.
    pub fn find(
        &self,
        headers: Headers<'_>,
        target: &str,
        field: impl Fn(&Path) -> Option<String>,
    ) -> Option<String> {
        self.0
            .iter()
            .find_map(|joined| found(joined, headers, target, &field))
    }

    /// Whether it stands in the header of this name.
    pub fn is_header(&self, name: &str) -> bool {
        let is = |place: &Place| (place.header()).is_some_and(|own| own.eq_ignore_ascii_case(name));
        self.0.iter().flatten().any(is)
    }

    /// Whether it stands in headers alone.
    pub fn is_in_headers(&self) -> bool {
        (self.0.iter().flatten()).all(|place| matches!(place, Place::Header(_)))
    }

    /// Whether each item says its own.
    pub fn is_of_items(&self) -> bool {
        (self.0.iter().flatten()).any(|place| matches!(place, Place::Item(_)))
    }

    /// The path within an item that comes first.
    pub fn item_paths(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().flatten().filter_map(|place| match place {
            Place::Item(path) => Some(path),
            _ => None,
        })
    }

    /// The single places of the list; one that is joined of several is none.
    pub(super) fn singles(&self) -> impl Iterator<Item = Option<&Place>> {
        self.0.iter().map(|joined| match joined.as_slice() {
            [one] => Some(one),
            _ => None,
        })
    }

    pub(super) fn is_too_long(&self) -> bool {
        self.0.len() > PLACES_MAX || self.0.iter().any(|joined| joined.len() > PLACES_MAX)
    }
}

fn found(
    joined: &[Place],
    headers: Headers<'_>,
    target: &str,
    field: &impl Fn(&Path) -> Option<String>,
) -> Option<String> {
    let one = |place: &Place| {
        let text = match place {
            Place::Header(name) => headers.get(name).map(str::to_owned),
            Place::Query(name) => parameter(target, name),
            Place::Body(path) => field(path),
            Place::Item(_) | Place::Part(_) => None,
        };
        text.filter(|text| !text.is_empty())
    };
    if let [place] = joined {
        return one(place);
    }
    let texts: Option<Vec<String>> = joined.iter().map(one).collect();
    Some(joined_key(texts?.iter().map(String::as_str)))
}

/// Several texts as one: `|` between them, `|` and `\` in them written with a `\` before. Never two lists with one
/// text, because two items would get the same key otherwise.
pub fn joined_key<'t>(texts: impl Iterator<Item = &'t str>) -> String {
    let mut joined = String::new();
    for (position, text) in texts.enumerate() {
        if position > 0 {
            joined.push('|');
        }
        for character in text.chars() {
            if matches!(character, '|' | '\\') {
                joined.push('\\');
            }
            joined.push(character);
        }
    }
    joined
}

/// The first value of a parameter of the query of a URL or of its path, decoded.
pub(super) fn parameter(target: &str, name: &str) -> Option<String> {
    let (_, query) = target.split_once('?')?;
    let query = query.split('#').next().unwrap_or_default();
    form_urlencoded::parse(query.as_bytes())
        .find(|(given, _)| given == name)
        .map(|(_, value)| value.into_owned())
}

/// The name of a header.
///
/// # Errors
/// It is none.
pub(super) fn header_name(name: &str) -> Result<String, String> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(token) {
        return Err(format!(
            "`{}` is not the name of a header, such as X-Signature",
            name.escape_debug()
        ));
    }
    Ok(name.to_owned())
}
