//! Every rule of reading bodies, and every way in which one can be wrong.

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
        &["forms with files", "set the tool to send JSON"],
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
fn forms_become_one_object_in_order() {
    let check = |body: &str, expected: &str| assert_eq!(json(FORM, body.as_bytes()), expected);
    check("z=1&a=2", r#"{"z":"1","a":"2"}"#);
    check("a=1&b=2&a=3&a=", r#"{"a":["1","3",""],"b":"2"}"#);
    check("a+b=c+%2B%20d", r#"{"a b":"c + d"}"#);
    check("a=b=c&&d", r#"{"a":"b=c","d":""}"#);
    check("=x", r#"{"":"x"}"#);
    check("q%22=%22%5c%0a%00", r#"{"q\"":"\"\\\n\u0000"}"#);
    check("%C3%A4=%e2%82%ac", r#"{"ä":"€"}"#);
    check("a=100%&b=%zz&c=%4", r#"{"a":"100%","b":"%zz","c":"%4"}"#);
    check("%2=%2%41", r#"{"%2":"%2A"}"#);
}

#[test]
fn a_form_with_only_a_payload_is_that_payload() {
    let check = |body: &str, expected: &str| assert_eq!(json(FORM, body.as_bytes()), expected);
    check("payload=%7B%22n%22%3A1.50%7D", r#"{"n":1.50}"#);
    check("payload=[{}]", "[{}]");
    check("payload=%20{%22a%22:%22b+c%22}%0A", " {\"a\":\"b c\"}\n");
    check("&payload={}&", "{}");
    check("payload=1", r#"{"payload":"1"}"#);
    check("payload={", r#"{"payload":"{"}"#);
    check("payload={}x", r#"{"payload":"{}x"}"#);
    check("payload={}&a=1", r#"{"payload":"{}","a":"1"}"#);
    check("payload={}&payload={}", r#"{"payload":["{}","{}"]}"#);
    check("Payload={}", r#"{"Payload":"{}"}"#);
}

#[test]
fn forms_that_cannot_be_taken_say_why() {
    check_contains(&refusal(FORM, "", b""), &["the form is empty"]);
    check_contains(&refusal(FORM, "", b"&&"), &["the form is empty"]);
    check_contains(
        &refusal(FORM, "", b"a%0A=%ff"),
        &["the field `a\\n`", "not UTF-8"],
    );
    check_contains(
        &refusal(FORM, "", b"a=\xff"),
        &["the field `a`", "not UTF-8"],
    );
    check_contains(
        &refusal(FORM, "", b"%80=1"),
        &["the name of a field", "not UTF-8"],
    );
    assert!(decoded(FORM, "", &b"a&".repeat(10_000)).is_ok());
    check_contains(&refusal(FORM, "", &b"a&".repeat(10_001)), &["10000 fields"]);
}

#[test]
fn what_a_form_becomes_is_bounded() {
    let body = Bytes::from_static(b"a=%00");
    let expected = br#"{"a":"\u0000"}"#;
    let fits = decode(form(FORM, ""), body.clone(), expected.len());
    assert_eq!(fits.as_deref(), Ok(&expected[..]));
    let small = decode(form(FORM, ""), body, expected.len() - 1);
    assert_eq!(small, Err(DecodeError::TooLarge));
    let payload = Bytes::from_static(b"payload=[1]");
    assert!(decode(form(FORM, ""), payload.clone(), 3).is_ok());
    let small = decode(form(FORM, ""), payload, 2);
    assert_eq!(small, Err(DecodeError::TooLarge));
}

#[test]
fn lines_become_an_array() {
    let check = |body: &str, expected: &str| assert_eq!(json(NDJSON, body.as_bytes()), expected);
    check("{\"a\":1.50}\n{}\n", r#"[{"a":1.50},{}]"#);
    check("{}", "[{}]");
    check(
        "\u{feff}{}\r\n\r\n \t \r\n {\"ä\":\"€\"} \r\n",
        "[{},{\"ä\":\"€\"}]",
    );
    check("1\nnull\n[2]", "[1,null,[2]]");
}

#[test]
fn bad_lines_are_named_by_number() {
    let check = |body: &[u8], parts: &[&str]| check_contains(&refusal(NDJSON, "", body), parts);
    check(
        b"{}\n\n{\"a\":}\n",
        &[
            "line 3",
            "byte 6",
            "expected value",
            "one JSON object a line",
        ],
    );
    check(b"{}\n{} {}", &["line 2", "trailing characters"]);
    check(b"{},", &["line 1", "trailing characters"]);
    check(b"{}],[{}", &["line 1"]);
    check(b"{\"a\":\n1}", &["line 1", "EOF"]);
    check(b"{}\n\"\xff\"", &["line 2", "not UTF-8"]);
    check(b"{}\n\xef\xbb\xbf{}", &["line 2"]);
    check(b"", &["no lines"]);
    check(b"\xef\xbb\xbf\r\n\n", &["no lines"]);
}

#[test]
fn what_lines_become_is_bounded() {
    let body = Bytes::from_static(b"1\n2");
    assert!(decode(form(NDJSON, ""), body.clone(), 5).is_ok());
    let small = decode(form(NDJSON, ""), body, 4);
    assert_eq!(small, Err(DecodeError::TooLarge));
}

#[test]
fn compressed_bodies_come_out_as_they_went_in() {
    for body in [&b"{}"[..], &long_json()] {
        for (encoding, bytes) in compressed(body) {
            let json = decoded(JSON, encoding, &bytes).expect(encoding);
            assert!(json == body, "{encoding}, {} bytes", body.len());
        }
    }
    for (encoding, bytes) in compressed(b"") {
        assert_eq!(
            decoded(JSON, encoding, &bytes),
            Ok(Bytes::new()),
            "{encoding}"
        );
    }
}

#[test]
fn raw_deflate_is_told_from_zlib_by_the_check() {
    // A stored block whose padding makes its first byte a method of zlib, and an empty last block.
    let stored = [8, 2, 0, 0xfd, 0xff, b'{', b'}', 3, 0];
    assert_eq!(decoded(JSON, "deflate", &stored).as_deref(), Ok(&b"{}"[..]));
}

#[test]
fn every_form_can_be_compressed() {
    for (encoding, bytes) in compressed(b"a=1") {
        let json = decoded(FORM, encoding, &bytes).expect(encoding);
        assert_eq!(&json[..], br#"{"a":"1"}"#);
    }
    for (encoding, bytes) in compressed(b"{}\n{}\n") {
        let json = decoded(NDJSON, encoding, &bytes).expect(encoding);
        assert_eq!(&json[..], b"[{},{}]");
    }
    for (encoding, bytes) in compressed(b" {} ") {
        let json = decoded("", encoding, &bytes).expect(encoding);
        assert_eq!(&json[..], b"{}");
    }
}

#[test]
fn several_members_and_frames_are_one_body() {
    let members = [gzip(b"{\"a\""), gzip(b""), gzip(b":1}")].concat();
    assert_eq!(
        decoded(JSON, "gzip", &members).as_deref(),
        Ok(&b"{\"a\":1}"[..])
    );
    assert!(decoded(JSON, "gzip", &gzip(b"").repeat(10_000)).is_ok());
    let many = refusal(JSON, "gzip", &gzip(b"").repeat(10_001));
    check_contains(&many, &["more than 10000 members"]);
    let skippable = [0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
    let frames = [&skippable[..], &zstd(b"{\"a\""), &skippable, &zstd(b":1}")].concat();
    assert_eq!(
        decoded(JSON, "zstd", &frames).as_deref(),
        Ok(&b"{\"a\":1}"[..])
    );
    let all = [long_json(), long_json()].concat();
    let frames = zstd(&long_json()).repeat(2);
    let exact = decode(form(JSON, "zstd"), Bytes::from(frames.clone()), all.len());
    assert!(exact.is_ok_and(|json| json == all));
    let small = decode(form(JSON, "zstd"), Bytes::from(frames), all.len() - 1);
    assert_eq!(small, Err(DecodeError::TooLarge));
}

#[test]
fn streams_that_are_cut_short_are_refused() {
    for (encoding, bytes) in compressed(br#"{"name":"name name name name"}"#) {
        for end in 0..bytes.len() {
            let sentence = refusal(JSON, encoding, &bytes[..end]);
            check_contains(&sentence, &["cut short", "leave the header out"]);
        }
    }
    for (encoding, bytes) in compressed(&long_json()) {
        for end in (1..bytes.len()).step_by(bytes.len() / 7) {
            check_contains(&refusal(JSON, encoding, &bytes[..end]), &["cut short"]);
        }
    }
    let skippable = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2];
    check_contains(&refusal(JSON, "zstd", &skippable), &["cut short"]);
}

#[test]
fn bytes_after_the_stream_are_refused() {
    for (encoding, mut bytes) in compressed(b"{}") {
        for garbage in [&b"\0"[..], b"{}", b"\x1f", b"\x28\xb5"] {
            let len = bytes.len();
            bytes.extend_from_slice(garbage);
            let sentence = refusal(JSON, encoding, &bytes);
            check_contains(&sentence, &["follow the end"]);
            bytes.truncate(len);
        }
    }
}

#[test]
fn damaged_and_uncompressed_bodies_are_refused() {
    for encoding in ["gzip", "deflate", "zstd"] {
        let sentence = refusal(JSON, encoding, br#"{"a":1}"#);
        check_contains(&sentence, &[encoding, "not compressed"]);
    }
    let wrong_sum = |mut bytes: Vec<u8>, back: usize| {
        let at = bytes.len() - back;
        bytes[at] ^= 1;
        bytes
    };
    let text = br#"{"name":"name name name"}"#;
    check_contains(
        &refusal(JSON, "gzip", &wrong_sum(gzip(text), 8)),
        &["damaged"],
    );
    check_contains(
        &refusal(JSON, "gzip", &wrong_sum(gzip(text), 4)),
        &["damaged"],
    );
    check_contains(
        &refusal(JSON, "deflate", &wrong_sum(zlib(text), 1)),
        &["damaged"],
    );
    check_contains(
        &refusal(JSON, "zstd", &wrong_sum(zstd(text), 1)),
        &["damaged"],
    );
    // Single segment, content size 3, one raw block of 2 bytes.
    let short = zstd_frame(0x20, &[3], &[&zstd_block(true, 0, 2), b"{}"]);
    check_contains(&refusal(JSON, "zstd", &short), &["damaged"]);
    let right = zstd_frame(0x20, &[2], &[&zstd_block(true, 0, 2), b"{}"]);
    assert_eq!(decoded(JSON, "zstd", &right).as_deref(), Ok(&b"{}"[..]));
}

#[test]
fn zstd_windows_and_dictionaries_are_limited() {
    let frame = |window| zstd_frame(0, &[window], &[&zstd_block(true, 0, 2), b"{}"]);
    assert_eq!(
        decoded(JSON, "zstd", &frame(13 << 3)).as_deref(),
        Ok(&b"{}"[..])
    );
    let sentence = refusal(JSON, "zstd", &frame(13 << 3 | 1));
    check_contains(
        &sentence,
        &["9437184 bytes", "8388608 are allowed", "level 19"],
    );
    check_contains(&refusal(JSON, "zstd", &frame(0xff)), &["window"]);
    let dictionary = zstd_frame(1, &[13 << 3, 7], &[&zstd_block(true, 0, 2), b"{}"]);
    check_contains(&refusal(JSON, "zstd", &dictionary), &["dictionary"]);
    // A single segment declares its size: 2 GiB, then 9 MiB where 16 MiB would be taken.
    let large = zstd_frame(0xa0, &[0, 0, 0, 0x80], &[&zstd_block(true, 0, 0)]);
    assert_eq!(decoded(JSON, "zstd", &large), Err(DecodeError::TooLarge));
    // Declared beside a window, it ends before the blocks, which are missing here.
    let declared = zstd_frame(0x80, &[0, 1, 0, 0x10, 0], &[]);
    assert_eq!(decoded(JSON, "zstd", &declared), Err(DecodeError::TooLarge));
    let window = zstd_frame(0xa0, &[0, 0, 0x90, 0], &[&zstd_block(true, 0, 0)]);
    let window = decode(form(JSON, "zstd"), Bytes::from(window), 16 * MANY);
    check_contains(&format!("{window:?}"), &["9437184 bytes"]);
}

#[test]
fn the_limit_is_exact() {
    let body = long_json();
    for (encoding, bytes) in compressed(&body) {
        let bytes = Bytes::from(bytes);
        let exact = decode(form(JSON, encoding), bytes.clone(), body.len());
        assert!(exact.is_ok_and(|json| json == body), "{encoding}");
        for bytes_max in [body.len() - 1, body.len() / 2, 1, 0] {
            let small = decode(form(JSON, encoding), bytes.clone(), bytes_max);
            assert_eq!(small, Err(DecodeError::TooLarge), "{encoding}, {bytes_max}");
        }
    }
}

/// Raw deflate of 10 GB of zeros: one piece of 10 MB, a thousand times.
fn deflated_zeros() -> Vec<u8> {
    let mut deflater = Compress::new(Compression::best(), false);
    let zeros = vec![0; 10_000_000];
    let mut piece = Vec::with_capacity(100_000);
    deflater
        .compress_vec(&zeros, &mut piece, FlushCompress::Full)
        .expect("room for the piece");
    assert_eq!(deflater.total_in(), 10_000_000);
    piece.repeat(1_000)
}

#[test]
fn bombs_end_at_the_limit() {
    let zeros = deflated_zeros();
    let gzip_header = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    let repeated = [zstd_block(false, 1, 128 * 1_024), vec![0]].concat();
    // A compressed block whose literals are a byte 1,048,575 times, more than a block may have.
    let literals = [zstd_block(false, 2, 5), vec![0xfd, 0xff, 0xff, 0, 0]].concat();
    for (encoding, body) in [
        ("gzip", [&gzip_header[..], &zeros].concat()),
        ("deflate", [&[0x78, 0x9c][..], &zeros].concat()),
        ("deflate", zeros),
        (
            "zstd",
            zstd_frame(0, &[13 << 3], &[&repeated.repeat(80_000)]),
        ),
        (
            "zstd",
            zstd_frame(0, &[13 << 3], &[&literals.repeat(10_000)]),
        ),
        (
            "zstd",
            zstd_frame(0, &[13 << 3], &[&literals.repeat(10_000)]).repeat(2),
        ),
    ] {
        for (content_type, bytes_max) in [(JSON, MANY), (FORM, 10), (NDJSON, 100_000), ("", 0)] {
            let bomb = decode(
                form(content_type, encoding),
                Bytes::from(body.clone()),
                bytes_max,
            );
            assert_eq!(bomb, Err(DecodeError::TooLarge), "{encoding}");
        }
    }
}

#[test]
fn output_never_takes_more_than_its_limit() {
    let mut out = output::Output::new(1_000);
    for _ in 0..11 {
        out.push(&[0; 90]).expect("room");
    }
    assert_eq!(out.push(&[0; 11]), Err(DecodeError::TooLarge));
    assert_eq!((out.len(), out.room()), (990, 10));
    assert!(out.push(&[0; 10]).is_ok());
    assert!(out.write(b"x").is_err());
    assert!(out.flush().is_ok());
    let bytes: Vec<u8> = out.into_bytes().into();
    assert_eq!((bytes.len(), bytes.capacity()), (1_000, 1_000));
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

/// Random numbers that are the same each time: a linear congruential generator.
struct Random(u64);

impl Random {
    fn below(&mut self, below: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below.max(1)
    }

    fn bytes(&mut self, len_max: usize) -> Vec<u8> {
        (0..self.below(len_max))
            .map(|_| self.below(256) as u8)
            .collect()
    }

    /// Changes, removes, repeats or adds a few bytes.
    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            match self.below(6) {
                0 => bytes.insert(at, self.below(256) as u8),
                1 => bytes.truncate(at),
                2 => bytes.extend_from_within(at..),
                3 if at < bytes.len() => drop(bytes.remove(at)),
                _ if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                _ => {}
            }
        }
    }
}

#[test]
fn no_body_panics_or_passes_the_limit() {
    let mut random = Random(20_261_122);
    let types = [JSON, "text/plain", "", FORM, NDJSON];
    let texts: [&[u8]; 4] = [
        br#"{"value":[{"a":"b\u00e4","n":-1.5e3},{}],"a":{"b":[null,true]}}"#,
        b"\xef\xbb\xbf{\"a\":1}\r\n\n[2]\r\n\"three\"\n",
        b"a=1&b=%C3%A4+x&a=2&%41=&c",
        b"payload=%7B%22a%22%3A%5B1%2C2%5D%7D",
    ];
    let mut seeds: Vec<Vec<u8>> = texts.iter().map(|text| text.to_vec()).collect();
    for text in texts {
        seeds.extend(compressed(text).map(|(_, bytes)| bytes));
    }
    seeds.extend(compressed(&long_json()[..3_000]).map(|(_, bytes)| bytes));
    let (mut taken, mut refused) = (0, 0);
    for round in 0..4_000 {
        let mut body = match round % 8 {
            0 => random.bytes(200),
            _ => seeds[random.below(seeds.len())].clone(),
        };
        random.mutate(&mut body);
        let body = Bytes::from(body);
        let bytes_max = [MANY, 4_000, 100, 7, 0][random.below(5)];
        for content_type in types {
            for encoding in ["", "gzip", "deflate", "zstd"] {
                match decode(form(content_type, encoding), body.clone(), bytes_max) {
                    Ok(json) => {
                        assert!(json.len() <= bytes_max, "{content_type} {encoding}");
                        let _ = at_path(&json, "value");
                        taken += 1;
                    }
                    Err(_) => refused += 1,
                }
            }
        }
        let path = ["value", "a.b", "", "a..b"][random.below(4)];
        if let Ok(items) = at_path(&body, path) {
            assert!(body.as_ptr_range().contains(&items.as_ptr()));
        }
        let _ = Form::of(Some(&body), Some(&body));
        let headers = [("ce-specversion", &body[..]), ("ce-id", &body[..])];
        assert_eq!(cloudevent_fields(headers.into_iter()).len(), 2);
    }
    assert!(taken > 1_000 && refused > 1_000, "{taken}, {refused}");
}
