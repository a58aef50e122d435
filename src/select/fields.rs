//! `fields`: which fields, in which order, under which names. `id,Customer:customer.name,address.*`, or `-note`: all but
//! these.
//!
//! **Invariant**: of an item each name is written once. A field that is named has its own place; what a beginning stands for
//! makes room for it.

mod chooser;

use std::collections::HashMap;
use std::fmt;

use crate::error::{SyntaxError, is_spaced, quoted};
use crate::marks::{LastBackslash, Mark, end, entries, escape_into, marks, plain, split_at_first};
use crate::scope::{Own, Scope, Source};
use crate::{ENTRIES_MAX, check_length};
pub use chooser::Chooser;

/// What is said of a list that does both. With both, the fields that nobody names would have no clear meaning.
const NOT_BOTH: &str = "a list names fields or leaves fields out, not both";

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Fields {
    /// In their order.
    entries: Vec<FieldEntry>,
    /// They are left out, and all others are taken.
    leaves_out: bool,
}

/// An entry of the list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FieldEntry {
    /// A field, and what it is to be called in place of its own name.
    One {
        name: Option<String>,
        source: Source,
    },
    /// All fields whose names begin so. Names that are not known yet are chosen so.
    Beginning(String),
}

impl Fields {
    /// Reads a list of fields.
    ///
    /// # Errors
    /// What was expected, and where.
    pub fn parse(text: &str, scope: Scope) -> Result<Self, SyntaxError> {
        parse(text, scope).map_err(|error| error.of("fields"))
    }

    /// Reads a list of fields that are all that somebody sees: it names them, and no others that may come.
    ///
    /// # Errors
    /// What was expected, and where.
    pub fn parse_limit(text: &str, scope: Scope) -> Result<Self, SyntaxError> {
        let fields = Self::parse(text, scope)?;
        let marks = marks(text, LastBackslash::Dropped)?;
        for (entry, marks) in fields.entries.iter().zip(entries(&marks)) {
            let expected = match entry {
                _ if fields.leaves_out => {
                    "a limit leaves nothing out: fields that come later would be seen"
                }
                FieldEntry::One { name: Some(_), .. } => "a limit renames nothing",
                _ => continue,
            };
            return Err(SyntaxError::new(marks[0].at, expected).of("fields"));
        }
        Ok(fields)
    }

    /// The entries; none stand for all fields.
    pub fn entries(&self) -> &[FieldEntry] {
        &self.entries
    }

    /// Whether the entries are left out, and all other fields are taken.
    pub fn leaves_out(&self) -> bool {
        self.leaves_out
    }

    /// Whether all fields are taken as they are.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A name that begins or ends with a space, which is seldom meant.
    pub fn spaced(&self) -> Option<String> {
        let names = self.entries.iter().flat_map(|entry| match entry {
            FieldEntry::One { name, source } => {
                let name = name.clone().unwrap_or_default();
                [name, source.name().into_owned()]
            }
            FieldEntry::Beginning(beginning) => [String::new(), beginning.clone()],
        });
        names.into_iter().find(|name| is_spaced(name))
    }

    /// Whether this is chosen.
    pub fn names(&self, own: Own) -> bool {
        let is_it = |entry: &FieldEntry| matches!(entry, FieldEntry::One { source, .. } if *source == Source::Own(own));
        !self.leaves_out && self.entries.iter().any(is_it)
    }

    /// Makes ready to choose from many items. What depends on the list alone is done here once, instead of for each
    /// item.
    pub fn chooser(&self) -> Chooser<'_> {
        Chooser::new(self)
    }

    /// The same text for lists that mean the same. Only fields that are left out are sorted, because the order of the
    /// others is that of the answer.
    pub fn canonical(&self) -> String {
        let mut entries = self.entries.iter().map(|entry| match entry {
            FieldEntry::One {
                name: Some(name),
                source,
            } if *name == source.name() => FieldEntry::One {
                name: None,
                source: source.clone(),
            },
            other => other.clone(),
        });
        let mut texts: Vec<String> = entries.by_ref().map(|one| self.print(&one)).collect();
        if self.leaves_out {
            texts.sort_unstable();
            texts.dedup();
        }
        texts.join(",")
    }

    fn print(&self, entry: &FieldEntry) -> String {
        match (self.leaves_out, entry) {
            (false, entry) => entry.to_string(),
            (true, FieldEntry::One { source, .. }) => {
                let mut text = "-".to_owned();
                field_into(&source.name(), ",:", &mut text);
                text
            }
            (true, FieldEntry::Beginning(beginning)) => {
                let mut text = "-".to_owned();
                escape_into(beginning, ",:", &mut text);
                text + "*"
            }
        }
    }
}

/// With the fewest backslashes: what is read of it is equal.
impl fmt::Display for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.entries.iter().map(|one| self.print(one)).collect();
        f.write_str(&texts.join(","))
    }
}

/// As a list has it that names fields.
impl fmt::Display for FieldEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        let first = match self {
            Self::One { name, source } => name.as_deref().map_or_else(|| source.name(), Into::into),
            Self::Beginning(beginning) => beginning.into(),
        };
        if first.starts_with('-') {
            out.push('\\');
        }
        match self {
            Self::One {
                name: Some(name),
                source,
            } => {
                escape_into(name, ",:", &mut out);
                out.push(':');
                field_into(&source.name(), ",", &mut out);
            }
            Self::One { name: None, source } => field_into(&source.name(), ",:", &mut out),
            Self::Beginning(beginning) => {
                escape_into(beginning, ",:", &mut out);
                out.push('*');
            }
        }
        f.write_str(&out)
    }
}

