//! What a request wants of items: `key`, `where` and `fields`.
//!
//! **Invariant**: a parameter that is not understood is refused, never ignored: a misspelt one would show everything.

use salvo_core::Request;

use super::error::ApiError;
use select::{ItemFilter, Where};
use settings::nearest;

/// Keys that a request names, at most.
const KEYS_MAX: usize = 1_000;

/// Which items, and which of their fields.
pub(crate) fn filter(req: &mut Request) -> Result<ItemFilter, ApiError> {
    let text = |req: &mut Request, name| req.query::<String>(name).unwrap_or_default();
    let mut filter = ItemFilter::parse(&text(req, "where"), &text(req, "fields"))?;
    if let Some(keys) = req.query::<String>("key") {
        filter.conditions = filter.conditions.and(&Where::of_keys(keys_of(&keys)?));
    }
    Ok(filter)
}

/// The conditions of a text, such as `status:live`; an empty one lets everything pass.
pub fn conditions(text: &str) -> Result<ItemFilter, ApiError> {
    Ok(ItemFilter::parse(text, "")?)
}

/// The keys; without one, no item matches.
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

/// Refuses parameters of other names than these.
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
