//! Lists that are sorted by name, a page at a time.
//!
//! **Invariant**: `next` leads to exactly the entries after the page.

use std::sync::Arc;

use salvo_core::Request;
use salvo_oapi::ToSchema;
use serde::Serialize;

use super::limit;
use crate::http::envelope::{self, Listing};
use crate::http::error::ApiError;

/// `limit` of what is listed by name, after the name `cursor`.
pub(super) fn by_name<T, D: Serialize + ToSchema + 'static>(
    all: &[Arc<T>],
    name: impl Fn(&T) -> &str,
    show: impl Fn(&T) -> D,
    req: &mut Request,
) -> Result<Listing<D>, ApiError> {
    let limit = limit(req)? as usize;
    let after = req.query::<String>("cursor").unwrap_or_default();
    let first = all.partition_point(|one| name(one) <= after.as_str());
    let rest = &all[first..];
    let page = &rest[..rest.len().min(limit)];
    let next = page.last().filter(|_| rest.len() > limit);
    let next = next.map(|last| name(last).to_owned());
    Ok(envelope::list(
        page.iter().map(|one| show(one)).collect(),
        next,
    ))
}
