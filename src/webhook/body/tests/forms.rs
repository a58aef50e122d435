//! Forms and lines: what becomes of them, and which are refused.

use super::*;

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
            "one JSON object per line",
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
