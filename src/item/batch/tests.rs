//! What batches are known by, and how they are cut.

use super::*;
use crate::{ItemMeta, ItemsWriter, field_name, members};

/// A batch of requests to the streams `s0`, `s1`…, each with these items; the first field of an item
/// is its key.
pub(super) fn batch(requests: &[&[&str]]) -> Batch {
    let slices = requests.iter().zip(0..).map(|(items, number)| {
        let mut writer = ItemsWriter::new(1 << 24, 0);
        for fields in *items {
            let (_, key) = members(fields).next().expect("a field");
            writer
                .push(&field_name(key), fields)
                .expect("there is room");
        }
        Slice::whole(Arc::new(Entry {
            seq: Seq::new(number + 1),
            request_id: Uuid::from_u128(u128::from(number) + 1),
            stream: format!("s{number}").into(),
            received_at: Unix::from_ms(1_000 + number),
            arrived: None,
            items: writer.into_items(),
        }))
    });
    Batch::new(slices.collect(), 1)
}

#[test]
fn what_leaves_is_handed_out_as_removals_and_keeps_its_place() {
    let all = batch(&[
        &[r#"{"id":"a"}"#, r#"{"id":"b"}"#, r#"{"id":"c"}"#],
        &[r#"{"id":"d"}"#, r#"{"id":"e"}"#],
    ]);
    let fates = |_: &Slice, item: &ItemRef<'_>| match item.key {
        "a" | "e" => Fate::Kept,
        "b" | "c" => Fate::Leaves,
        _ => Fate::Skipped,
    };
    let some = Batch::new(Batch::sorted(all.slices(), fates), 1);
    assert_eq!(some.slices().len(), 3, "as few as it takes");
    assert_eq!(some.keys(Span::ALL), ["a", "b", "c", "e"]);
    let (upsert, remove) = (Action::Upsert, Action::Remove);
    assert_eq!(some.actions(Span::ALL), [upsert, remove, remove, upsert]);
    let places: Vec<u32> = (some.places(Span::ALL).iter())
        .map(|(_, position)| position.get())
        .collect();
    assert_eq!(places, [0, 1, 2, 1]);
    assert_eq!(
        some.json(Span::ALL, Form::FieldArray),
        r#"[{"id":"a"},{},{},{"id":"e"}]"#
    );
    assert_eq!(some.runs_of_one_action().len(), 3);
    // However it is cut, and whatever is made of it.
    let (left, right) = some.split_at(2);
    assert_eq!(left.actions(Span::ALL), [upsert, remove]);
    assert_eq!(right.actions(Span::ALL), [remove, upsert]);
    let chosen = some.select(&[1, 3], usize::MAX).expect("there is room");
    assert_eq!(chosen.actions(Span::ALL), [remove, upsert]);
    let other = some.with_fields("x", 1 << 20, |_, _, out| out.push_str("{}"));
    let other = other.expect("there is room");
    assert_eq!(other.actions(Span::ALL), [upsert, remove, remove, upsert]);
}

#[test]
fn a_batch_is_known_by_its_items_however_they_were_cut() {
    let all = batch(&[
        &[r#"{"id":"a"}"#, r#"{"id":"b"}"#, r#"{"id":"c"}"#],
        &[r#"{"id":"d"}"#],
    ]);
    let slice = |start, end| Slice {
        start,
        end,
        ..all.slices()[0].clone()
    };
    let first = Uuid::from_u128(1);
    let whole = Batch::of(BatchOrigin::Letters, vec![slice(0, 1), slice(1, 3)], 2);
    assert_eq!(whole.id(), format!("{first}.0-3"));
    let span = |start, count| Span { start, count };
    assert_eq!(whole.identity(Span::ALL), all.identity(span(0, 3)));
    let some = Batch::of(BatchOrigin::Letters, vec![slice(0, 1), slice(2, 3)], 1);
    assert!(
        some.id().starts_with(&format!("{first}.0-")),
        "{}",
        some.id()
    );
    let spans = [span(0, 3), span(0, 4), span(0, 2), span(1, 2), span(3, 9)];
    let mut identities: Vec<_> = spans.iter().map(|span| all.identity(*span)).collect();
    identities.push(some.identity(Span::ALL));
    identities.sort_unstable();
    identities.dedup();
    assert_eq!(identities.len(), 6);
    assert_eq!(all.identity(span(4, 1)), None);
    let (left, right) = some.halves().expect("two items");
    assert!([left.origin(), right.origin()] == [BatchOrigin::Letters; 2]);
    let ids = [format!("{first}.0-1"), format!("{first}.2-3")];
    assert_eq!([left.id(), right.id()], ids);
    let (taken, rest) = all.split_at(3);
    assert_eq!((taken.id(), rest.len()), (whole.id(), 1));
    let (none, everything) = all.split_at(0);
    assert!(none.is_empty());
    assert_eq!(everything.id(), all.id());
}

/// A request of these operations: `+a` updates, `-a` removes.
fn request(seq: u64, operations: &str) -> Slice {
    let mut writer = ItemsWriter::new(1 << 20, 0);
    for operation in operations.split_whitespace() {
        let action = match operation.starts_with('-') {
            true => Action::Remove,
            false => Action::Upsert,
        };
        let pushed = writer.push_with(&operation[1..], "{}", action, ItemMeta::default());
        pushed.expect("there is room");
    }
    Slice::whole(Arc::new(Entry {
        seq: Seq::new(seq),
        request_id: Uuid::from_u128(seq.into()),
        stream: "s".into(),
        received_at: Unix::MIN,
        arrived: None,
        items: writer.into_items(),
    }))
}

#[test]
fn runs_have_all_operations_in_their_order() {
    let shown = |batch: &Batch| {
        let mut text = String::new();
        for (position, item) in batch.slices().iter().flat_map(Slice::items) {
            let sign = if item.action == Action::Remove {
                '-'
            } else {
                '+'
            };
            text.push_str(&format!("{sign}{}{position} ", item.key));
        }
        text.trim_end().to_owned()
    };
    let first = request(1, "+a +b -a -c +a");
    let part = Slice {
        start: 1,
        end: 4,
        ..first.clone()
    };
    let mixed = Batch::of(
        BatchOrigin::Letters,
        vec![
            part,
            request(2, "-d"),
            request(3, "+e +f"),
            request(4, "+g"),
        ],
        3,
    );
    assert_eq!(mixed.action(), None);
    let runs = mixed.runs_of_one_action();
    let texts: Vec<_> = runs.iter().map(shown).collect();
    assert_eq!(texts, ["+b1", "-a2 -c3 -d0", "+e0 +f1 +g0"]);
    let actions: Vec<_> = runs.iter().map(Batch::action).collect();
    let (update, remove) = (Some(Action::Upsert), Some(Action::Remove));
    assert_eq!(actions, [update, remove, update]);
    assert!(
        runs.iter()
            .all(|run| run.attempt() == 3 && run.origin() == BatchOrigin::Letters)
    );
    let all = Batch::new(vec![first], 1);
    let ids: Vec<_> = all.runs_of_one_action().iter().map(Batch::id).collect();
    let id = |range| format!("{}.{range}", Uuid::from_u128(1));
    assert_eq!(ids, [id("0-2"), id("2-4"), id("4-5")]);
    assert_eq!(shown(&mixed.updates()), "+b1 +e0 +f1 +g0");
    let whole = Batch::new(vec![request(1, "-a"), request(2, "-b")], 1);
    assert_eq!(whole.action(), remove);
    assert!(whole.runs_of_one_action()[0].is(&whole));
    assert_eq!(Batch::new(Vec::new(), 1).action(), update);
}
