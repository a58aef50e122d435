//! Unit tests of `bench/load.rs`.

use super::*;

#[test]
fn items_have_their_size_and_numbers_of_their_own() {
    let mut before = 0;
    for bytes in [200, 2_048, 1 << 20] {
        let (number, body) = item(bytes);
        assert_eq!(body.len(), bytes);
        let item: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(item["number"], number);
        assert_eq!(item["id"], (number % KEYS).to_string());
        assert!(number > before);
        before = number;
    }
}

#[test]
fn several_items_are_an_array() {
    let load = |items| BenchLoad {
        connections: 1,
        item_bytes: 200,
        items,
        time: Duration::ZERO,
    };
    let sent = |items| serde_json::from_slice::<serde_json::Value>(&body(load(items)));
    assert!(sent(1).expect("JSON").is_object());
    let several = sent(3).expect("JSON");
    let numbers = several.as_array().expect("an array").iter();
    let numbers: Vec<_> = numbers.map(|item| item["number"].as_u64()).collect();
    assert!(numbers.len() == 3 && numbers.is_sorted(), "{several}");
}

#[test]
fn answers_are_counted_by_what_they_are() {
    let answer = |status| {
        Ok(Answer {
            status,
            headers: HeaderMap::new(),
            body: br#"{"error": {"message": "slow down"}}"#.to_vec(),
        })
    };
    let mut all = Answers::default();
    for (status, accepted) in [(202, true), (429, false), (429, false), (503, false)] {
        let mut one = Answers::default();
        assert_eq!(one.note(answer(status), Duration::from_millis(1)), accepted);
        all.add(one);
    }
    assert_eq!(all.accepted.len(), 1);
    assert_eq!(all.refused, BTreeMap::from([(429, 2), (503, 1)]));
    assert!(all.complaint.is_some_and(|text| text.contains("slow down")));
}
