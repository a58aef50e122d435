//! Every rule of reading bodies, and every way in which one can be wrong.

mod compressed;
mod forms;
mod random;

use std::io::Write;

use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use flate2::{Compress, Compression, FlushCompress};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::*;

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";
const NDJSON: &str = "application/x-ndjson";
const MANY: usize = 1 << 20;

fn form(content_type: &str, encoding: &str) -> Form {
    Form::of(Some(content_type.as_bytes()), Some(encoding.as_bytes())).expect("a known form")
}

fn decoded(content_type: &str, encoding: &str, body: &[u8]) -> Result<Bytes, DecodeError> {
    decode(
        form(content_type, encoding),
        Bytes::copy_from_slice(body),
        MANY,
    )
}

/// Decodes a body that is not compressed; panics with the message if it is refused.
fn json(content_type: &str, body: &[u8]) -> String {
    let json = decoded(content_type, "", body).expect("a valid body");
    String::from_utf8(json.to_vec()).expect("UTF-8")
}

/// The sentence that refuses a body.
fn refusal(content_type: &str, encoding: &str, body: &[u8]) -> String {
    match decoded(content_type, encoding, body) {
        Err(DecodeError::Invalid(sentence)) => sentence,
        other => panic!("{other:?} for {:?}", String::from_utf8_lossy(body)),
    }
}

fn check_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn raw_deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

/// A zstd frame by hand: descriptor, what follows it in the header, blocks.
fn zstd_frame(descriptor: u8, header: &[u8], blocks: &[&[u8]]) -> Vec<u8> {
    let magic = [0x28, 0xb5, 0x2f, 0xfd, descriptor];
    [&magic[..], header, &blocks.concat()].concat()
}

/// A block header: whether it is the last, type (0 raw, 1 repeated byte, 2 compressed), size.
fn zstd_block(last: bool, kind: u32, size: u32) -> Vec<u8> {
    (u32::from(last) | kind << 1 | size << 3).to_le_bytes()[..3].to_vec()
}

