//! Flattening takes nesting back: whatever [`nest`] makes of fields, the flattener makes the same fields of.
//!
//! **Invariant**: fields are compared with their texts, so a number that only looks equal is a difference.

use proptest::prelude::*;
use proptest::sample::select;

use super::{fields, run};
use crate::{members, nest};

/// The fields of a flat object, in any order.
fn sorted(flat: &str) -> Vec<(&str, &str)> {
    let mut all: Vec<_> = members(flat).collect();
    all.sort_unstable();
    all
}

fn value() -> impl Strategy<Value = &'static str> {
    select(vec![
        "1.10",
        "12345678901234567890",
        "-0",
        "null",
        "true",
        "{}",
        "[]",
        r#""a.b""#,
        r#""\u002e\n""#,
        r#"[{"a.b":{"c":1}},[]]"#,
    ])
}

/// An object as somebody might send it.
fn object() -> impl Strategy<Value = String> {
    let name = || {
        select(vec![
            "a",
            "b",
            "c",
            "",
            "é",
            r"\n",
            r#"\""#,
            r"\u0061",
            r"a\u002eb",
            "a.b",
            ".",
        ])
    };
    value()
        .prop_map(str::to_owned)
        .prop_recursive(5, 40, 5, move |inner| {
            proptest::collection::hash_map(name(), inner, 0..5).prop_map(|members| {
                let members: Vec<_> = members
                    .iter()
                    .map(|(name, value)| format!("\"{name}\":{value}"))
                    .collect();
                format!("{{{}}}", members.join(","))
            })
        })
}

/// Flat fields of any names, with conflicts.
fn flat() -> impl Strategy<Value = String> {
    proptest::collection::hash_map("[ab.]{0,6}", value(), 0..16).prop_map(|members| {
        let members: Vec<_> = members
            .iter()
            .map(|(name, value)| format!("\"{name}\":{value}"))
            .collect();
        format!("{{{}}}", members.join(","))
    })
}

fn is_taken_back(flat: &str) -> Result<String, TestCaseError> {
    let nested = nest(flat);
    let again = run(&nested).map_err(|error| TestCaseError::fail(format!("{nested}: {error}")))?;
    let again = fields(&again);
    prop_assert_eq!(again.len(), 1);
    prop_assert_eq!(sorted(again[0]), sorted(flat), "{}", nested);
    // Fields of one object stand together now, so from here on their order stays.
    prop_assert_eq!(nest(again[0]), nested.clone());
    Ok(nested)
}

proptest! {
    #[test]
    fn what_was_flattened_comes_back(body in object()) {
        // Bodies that are no object, or that flatten to a field twice, are refused.
        if let Ok(items) = run(&body) {
            for flat in fields(&items) {
                is_taken_back(flat)?;
            }
        }
    }

    #[test]
    fn fields_that_conflict_come_back_too(flat in flat()) {
        is_taken_back(&flat)?;
    }
}

#[test]
fn an_object_without_dots_in_its_names_comes_back_as_it_was() {
    let body = r#"{"id":7,"customer":{"name":"Ann","address":{"city":"Bern","":{"":1.10}}},"tags":["a",{"b.c":{}}],"e":{}}"#;
    let items = run(body).expect("a good body");
    assert_eq!(nest(fields(&items)[0]), body);
}
