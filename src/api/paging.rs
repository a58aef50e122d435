//! Lists, a page at a time.
//!
//! **Invariant**: `next` leads to exactly the entries after the page.

use std::sync::Arc;

use salvo_core::Request;
use salvo_oapi::ToSchema;
use serde::Serialize;

use http::envelope::{self, Listing};
use http::error::ApiError;
use http::paging;

/// Entries on a page, unless `limit` says otherwise.
const LIMIT_DEFAULT: u32 = 50;
const LIMIT_MAX: u32 = 500;

/// `limit` of a list.
pub(super) fn limit(req: &mut Request) -> Result<u32, ApiError> {
    envelope::limit(req, LIMIT_DEFAULT, LIMIT_MAX)
}

/// `cursor` of a list: what `next` of the previous page said.
pub(super) fn cursor<T: std::str::FromStr>(req: &mut Request) -> Result<Option<T>, ApiError> {
    match req.query::<String>("cursor") {
        None => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|_| {
            ApiError::invalid("cursor must be the value of `next` of the previous page")
        }),
    }
}

/// The `cursor` of the page after one that is full.
pub(super) fn next_after<T>(page: &[T], limit: u32, id: impl Fn(&T) -> String) -> Option<String> {
    let is_full = page.len() >= limit as usize;
    page.last().filter(|_| is_full).map(id)
}

/// `limit` of what is listed by name, after the name `cursor`.
pub(super) fn by_name<T, D: Serialize + ToSchema + 'static>(
    all: &[Arc<T>],
    name: impl Fn(&T) -> &str,
    show: impl Fn(&T) -> D,
    req: &mut Request,
) -> Result<Listing<D>, ApiError> {
    let limit = limit(req)? as usize;
    let after = req.query::<String>("cursor").unwrap_or_default();
    let (page, next) = paging::by_name(all, |one| name(one), &after, limit);
    Ok(envelope::list(
        page.iter().map(|one| show(one)).collect(),
        next.map(str::to_owned),
    ))
}
