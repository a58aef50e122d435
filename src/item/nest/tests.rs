//! Cases of nesting, and its agreement with a slow and obvious way to do the same.
//!
//! That flattening takes nesting back is tested with the flattener. **Invariant**: what is expected is
//! written out or computed by other means than those of [`nest`].

use proptest::prelude::*;
use serde_json::{Map, Value};

use super::*;
use crate::field_name;

#[track_caller]
fn check(fields: &str, expected: &str) {
    assert_eq!(nest(fields), expected, "{fields}");
}

#[test]
fn dotted_names_become_objects() {
    check("{}", "{}");
    check(r#"{"a":1,"b":{}}"#, r#"{"a":1,"b":{}}"#);
    check(r#"{"a.b":1}"#, r#"{"a":{"b":1}}"#);
    check(
        r#"{"a.b":1,"a.c":[1,2],"d":"x"}"#,
        r#"{"a":{"b":1,"c":[1,2]},"d":"x"}"#,
    );
    check(
        r#"{"a.b.c":1,"a.b.d":2,"a.e":3,"f.g.h":4}"#,
        r#"{"a":{"b":{"c":1,"d":2},"e":3},"f":{"g":{"h":4}}}"#,
    );
    // Names of which one is the beginning of the other, but not up to a dot.
    check(
        r#"{"ab.c":1,"a.c":2,"abc":3,"a!":4}"#,
        r#"{"ab":{"c":1},"a":{"c":2},"abc":3,"a!":4}"#,
    );
}

#[test]
fn members_stand_where_their_first_field_stood() {
    check(
        r#"{"z.y":1,"b":2,"z.a":3,"a.z":4,"z.y2.q":5,"a.b":6,"z.y2.b":7}"#,
        r#"{"z":{"y":1,"a":3,"y2":{"q":5,"b":7}},"b":2,"a":{"z":4,"b":6}}"#,
    );
}

#[test]
fn values_and_names_keep_their_bytes() {
    for value in [
        "1.10",
        "12345678901234567890",
        "-0",
        "1e400",
        "null",
        "{}",
        r#""\u00e9\/ {\"a.b\":1}""#,
        r#"[{"a.b":1,"a":{"x.y":2}},"}"]"#,
    ] {
        check(
            &format!(r#"{{"x.y":{value},"x.z":{value}}}"#),
            &format!(r#"{{"x":{{"y":{value},"z":{value}}}}}"#),
        );
    }
    check(
        r#"{"q\".\n\\.\u001f":1,"q\".\n\\.ü😀":2,"q\"\\.":3}"#,
        r#"{"q\"":{"\n\\":{"\u001f":1,"ü😀":2}},"q\"\\":{"":3}}"#,
    );
    // Not the canonical form: an escaped dot is no dot.
    check(r#"{"a\u002eb":1,"c.d":2}"#, r#"{"a\u002eb":1,"c":{"d":2}}"#);
}

#[test]
fn empty_parts_of_names_are_names() {
    check(r#"{"":1}"#, r#"{"":1}"#);
    check(r#"{".":1}"#, r#"{"":{"":1}}"#);
    check(
        r#"{".a":1,"a.":2,"b..c":3,"b..d":4,"...":5}"#,
        r#"{"":{"a":1,"":{"":{"":5}}},"a":{"":2},"b":{"":{"c":3,"d":4}}}"#,
    );
}

#[test]
fn fields_that_conflict_go_as_deep_as_they_fit() {
    let same = |fields: &str| check(fields, fields);
    same(r#"{"a":1,"a.b":2}"#);
    same(r#"{"a.b":2,"a":1}"#);
    same(r#"{"a":{},"a.b":2}"#);
    same(r#"{"a.b.c":1,"x":2,"a":3,"a.b":4}"#);
    same(r#"{"":1,".":2,"..":3}"#);
    check(
        r#"{"x.a":1,"x.a.b.c":2,"x.b.c":3,"x.a.b.d":4}"#,
        r#"{"x":{"a":1,"a.b.c":2,"b":{"c":3},"a.b.d":4}}"#,
    );
    check(
        r#"{"a.b.c.d":1,"a.b.c":2,"a.b.c!":3,"a.bc":4}"#,
        r#"{"a":{"b":{"c.d":1,"c":2,"c!":3},"bc":4}}"#,
    );
    check(
        r#"{"a.":1,"a..b":2,"a.c":3}"#,
        r#"{"a":{"":1,".b":2,"c":3}}"#,
    );
}

#[test]
fn other_text_than_flat_objects_does_no_harm() {
    for text in [
        "",
        "{",
        "[]",
        "{\"a.b",
        "{\"a.b\":1",
        r#"{"a.b":1,"a.b":2}"#,
        r#"{"a":1,"a":2,"a.b":3,"a.b":4}"#,
        r#"{ "a.b" : 1 }"#,
        r#"{"é.é":é}"#,
    ] {
        nest(text);
    }
}

/// In a thread with a stack that even a shallow recursion would exhaust.
#[test]
fn long_names_cost_no_stack_and_no_quadratic_time() {
    let deep = || {
        let levels = 100_000;
        let prefix = "a.".repeat(levels);
        let opened = "{\"a\":".repeat(levels);
        let closed = "}".repeat(levels);
        check(
            &format!("{{\"{prefix}b\":1}}"),
            &format!("{opened}{{\"b\":1}}{closed}"),
        );

        // 16 MB: the same long prefix many times, and then every length of it.
        let names: Vec<_> = (0..80).map(|n| format!("\"{prefix}b{n}\":{n}")).collect();
        let members: Vec<_> = (0..80).map(|n| format!("\"b{n}\":{n}")).collect();
        check(
            &format!("{{{}}}", names.join(",")),
            &format!("{opened}{{{}}}{closed}", members.join(",")),
        );
        let names: Vec<_> = (1..4_000)
            .map(|n| format!("\"{}b\":0", &prefix[..2 * n]))
            .collect();
        let between = "{\"b\":0,\"a\":".repeat(3_998);
        check(
            &format!("{{{}}}", names.join(",")),
            &format!("{{\"a\":{between}{{\"b\":0}}{}", "}".repeat(3_999)),
        );
        // A conflict at the top keeps all of them whole.
        let fields = format!("{{\"a\":0,{}}}", names.join(","));
        check(&fields, &fields);

        let dots = format!("{{\"{}\":1}}", ".".repeat(1 << 20));
        assert_eq!(nest(&dots).len(), dots.len() + 4 * (1 << 20));
        let many: Vec<_> = (0..300_000)
            .map(|n| format!("\"{}.{n}\":1", n % 1000))
            .collect();
        nest(&format!("{{{}}}", many.join(",")));
    };
    let thread = std::thread::Builder::new()
        .stack_size(128 * 1024)
        .spawn(deep);
    thread
        .expect("a thread can be started")
        .join()
        .expect("the cases pass");
}

/// The rule, read aloud: down while there is no field of that name.
fn reference(fields: &str) -> Value {
    let all: Vec<(String, Value)> = members(fields)
        .map(|(name, value)| {
            let value = serde_json::from_str(value).expect("values are JSON");
            (field_name(name).into_owned(), value)
        })
        .collect();
    let mut nested = Map::new();
    for (name, value) in &all {
        let mut object = &mut nested;
        let mut from = 0;
        while let Some(dot) = name[from..].find('.') {
            let to = from + dot;
            if all.iter().any(|(other, _)| *other == name[..to]) {
                break;
            }
            let below = object
                .entry(&name[from..to])
                .or_insert_with(|| Map::new().into());
            object = below.as_object_mut().expect("no field has this name");
            from = to + 1;
        }
        object.insert(name[from..].to_owned(), value.clone());
    }
    nested.into()
}

proptest! {
    #[test]
    fn it_agrees_with_the_rule_read_aloud(
        names in proptest::collection::hash_set("[ab.]{0,7}|[a.é\u{0}\"!/]{0,4}", 0..24),
    ) {
        let fields: Map<String, Value> = names.into_iter().zip((0..).map(Value::from)).collect();
        let fields = Value::from(fields).to_string();
        let nested = nest(&fields);
        // Compared as text, because objects are equal in any order.
        prop_assert_eq!(&nested, &reference(&fields).to_string(), "{}", fields);
    }
}
