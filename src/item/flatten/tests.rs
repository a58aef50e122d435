//! Cases of flattening, and what all its tests share. `refusals` has the cases that end in a message,
//! `properties` compares with the independent `reference`.

mod nested;
mod properties;
mod refusals;

use super::{Detail, FlattenError, FlattenLimits, flatten};
use crate::{Items, shape};

const LIMITS: FlattenLimits = FlattenLimits {
    flattened_bytes_max: 16 << 20,
    item_bytes_max: 16 << 20,
};

/// Flattens without an item key.
fn run(body: impl AsRef<[u8]>) -> Result<Items, FlattenError> {
    flatten(body.as_ref(), None, LIMITS)
}

/// The fields of each item, after checking keys, shapes and the encoding.
fn fields(items: &Items) -> Vec<&str> {
    let read = Items::from_bytes(items.as_bytes().clone());
    assert_eq!(read.as_ref(), Ok(items));
    for (position, item) in items.iter().enumerate() {
        assert_eq!(item.key, position.to_string());
        assert_eq!(item.shape, shape(item.fields), "{}", item.fields);
    }
    items.iter().map(|item| item.fields).collect()
}

#[track_caller]
fn check(body: &str, expected: &[&str]) {
    match run(body) {
        Ok(items) => assert_eq!(fields(&items), expected, "{body}"),
        Err(error) => panic!("{body} was refused: {error}"),
    }
}

#[track_caller]
fn check_error(body: impl AsRef<[u8]>, expected: &str) -> Vec<Detail> {
    let error = run(body).expect_err("the body must be refused");
    assert_eq!(error.to_string(), expected);
    error.details
}

fn at(line: u64, column: u64) -> Detail {
    Detail {
        line: Some(line),
        column: Some(column),
        ..Detail::default()
    }
}

