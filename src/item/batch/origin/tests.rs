//! Unit tests of `batch/origin.rs`.

use super::*;
use crate::batch::Action;
use crate::batch::tests::batch;

#[test]
fn a_filling_changes_every_id_and_an_item_keeps_its_own_within_one() {
    let items = batch(&[&[r#"{"id":"a"}"#, r#"{"id":"b"}"#], &[r#"{"id":"c"}"#]]);
    let (first, second) = (Fill { number: 1, id: 7 }, Fill { number: 2, id: 8 });
    let page = Batch::of(BatchOrigin::Fill, items.slices().to_vec(), 1);
    let all = [
        items.clone(),
        items.clone().in_fill(Some(first)),
        items.clone().in_fill(Some(second)),
        page.clone().in_fill(Some(first)),
        page.clone().in_fill(Some(second)),
    ];
    let mut ids: Vec<_> = all.iter().map(Batch::id).collect();
    let mut identities: Vec<_> = all.iter().map(|one| one.identity(Span::ALL)).collect();
    ids.sort();
    ids.dedup();
    identities.sort();
    identities.dedup();
    assert_eq!((ids.len(), identities.len()), (5, 5));
    // However it was cut, and whatever is made of it.
    let page = page.in_fill(Some(first));
    let (left, right) = page.halves().expect("two items");
    let one = Span { start: 0, count: 1 };
    assert_eq!(left.identity(one), page.identity(one));
    assert_eq!(right.origin(), BatchOrigin::Fill);
    assert_eq!(
        page.select(&[0], 1 << 20)
            .map(|one| one.identity(Span::ALL)),
        Ok(page.identity(one))
    );
    let moved = page.in_stream("other", 1 << 20).expect("there is room");
    assert_eq!(
        (moved.fill(), moved.origin()),
        (Some(first), BatchOrigin::Fill)
    );
    assert!(page.updates().fill().is_some() && page.action() == Some(Action::Upsert));
}
