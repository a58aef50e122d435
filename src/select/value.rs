//! The values of items, with their text.
//!
//! **Invariant**: a number keeps its text unless somebody asks for it rounded or with a comma; a text keeps its characters.

use std::borrow::Cow;

use item::{field_name, string_into};

use crate::number::Decimal;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value<'a> {
    /// `null`, or a field that the item does not have.
    Empty,
    Text(Cow<'a, str>),
    /// The text is kept, because a float would change large numbers and trailing zeros.
    Number(Cow<'a, str>),
    /// `true` or `false`.
    Truth(&'a str),
    /// An array, or an object: JSON text.
    Json(&'a str),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Numbers {
    /// Rounded to so many places.
    pub decimals: Option<u32>,
    /// With a comma in place of the point.
    pub comma: bool,
}

impl<'a> Value<'a> {
    /// The value with this JSON text. The first byte suffices, because the text of an item is valid JSON.
    pub fn of(json: &'a str) -> Self {
        match json.as_bytes().first() {
            Some(b'"') => Self::Text(field_name(json)),
            Some(b'[' | b'{') => Self::Json(json),
            Some(b'n') | None => Self::Empty,
            Some(b't' | b'f') => Self::Truth(json),
            Some(_) => Self::Number(json.into()),
        }
    }

    /// The same with its numbers written so. With a comma a number is a text.
    pub fn written(self, numbers: Numbers) -> Self {
        let Self::Number(text) = self else {
            return self;
        };
        let rounded = numbers
            .decimals
            .and_then(|places| Decimal::parse(&text)?.rounded(places));
        let text = rounded.map_or(text, Cow::Owned);
        match numbers.comma && text.contains('.') {
            true => Self::Text(text.replace('.', ",").into()),
            false => Self::Number(text),
        }
    }

    /// The value as people read it.
    pub fn text(&self) -> &str {
        match self {
            Self::Empty => "",
            Self::Text(text) | Self::Number(text) => text,
            Self::Truth(text) | Self::Json(text) => text,
        }
    }

    /// The number that it is: a text that is written as a number is one.
    pub fn number(&self) -> Option<Decimal> {
        match self {
            Self::Text(text) | Self::Number(text) => Decimal::parse(text),
            Self::Empty | Self::Truth(_) | Self::Json(_) => None,
        }
    }

    /// Appends it as JSON: what is nested in it as it is, or as a text for programs that want none of that.
    pub fn json_into(&self, is_nested: bool, out: &mut String) {
        match self {
            Self::Empty => out.push_str("null"),
            Self::Number(text) => out.push_str(text),
            Self::Truth(text) => out.push_str(text),
            Self::Json(text) if is_nested => out.push_str(text),
            Self::Json(text) => string_into(text, out),
            Self::Text(text) => string_into(text, out),
        }
    }
}
