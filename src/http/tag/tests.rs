//! Unit tests of `tag.rs`.

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