/// Appends the name of a field; it ends with a star only where that is escaped. A field with the name `a.*` would
/// otherwise be read as all fields that begin with `a.`.
fn field_into(name: &str, signs: &str, out: &mut String) {
    match name.strip_suffix('*').filter(|name| name.ends_with('.')) {
        Some(beginning) => {
            escape_into(beginning, signs, out);
            out.push_str("\\*");
        }
        None => escape_into(name, signs, out),
    }
}

fn parse(text: &str, scope: Scope) -> Result<Fields, SyntaxError> {
    let last = match scope.is_feed {
        true => LastBackslash::Dropped,
        false => LastBackslash::Error,
    };
    check_length(text, scope)?;
    let marks = marks(text, last)?;
    let mut fields = Fields::default();
    let mut known = HashMap::new();
    for marks in entries(&marks) {
        let at = marks[0].at;
        if fields.entries.len() == ENTRIES_MAX {
            if scope.is_feed {
                break;
            }
            return Err(SyntaxError::new(
                at,
                format!("more than {ENTRIES_MAX} entries"),
            ));
        }
        let leaves_out = marks[0].is('-');
        if fields.entries.is_empty() {
            fields.leaves_out = leaves_out;
        } else if fields.leaves_out != leaves_out {
            return Err(SyntaxError::new(at, NOT_BOTH));
        }
        let entry = match leaves_out {
            true => left_out(marks, scope)?,
            false => entry(marks, scope)?,
        };
        let before = known.insert(shown(&entry), at);
        if let Some(before) = before.filter(|_| !scope.is_feed) {
            let (_, name) = shown(&entry);
            let twice = format!("{} is there twice, see character {before}", quoted(&name));
            return Err(SyntaxError::new(at, twice));
        }
        fields.entries.push(entry);
    }
    Ok(fields)
}

/// Whether it is a beginning, and the name that it has. Entries with the same pair would write the same name twice.
fn shown(entry: &FieldEntry) -> (bool, String) {
    match entry {
        FieldEntry::One { name, source } => {
            let name = name.clone();
            (false, name.unwrap_or_else(|| source.name().into_owned()))
        }
        FieldEntry::Beginning(beginning) => (true, format!("{beginning}*")),
    }
}

/// `field`, `new name:field` or `beginning.*`.
fn entry(marks: &[Mark], scope: Scope) -> Result<FieldEntry, SyntaxError> {
    let at = marks[0].at;
    let Some((name, sign, field)) = split_at_first(marks, ":") else {
        return one(marks, scope);
    };
    if scope.is_feed && name.is_empty() {
        let source = Source::field(&plain(marks));
        return Ok(FieldEntry::One { name: None, source });
    }
    if name.is_empty() {
        return Err(SyntaxError::new(at, "a name is expected before `:`"));
    }
    let name = plain(name);
    let source = match field.first() {
        None if scope.is_feed => Source::field(""),
        None => {
            let expected = "a field is expected behind `:`";
            return Err(SyntaxError::new(sign.at + 1, expected));
        }
        Some(first) => match one(field, scope)? {
            FieldEntry::One { source, .. } => source,
            FieldEntry::Beginning(_) => {
                let expected = "fields that begin alike have no new name";
                return Err(SyntaxError::new(first.at, expected));
            }
        },
    };
    let is_own = Own::named(&name).is_some_and(|own| source != Source::Own(own));
    if is_own && !scope.is_feed {
        let expected = format!("{} is the daemon's own name", quoted(&name));
        return Err(SyntaxError::new(at, expected));
    }
    let name = Some(name);
    Ok(FieldEntry::One { name, source })
}

/// `-field` or `-beginning.*`. An own name is refused, because it is no field that could be left out.
fn left_out(marks: &[Mark], scope: Scope) -> Result<FieldEntry, SyntaxError> {
    let field = &marks[1..];
    let Some(first) = field.first() else {
        let expected = "a field is expected behind `-`";
        return Err(SyntaxError::new(end(marks, 0), expected));
    };
    if let Some((_, sign, _)) = split_at_first(field, ":") {
        let expected = "a field that is left out has no new name";
        return Err(SyntaxError::new(sign.at, expected));
    }
    let entry = one(field, scope)?;
    let is_own =
        matches!(&entry, FieldEntry::One { source, .. } if matches!(source, Source::Own(_)));
    if is_own && !scope.is_feed {
        let expected = format!(
            "{} is no field, and cannot be left out",
            quoted(&plain(field))
        );
        return Err(SyntaxError::new(first.at, expected));
    }
    Ok(entry)
}

/// `field` or `beginning.*`.
fn one(marks: &[Mark], scope: Scope) -> Result<FieldEntry, SyntaxError> {
    let at = marks[0].at;
    if let [beginning @ .., dot, star] = marks
        && star.is('*')
        && dot.character == '.'
    {
        if beginning.is_empty() {
            return Err(SyntaxError::new(at, "a field is expected before `.*`"));
        }
        return Ok(FieldEntry::Beginning(plain(beginning) + "."));
    }
    let source = scope.source(&plain(marks));
    let source = source.map_err(|expected| SyntaxError::new(at, expected))?;
    Ok(FieldEntry::One { name: None, source })
}
