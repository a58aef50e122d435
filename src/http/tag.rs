//! Entity tags: a client does not receive content that it already has (RFC 9110, 13.1.2).
//!
//! Items, feeds and files use it.
//!
//! **Invariant**: a 304 response is sent only if the client named the tag of the current content.

use salvo_core::http::StatusCode;
use salvo_core::http::header::{HeaderMap, IF_NONE_MATCH};
use salvo_core::http::headers::{ETag, HeaderMapExt as _, IfNoneMatch};
use salvo_core::{Request, Response};

/// Sets the entity tag. Answers 304 if the client has the current content; returns whether it did.
pub fn is_known(tag: &str, req: &Request, res: &mut Response) -> bool {
    let Ok(tag) = tag.parse::<ETag>() else {
        return false;
    };
    let asked = req.headers().typed_get::<IfNoneMatch>();
    let known = asked.is_some_and(|asked| !asked.precondition_passes(&tag));
    res.headers_mut().typed_insert(tag);
    if known {
        res.status_code(StatusCode::NOT_MODIFIED);
    }
    known
}

/// The tags of the content that the client has, without their quotes. Tags of this daemon have no comma.
pub fn named(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(IF_NONE_MATCH).iter();
    let tags = lines.filter_map(|line| line.to_str().ok());
    let tags = tags.flat_map(|line| line.split(',')).map(str::trim);
    let tags = tags.map(|tag| tag.strip_prefix("W/").unwrap_or(tag));
    tags.filter_map(|tag| tag.strip_prefix('"')?.strip_suffix('"'))
}

#[cfg(test)]
mod tests;
