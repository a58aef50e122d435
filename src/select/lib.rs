//! The one language in which people say what leaves Headgate: which items (`where`), which fields (`fields`), in what
//! form (`{field}`). It knows items, and neither HTTP nor storage.
//!
//! [`Where`] is in `conditions.rs`, [`Fields`] in `fields.rs`, [`Template`] in `template.rs`. All read their text through
//! `marks.rs`, which knows the backslash, and report what they do not understand as a [`SyntaxError`].
//!
//! **Invariant**: a text is read in one pass, in time linear in its length; what is printed of a value is read as the same
//! value; numbers are compared and rounded as decimals, never as floating point.
#![deny(unsafe_code)]

mod by_name;
mod conditions;
mod error;
mod fields;
mod filter;
mod marks;
mod number;
mod order;
mod scope;
mod template;
#[cfg(test)]
mod tests;
mod value;

pub use conditions::Where;
pub use error::SyntaxError;
pub use fields::{Chooser, FieldEntry, Fields};
pub use filter::ItemFilter;
pub use marks::list;
pub use number::Decimal;
pub use order::SortBy;
pub use scope::{Own, Record, Scope, Source};
pub use template::{Rejection, Template, TemplatePlace};
pub use value::{Numbers, Value};

/// Conditions, values of one condition, fields, at most of each. Each of them may cost time for every item.
const ENTRIES_MAX: usize = 1_000;
/// Bytes of a `where` or of `fields`, at most; those of feeds have the room of a URL.
const TEXT_BYTES_MAX: usize = 16 << 10;

/// The length is checked before the text is read, so that a text that is too long costs no pass over it.
fn check_length(text: &str, scope: Scope) -> Result<(), SyntaxError> {
    let length = text.len();
    if length <= TEXT_BYTES_MAX || scope.is_feed {
        return Ok(());
    }
    let expected = format!("the text has {length} bytes, {TEXT_BYTES_MAX} are the most");
    Err(SyntaxError::new(1, expected))
}