#[test]
fn objects_become_dotted_fields() {
    check(r#"{"a":1}"#, &[r#"{"a":1}"#]);
    check(r#"{"a":{"b":1}}"#, &[r#"{"a.b":1}"#]);
    check(
        r#"{"a":{"b":{"c":1},"d":2},"e":3}"#,
        &[r#"{"a.b.c":1,"a.d":2,"e":3}"#],
    );
    check(
        r#"{"x":0,"a":{"b":{"c":1}},"d":{"e":2}}"#,
        &[r#"{"x":0,"a.b.c":1,"d.e":2}"#],
    );
    check(
        r#"{"a.b":{"c":1},"a":{"b":{"d":2}}}"#,
        &[r#"{"a.b.c":1,"a.b.d":2}"#],
    );
    check(r#"{"":{"":1},"a":{"":2}}"#, &[r#"{".":1,"a.":2}"#]);
}

#[test]
fn items_keep_their_order_and_get_positions() {
    check("[]", &[]);
    check(" [ ] ", &[]);
    check("[{}]", &["{}"]);
    check("{}", &["{}"]);
    check(
        r#"[{"a":1},{"b":2},{"a":1}]"#,
        &[r#"{"a":1}"#, r#"{"b":2}"#, r#"{"a":1}"#],
    );
    let many = format!("[{}]", vec!["{}"; 1234].join(","));
    check(&many, &["{}"; 1234]);
}

#[test]
fn values_are_copied_as_written() {
    for value in [
        "null",
        "true",
        "false",
        "0",
        "-0",
        "12345678901234567890",
        "1.10",
        "1e400",
        "-1.5E-7",
        "2E+05",
        r#""""#,
        r#""a b""#,
        r#""\u00e9\/\n""#,
        r#""\ud83d\ude00 😀""#,
        r#""\u0000""#,
        "{}",
        "[]",
        "[[],{}]",
        r#"[1,"a, b",{"c":{"d":[null]}}]"#,
        r#"["]","}","\"","\\"]"#,
        r#"[{"a":1,"a":{"b":1,"b":2}}]"#,
        "\"\u{7f}\u{2028}\"",
    ] {
        let flat = format!(r#"{{"a":{value},"b":{value}}}"#);
        check(&flat, &[&flat]);
        let nested = format!(r#"{{"x":{{"a":{value},"b":{value}}}}}"#);
        let expected = format!(r#"{{"x.a":{value},"x.b":{value}}}"#);
        check(&nested, &[&expected]);
    }
}

#[test]
fn white_space_between_tokens_is_left_out() {
    check(" \t\r\n{ } ", &["{}"]);
    check(
        "[ { \"a\" : 1 , \"b c\" :\n[ 1 , { \"d e\" : \" f \" , \"g\" : { } } , [ ] ] } , { } ]",
        &[r#"{"a":1,"b c":[1,{"d e":" f ","g":{}},[]]}"#, "{}"],
    );
    check(
        "{ \"a\" : { \"b\" : { } , \"c\" : { \"d\" : -1 } } , \"e\" : { \"f\" : 2 } }",
        &[r#"{"a.b":{},"a.c.d":-1,"e.f":2}"#],
    );
    check("\u{feff}{\"a\":1}", &[r#"{"a":1}"#]);
}

#[test]
fn names_have_one_form() {
    check(r#"{"a\u0062":1}"#, &[r#"{"ab":1}"#]);
    check(
        r#"{"\u0022\/\u000a\u001F\\":{"\ud83d\ude00":1}}"#,
        &[r#"{"\"/\n\u001f\\.😀":1}"#],
    );
    check(
        r#"{"\u0000" : 1, "\b\f\r\t":2}"#,
        &[r#"{"\u0000":1,"\b\f\r\t":2}"#],
    );
    check(
        r#"{"\u0061":{"b":{},"\u0063":1},"d":2}"#,
        &[r#"{"a.b":{},"a.c":1,"d":2}"#],
    );
}

#[test]
fn keys_are_compared_in_objects_of_any_size() {
    // Around the number of keys where comparing one by one ends, and far beyond.
    for count in [1, 31, 32, 33, 127, 128, 129, 130, 257, 100_000] {
        let members = |range: std::ops::Range<usize>| {
            let members: Vec<_> = range.map(|n| format!("\"k{n}\":{n}")).collect();
            members.join(",")
        };
        let all = members(0..count);
        // Twice, because the second item reuses what the first one left behind.
        let item = format!("{{{all}}}");
        check(&format!("[{item},{item}]"), &[&item, &item]);
        // The same keys in different objects are different fields.
        check(
            &format!(r#"{{"x":{{{all}}},{all}}}"#),
            &[&format!("{{{},{all}}}", all.replace("\"k", "\"x.k"))],
        );
        // Each of them once more, or of many a few.
        let step = if count > 1000 { count / 3 } else { 1 };
        for twice in (0..count).step_by(step) {
            let body = format!("[{item},{{{all},\"\\u006b{twice}\":0}}]");
            let error = run(body).expect_err("a key stands twice");
            assert_eq!(error.details[0].item, Some(1));
            assert_eq!(error.details[0].field, Some(format!("k{twice}")));
        }
    }
}

#[track_caller]
fn check_key(body: &str, field: &str, expected: &[&str]) {
    let items = flatten(body.as_bytes(), Some(field), LIMITS).expect("has usable keys");
    let keys: Vec<_> = items.iter().map(|item| item.key).collect();
    assert_eq!(keys, expected, "{body}");
    // The key changes nothing else.
    let by_position = run(body).expect("is valid");
    assert!(
        items
            .iter()
            .map(|item| item.fields)
            .eq(by_position.iter().map(|item| item.fields))
    );
}

#[test]
fn the_item_key_is_a_field_of_the_flattened_item() {
    check_key(r#"[{"id":"a"},{"x":1,"id":"b"}]"#, "id", &["a", "b"]);
    check_key(
        r#"[{"id":7},{"id":"7"},{"id":1.10},{"id":true}]"#,
        "id",
        &["7", "7", "1.10", "true"],
    );
    check_key(
        r#"{"order":{"id":"x y","n":{"id":2}},"id":3}"#,
        "order.id",
        &["x y"],
    );
    check_key(r#"{"order.id":"x"}"#, "order.id", &["x"]);
    check_key(r#"{"\u0069d" : "\u00e9\n\ud83d\ude00" }"#, "id", &["é\n😀"]);
    check_key(r#"{"\"q\"":false}"#, "\"q\"", &["false"]);
    check_key(r#"{"a":{"b":{"c":1}},"a.b":2}"#, "a.b", &["2"]);
    check_key(r#"{"a.b":2,"a":{"b":{"c":1}}}"#, "a.b", &["2"]);
    check_key(r#"{"":"x"}"#, "", &["x"]);
    let long = "é".repeat(256);
    check_key(&format!(r#"{{"id":"{long}"}}"#), "id", &[&long]);
    check_key("[]", "id", &[]);
}

#[test]
fn the_flattened_size_is_bounded_exactly() {
    let body = br#"[{"a":{"b":1,"c":"x"}},{"d":[1, 2],"id":"k"}]"#;
    let size = run(body).expect("is valid").byte_len();
    let bounded = |flattened_bytes_max| {
        flatten(
            body,
            None,
            FlattenLimits {
                flattened_bytes_max,
                item_bytes_max: usize::MAX,
            },
        )
    };
    assert_eq!(bounded(size).expect("fits").byte_len(), size);
    for smaller in 0..size {
        let error = bounded(smaller).expect_err("does not fit");
        assert!(
            error.message.contains(&format!("over {smaller} bytes")),
            "{error}"
        );
        assert!(matches!(
            error.details[..],
            [Detail {
                item: Some(0 | 1),
                line: Some(1),
                ..
            }]
        ));
    }
}

/// Deep bodies in a thread with a stack that even a shallow recursion would exhaust.
#[test]
fn depth_costs_no_stack_and_no_quadratic_time() {
    let deep = || {
        let levels = 100_000;
        let objects = "{\"a\":".repeat(levels);
        let closing = "}".repeat(levels);
        let items = run(format!("{objects}1{closing}")).expect("depth alone is fine");
        let name = format!("a{}", ".a".repeat(levels - 1));
        assert_eq!(fields(&items), [format!("{{\"{name}\":1}}")]);
        let items = run(format!("{objects}{{}}{closing}")).expect("depth alone is fine");
        assert_eq!(fields(&items), [format!("{{\"{name}\":{{}}}}")]);

        let list = |levels| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let mixed = |levels| format!("{}0{}", "[{\"a\":".repeat(levels), "}]".repeat(levels));
        for deepest in [list(900), mixed(450)] {
            let item = format!("{{\"a\":{deepest}}}");
            check(&item, &[&item]);
        }
        for (deeper, column) in [
            (list(901), 906),
            (mixed(451), 2706),
            (list(levels), 906),
            (mixed(levels), 2706),
        ] {
            let error = run(format!("{{\"a\":{deeper}}}")).expect_err("too deep for SQLite");
            assert!(error.message.contains("more than 900 levels"), "{error}");
            assert_eq!(error.details[0].column, Some(column));
        }

        check_error(
            "[".repeat(levels),
            "item 0 is an array; send an object or an array of objects",
        );
        for (unclosed, column) in [
            (objects.clone(), 5 * levels + 1),
            (format!("{objects}1"), 5 * levels + 2),
            (format!("{{\"a\":{}", "[".repeat(800)), 806),
        ] {
            let error = run(unclosed).expect_err("nothing is closed");
            assert_eq!(error.details, [at(1, column as u64)]);
        }

        // A field at each level: the paths would take 10 GB.
        let fields = format!(
            "{}{closing}",
            "{\"b\":1,\"a\":".repeat(levels - 1) + "{\"b\":1"
        );
        let error = run(&fields).expect_err("is over the bound");
        assert!(error.message.contains("over 16777216 bytes"), "{error}");
        // The same key at each level, at the bottom twice.
        let error = run(format!("{objects}{{\"b\":1,\"b\":2}}{closing}"));
        assert!(
            error
                .expect_err("a key stands twice")
                .message
                .contains("twice")
        );
    };
    let thread = std::thread::Builder::new()
        .stack_size(128 * 1024)
        .spawn(deep);
    thread
        .expect("a thread can be started")
        .join()
        .expect("the cases pass");
}
