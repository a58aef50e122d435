//! Unit tests of `view.rs`.

use super::*;

#[test]
fn connections_with_the_same_filter_share_its_evaluation() {
    let (mut views, stream) = (Views::default(), Arc::from("orders"));
    let mut of = |connection: usize| {
        let conditions = format!("n:{}", connection % 200);
        let filter = ItemFilter::parse(&conditions, "").expect("a filter");
        views.of(&stream, &filter).expect("a view")
    };
    let all: Vec<_> = (0..10_000).map(&mut of).collect();
    let distinct: HashSet<_> = all.iter().map(Arc::as_ptr).collect();
    assert_eq!(distinct.len(), 200);
    let change = |seq, fields| {
        let at = "2026-11-21T03:25:21.123Z";
        Change::updated(ChangeSeq::new(seq), "1", fields, at)
    };
    // A second evaluation would see that the fields differ.
    let first = all[0].shown(&change(1, r#"{"n":0}"#)).expect("it matches");
    let second = all[200].shown(&change(1, r#"{"n":1}"#));
    assert!(second.is_some_and(|second| Arc::ptr_eq(&first, &second)));
    assert!(all[0].shown(&change(2, r#"{"n":1}"#)).is_none());
    assert!(all[200].shown(&change(2, r#"{"n":0}"#)).is_none());
}

#[test]
fn who_holds_very_many_items_hears_of_each_that_leaves() {
    let gone = |key: &str| Change::removed(ChangeSeq::new(1), key);
    for (is_exact, count, hears) in [
        (false, INSIDE_MAX, false),
        (false, INSIDE_MAX + 1, true),
        (true, INSIDE_MAX + 1, false),
    ] {
        let mut inside = Inside::new(is_exact);
        (0..count).for_each(|number| inside.add(&number.to_string()));
        assert!(inside.leave(&gone("0")));
        assert_eq!(inside.leave(&gone("0")), hears, "{count}");
        assert_eq!(inside.leave(&gone("none")), hears, "{count}");
    }
}
