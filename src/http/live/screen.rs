//! The description that a screen sends of itself in the query.
//!
//! **Invariant**: no part that can contain a key is kept.

use salvo_core::Request;

use crate::error::ApiError;
use live::Screen;
use settings::looks_secret;

/// Maximum characters of the page; `CHARS_MAX` applies to all other values. Records are stored for each screen, so
/// their texts are bounded.
const PAGE_CHARS_MAX: usize = 500;
const CHARS_MAX: usize = 64;

/// The screen; `None`: the request does not name one.
pub(super) fn of(req: &mut Request) -> Result<Option<Screen>, ApiError> {
    let name = text(req, "screen", CHARS_MAX)?;
    let page = text(req, "page", PAGE_CHARS_MAX)?;
    let (size, version) = (text(req, "size", CHARS_MAX)?, text(req, "v", CHARS_MAX)?);
    Ok(name.map(|name| Screen {
        name,
        page,
        size,
        version,
    }))
}

fn text(req: &mut Request, name: &str, max: usize) -> Result<Option<String>, ApiError> {
    let Some(text) = req.query::<String>(name) else {
        return Ok(None);
    };
    let shown = text.split('#').next().unwrap_or_default();
    let count = shown.chars().count();
    if count > max || shown.chars().any(char::is_control) {
        return Err(ApiError::invalid(format!(
            "{name} must have at most {max} characters without control characters; this one has {count}"
        )));
    }
    let is_kept = count > 0 && !shown.split(['?', '&', '=']).any(looks_secret);
    Ok(is_kept.then(|| shown.to_owned()))
}
