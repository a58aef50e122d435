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
mod tests {
    use salvo_core::http::header::{ETAG, HeaderValue};

    use super::*;

    #[test]
    fn a_tag_is_found_among_others_in_either_form_and_nothing_else_is() {
        for (lines, known) in [
            (&["\"a1\""][..], true),
            (&["W/\"a1\""], true),
            (&["\"b\" , W/\"a1\",\"c\""], true),
            (&["\"b\"", "\"a1\""], true),
            (&["\"one, two\", \"a1\""], true),
            (&["*"], true),
            (&[], false),
            (&[""], false),
            (&["\"a\""], false),
            (&["a1"], false),
            (&["\"a1"], false),
            (&["\"x\"a1\""], false),
            (&["W/"], false),
            (&["\"b, \"a1"], false),
            (&["\u{e9}"], false),
        ] {
            let mut req = Request::default();
            for line in lines {
                let line = HeaderValue::from_bytes(line.as_bytes()).expect("a value");
                req.headers_mut().append(IF_NONE_MATCH, line);
            }
            let mut res = Response::new();
            assert_eq!(is_known("\"a1\"", &req, &mut res), known, "{lines:?}");
            assert_eq!(res.headers()[ETAG], "\"a1\"");
            let status = known.then_some(StatusCode::NOT_MODIFIED);
            assert_eq!(res.status_code, status, "{lines:?}");
        }
    }

    #[test]
    fn the_tags_of_a_request_are_listed_without_their_quotes() {
        let mut headers = HeaderMap::new();
        for line in ["\"1:2\" , W/\"ab-3:4\"", "*", "5:6", "W/\"\"", "\""] {
            headers.append(IF_NONE_MATCH, HeaderValue::from_static(line));
        }
        let tags: Vec<&str> = named(&headers).collect();
        assert_eq!(tags, ["1:2", "ab-3:4", ""]);
    }
}
