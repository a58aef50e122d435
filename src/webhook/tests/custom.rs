//! Settings of `hmac`.

use super::{SECRET, hmac, invalid};
use crate::{Options, Timestamp, Verifier};

#[test]
fn hmac_says_what_is_missing_or_wrong() {
    let set = |text: &str| Some(text.to_owned());
    let time = |header: Option<&str>, part: Option<&str>, unit: Option<&str>| {
        Some(Timestamp {
            header: header.map(Into::into),
            part: part.map(Into::into),
            body: None,
            unit: unit.map(Into::into),
        })
    };
    assert!(Verifier::new(&hmac(|_| ()), SECRET, None).is_ok());
    let wrong = |change: &dyn Fn(&mut Options), field: &str, part: &str| {
        invalid(&hmac(|options| change(options)), SECRET, field, part);
    };
    wrong(&|o| o.header = None, "header", "missing");
    wrong(&|o| o.header = set("X Y"), "header", "the name of a header");
    wrong(
        &|o| o.hash = set("md5"),
        "hash",
        "one of sha256, sha1, sha384, sha512",
    );
    wrong(
        &|o| o.encoding = set("base32"),
        "encoding",
        "one of hex, base64, base64url",
    );
    wrong(
        &|o| o.secret_encoding = set("x"),
        "secret_encoding",
        "one of text, hex, base64, base64url, whsec",
    );
    wrong(&|o| o.separator = set(", "), "separator", "one character");
    wrong(
        &|o| o.signed = set("{bdy}"),
        "signed",
        "unknown placeholder",
    );
    wrong(&|o| o.signed = set("{id}"), "signed", "no {body}");
    wrong(&|o| o.signed = set(""), "signed", "no {body}");
    wrong(
        &|o| o.signed = set("{ts}{body}"),
        "signed",
        "set `timestamp`",
    );
    wrong(&|o| o.signed = set("{id}{body}"), "signed", "set `id`");
    wrong(&|o| o.id = set("X-Id"), "id", "`header:NAME`");
    wrong(&|o| o.event = set("body:"), "event", "`body:PATH`");
    wrong(
        &|o| o.timestamp = time(None, None, None),
        "timestamp",
        "one of",
    );
    wrong(
        &|o| o.timestamp = time(Some("a"), Some("b"), None),
        "timestamp",
        "one of",
    );
    wrong(
        &|o| o.timestamp = time(Some("a"), None, Some("min")),
        "timestamp",
        "one of s, ms",
    );
    wrong(
        &|o| o.timestamp = time(Some("a"), None, None),
        "timestamp",
        "no {ts}",
    );
    let in_part = |o: &mut Options| {
        o.timestamp = time(None, Some("t="), None);
        o.signed = set("{ts}{body}");
    };
    wrong(&in_part, "separator", "missing");
}
