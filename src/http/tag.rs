//! Entity tags: what a client has already is not sent again (RFC 9110, 13.1.2).
//!
//! Items and feeds answer with it.
//!
//! **Invariant**: who is answered 304 named the tag of what would have been sent.

use salvo_core::http::StatusCode;
use salvo_core::http::header::{ETAG, HeaderValue, IF_NONE_MATCH};
use salvo_core::{Request, Response};

/// Sets the entity tag; true if the client has it, which is answered then.
pub fn is_known(tag: &str, req: &Request, res: &mut Response) -> bool {
    let known = req
        .headers()
        .get_all(IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|one| one.trim().trim_start_matches("W/"))
        .any(|one| one == tag || one == "*");
    if let Ok(value) = HeaderValue::from_str(tag) {
        res.headers_mut().insert(ETAG, value);
    }
    if known {
        res.status_code(StatusCode::NOT_MODIFIED);
    }
    known
}
