//! Unit tests of `unsettled.rs`.

use super::*;
use item::ItemsWriter;

fn items(keys: &[&str]) -> Items {
    let mut writer = ItemsWriter::new(usize::MAX, 0);
    for key in keys {
        writer.push(key, r#"{"n":1}"#).expect("room");
    }
    writer.into_items()
}

fn sum(items: u64) -> Sum {
    Sum {
        items,
        bytes: items * 8,
    }
}

/// What counts for one that comes now.
fn counted(stream: &Arc<OfStream>) -> (Sum, Vec<Box<str>>) {
    let next = Arc::clone(stream).reserve(&items(&["z"]), Seq::new(0));
    let mut keys: Vec<_> = next.before().into_keys().collect();
    keys.sort();
    let counted = (next.others_at_most(), keys);
    next.end(None);
    counted
}

#[test]
fn what_is_stored_counts_until_it_is_settled_and_what_is_not_does_not() {
    let all = Unsettled::default();
    let stream = all.of(&"orders".into());
    let first = Arc::clone(&stream).reserve(&items(&["a", "b"]), Seq::new(3));
    let second = Arc::clone(&stream).reserve(&items(&["b", "c"]), Seq::new(3));
    assert_eq!((first.before().len(), second.before().len()), (0, 2));
    assert_eq!(second.others_at_most(), sum(2));
    let whole = (sum(4), vec!["a".into(), "b".into(), "c".into()]);
    assert_eq!(counted(&all.of(&"orders".into())), whole);
    assert_eq!(counted(&all.of(&"other".into())), (sum(0), Vec::new()));
    first.end(None);
    let rest = (sum(2), vec!["b".into(), "c".into()]);
    assert_eq!(counted(&stream), rest, "nothing of the first was stored");
    second.end(Some(Seq::new(7)));
    stream.settle(Seq::new(6));
    assert_eq!(counted(&stream), rest);
    stream.settle(Seq::new(7));
    assert_eq!(counted(&stream), (sum(0), Vec::new()));
    // What was accepted before a start comes first.
    stream.count(&items(&["a", "c"]), Seq::new(8));
    stream.settle(Seq::new(6));
    let first = Arc::clone(&stream).reserve(&items(&["b"]), Seq::new(8));
    let whole = (sum(3), vec!["a".into(), "b".into(), "c".into()]);
    assert_eq!(counted(&stream), whole);
    first.end(None);
    stream.settle(Seq::new(8));
    assert_eq!(counted(&stream), (sum(0), Vec::new()));
    // Of this one nobody knows.
    drop(Arc::clone(&stream).reserve(&items(&["d"]), Seq::new(8)));
    stream.settle(Seq::new(9));
    assert_eq!(counted(&stream).0, sum(1));
    stream.settle(Seq::new(8 + WAITING_MAX));
    assert_eq!(counted(&stream).0, sum(0));
}
#[test]
fn of_older_requests_the_keys_are_held_and_count_the_same() {
    let stream = Unsettled::default().of(&"orders".into());
    let number_of = |number: usize| Seq::new(number as u64 + 1);
    let requests = HELD_MAX + TOGETHER;
    for number in 0..requests {
        let own =
            Arc::clone(&stream).reserve(&items(&[&format!("{number:04}")]), number_of(number));
        own.end(Some(number_of(number)));
    }
    assert_eq!(stream.held().requests.len(), HELD_MAX);
    let all = requests as u64;
    let (sum, keys) = counted(&stream);
    assert_eq!((sum.items, keys.len()), (all, requests));
    assert_eq!(sum.bytes, all * 11);
    // A removal of what is held by its key alone.
    let mut removal = ItemsWriter::new(usize::MAX, 0);
    removal
        .push_with("0000", "{}", Action::Remove, item::ItemMeta::default())
        .expect("room");
    stream.count(&removal.into_items(), number_of(requests));
    assert_eq!(counted(&stream).1.len(), requests - 1);
    stream.settle(number_of(TOGETHER - 1));
    assert_eq!(counted(&stream).1.len(), requests - TOGETHER);
    stream.settle(number_of(requests));
    assert_eq!(counted(&stream).0, Sum::default());
}

#[test]
fn what_was_read_from_the_journal_counts_in_place_of_the_request_that_came_here() {
    let stream = Unsettled::default().of(&"orders".into());
    let own = Arc::clone(&stream).reserve(&items(&["a"]), Seq::new(3));
    own.end(Some(Seq::new(5)));
    // One of another node, and its own.
    stream.count(&items(&["b"]), Seq::new(4));
    stream.count(&items(&["a"]), Seq::new(5));
    stream.counted(Seq::new(5));
    let both = (sum(2), vec!["a".into(), "b".into()]);
    assert_eq!(counted(&stream), both);
    assert_eq!(stream.held().requests.len(), 0);
    stream.settle(Seq::new(5));
    stream.count(&items(&["b"]), Seq::new(4));
    assert_eq!(counted(&stream).0, sum(0), "it was settled before");
}
