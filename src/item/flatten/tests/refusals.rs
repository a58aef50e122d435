//! Bodies that are refused: every message, and the place it names.

use super::{LIMITS, at, check, check_error, run};
use crate::flatten::{Detail, ItemKey, flatten, flatten_by};

#[test]
fn the_same_key_twice_in_one_object_is_refused() {
    for (body, field, column) in [
        (r#"{"a":1,"a":2}"#, "a", 8),
        (r#"{"a":1,"\u0061":2}"#, "a", 8),
        (r#"{"\u0061":1,"\u0061":2}"#, "a", 13),
        (r#"{"a":1,"a":{"b":2}}"#, "a", 8),
        (r#"{"a":{"b":2},"a":1}"#, "a", 14),
        (r#"{"a":{"b":1},"a":{"c":2}}"#, "a", 14),
        (r#"{"a":{},"a":[]}"#, "a", 9),
        (r#"{"x":{"y":{"a":1,"b":2,"a":3}}}"#, "x.y.a", 24),
        (r#"{"x":{"y":{"a":1},"z":0,"y":3}}"#, "x.y", 25),
    ] {
        let details = check_error(
            body,
            &format!(
                "item 0 has the field \"{field}\" twice, the second time at line 1, column {column}; \
                 keep one of them"
            ),
        );
        let expected = Detail {
            item: Some(0),
            field: Some(field.to_owned()),
            ..at(1, column)
        };
        assert_eq!(details, [expected]);
    }
}

#[test]
fn two_paths_to_one_field_are_refused() {
    for (body, name, field) in [
        (r#"[{},{"a.b":1,"a":{"b":2}}]"#, "a.b", "a.b"),
        (r#"[{},{"a":{"b":2},"a\u002eb":1}]"#, "a.b", "a.b"),
        (r#"[{},{"a":{"b.c":2},"a.b":{"c":1}}]"#, "a.b.c", "a.b.c"),
        (r#"[{},{"":{"\"":2},".\"":0}]"#, r#".\""#, ".\""),
        (
            r#"[{},{"a.b":{"c.d":1},"a.b.c.d":2}]"#,
            "a.b.c.d",
            "a.b.c.d",
        ),
    ] {
        let details = check_error(
            body,
            &format!(
                "item 1 has two places that flatten to the field \"{name}\"; rename one of them"
            ),
        );
        let expected = Detail {
            item: Some(1),
            field: Some(field.to_owned()),
            ..Detail::default()
        };
        assert_eq!(details, [expected]);
    }
    check(
        r#"{"a.b":1,"a":{"b":{"c":2}}}"#,
        &[r#"{"a.b":1,"a.b.c":2}"#],
    );
}

#[test]
fn what_is_not_json_is_named_with_its_place() {
    for (body, line, column, what) in [
        (
            "{\"a\":1",
            1,
            7,
            r#"expected "," or "}" after a value, found the end of the body"#,
        ),
        ("{\"é\":x}", 1, 6, r#"expected a value, found "x""#),
        (
            "{\n \"a\":1,\r\n}",
            3,
            1,
            r#"expected a field name in double quotes, found "}""#,
        ),
        (
            "{a:1}",
            1,
            2,
            r#"expected a field name in double quotes, found "a""#,
        ),
        (
            "{'a':1}",
            1,
            2,
            r#"expected a field name in double quotes, found '"#,
        ),
        (
            "{\"a\" 1}",
            1,
            6,
            r#"expected ":" after a field name, found "1""#,
        ),
        (
            "{\"a\":1 \"b\":2}",
            1,
            8,
            r#"expected "," or "}" after a value, found ""#,
        ),
        (
            "[{}",
            1,
            4,
            r#"expected "," or "]" after an item, found the end of the body"#,
        ),
        ("[{},]", 1, 5, r#"expected an object, found "]""#),
        ("hello", 1, 1, r#"expected an object, found "h""#),
        (
            "{}{}",
            1,
            3,
            r#"expected the end of the body (several items go into one array), found "{""#,
        ),
        (
            "{\"a\":1}\n{\"a\":2}",
            2,
            1,
            r#"expected the end of the body (several items go into one array), found "{""#,
        ),
        ("{\"a\":[1,]}", 1, 9, r#"expected a value, found "]""#),
        (
            "{\"a\":[1}",
            1,
            8,
            r#"expected "," or "]" after a value, found "}""#,
        ),
        (
            "{\"a\":[{\"b\":1]}",
            1,
            13,
            r#"expected "," or "}" after a value, found "]""#,
        ),
        (
            "{\"a\":[{\"b\",1}]}",
            1,
            11,
            r#"expected ":" after a field name, found ",""#,
        ),
        (
            "{\"a\":[{1:1}]}",
            1,
            8,
            r#"expected a field name in double quotes, found "1""#,
        ),
        (
            "{\"a\":007}",
            1,
            7,
            r#"expected no digit after a leading zero (send "007" as a string), found "0""#,
        ),
        ("{\"a\":-}", 1, 7, r#"expected a digit, found "}""#),
        ("{\"a\":1.}", 1, 8, r#"expected a digit, found "}""#),
        ("{\"a\":1e+}", 1, 9, r#"expected a digit, found "}""#),
        ("{\"a\":NaN}", 1, 6, r#"expected a value, found "N""#),
        ("{\"a\":True}", 1, 6, r#"expected a value, found "T""#),
        (
            "{\"a\":nul}",
            1,
            6,
            r#"expected a value (true, false and null are written like this), found "n""#,
        ),
        (
            "{\"a\":\"b}",
            1,
            6,
            "the string that begins here has no closing quote",
        ),
        (
            "{\"a\":\"b\nc\"}",
            1,
            8,
            r"a string has the control character U+000A; write it as an escape: \u000a",
        ),
        (
            "{\"a\":\"\0\"}",
            1,
            7,
            r"a string has the control character U+0000; write it as an escape: \u0000",
        ),
        (
            r#"{"a":"\x41"}"#,
            1,
            7,
            r"\x is not an escape; write a backslash as \\, other characters as themselves or as \u0000",
        ),
        (
            r#"{"a":"\u12g4"}"#,
            1,
            7,
            r"\u needs four hexadecimal digits",
        ),
        (
            r#"{"a":"\u+123"}"#,
            1,
            7,
            r"\u needs four hexadecimal digits",
        ),
        (
            r#"{"a":"\ud800"}"#,
            1,
            7,
            r"\ud800 is one half of a surrogate pair; send both halves, or the character itself",
        ),
        (
            r#"{"\udc00":1}"#,
            1,
            3,
            r"\udc00 is one half of a surrogate pair; send both halves, or the character itself",
        ),
        (
            r#"{"a":["\ud800\u0041"]}"#,
            1,
            8,
            r"\ud800 is one half of a surrogate pair; send both halves, or the character itself",
        ),
    ] {
        let details = check_error(
            body,
            &format!("malformed JSON at line {line}, column {column}: {what}"),
        );
        assert_eq!(details, [at(line, column)]);
    }
}

#[test]
fn what_is_not_items_is_named_by_its_kind() {
    for (value, kind) in [
        ("\"a\"", "a string"),
        ("-1", "a number"),
        ("true", "a boolean"),
        ("false", "a boolean"),
        ("null", "null"),
    ] {
        let message = format!("the body is {kind}; send an object or an array of objects");
        assert_eq!(check_error(value, &message), [at(1, 1)]);
    }
    let details = check_error(
        "[{},{},[]]",
        "item 2 is an array; send an object or an array of objects",
    );
    assert_eq!(
        details,
        [Detail {
            item: Some(2),
            ..at(1, 8)
        }]
    );
    for empty in ["", " \n", "\u{feff}"] {
        check_error(
            empty,
            "the body is empty; send an object or an array of objects",
        );
    }
}

#[test]
fn what_is_not_utf8_is_named_with_its_place() {
    let message = "the body is not UTF-8 at line 2, column 7; send it as UTF-8";
    assert_eq!(
        check_error(b"{\n \"\xC3\xA9\":\"\xE9\"}", message),
        [at(2, 7)]
    );
    check_error(
        b"\xFF\xFE{\0}\0",
        "the body begins with the byte order mark of UTF-16; send it as UTF-8",
    );
}

#[track_caller]
fn check_key_error(body: &str, field: &str, expected: &str) -> Vec<Detail> {
    let error = flatten(body.as_bytes(), Some(field), LIMITS).expect_err("has an unusable key");
    assert_eq!(error.message, expected);
    error.details
}

#[test]
fn an_unusable_item_key_refuses_the_request() {
    let details = check_key_error(
        r#"[{"id":1},{"id":2},{"id":3},{"di":4}]"#,
        "id",
        r#"item 3 has no field "id", which X-Item-Key names"#,
    );
    let place = |item| Detail {
        item: Some(item),
        field: Some("id".to_owned()),
        ..Detail::default()
    };
    assert_eq!(details, [place(3)]);
    let long = format!("\"{}\"", "x".repeat(513));
    for (value, problem) in [
        ("null", "is null; use a string, a number or a boolean"),
        ("[1]", "is an array; use a string, a number or a boolean"),
        ("{}", "is an object; use a string, a number or a boolean"),
        (
            "{\"a\":1}",
            "is an object; use a string, a number or a boolean",
        ),
        ("\"\"", "is empty; give each item its own key"),
        (&long, "is 513 bytes long; a key has at most 512"),
    ] {
        let details = check_key_error(
            &format!(r#"{{"id":{value}}}"#),
            "id",
            &format!(r#"item 0: the field "id", which X-Item-Key names, {problem}"#),
        );
        assert_eq!(details, [place(0)]);
    }
    // All are listed, up to twenty; nothing after the twentieth is read.
    let details = check_key_error(
        r#"[{},{"id":1},{"id":null},{}]"#,
        "id",
        "item 0 has no field \"id\", which X-Item-Key names (the first of 3 items with an unusable key, see details)",
    );
    assert_eq!(details, [place(0), place(2), place(3)]);
    let body = format!("[{{\"id\":0}},{},oops", vec!["{}"; 20].join(","));
    let details = check_key_error(
        &body,
        "id",
        "item 1 has no field \"id\", which X-Item-Key names (the first of 20 items with an unusable key, see details)",
    );
    assert_eq!(details, (1..=20).map(place).collect::<Vec<_>>());
    check_key_error(
        "[{},oops",
        "id",
        r#"malformed JSON at line 1, column 5: expected an object, found "o""#,
    );

    let item_key = ItemKey {
        field: "id",
        named_by: "the connector's item_key",
    };
    let error = flatten_by(b"{}", Some(item_key), LIMITS).expect_err("has no key");
    assert_eq!(
        error.message,
        r#"item 0 has no field "id", which the connector's item_key names"#
    );
}

#[test]
fn long_names_are_shortened_in_messages() {
    let name = "é".repeat(100_000);
    let error = run(format!(r#"{{"{name}":1,"{name}":2}}"#)).expect_err("a key stands twice");
    assert!(error.message.len() < 400, "{}", error.message);
    let field = error.details[0].field.as_deref().expect("names the field");
    assert_eq!(field, format!("{}…", "é".repeat(120)));
    let error = flatten(b"{}", Some(&name), LIMITS).expect_err("has no such field");
    assert!(error.message.len() < 400, "{}", error.message);
}

#[test]
fn details_are_json_objects_without_empty_members() {
    let detail = Detail {
        item: Some(3),
        field: Some("id".to_owned()),
        ..Detail::default()
    };
    let json = serde_json::to_string(&[detail, at(1, 2)]).expect("is plain data");
    assert_eq!(json, r#"[{"item":3,"field":"id"},{"line":1,"column":2}]"#);
}
