//! `where`: which items. `status:paid|shipped,total>=100,note?`: all conditions must hold.
//!
//! **Invariant**: a condition looks at one item alone. Of an item only the fields that are named are read, each once.

mod condition;
mod read;

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::hash::{Hash, Hasher};

use item::members;

use crate::by_name::ByName;
use crate::error::{SyntaxError, is_spaced};
use crate::scope::{Own, Record, Scope, Source};
use crate::value::Value;
use condition::{Comparison, Condition, Test, Values};

/// Which items: conditions that must all hold.
#[derive(Debug, Clone, Default)]
pub struct Where {
    /// As they were written. The order is kept, because they are printed so.
    conditions: Vec<Condition>,
    /// Those on what the daemon knows, the cheapest first. They are tested first, because no field is read for them.
    own: Vec<usize>,
    /// Those on fields, by the name as JSON writes it.
    fields: ByName<String, OfField>,
    /// Fields that an item must have, or its conditions do not hold. They are counted, so that an item without one of
    /// them fails without a list of names.
    needed: usize,
}

/// The conditions on one field.
#[derive(Debug, Clone, Default)]
struct OfField {
    /// The cheapest first.
    conditions: Vec<usize>,
    /// Whether all hold for an item that does not have the field. It is found once, so that a missing field needs no
    /// test for each item.
    hold_without: bool,
}

impl Where {
    /// Reads conditions.
    ///
    /// # Errors
    /// What was expected, and where.
    pub fn parse(text: &str, scope: Scope) -> Result<Self, SyntaxError> {
        let conditions = read::parse(text, scope).map_err(|error| error.of("where"))?;
        Ok(Self::of(conditions))
    }

    fn of(conditions: Vec<Condition>) -> Self {
        let mut order: Vec<usize> = (0..conditions.len()).collect();
        order.sort_by_key(|at| conditions[*at].test.cost());
        let mut compiled = Self::default();
        let mut fields: BTreeMap<String, OfField> = BTreeMap::new();
        for at in order {
            match &conditions[at].source {
                Source::Own(_) => compiled.own.push(at),
                Source::Field(name) => {
                    let of_field = fields.entry(name.clone()).or_default();
                    of_field.conditions.push(at);
                }
            }
        }
        for of_field in fields.values_mut() {
            let mut all = of_field.conditions.iter();
            of_field.hold_without = all.all(|at| conditions[*at].holds(&Value::Empty));
            compiled.needed += usize::from(!of_field.hold_without);
        }
        Self {
            conditions,
            fields: fields.into(),
            ..compiled
        }
    }

    /// The condition that an item has one of these keys.
    pub fn of_keys(keys: Vec<String>) -> Self {
        Self::of(vec![Condition {
            is_negated: false,
            source: Source::Own(Own::Key),
            test: Test::Is(Values::of(keys)),
        }])
    }

    /// The conditions of both.
    #[must_use]
    pub fn and(self, other: &Self) -> Self {
        if other.is_empty() {
            return self;
        }
        let mut conditions = self.conditions;
        conditions.extend_from_slice(&other.conditions);
        Self::of(conditions)
    }

    /// Keys of which an item has one, or the conditions do not hold; none: it can have any key. A reader then looks up
    /// these keys instead of reading every item.
    pub fn keys(&self) -> Option<&[String]> {
        let listed = self.conditions.iter().filter_map(|one| match &one.test {
            Test::Is(values) if !one.is_negated && one.source == Source::Own(Own::Key) => {
                Some(&*values.texts)
            }
            _ => None,
        });
        listed.min_by_key(|keys| keys.len())
    }

    /// Whether there is no condition.
    pub fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Whether a condition is on this. A value that no condition names need not be computed.
    pub fn names(&self, own: Own) -> bool {
        let mut sources = self.own.iter().map(|at| &self.conditions[*at].source);
        sources.any(|source| *source == Source::Own(own))
    }

    /// Whether all conditions are on keys and streams, which are the same for all that was ever sent of an item. An
    /// item that was not sent then never has to be sent, or withdrawn, after a change.
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

    /// A field that a condition is on.
    pub fn field(&self) -> Option<String> {
        let mut sources = self.conditions.iter().map(|one| &one.source);
        let field = sources.find(|source| matches!(source, Source::Field(_)))?;
        Some(field.name().into_owned())
    }

    /// A name or value that begins or ends with a space, which is seldom meant. It is only warned of, because a value
    /// may have such a space.
    pub fn spaced(&self) -> Option<String> {
        let texts = self.conditions.iter().flat_map(|condition| {
            let values: &[String] = match &condition.test {
                Test::Is(values) => &values.texts,
                Test::Begins(beginnings) => beginnings,
                Test::Compares(..) | Test::Exists => &[],
            };
            std::iter::once(condition.source.name().into_owned()).chain(values.iter().cloned())
        });
        texts.into_iter().find(|text| is_spaced(text))
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
        // An item has a field once: behind the last one nothing is read.
        let (mut needed, mut unseen) = (self.needed, self.fields.len());
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
            unseen -= 1;
            if unseen == 0 {
                break;
            }
        }
        needed == 0
    }

    /// Whether a removal is passed on: nothing is known of the item that it removes but its key and its stream.
    /// Conditions on fields are passed over, because a removal has no fields.
    pub fn passes_removal(&self, key: &str, stream: &str) -> bool {
        let record = Record {
            key,
            stream,
            ..Record::default()
        };
        let mut decisive = self.conditions.iter().filter(|one| one.is_of_keys());
        decisive.all(|condition| condition.holds(&record.value(&condition.source)))
    }

    /// The same text for conditions that mean the same: each once, in the order of code points. Another order of the
    /// same conditions is then no other selection.
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
