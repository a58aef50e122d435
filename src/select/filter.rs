//! Which items somebody sees, and which of their fields: conditions and a choice of fields, within the limits of a key.
//!
//! **Invariant**: what limits hide is not there: conditions and fields of a request are about what is left.

use std::sync::Arc;

use crate::{Fields, Record, Scope, SyntaxError, Where};

/// Which items, and which of their fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ItemFilter {
    /// What is seen at most. They are a filter of their own instead of more conditions, so that a request cannot see by
    /// its conditions what the limits hide.
    pub limits: Option<Arc<ItemFilter>>,
    pub conditions: Where,
    pub fields: Fields,
}

impl ItemFilter {
    /// Reads what a client asks for.
    ///
    /// # Errors
    /// What was expected, and where.
    pub fn parse(conditions: &str, fields: &str) -> Result<Self, SyntaxError> {
        Ok(Self {
            limits: None,
            conditions: Where::parse(conditions, Scope::LIVE)?,
            fields: Fields::parse(fields, Scope::LIVE)?,
        })
    }

    /// The same within limits.
    #[must_use]
    pub fn within(self, limits: Option<&Arc<Self>>) -> Self {
        Self {
            limits: limits.cloned(),
            ..self
        }
    }

    /// Whether everything is seen as it is.
    pub fn is_empty(&self) -> bool {
        self.limits.is_none() && self.conditions.is_empty() && self.fields.is_empty()
    }

    /// The item with the fields that are seen, if it is seen. The limits come first, so that a condition on a hidden
    /// field finds none.
    pub fn shown(&self, record: &Record<'_>) -> Option<String> {
        let Some(limits) = &self.limits else {
            return self.chosen(record);
        };
        let fields = limits.shown(record)?;
        self.chosen(&Record {
            fields: &fields,
            ..*record
        })
    }

    fn chosen(&self, record: &Record<'_>) -> Option<String> {
        self.conditions.holds(record).then(|| {
            let mut chosen = String::with_capacity(record.fields.len());
            self.fields.chooser().choose_into(record, &mut chosen);
            chosen
        })
    }

    /// Keys of which an item has one, or it is not seen; none: it can have any key. The shortest list is taken, because
    /// every item is in all of them.
    pub fn keys(&self) -> Option<&[String]> {
        let limits = self.limits.as_ref().and_then(|limits| limits.keys());
        let lists = [limits, self.conditions.keys()];
        lists.into_iter().flatten().min_by_key(|keys| keys.len())
    }

    /// Whether it never changes whether an item is seen. A connection then need not remember which items its client
    /// has.
    pub fn is_of_keys(&self) -> bool {
        let limits = self.limits.as_ref();
        limits.is_none_or(|limits| limits.is_of_keys()) && self.conditions.is_of_keys()
    }

    /// Whether limits can hide an item that was seen, or that has the key of one. A connection then remembers all items
    /// of its client, because a removal of another item would disclose a hidden one.
    pub fn hides(&self) -> bool {
        let limits = self.limits.as_ref();
        limits.is_some_and(|limits| !limits.is_of_keys())
    }

    /// Whether the removal of an item can concern who sees this.
    pub fn passes_removal(&self, key: &str, stream: &str) -> bool {
        let limits = self.limits.as_ref();
        limits.is_none_or(|limits| limits.passes_removal(key, stream))
            && self.conditions.passes_removal(key, stream)
    }

    /// The same text for what shows the same. Positions of a read key carry a digest of it, so that another order of
    /// conditions makes none of them invalid.
    pub fn canonical(&self) -> String {
        let limits = self.limits.as_ref().map(|limits| limits.canonical());
        let (conditions, fields) = (self.conditions.canonical(), self.fields.canonical());
        format!("{}\0{conditions}\0{fields}", limits.unwrap_or_default())
    }
}
