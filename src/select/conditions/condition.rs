//! One condition: how it is tested on a value, and how it is written.
//!
//! **Invariant**: conditions that are equal hold for the same values.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};

use crate::marks::escape_into;
use crate::number::Decimal;
use crate::scope::{Own, Source};
use crate::value::Value;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Condition {
    pub(super) is_negated: bool,
    pub(super) source: Source,
    pub(super) test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Test {
    /// The text is one of these.
    Is(Values),
    /// It begins with one of these.
    Begins(Vec<String>),
    /// The number compares so. A decimal instead of a float, because 2^64 and `0.1` would otherwise not be what they
    /// say.
    Compares(Comparison, Decimal),
    /// It is there, and not null.
    Exists,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Comparison {
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

/// Texts in their order, and to be looked up where they are many. The texts are kept beside their hashes, because a
/// condition is printed as it was written.
#[derive(Debug, Clone)]
pub(super) struct Values {
    pub(super) texts: Vec<String>,
    hashed: HashSet<String>,
}

impl Condition {
    /// Keys and streams of an item never change, so that such a condition never changes its answer.
    pub(super) fn is_of_keys(&self) -> bool {
        matches!(self.source, Source::Own(Own::Key | Own::Stream))
    }

    pub(super) fn holds(&self, value: &Value<'_>) -> bool {
        let holds = match &self.test {
            Test::Is(values) => values.contain(value.text()),
            Test::Begins(beginnings) => beginnings.iter().any(|one| value.text().starts_with(one)),
            Test::Compares(comparison, number) => value
                .number()
                .is_some_and(|value| comparison.holds(value.cmp(number))),
            Test::Exists => *value != Value::Empty,
        };
        holds != self.is_negated
    }

    pub(super) fn print(&self) -> String {
        self.with_values(<[String]>::to_vec)
    }

    /// The order of values is left out, because it does not change what the condition means.
    pub(super) fn canonical(&self) -> String {
        self.with_values(|values| {
            let mut values = values.to_vec();
            values.sort_unstable();
            values.dedup();
            values
        })
    }

    /// A `!` at the beginning of a name gets a backslash, because it would otherwise negate the condition.
    fn with_values(&self, order: impl Fn(&[String]) -> Vec<String>) -> String {
        let mut out = String::new();
        let name = self.source.name();
        if self.is_negated {
            out.push('!');
        }
        if name.starts_with('!') {
            out.push('\\');
        }
        escape_into(&name, ",:^><?", &mut out);
        let list = |sign: char, values: &[String], out: &mut String| {
            for (at, value) in order(values).iter().enumerate() {
                out.push(if at == 0 { sign } else { '|' });
                escape_into(value, ",|", out);
            }
        };
        match &self.test {
            Test::Is(values) => list(':', &values.texts, &mut out),
            Test::Begins(beginnings) => list('^', beginnings, &mut out),
            Test::Compares(comparison, number) => {
                out.push_str(comparison.sign());
                out.push_str(&number.to_string());
            }
            Test::Exists => out.push('?'),
        }
        out
    }
}

impl Test {
    /// What is cheap comes first. A condition that fails early saves the others.
    pub(super) fn cost(&self) -> u8 {
        match self {
            Self::Exists => 0,
            Self::Is(_) => 1,
            Self::Begins(_) => 2,
            Self::Compares(..) => 3,
        }
    }
}

impl Comparison {
    pub(super) fn sign(self) -> &'static str {
        match self {
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
        }
    }

    fn holds(self, ordering: Ordering) -> bool {
        match self {
            Self::Greater => ordering.is_gt(),
            Self::GreaterOrEqual => ordering.is_ge(),
            Self::Less => ordering.is_lt(),
            Self::LessOrEqual => ordering.is_le(),
        }
    }
}

impl Values {
    pub(super) fn of(texts: Vec<String>) -> Self {
        let is_hashed = texts.len() >= HASHED_FROM;
        let hashed = texts.iter().filter(|_| is_hashed).cloned().collect();
        Self { texts, hashed }
    }

    fn contain(&self, text: &str) -> bool {
        match self.hashed.is_empty() {
            true => self.texts.iter().any(|one| one == text),
            false => self.hashed.contains(text),
        }
    }
}

/// The hashes follow from the texts, so that these are compared alone.
impl PartialEq for Values {
    fn eq(&self, other: &Self) -> bool {
        self.texts == other.texts
    }
}

impl Eq for Values {}

impl Hash for Values {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.texts.hash(state);
    }
}

/// From so many values on they are looked up by their hash. A hash costs more than a comparison of a few texts.
const HASHED_FROM: usize = 8;
