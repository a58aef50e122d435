//! Texts that most requests have in common: senders repeat themselves.
//!
//! **Invariant**: requests share a text only if each would have made the same one.

use std::cell::Cell;
use std::sync::Arc;
use std::thread::LocalKey;

/// The text of the last request of this thread, if it is also this one's, or else a new one. The comparison costs less
/// than an allocation for each request.
pub(super) fn repeated(
    last: &'static LocalKey<Cell<Option<Arc<str>>>>,
    is_same: impl FnOnce(&str) -> bool,
    new: impl FnOnce() -> Arc<str>,
) -> Arc<str> {
    let same = last.take().filter(|text| is_same(text));
    let text = same.unwrap_or_else(new);
    last.set(Some(Arc::clone(&text)));
    text
}
