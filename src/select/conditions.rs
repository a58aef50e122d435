//! `where`: which items. `status:paid|shipped,total>=100,note?`: all conditions must hold.
//!
//! **Invariant**: a condition looks at one item alone. Of an item only the fields that are named are read, each once.

mod read;

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::hash::{Hash, Hasher};

use item::members;

use crate::error::SyntaxError;
use crate::marks::escape_into;
use crate::number::Decimal;
use crate::scope::{Own, Record, Scope, Source};
use crate::value::Value;

/// From so many values on they are looked up by their hash.
const HASHED_FROM: usize = 8;

/// Which items: conditions that must all hold.
#[derive(Debug, Clone, Default)]
pub struct Where {
    /// As they were written.
    conditions: Vec<Condition>,
    /// Those on what the daemon knows, the cheapest first.
    own: Vec<usize>,
    /// Those on fields, by the name as JSON writes it.
    fields: BTreeMap<String, OfField>,
    /// Fields that an item must have, or its conditions do not hold.
    needed: usize,
}

/// The conditions on one field.
#[derive(Debug, Clone, Default)]
struct OfField {
    /// The cheapest first.
    conditions: Vec<usize>,
    /// Whether all hold for an item that does not have the field.
    hold_without: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Condition {
    is_negated: bool,
    source: Source,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Test {
    /// The text is one of these.
    Is(Values),
    /// It begins with one of these.
    Begins(Vec<String>),
    /// The number compares so.
    Compares(Comparison, Decimal),
    /// It is there, and not null.
    Exists,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Comparison {
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

/// Texts in their order, and to be looked up where they are many.
#[derive(Debug, Clone)]
struct Values {
    texts: Vec<String>,
    hashed: HashSet<String>,
}

impl Where {
    /// Reads conditions.
    ///
    /// # Errors
    /// What was expected, and where.
    pub
