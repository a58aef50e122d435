//! Conditions from their text.
//!
//! **Invariant**: a text that is refused is refused at the first place where something else was expected.

use super::{Comparison, Condition, Test, Values};
use crate::error::{SyntaxError, quoted};
use crate::marks::{LastBackslash, Mark, end, entries, marks, plain, split_at_first};
use crate::number::Decimal;
use crate::scope::{Own, Scope, Source};
use crate::{ENTRIES_MAX, check_length};

/// What ends the name of a field.
const SIGNS: &str = ":^><?";

pub(super) fn parse(text: &str, scope: Scope) -> Result<Self, SyntaxError> {
        let conditions = parse(text, scope).map_err(|error| error.of("where"))?;
        Ok(Self::of(conditions))
    }

    fn of(conditions: Vec<Condition>) -> Self {
        let mut order: Vec<usize> = (0..conditions.len()).collect();
        order.sort_by_key(|at| conditions[*at].test.cost());
        let mut compiled = Self::default();
        for at in order {
            match &conditions[at].source {
                Source::Own(_) => compiled.own.push(at),
                Source::Field(name) => {
                    let of_field = compiled.fields.entry(name.clone()).or_default();
                    of_field.conditions.push(at);
                }
            }
        }
        for of_field in compiled.fields.values_mut() {
            let mut all = of_field.conditions.iter();
            of_field.hold_without = all.all(|at| conditions[*at].holds(&Value::Empty));
            compiled.needed += usize::from(!of_field.hold_without);
        }
        Self {
            conditions,
            ..compiled
        }
    }

    /// Whether there is no condition.
    pub fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Whether a condition is on this.
    pub fn names(&self, own: Own) -> bool {
        let mut sources = self.own.iter().map(|at| &self.conditions[*at].source);
        sources.any(|source| *source == Source::Own(own))
    }

    /// Whether all conditions are on keys and streams, which are the same for all that was ever sent of an item.
    pub fn is_of_keys(&self) -> bool {
        self.conditions.iter().all(Condition::is_of_keys)
    }

    /// The names of the fields and own names that it has, once each.
    pub fn sources(&self) -> Vec<String> {
        let mut known = HashSet::new();
        let names = self.conditions.iter().map(|one| one.source.name());
        let names = names.filter(|name| known.insert(name.clone()));
        names.map(|name| name.into_owned()).collect()
    }

    /// Whether an item meets all conditions.
    pub fn holds(&self, record: &Record<'_>) -> bool {
        let of_own = |at: &usize| {
            let condition = &self.conditions[*at];
            condition.holds(&record.value(&condition.source))
        };
        if !self.own.iter().all(of_own) {
            return false;
        }
        if self.fields.is_empty() {
            return true;
        }
        let mut needed = self.needed;
        for (name, json) in members(record.fields) {
            let Some(of_field) = self.fields.get(name) else {
                continue;
            };
            let value = Value::of(json);
            let mut all = of_field.conditions.iter();
            if !all.all(|at| self.conditions[*at].holds(&value)) {
                return false;
            }
            needed -= usize::from(!of_field.hold_without);
        }
        needed == 0
    }

    /// Whether a removal is passed on: nothing is known of the item that it removes but its key and its stream.
    pub fn passes_removal(&self, key: &str, stream: &str) -> bool {
        let record = Record {
            key,
            stream,
            ..Record::default()
        };
        let mut decisive = self.conditions.iter().filter(|one| one.is_of_keys());
        decisive.all(|condition| condition.holds(&record.value(&condition.source)))
    }

    /// The same text for conditions that mean the same: each once, in the order of code points.
    pub fn canonical(&self) -> String {
        let mut texts: Vec<String> = self.conditions.iter().map(Condition::canonical).collect();
        texts.sort_unstable();
        texts.dedup();
        texts.join(",")
    }
}

impl PartialEq for Where {
    fn eq(&self, other: &Self) -> bool {
        self.conditions == other.conditions
    }
}

impl Eq for Where {}

impl Hash for Where {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.conditions.hash(state);
    }
}

/// With the fewest backslashes: what is read of it is equal.
impl fmt::Display for Where {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.conditions.iter().map(Condition::print).collect();
        f.write_str(&texts.join(","))
    }
}

impl Condition {
    fn is_of_keys(&self) -> bool {
        matches!(self.source, Source::Own(Own::Key | Own::Stream))
    }

