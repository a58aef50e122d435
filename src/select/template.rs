//! Templates: `{field}` stands for the text of a value, everything else for itself. `{field|filter|filter}` changes it.
//!
//! The files of its folder: `filter` (what changes a value), `escape` (what makes it harmless in its place), `place`
//! (what a place asks of the text around it), `json` (bodies that are JSON), `fill` (templates with values).
//!
//! **Invariant**: the escape of the place comes last, whatever was asked for; no value gets out of its place. What a
//! template makes is well-formed where its place is: an item that would make something else is rejected.

mod escape;
mod fill;
mod filter;
mod json;
mod place;

use std::fmt;

use crate::error::{SyntaxError, quoted};
use crate::marks::{LastBackslash, Mark, escape_into, marks, plain};
use crate::scope::{Own, Scope, Source};
use escape::Escape;
pub use fill::Rejection;
use filter::{Change, Filter};
pub use place::TemplatePlace;

/// Bytes of a template, at most; those of feeds have the room of a URL.
const TEMPLATE_BYTES_MAX: usize = 64 << 10;
/// What an error says of braces.
const BRACE: &str = "a brace that means itself is written `\\{`";

/// Text with values of an item in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Template {
    parts: Vec<Part>,
    place: TemplatePlace,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Part {
    /// As it is written.
    Text(String),
    /// What the item has there.
    Value(Placeholder),
}

/// `{field|filter|escape}`
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Placeholder {
    source: Source,
    filters: Vec<Filter>,
    escapes: Vec<Escape>,
    /// No escape at all, not even that of the place.
    is_raw: bool,
    /// It is JSON where a value of JSON stands. It is written without quotes there.
    is_json_value: bool,
}

/// A part, and the place of its brace.
type Placed = (Part, usize);

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// What was expected, and where in this setting.
    pub fn parse(
        setting: &str,
        text: &str,
        place: TemplatePlace,
        scope: Scope,
    ) -> Result<Self, SyntaxError> {
        let read = || {
            let parts = parse(text, &place, scope)?;
            place::check(&place, text, &parts)?;
            Ok(parts)
        };
        let parts = read().map_err(|error: SyntaxError| error.of(setting))?;
        Ok(Self::of(parts, place))
    }

    /// Reads the body of a request that is a JSON value (its text) whose texts are templates.
    ///
    /// # Errors
    /// What was expected, and where; the setting is that of the text within the value.
    pub fn parse_json(setting: &str, json: &str, scope: Scope) -> Result<Self, SyntaxError> {
        let parts = json::value(setting, json, scope)?;
        Ok(Self::of(parts, TemplatePlace::Json))
    }

    /// Reads the body of a request that is JSON written as one text.
    ///
    /// # Errors
    /// What was expected, and where in this setting.
    pub fn parse_json_text(setting: &str, text: &str, scope: Scope) -> Result<Self, SyntaxError> {
        let parts = json::text(text, scope).map_err(|error| error.of(setting))?;
        Ok(Self::of(parts, TemplatePlace::Json))
    }

    /// The value of one field, its name as a list of fields of a feed has it.
    ///
    /// # Errors
    /// The name is no name here.
    pub fn of_field(setting: &str, name: &str) -> Result<Self, SyntaxError> {
        let source = marks(name, LastBackslash::Dropped).and_then(|marks| {
            let source = Scope::FEED.source(&plain(&marks));
            source.map_err(|expected| SyntaxError::new(1, expected))
        });
        let source = source.map_err(|error| error.of(setting))?;
        let value = Part::Value(Placeholder::of(source));
        Ok(Self::of(vec![(value, 1)], TemplatePlace::Feed))
    }

    fn of(parts: Vec<Placed>, place: TemplatePlace) -> Self {
        let parts = parts.into_iter().map(|(part, _)| part).collect();
        Self { parts, place }
    }

    /// Whether it has this value. A value that no template names need not be computed.
    pub fn names(&self, own: Own) -> bool {
        self.placeholders()
            .any(|one| one.source == Source::Own(own))
    }

    /// Whether there is anything to fill in.
    pub fn has_values(&self) -> bool {
        self.placeholders().next().is_some()
    }

    /// Whether each value is escaped, or meant to be as it is.
    pub fn is_escaped(&self) -> bool {
        let mut all = self.placeholders();
        all.all(|one| one.is_raw || !one.escapes.is_empty())
    }

    /// The names of the fields and own names that it has.
    pub fn sources(&self) -> impl Iterator<Item = String> {
        self.placeholders()
            .map(|one| one.source.name().into_owned())
    }

    fn placeholders(&self) -> impl Iterator<Item = &Placeholder> {
        self.parts.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Value(placeholder) => Some(placeholder),
        })
    }
}

impl Placeholder {
    fn of(source: Source) -> Self {
        Self {
            source,
            filters: Vec::new(),
            escapes: Vec::new(),
            is_raw: false,
            is_json_value: false,
        }
    }

    fn ends_with_json(&self) -> bool {
        self.escapes.last() == Some(&Escape::Json)
    }
}

/// With the fewest backslashes: what is read of it is equal.
impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => escape_into(text, "{", &mut out),
                Part::Value(placeholder) => placeholder.print_into(&mut out),
            }
        }
        f.write_str(&out)
    }
}

