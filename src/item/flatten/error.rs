//! What to tell the caller about a body that is refused.
//!
//! Owns the error type and the wording that several places share. Called by the other files of `flatten`; the
//! ingest pipeline turns the error into 400 `INVALID_PAYLOAD`.
//!
//! **Invariant**: every message fits a response: names are shortened, lists are capped by who builds them.

use std::borrow::Cow;

use crate::unescape;

/// Names are shown up to this many characters.
const NAME_CHARS_MAX: usize = 120;

/// One place in a body.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Detail {
    /// Position of the item in the payload, from 0, as in the default item key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<u64>,
    /// Name of the field, as text. Very long ones are cut and end in `…`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Line in the body, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// Column in the line, from 1, in characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u64>,
}

/// Why a body was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FlattenError {
    /// What is wrong, where, and what to do about it.
    pub message: String,
    /// The places, for programs; at most 20.
    pub details: Vec<Detail>,
}

/// A refusal on its way up: one pointer, so that results stay small on the way that has no errors.
pub(super) type Fault = Box<FlattenError>;

impl FlattenError {
    #[cold]
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            details: Vec::new(),
        }
    }

    /// Adds a place.
    pub(super) fn detail(mut self, detail: Detail) -> Self {
        self.details.push(detail);
        self
    }

    /// Adds item and field (name in canonical form) to the place given last, or as a place.
    pub(super) fn field(mut self, item: u64, name: &str) -> Self {
        let mut detail = self.details.pop().unwrap_or_default();
        detail.item = Some(item);
        detail.field = Some(shortened(&unescape(name)).into_owned());
        self.detail(detail)
    }
}

impl Detail {
    /// The place in words.
    pub(super) fn place(&self) -> String {
        let [line, column] = [self.line, self.column].map(Option::unwrap_or_default);
        format!("line {line}, column {column}")
    }
}

/// One refusal for all items whose key is unusable; none if there are none.
pub(super) fn unusable_keys(problems: Vec<FlattenError>) -> Result<(), Fault> {
    let count = problems.len();
    let mut problems = problems.into_iter();
    let Some(mut first) = problems.next() else {
        return Ok(());
    };
    if count > 1 {
        first.message +=
            &format!(" (the first of {count} items with an unusable key, see details)");
    }
    first
        .details
        .extend(problems.flat_map(|problem| problem.details));
    Err(Box::new(first))
}

/// A name short enough to be shown.
pub(super) fn shortened(name: &str) -> Cow<'_, str> {
    match name.char_indices().nth(NAME_CHARS_MAX) {
        Some((cut, _)) => format!("{}…", &name[..cut]).into(),
        None => name.into(),
    }
}