    fn holds(&self, value: &Value<'_>) -> bool {
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

    fn print(&self) -> String {
        self.with_values(<[String]>::to_vec)
    }

    fn canonical(&self) -> String {
        self.with_values(|values| {
            let mut values = values.to_vec();
            values.sort_unstable();
            values.dedup();
            values
        })
    }

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
    /// What is cheap comes first.
    fn cost(&self) -> u8 {
        match self {
            Self::Exists => 0,
            Self::Is(_) => 1,
            Self::Begins(_) => 2,
            Self::Compares(..) => 3,
        }
    }
}

impl Comparison {
    fn sign(self) -> &'static str {
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
    fn of(texts: Vec<String>) -> Self {
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

fn parse(text: &str, scope: Scope) -> Result<Vec<Condition>, SyntaxError> {
    let last = match scope.is_feed {
        true => LastBackslash::Dropped,
        false => LastBackslash::Error,
    };
    check_length(text, scope)?;
    let marks = marks(text, last)?;
    let mut conditions = Vec::new();
    for entry in entries(&marks) {
        if conditions.len() == ENTRIES_MAX {
            let expected = format!("more than {ENTRIES_MAX} entries");
            return Err(SyntaxError::new(entry[0].at, expected));
        }
        conditions.push(condition(entry, scope)?);
    }
    Ok(conditions)
}

fn condition(entry: &[Mark], scope: Scope) -> Result<Condition, SyntaxError> {
    let is_negated = entry[0].is('!');
    let entry_end = end(entry, 0);
    let rest = &entry[usize::from(is_negated)..];
    let Some(first) = rest.first() else {
        return Err(SyntaxError::new(
            entry_end,
            "a field is expected behind `!`",
        ));
    };
    let Some((name, sign, values)) = split_at_first(rest, SIGNS) else {
        return Err(SyntaxError::new(entry_end, no_sign(&plain(rest))));
    };
    if name.is_empty() {
        let expected = format!("a field is expected before `{}`", sign.character);
        return Err(SyntaxError::new(first.at, expected));
    }
    let source = scope.source(&plain(name));
    let source = source.map_err(|expected| SyntaxError::new(first.at, expected))?;
    if source == Source::Own(Own::Position) {
        let expected = "`_position` is counted after `where`";
        return Err(SyntaxError::new(first.at, expected));
    }
    let test = match sign.character {
        ':' => Test::Is(Values::of(texts(values, scope)?)),
        '^' => Test::Begins(beginnings(values, sign, scope)?),
        '?' => match values.first() {
            None => Test::Exists,
            Some(first) => {
                let what = quoted(&plain(values));
                let expected = format!("nothing may stand behind `?`; {what} does");
                return Err(SyntaxError::new(first.at, expected));
            }
        },
        _ => comparison(sign, values)?,
    };
    Ok(Condition {
        is_negated,
        source,
        test,
    })
}

/// What is said of a condition without a test.
fn no_sign(name: &str) -> String {
    let expected = "`:`, `^`, `>`, `<` or `?` is expected behind";
    let equal = name.split_once('=').map(|(field, value)| {
        let meant = format!("{field}:{}", value.trim_start_matches('='));
        format!("; equal is written {}", quoted(&meant))
    });
    format!("{expected} {}{}", quoted(name), equal.unwrap_or_default())
}

/// Texts between bars.
fn texts(values: &[Mark], scope: Scope) -> Result<Vec<String>, SyntaxError> {
    let mut texts = Vec::new();
    for value in values.split(|mark| mark.is('|')) {
        if texts.len() == ENTRIES_MAX && !scope.is_feed {
            let at = value.first().map_or(end(values, 1), |mark| mark.at);
            return Err(SyntaxError::new(
                at,
                format!("more than {ENTRIES_MAX} values"),
            ));
        }
        texts.push(plain(value));
    }
    Ok(texts)
}

/// Texts between bars, none of them empty: that would hold for everything.
fn beginnings(values: &[Mark], sign: Mark, scope: Scope) -> Result<Vec<String>, SyntaxError> {
    let mut before = sign;
    for value in values.split(|mark| mark.is('|')) {
        if value.is_empty() {
            let expected = format!("a beginning is expected behind `{}`", before.character);
            return Err(SyntaxError::new(before.at + 1, expected));
        }
        before = Mark {
            character: '|',
            is_escaped: false,
            at: end(value, 0),
        };
    }
    texts(values, scope)
}

/// A number behind `>`, `>=`, `<` or `<=`.
fn comparison(sign: Mark, values: &[Mark]) -> Result<Test, SyntaxError> {
    let is_or_equal = values.first().is_some_and(|mark| mark.is('='));
    let comparison = match (sign.character, is_or_equal) {
        ('>', true) => Comparison::GreaterOrEqual,
        ('>', false) => Comparison::Greater,
        (_, true) => Comparison::LessOrEqual,
        (_, false) => Comparison::Less,
    };
    let number = &values[usize::from(is_or_equal)..];
    let text = plain(number);
    let Some(decimal) = Decimal::parse(&text) else {
        let begin = sign.at + 1 + usize::from(is_or_equal);
        let at = number.first().map_or(begin, |mark| mark.at);
        let none = match text.is_empty() {
            true => String::new(),
            false => format!("; {} is none", quoted(&text)),
        };
        let sign = comparison.sign();
        let expected = format!("a number is expected behind `{sign}`{none}");
        return Err(SyntaxError::new(at, expected));
    };
    Ok(Test::Compares(comparison, decimal))
}
