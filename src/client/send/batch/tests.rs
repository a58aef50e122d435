//! Tests of how items are combined into bodies, and of idempotency keys.
//!
//! Run by `cargo test`. **Invariant**: everything that goes in is accounted for.

use proptest::prelude::*;

use super::*;

fn batches(input: &str, bytes_max: usize, items_max: u64) -> Vec<SendBatch> {
    let mut batcher = Batcher::new(
        input.as_bytes(),
        BatchLimits {
            bytes_max,
            items_max,
        },
    );
    let mut batches = Vec::new();
    while let Some(event) = batcher.next_event().expect("good input") {
        match event {
            Event::Batch(batch) => batches.push(batch),
            Event::TooLarge { .. } => panic!("nothing is too large"),
        }
    }
    batches
}

fn bodies(input: &str, bytes_max: usize, items_max: u64) -> Vec<String> {
    let text = |batch: SendBatch| String::from_utf8(batch.body.to_vec()).expect("UTF-8");
    batches(input, bytes_max, items_max)
        .into_iter()
        .map(text)
        .collect()
}

#[test]
fn bodies_are_filled_to_their_limits() {
    let input = r#"{"a":1}{"a":2}{"a":3}{"a":4}{"a":5}"#;
    let check = |bytes_max, items_max, expected: &[&str]| {
        assert_eq!(
            bodies(input, bytes_max, items_max),
            expected,
            "{bytes_max} {items_max}"
        );
    };
    check(
        1_000,
        u64::MAX,
        &[r#"[{"a":1},{"a":2},{"a":3},{"a":4},{"a":5}]"#],
    );
    check(
        17,
        u64::MAX,
        &[r#"[{"a":1},{"a":2}]"#, r#"[{"a":3},{"a":4}]"#, r#"{"a":5}"#],
    );
    let each = [1, 2, 3, 4, 5].map(|number| format!(r#"{{"a":{number}}}"#));
    let each = each.each_ref().map(String::as_str);
    check(16, u64::MAX, &each);
    check(1, u64::MAX, &each);
    check(
        1_000,
        2,
        &[r#"[{"a":1},{"a":2}]"#, r#"[{"a":3},{"a":4}]"#, r#"{"a":5}"#],
    );
    check(1_000, 5, &[r#"[{"a":1},{"a":2},{"a":3},{"a":4},{"a":5}]"#]);
    assert!(bodies("", 1_000, 10).is_empty());
    assert!(bodies("[]", 1_000, 10).is_empty());
}

#[test]
fn a_fault_drops_what_was_not_yet_handed_out() {
    let limits = BatchLimits {
        bytes_max: 1_000,
        items_max: 2,
    };
    let mut batcher = Batcher::new("{}{}{}oops".as_bytes(), limits);
    assert!(matches!(batcher.next_event(), Ok(Some(Event::Batch(batch))) if batch.items == 2));
    assert!(batcher.next_event().is_err());
}

#[test]
fn the_progress_ends_at_the_end_of_the_input() {
    let input = "{\"a\":1}\n{\"a\":2}\n\n";
    let read: Vec<u64> = batches(input, 8, 9)
        .iter()
        .map(|batch| batch.input_bytes)
        .collect();
    assert_eq!(read, [7, 17]);
}

#[test]
fn a_repeat_has_the_same_key_and_nothing_else_has() {
    let batch = |number, body: &'static str| SendBatch {
        number,
        body: Bytes::from_static(body.as_bytes()),
        items: 1,
        input_bytes: 0,
    };
    let first = batch(0, "{}");
    let key = idempotency_key(None, Some("orders"), Some("id"), &first);
    assert_eq!(
        key,
        idempotency_key(None, Some("orders"), Some("id"), &first.clone())
    );
    assert_eq!(key.len(), 64);
    let keys = [
        key.clone(),
        idempotency_key(None, Some("orders"), Some("id"), &batch(1, "{}")),
        idempotency_key(None, Some("orders"), Some("id"), &batch(0, "[]")),
        idempotency_key(None, Some("orders"), None, &first),
        idempotency_key(None, Some("orders"), Some(""), &first),
        idempotency_key(None, Some("order"), Some("sid"), &first),
        idempotency_key(None, None, Some("ordersid"), &first),
        idempotency_key(Some("run2"), Some("orders"), Some("id"), &first),
    ];
    let distinct: std::collections::HashSet<_> = keys.iter().collect();
    assert_eq!(distinct.len(), keys.len());
    assert_eq!(keys[7], format!("run2-{key}"));
}

proptest! {
    #[test]
    fn no_body_is_too_long_and_none_is_lost(
        lens in prop::collection::vec(0..40usize, 0..40),
        bytes_max in 1..120usize,
        items_max in 1..20u64,
    ) {
        let items: Vec<String> =
            lens.iter().map(|len| format!("{{\"a\":\"{}\"}}", "x".repeat(*len))).collect();
        let found = batches(&items.join("\n"), bytes_max, items_max);
        for (number, batch) in found.iter().enumerate() {
            prop_assert_eq!(batch.number, number as u64);
            prop_assert!(batch.items == 1 || batch.body.len() <= bytes_max);
            prop_assert!((1..=items_max).contains(&batch.items));
        }
        let joined: Vec<String> = found
            .iter()
            .map(|batch| {
                let body = std::str::from_utf8(&batch.body).expect("UTF-8");
                body.trim_start_matches('[').trim_end_matches(']').to_owned()
            })
            .collect();
        prop_assert_eq!(joined.join(","), items.join(","));
    }
}
