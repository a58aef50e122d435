//! What stands behind a bar: `or:TEXT`, `decimals:N`, `first:N`, `pad:N`, and the names of escapes.
//!
//! **Invariant**: a value that is a number stays one where only digits are changed; what is cut or filled is a text.

use super::escape::Escape;
use crate::error::{SyntaxError, quoted};
use crate::marks::{Mark, end, escape_into, plain, split_at_first};
use crate::number::Decimal;
use crate::value::{Numbers, Value};

const DECIMALS_MAX: u32 = 20;
/// Padding would otherwise fill memory from a short template.
const CHARACTERS_MAX: u32 = 10_000;
/// Changes of a name after which it is still thought to be meant. A name further away would be a wrong hint.
const DISTANCE_MAX: usize = 2;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Filter {
    /// The text if there is none.
    Or(String),
    /// Rounded to so many places.
    Decimals(u32),
    /// So many characters at the beginning.
    First(usize),
    /// Spaces, in front or behind, up to so many characters.
    Pad { is_in_front: bool, count: usize },
}

/// What stands behind a bar.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    Filter(Filter),
    Escape(Escape),
    /// No escape at all.
    Raw,
}

const FILTERS: [&str; 4] = ["or", "decimals", "first", "pad"];

/// Reads it; `at` is its place.
pub(super) fn parse(part: &[Mark], at: usize) -> Result<Change, SyntaxError> {
    let (name, argument) = match split_at_first(part, ":") {
        Some((name, colon, argument)) => (name, Some((colon.at + 1, argument))),
        None => (part, None),
    };
    let behind_name = end(name, at);
    let name = plain(name);
    if name.is_empty() {
        return Err(SyntaxError::new(at, "a filter is expected behind `|`"));
    }
    if FILTERS.contains(&&*name) {
        let takes = if name == "or" { "text" } else { "number" };
        let Some(argument) = argument else {
            let expected = format!("`{name}` takes a {takes} behind a colon");
            return Err(SyntaxError::new(behind_name, expected));
        };
        return filter(&name, argument).map(Change::Filter);
    }
    let change = match (Escape::named(&name), &*name) {
        (Some(escape), _) => Change::Escape(escape),
        (None, "raw") => Change::Raw,
        (None, _) => return Err(SyntaxError::new(at, not_known(&name))),
    };
    match argument {
        None => Ok(change),
        Some(_) => {
            let expected = format!("`{name}` takes nothing behind a colon");
            Err(SyntaxError::new(behind_name, expected))
        }
    }
}

fn filter(name: &str, (at, argument): (usize, &[Mark])) -> Result<Filter, SyntaxError> {
    let text = plain(argument);
    let number = |digits: &str, min: u32, max: u32| {
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = is_number.then(|| digits.parse::<u32>().ok()).flatten();
        number.filter(|number| (min..=max).contains(number))
    };
    let (filter, range) = match name {
        "or" => return Ok(Filter::Or(text)),
        "decimals" => {
            let filter = number(&text, 0, DECIMALS_MAX).map(Filter::Decimals);
            (filter, format!("0 to {DECIMALS_MAX}"))
        }
        "first" => {
            let count = number(&text, 1, CHARACTERS_MAX);
            let filter = count.map(|count| Filter::First(count as usize));
            (filter, format!("1 to {CHARACTERS_MAX}"))
        }
        _ => {
            let in_front = text.strip_prefix('-');
            let count = number(in_front.unwrap_or(&text), 1, CHARACTERS_MAX);
            let filter = count.map(|count| Filter::Pad {
                is_in_front: in_front.is_some(),
                count: count as usize,
            });
            (filter, format!("±1 to {CHARACTERS_MAX}"))
        }
    };
    filter.ok_or_else(|| {
        let none = match text.is_empty() {
            true => String::new(),
            false => format!("; {} is none", quoted(&text)),
        };
        let expected = format!("a whole number from {range} is expected behind `{name}:`{none}");
        SyntaxError::new(at, expected)
    })
}

/// What is said of a name that is none, with the nearest one.
fn not_known(name: &str) -> String {
    let known = FILTERS.into_iter().chain(["raw"]).chain(Escape::names());
    // What is much longer than any of them is near to none.
    let is_short = name.len() <= 64;
    let distances = known
        .filter(|_| is_short)
        .map(|known| (strsim::osa_distance(name, known), known));
    let nearest = distances
        .filter(|(distance, _)| *distance <= DISTANCE_MAX)
        .min();
    let nearest = nearest.map_or_else(String::new, |(_, known)| format!("; `{known}` is"));
    format!("the filter {} is not known{nearest}", quoted(name))
}

impl Filter {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Or(_) => "or",
            Self::Decimals(_) => "decimals",
            Self::First(_) => "first",
            Self::Pad { .. } => "pad",
        }
    }

    pub(super) fn print_into(&self, out: &mut String) {
        out.push_str(self.name());
        out.push(':');
        match self {
            Self::Or(text) => escape_into(text, "|{}", out),
            Self::Decimals(places) => out.push_str(&places.to_string()),
            Self::First(count) => out.push_str(&count.to_string()),
            Self::Pad { is_in_front, count } => {
                let sign = if *is_in_front { "-" } else { "" };
                out.extend([sign, &count.to_string()]);
            }
        }
    }

    /// The value changed by it. `comma` is how the numbers are written that it makes.
    pub(super) fn change<'a>(&'a self, value: Value<'a>, comma: bool) -> Value<'a> {
        match self {
            Self::Or(text) if value.text().is_empty() => match Decimal::parse(text) {
                Some(_) => Value::Number(text.into()),
                None => Value::Text(text.into()),
            },
            Self::Or(_) => value,
            Self::Decimals(places) => {
                let rounded = value.number().and_then(|number| number.rounded(*places));
                let numbers = Numbers {
                    decimals: None,
                    comma,
                };
                rounded.map_or(value, |text| Value::Number(text.into()).written(numbers))
            }
            Self::First(count) => {
                let text = value.text();
                let end = text.char_indices().nth(*count).map(|(at, _)| at);
                Value::Text(text[..end.unwrap_or(text.len())].to_owned().into())
            }
            Self::Pad { is_in_front, count } => {
                let missing = count.saturating_sub(value.text().chars().count());
                let spaces = " ".repeat(missing);
                Value::Text(match is_in_front {
                    true => (spaces + value.text()).into(),
                    false => (value.text().to_owned() + &spaces).into(),
                })
            }
        }
    }
}
