//! What a history leaves behind, as it can be compared: without ids and times.
//!
//! **Invariant**: whatever is on one side only is a difference.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Everything that is compared, by what it is of.
pub(super) type Outcome = BTreeMap<String, Value>;

/// What differs between a daemon alone and `name`, a sentence each.
pub(super) fn differences(name: &str, alone: &Outcome, other: &Outcome) -> Vec<String> {
    let missing = Value::Null;
    let all: BTreeSet<&String> = alone.keys().chain(other.keys()).collect();
    let differing = all.into_iter().filter_map(|of| {
        let [expected, found] = [alone, other].map(|side| side.get(of).unwrap_or(&missing));
        let is_same = expected == found && alone.contains_key(of) == other.contains_key(of);
        (!is_same).then(|| format!("{of}: {expected} alone, {found} on {name}"))
    });
    differing.collect()
}

/// Takes away what no two daemons have in common: ids of requests become the numbers of their operations.
pub(super) fn without_ids(mut value: Value, numbers: &BTreeMap<String, usize>) -> Value {
    match &mut value {
        Value::String(text) => {
            for (id, number) in numbers {
                if text.contains(id) {
                    *text = text.replace(id, &format!("the request of {number}"));
                }
            }
        }
        Value::Array(all) => {
            for one in all {
                *one = without_ids(one.take(), numbers);
            }
        }
        Value::Object(all) => {
            for (name, one) in all {
                *one = without_ids(one.take(), numbers);
                let is_known = one
                    .as_str()
                    .is_some_and(|text| text.starts_with("the request of"));
                if name == "request_id" && !is_known && !one.is_null() {
                    *one = "some request".into();
                }
            }
        }
        _ => {}
    }
    value
}

/// Why an item became a dead letter, without how often that was tried.
pub(super) fn class(reason: &str) -> &str {
    ["answered 400", "answered 503"]
        .into_iter()
        .find(|class| reason.contains(class))
        .unwrap_or(reason)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn outcome() -> Outcome {
        let all = [
            (
                "the item h0-1 of merged",
                json!({ "fields": { "f0": 12, "rev": 3 }, "version": "3" }),
            ),
            (
                "the request of 4",
                json!({ "status": "stale", "stale": [{ "item": 0, "version": "1", "reached": "3" }], "sinks": [["copy", "done"]] }),
            ),
            ("the log", json!({ "accepted 202": 20, "duplicate 202": 3 })),
            (
                "a dead letter of 7, item 1",
                json!({ "key": "h0-refused", "class": "answered 400" }),
            ),
            (
                "what came of h0-0 of plain",
                json!([{ "f0": 10 }, { "removed": true }]),
            ),
        ];
        let all = all.into_iter();
        all.map(|(of, value)| (of.to_owned(), value)).collect()
    }

    #[test]
    fn a_planted_difference_is_found_wherever_it_is() {
        let alone = outcome();
        assert_eq!(differences("b", &alone, &outcome()), Vec::<String>::new());
        let places = [
            ("the item h0-1 of merged", "/fields/f0", json!(13)),
            ("the item h0-1 of merged", "/version", json!("2")),
            ("the request of 4", "/status", json!("processed")),
            ("the request of 4", "/stale/0/reached", json!("4")),
            ("the request of 4", "/sinks/0/1", json!("failed")),
            ("the log", "/duplicate 202", json!(2)),
            (
                "a dead letter of 7, item 1",
                "/class",
                json!("answered 503"),
            ),
            ("what came of h0-0 of plain", "/1", json!({ "f0": 20 })),
        ];
        for (of, at, planted) in places {
            let mut other = outcome();
            let value = other.get_mut(of).and_then(|value| value.pointer_mut(at));
            *value.expect("it is there") = planted.clone();
            let found = differences("b", &alone, &other);
            assert_eq!(found.len(), 1, "{of}{at}: {found:?}");
            assert!(found[0].starts_with(of), "{found:?}");
            assert!(found[0].contains(&planted.to_string()), "{found:?}");
            assert_eq!(differences("b", &other, &alone).len(), 1);
        }
        // Whichever side lacks it, whatever it is.
        for of in alone.keys() {
            let mut other = outcome();
            other.remove(of);
            assert_eq!(differences("b", &alone, &other).len(), 1, "{of}");
            assert_eq!(differences("b", &other, &alone).len(), 1, "{of}");
        }
        let mut other = outcome();
        other.insert("the item h0-2 of plain".to_owned(), Value::Null);
        assert_eq!(differences("b", &alone, &other).len(), 1);
        // In another order it is another one.
        let mut other = outcome();
        let came = other.get_mut("what came of h0-0 of plain");
        let came = came.and_then(Value::as_array_mut).expect("a list");
        came.reverse();
        assert_eq!(differences("b", &alone, &other).len(), 1);
    }

    #[test]
    fn only_ids_are_taken_away() {
        let numbers = BTreeMap::from([("01a".to_owned(), 3)]);
        let within = json!({ "message": "there is none of 01a" });
        let without = json!({ "message": "there is none of the request of 3" });
        assert_eq!(without_ids(within, &numbers), without);
        let answer =
            json!({ "data": { "request_id": "01a", "items_received": 2 }, "of": ["01a", "01b"] });
        assert_eq!(
            without_ids(answer, &numbers),
            json!({ "data": { "request_id": "the request of 3", "items_received": 2 }, "of": ["the request of 3", "01b"] })
        );
        let refused = json!({ "error": { "code": "UNAUTHORIZED", "request_id": "01c" } });
        assert_eq!(
            without_ids(refused, &numbers),
            json!({ "error": { "code": "UNAUTHORIZED", "request_id": "some request" } })
        );
        assert_eq!(class("copy: answered 503 after 2 attempts"), "answered 503");
        assert_eq!(class("another reason"), "another reason");
    }
}
