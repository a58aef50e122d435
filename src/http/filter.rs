//! Parses the item filter of a request: `key`, `where` and `fields`.
//!
//! **Invariant**: an unknown parameter is rejected, never ignored: a misspelled filter would return all items.

use salvo_core::Request;

use super::error::ApiError;
use select::{ItemFilter, Where};
use settings::nearest;

/// Maximum keys in a request. Each key is a lookup.
const KEYS_MAX: usize = 1_000;

/// The items and fields that a request selects.
pub(crate) fn filter(req: &mut Request) -> Result<ItemFilter, ApiError> {
    let text = |req: &mut Request, name| req.query::<String>(name).unwrap_or_default();
    let mut filter = ItemFilter::parse(&text(req, "where"), &text(req, "fields"))?;
    if let Some(keys) = req.query::<String>("key") {
        filter.conditions = filter.conditions.and(&Where::of_keys(keys_of(&keys)?));
    }
    Ok(filter)
}

/// Parses conditions, such as `status:live`; an empty text matches all items.
pub fn conditions(text: &str) -> Result<ItemFilter, ApiError> {
    Ok(ItemFilter::parse(text, "")?)
}

/// Parses the keys; an empty list matches no item.
fn keys_of(text: &str) -> Result<Vec<String>, ApiError> {
    let keys = select::list(text);
    if keys.len() <= KEYS_MAX {
        return Ok(keys);
    }
    let message = format!(
        "key has {} keys; name at most {KEYS_MAX}, or leave it out for all items",
        keys.len()
    );
    Err(ApiError::invalid(message))
}

/// Rejects parameters with other names.
pub(crate) fn only(req: &Request, known: &[&str]) -> Result<(), ApiError> {
    let Some(unknown) = req.queries().keys().find(|name| !known.contains(&&***name)) else {
        return Ok(());
    };
    let names = known.join(", ");
    let meant = nearest(unknown, known.iter().copied());
    let hint = meant.map_or_else(
        || format!("known are {names}"),
        |name| format!("did you mean `{name}`?"),
    );
    let unknown = unknown.escape_debug();
    Err(ApiError::invalid(format!(
        "there is no parameter `{unknown}` here; {hint}"
    )))
}
