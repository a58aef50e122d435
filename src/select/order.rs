//! `sort`: by which fields. `-home.score,home.name`.
//!
//! **Invariant**: a minus sign is one only where no backslash stands before it.

use crate::error::SyntaxError;
use crate::marks::{LastBackslash, entries, marks, plain};
use crate::scope::{Scope, Source};

/// One of several fields that count one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SortBy {
    pub source: Source,
    pub descends: bool,
}

impl SortBy {
    /// Reads a list.
    ///
    /// # Errors
    /// What was expected, and where.
    pub fn parse(text: &str, scope: Scope) -> Result<Vec<Self>, SyntaxError> {
        let marks = marks(text, LastBackslash::Dropped)?;
        let entries = entries(&marks).map(|entry| {
            let descends = entry[0].is('-');
            let field = &entry[usize::from(descends)..];
            let source = scope.source(&plain(field));
            let source =
                source.map_err(|expected| SyntaxError::new(entry[0].at, expected).of("sort"))?;
            Ok(Self { source, descends })
        });
        entries.collect()
    }
}