/// The encodings and a body in each of them.
fn compressed(bytes: &[u8]) -> [(&'static str, Vec<u8>); 5] {
    [
        ("gzip", gzip(bytes)),
        ("x-gzip", gzip(bytes)),
        ("deflate", zlib(bytes)),
        ("deflate", raw_deflate(bytes)),
        ("zstd", zstd(bytes)),
    ]
}

/// Text that compresses, but not to almost nothing.
fn long_json() -> Vec<u8> {
    let items: Vec<String> = (0..2_000)
        .map(|at| format!(r#"{{"id":{at},"name":"item {}"}}"#, at * 7_919 % 1_009))
        .collect();
    format!("[{}]", items.join(",")).into_bytes()
}

#[test]
fn media_types_are_known_in_any_case_and_with_parameters() {
    let check = |content_type: &str, media| {
        let form = Form::of(Some(content_type.as_bytes()), None);
        assert_eq!(form.map(|form| form.media), Ok(media), "{content_type}");
    };
    check("application/json", Media::Json);
    check(" Application/JSON ; Charset=\"UTF-8\"; v=2", Media::Json);
    check("application/json;charset=us-ascii", Media::Json);
    check("application/json; charset=utf8;", Media::Json);
    check("application/cloudevents+json", Media::Json);
    check(
        "application/cloudevents-batch+JSON; charset=utf-8",
        Media::Json,
    );
    check("text/plain", Media::Text);
    check("text/plain; charset=UTF-8", Media::Text);
    check("", Media::None);
    check("application/x-www-form-urlencoded", Media::Fields);
    check("application/x-ndjson", Media::Lines);
    check("application/ndjson", Media::Lines);
    check("application/jsonl", Media::Lines);
    assert_eq!(Form::of(None, None).map(|form| form.media), Ok(Media::None));
}

#[test]
fn other_media_types_are_told_what_to_send() {
    let check = |content_type: &[u8], parts: &[&str]| {
        let error = Form::of(Some(content_type), None).expect_err("refused");
        assert!(matches!(error, FormError::Media(_)), "{error:?}");
        check_contains(&error.to_string(), parts);
    };
    check(
        b"Multipart/Form-Data; boundary=x",
        &["forms with files", "configure the sender to send JSON"],
    );
    check(b"image/png", &["`image/png`", "send application/json"]);
    check(b"application/jsonp", &["`application/jsonp`"]);
    check(b"+json", &["`+json`"]);
    check(b"/x+json", &["`/x+json`"]);
    check(b"a/+json", &["`a/+json`"]);
    check(b"\xff\x00", &["\u{fffd}\\0"]);
    check(
        b"text/plain; charset=iso-8859-1",
        &["`iso-8859-1`", "UTF-8"],
    );
    check(b"application/json;charset=\"UTF-16\"", &["`UTF-16`"]);
    let long = "x".repeat(10_000);
    let error = Form::of(Some(long.as_bytes()), None).expect_err("refused");
    assert!(error.to_string().len() < 400, "{error}");
}

#[test]
fn what_must_be_json_says_so_in_its_headers() {
    for good in [
        "application/json",
        "Application/JSON; charset=utf-8",
        "application/json;CharSet=\"US-ASCII\"; v=2",
        "application/vnd.api+json",
        "application/cloudevents+JSON;x=y",
    ] {
        let form = Form::json(Some(good.as_bytes()), None);
        assert_eq!(form, Ok(self::form(JSON, "")), "{good}");
    }
    for bad in [
        "",
        "text/plain",
        "json",
        "application/jsonp",
        "/+json",
        "a/+json",
        "é+json",
    ] {
        let error = Form::json(Some(bad.as_bytes()), None).expect_err(bad);
        check_contains(
            &error.to_string(),
            &["send `Content-Type: application/json`"],
        );
    }
    for bad in [
        "application/json; charset=iso-8859-1",
        "application/problem+json;v=1;charset=\"UTF-16\"",
    ] {
        let error = Form::json(Some(bad.as_bytes()), None).expect_err(bad);
        check_contains(&error.to_string(), &["charset", "send UTF-8"]);
    }
    let error = Form::json(None, None).expect_err("no type");
    check_contains(&error.to_string(), &["missing", "application/json"]);
    let compressed = Form::json(Some(b"application/json"), Some(b"gzip"));
    assert_eq!(compressed, Ok(form(JSON, "gzip")));
}

#[test]
fn encodings_are_known_one_at_a_time() {
    let check = |value: &str, encoding| {
        let form = Form::of(None, Some(value.as_bytes()));
        assert_eq!(form.map(|form| form.encoding), Ok(encoding), "{value}");
    };
    check("", Encoding::Identity);
    check(" Identity ", Encoding::Identity);
    check("GZIP", Encoding::Gzip);
    check("x-gzip", Encoding::Gzip);
    check("deflate", Encoding::Deflate);
    check("zstd", Encoding::Zstd);
    let refused = |value: &[u8], parts: &[&str]| {
        let error = Form::of(None, Some(value)).expect_err("refused");
        assert!(matches!(error, FormError::Encoding(_)), "{error:?}");
        check_contains(&error.to_string(), parts);
    };
    refused(b"gzip, zstd", &["the list `gzip, zstd`", "once"]);
    refused(b"br", &["`br`", "gzip, deflate or zstd"]);
    refused(b"\xff", &["\u{fffd}"]);
}

#[test]
fn json_is_shared_and_bounded() {
    let body = Bytes::from_static(b"\xef\xbb\xbf not looked at");
    let same = decode(form(JSON, ""), body.clone(), body.len()).expect("as it is");
    assert_eq!(same.as_ptr(), body.as_ptr());
    assert_eq!(same, body);
    let small = decode(form(JSON, ""), body.clone(), body.len() - 1);
    assert_eq!(small, Err(DecodeError::TooLarge));
}

#[test]
fn undeclared_json_is_taken_without_mark_and_space() {
    let body = Bytes::from_static(b"\xef\xbb\xbf\r\n {\"a\":1}\n");
    for content_type in ["text/plain", ""] {
        let json = decode(form(content_type, ""), body.clone(), MANY).expect("JSON");
        assert_eq!(&json[..], b"{\"a\":1}");
        assert_eq!(json.as_ptr(), body[6..].as_ptr());
    }
    assert_eq!(json("", b"[]"), "[]");
}

#[test]
fn undeclared_bodies_that_are_no_json_are_named() {
    let check = |content_type, body: &[u8], parts: &[&str]| {
        let sentence = refusal(content_type, "", body);
        check_contains(&sentence, parts);
        check_contains(&sentence, &["`Content-Type: application/json`"]);
    };
    check("text/plain", b"hello", &["text/plain", "begins with `h`"]);
    check("", b"a=b", &["no Content-Type", "begins with `a`"]);
    check("", b"", &["is empty"]);
    check("", b"\xef\xbb\xbf \n", &["is empty"]);
    check("", b"<xml/>", &["XML"]);
    check("", b"\"{}\"", &["a JSON string"]);
    check("", b"\xff", &["begins with `\u{fffd}`"]);
    check("", b"\x00", &["begins with `\\0`"]);
}

#[test]
fn the_items_of_an_envelope_are_shared_and_not_printed_again() {
    let check = |json: &'static str, path: &str, expected: &str| {
        let json = Bytes::from_static(json.as_bytes());
        let items = at_path(&json, path).expect("items");
        assert_eq!(&items[..], expected.as_bytes(), "{path}");
        assert!(json.as_ptr_range().contains(&items.as_ptr()), "{path}");
    };
    check(
        r#"{"n":1,"value":[ {"n":1.50e00} ]}"#,
        "value",
        r#"[ {"n":1.50e00} ]"#,
    );
    check(r#"{"a":{"b":{"c":[]}}}"#, "a.b.c", "[]");
    check(r#"{"a":{"b": {"c":[]} }}"#, "a.b", r#"{"c":[]}"#);
    check("\u{feff} {\"a\":{}}\n", "a", "{}");
    check(r#"{"\u0061":[1]}"#, "a", "[1]");
    check(r#"{"a":1,"b":[2],"a":3}"#, "b", "[2]");
    check(r#"{"":{}}"#, "", "{}");
    check(
        r#"{"n":123456789012345678901234567890.10,"v":[1e400]}"#,
        "v",
        "[1e400]",
    );
}

#[test]
fn a_path_without_items_says_what_stands_there() {
    let check = |json: &'static [u8], path: &str, parts: &[&str]| {
        let sentence = at_path(&Bytes::from_static(json), path).expect_err("refused");
        check_contains(&sentence, parts);
        check_contains(&sentence, &[&format!("`items = \"{path}\"`")]);
    };
    check(
        br#"{"v":"x"}"#,
        "v",
        &["the field `v` is a string", "array of objects"],
    );
    check(br#"{"v":1}"#, "v", &["is a number"]);
    check(br#"{"v":-1}"#, "v", &["is a number"]);
    check(br#"{"v":true}"#, "v", &["is a boolean"]);
    check(br#"{"v":null}"#, "v", &["is null"]);
    check(br#"{"v":{}}"#, "v.w", &["the field `v` has no field `w`"]);
    check(
        br#"{"v":[{}]}"#,
        "v.w",
        &["the field `v` is an array, so it has no field `w`"],
    );
    check(b"{}", "v", &["the body has no field `v`"]);
    check(b"[{}]", "v", &["the body is an array"]);
    check(b"7", "v", &["the body is a number"]);
    check(
        b"{\"v\":[}",
        "v",
        &["the body is not JSON", "line 1 column 7"],
    );
    check(b"", "v", &["the body is not JSON"]);
    check(b"{\"v\":[]} x", "v", &["the body is not JSON"]);
    check(b"\xff", "v", &["not UTF-8"]);
    let twice = Bytes::from_static(br#"{"v":1,"v":[2]}"#);
    let sentence = at_path(&twice, "v").expect_err("refused");
    check_contains(&sentence, &["the fields of the body", "`v` occurs twice"]);
    let surrogate = Bytes::from_static(br#"{"\ud800":1}"#);
    let sentence = at_path(&surrogate, "v").expect_err("refused");
    check_contains(&sentence, &["the fields of the body cannot be read"]);
}

#[test]
fn depth_costs_no_stack() {
    let deep = "[".repeat(400_000) + &"]".repeat(400_000);
    let envelope = Bytes::from(format!(r#"{{"v":{deep}}}"#));
    assert_eq!(
        at_path(&envelope, "v").map(|items| items.len()),
        Ok(deep.len())
    );
    assert_eq!(json(NDJSON, deep.as_bytes()).len(), deep.len() + 2);
    assert_eq!(json(FORM, format!("payload={deep}").as_bytes()), deep);
}

#[test]
fn cloudevents_come_as_headers() {
    let check = |headers: &[(&str, &[u8])], expected: &[(&str, &str)]| {
        let fields = cloudevent_fields(headers.iter().copied());
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| (&name[..], &value[..]))
            .collect();
        assert_eq!(fields, expected);
    };
    check(
        &[
            ("host", b"x"),
            ("CE-Id", b"1"),
            ("ce-specversion", b"1.0"),
            ("ce-source", b"/a%20b/%E2%82%AC%2525"),
            ("ce-subject", b" \"say \\\"hi\\\" \\%41\" "),
            ("ce-id", b"2"),
            ("ce-", b"x"),
            ("ce", b"x"),
            ("cef-x", b"x"),
        ],
        &[
            ("ce.id", "1"),
            ("ce.specversion", "1.0"),
            ("ce.source", "/a b/€%25"),
            ("ce.subject", "say \"hi\" A"),
        ],
    );
    let version = ("ce-specversion", &b"1.0"[..]);
    check(&[("ce-id", b"1"), ("content-type", b"x")], &[]);
    check(&[], &[]);
    check(
        &[
            version,
            ("ce-a", b"%ff"),
            ("ce-b", b"\xff"),
            ("ce-c", b"\""),
            ("ce-d", b"\"\\\""),
        ],
        &[
            ("ce.specversion", "1.0"),
            ("ce.a", "%ff"),
            ("ce.b", "\u{fffd}"),
            ("ce.c", "\""),
            ("ce.d", "\\"),
        ],
    );
}

#[test]
fn errors_are_sentences() {
    let text = DecodeError::TooLarge.to_string();
    assert_eq!(
        text,
        "the body is too large after decoding; send less at once"
    );
    assert_eq!(DecodeError::Invalid("why".to_owned()).to_string(), "why");
}