impl Placeholder {
    fn print_into(&self, out: &mut String) {
        out.push('{');
        escape_into(&self.source.name(), "|{}", out);
        for filter in &self.filters {
            out.push('|');
            filter.print_into(out);
        }
        for escape in &self.escapes {
            out.push('|');
            out.push_str(escape.name());
        }
        if self.is_raw {
            out.push_str("|raw");
        }
        out.push('}');
    }
}

/// Reads the parts.
fn parse(text: &str, place: &TemplatePlace, scope: Scope) -> Result<Vec<Placed>, SyntaxError> {
    let length = text.len();
    if length > TEMPLATE_BYTES_MAX && !scope.is_feed {
        let expected = format!("the text has {length} bytes, {TEMPLATE_BYTES_MAX} are the most");
        return Err(SyntaxError::new(1, expected));
    }
    let last = match scope.is_feed {
        true => LastBackslash::Itself,
        false => LastBackslash::Error,
    };
    let marks = marks(text, last)?;
    let mut parts: Vec<Placed> = Vec::new();
    let mut rest = &marks[..];
    while let Some(first) = rest.first() {
        let count = rest.iter().take_while(|mark| !mark.is('{')).count();
        let (before, from_brace) = rest.split_at(count);
        if count > 0 {
            text_into(&plain(before), first.at, &mut parts);
        }
        let Some((brace, inside)) = from_brace.split_first() else {
            break;
        };
        let Some(length) = inside.iter().position(|mark| mark.is('}')) else {
            if !scope.is_feed {
                return Err(unclosed(from_brace));
            }
            text_into(&plain(from_brace), brace.at, &mut parts);
            break;
        };
        let (inside, after) = inside.split_at(length);
        let placeholder = placeholder(*brace, inside, place, scope)?;
        parts.push((Part::Value(placeholder), brace.at));
        rest = &after[1..];
    }
    Ok(parts)
}

/// Appends text to what is text already.
fn text_into(text: &str, at: usize, parts: &mut Vec<Placed>) {
    match parts.last_mut() {
        Some((Part::Text(before), _)) => before.push_str(text),
        _ => parts.push((Part::Text(text.to_owned()), at)),
    }
}

fn unclosed(from_brace: &[Mark]) -> SyntaxError {
    if let Some(error) = nested(&from_brace[1..]) {
        return error;
    }
    let what = quoted(&plain(from_brace));
    let expected = format!("`}}` is expected behind {what}; {BRACE}");
    SyntaxError::new(from_brace[0].at, expected)
}

/// What is said of a brace within braces.
fn nested(inside: &[Mark]) -> Option<SyntaxError> {
    let brace = inside.iter().find(|mark| mark.is('{'))?;
    let expected = format!("`{{` stands within `{{…}}`; {BRACE}");
    Some(SyntaxError::new(brace.at, expected))
}

/// What stands between braces.
fn placeholder(
    brace: Mark,
    inside: &[Mark],
    place: &TemplatePlace,
    scope: Scope,
) -> Result<Placeholder, SyntaxError> {
    if let Some(error) = nested(inside).filter(|_| !scope.is_feed) {
        return Err(error);
    }
    let mut parts = inside.split(|mark| mark.is('|'));
    let name = parts.next().unwrap_or_default();
    let begin = brace.at + 1;
    if name.is_empty() && !scope.is_feed {
        let expected = format!("a field is expected behind `{{`; {BRACE}");
        return Err(SyntaxError::new(begin, expected));
    }
    let source = scope.source(&plain(name));
    let source = source.map_err(|expected| SyntaxError::new(begin, expected))?;
    let mut placeholder = Placeholder::of(source);
    let mut bar = crate::marks::end(name, begin);
    for part in parts {
        let at = bar + 1;
        change(&mut placeholder, part, at, place)?;
        bar = crate::marks::end(part, at);
    }
    Ok(placeholder)
}

/// Adds what stands behind a bar. A filter behind an escape is refused, because it could cut the escape in half.
fn change(
    placeholder: &mut Placeholder,
    part: &[Mark],
    at: usize,
    place: &TemplatePlace,
) -> Result<(), SyntaxError> {
    let error = |expected: String| Err(SyntaxError::new(at, expected));
    match filter::parse(part, at)? {
        Change::Filter(filter) => match (placeholder.escapes.first(), placeholder.is_raw) {
            (Some(escape), _) => {
                let (name, escape) = (filter.name(), escape.name());
                error(format!("`{name}` must stand before `{escape}`"))
            }
            (None, true) => error(format!("`{}` must stand before `raw`", filter.name())),
            (None, false) => {
                placeholder.filters.push(filter);
                Ok(())
            }
        },
        Change::Escape(_) if placeholder.is_raw => error("`raw` stands alone".to_owned()),
        Change::Escape(Escape::Header) if *place == TemplatePlace::Feed => {
            error("`header` may not stand in a feed".to_owned())
        }
        Change::Escape(escape) => {
            placeholder.escapes.push(escape);
            Ok(())
        }
        Change::Raw if !placeholder.escapes.is_empty() || placeholder.is_raw => {
            error("`raw` stands alone".to_owned())
        }
        Change::Raw if !place.takes_raw() => {
            error(format!("`raw` may not stand in a {}", place.name()))
        }
        Change::Raw => {
            placeholder.is_raw = true;
            Ok(())
        }
    }
}
