//! Reads single parameters of a feed's URL.
//!
//! **Invariant**: what cannot be used is refused with a message that says what would be right.

use super::{Format, Names, QueryError, Shape};
use select::{Scope, Template, TemplatePlace};

/// Gives a parameter by its name.
pub(super) type Parameters<'a> = &'a mut dyn FnMut(&str) -> Option<String>;

/// Keys and sort fields, at most of each.
const ENTRIES_MAX: usize = 1_000;

/// A parameter; empty if it is absent.
pub(super) fn text(req: Parameters<'_>, name: &str) -> String {
    req(name).unwrap_or_default()
}

pub(super) fn within_max(name: &str, count: usize) -> Result<(), QueryError> {
    if count <= ENTRIES_MAX {
        return Ok(());
    }
    let message = format!("{name} may list {ENTRIES_MAX} at most; ask for fewer at once");
    Err(QueryError::of(message))
}

pub(super) fn names(req: Parameters<'_>) -> Result<Names, QueryError> {
    match req("names").as_deref() {
        None | Some("_") => Ok(Names::Underscores),
        Some(".") => Ok(Names::Dots),
        Some("nested") => Ok(Names::Nested),
        Some(_) => Err(QueryError::of(
            "names must be _ (home_score), . (home.score) or nested (objects)",
        )),
    }
}

pub(super) fn shape(req: Parameters<'_>) -> Result<Shape, QueryError> {
    match req("shape").as_deref() {
        None | Some("rows") => Ok(Shape::Rows),
        Some("object") => Ok(Shape::Object),
        Some("one") => Ok(Shape::One),
        Some("fields") => Ok(Shape::Fields),
        Some(_) => Err(QueryError::of("shape must be rows, object, one or fields")),
    }
}

pub(super) fn separator(format: Format, req: Parameters<'_>) -> Result<char, QueryError> {
    if format == Format::Tsv {
        return Ok('\t');
    }
    let Some(text) = req("sep") else {
        return Ok(',');
    };
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (Some(one), None) if !matches!(one, '"' | '\r' | '\n') => Ok(one),
        _ => Err(QueryError::of(
            "sep must be one character, such as ; (write it as %3B), and not a quote",
        )),
    }
}

pub(super) fn number<T>(
    req: Parameters<'_>,
    name: &str,
    min: T,
    max: T,
) -> Result<Option<T>, QueryError>
where
    T: std::str::FromStr + PartialOrd + std::fmt::Display + Copy,
{
    let Some(text) = req(name) else {
        return Ok(None);
    };
    let number = text
        .parse()
        .ok()
        .filter(|number| (min..=max).contains(number));
    number.map(Some).ok_or_else(|| {
        let message = format!("{name} must be a whole number from {min} to {max}");
        QueryError::of(match name {
            "limit" => format!("{message}; get more rows page by page, with offset"),
            _ => message,
        })
    })
}

/// A parameter that is there, or `true`, or is not, or `false`.
pub(super) fn flag(req: Parameters<'_>, name: &str, default: bool) -> Result<bool, QueryError> {
    match req(name).as_deref() {
        None => Ok(default),
        Some("" | "true" | "1") => Ok(true),
        Some("false" | "0") => Ok(false),
        Some(_) => Err(QueryError::of(format!("{name} must be true or false"))),
    }
}

pub(super) fn template(req: Parameters<'_>, name: &str) -> Result<Option<Template>, QueryError> {
    let Some(text) = req(name) else {
        return Ok(None);
    };
    let template = Template::parse(name, &text, TemplatePlace::Feed, Scope::FEED)?;
    Ok(Some(template))
}

/// A text with values in it, or the name of one field.
pub(super) fn field_or_template(
    req: Parameters<'_>,
    name: &str,
) -> Result<Option<Template>, QueryError> {
    match req(name) {
        Some(text) if !text.contains('{') => Ok(Some(Template::of_field(name, &text)?)),
        _ => template(req, name),
    }
}
