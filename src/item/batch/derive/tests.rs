//! What derived batches are made of, how they are known, and what they may take.

use std::collections::HashSet;

use super::super::read::{Form, Span};
use super::super::tests::batch as batch_of;
use super::fields::DERIVED_BYTES_MAX;
use super::select::SELECTED_MAX;
use super::*;

const ROOM: usize = 1 << 30;

fn sample() -> Batch {
    batch_of(&[
        &[
            r#"{"id":"a","n":1}"#,
            r#"{"id":"b","n":2}"#,
            r#"{"id":"c"}"#,
        ],
        &[r#"{"id":"d","n":4,"x.y":"z"}"#],
    ])
}

fn fields(batch: &Batch) -> String {
    batch.json(Span::ALL, Form::FieldArray)
}

fn positions(batch: &Batch) -> Vec<(u64, u32)> {
    let slices = batch.slices().iter();
    slices
        .flat_map(|slice| {
            slice
                .items()
                .map(|(at, _)| (slice.entry.seq.get(), at.get()))
        })
        .collect()
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}

#[test]
fn selected_items_keep_keys_and_places() {
    let batch = sample();
    let some = batch.select(&[3, 1, 2], ROOM).expect("they exist");
    assert_eq!(some.keys(Span::ALL), ["d", "b", "c"]);
    assert_eq!(positions(&some), [(2, 0), (1, 1), (1, 2)]);
    assert_eq!(some.slices().len(), 2);
    let error = batch.select(&[0, 4], ROOM).expect_err("there are four");
    assert_eq!(error, DeriveError::Index { index: 4, len: 4 });
    assert!(batch.select(&[], ROOM).expect("nothing").is_empty());
}

#[test]
fn fields_can_be_kept_dropped_and_renamed() {
    let batch = sample();
    assert_eq!(
        fields(
            &batch
                .project(&strings(&["n", "id"]), ROOM)
                .expect("it fits")
        ),
        r#"[{"n":1,"id":"a"},{"n":2,"id":"b"},{"id":"c"},{"n":4,"id":"d"}]"#
    );
    assert_eq!(
        fields(
            &batch
                .without(&strings(&["id", "x.y"]), ROOM)
                .expect("it fits")
        ),
        r#"[{"n":1},{"n":2},{},{"n":4}]"#
    );
    let names = [("n".to_owned(), "count".to_owned())];
    assert_eq!(
        fields(&batch.rename(&names, ROOM).expect("no clash")),
        r#"[{"id":"a","count":1},{"id":"b","count":2},{"id":"c"},{"id":"d","count":4,"x.y":"z"}]"#
    );
    let clash = [("n".to_owned(), "id".to_owned())];
    assert!(batch.rename(&clash, ROOM).is_err());
}

#[test]
fn steps_can_follow_each_other_and_keep_places() {
    let batch = sample();
    let step = batch.select(&[2, 3], ROOM).expect("they exist");
    let step = step.project(&strings(&["id"]), ROOM).expect("it fits");
    let step = step.in_stream("other", ROOM).expect("a name");
    let step = step.select(&[1, 0], ROOM).expect("they exist");
    assert_eq!(positions(&step), [(2, 0), (1, 2)]);
    assert_eq!(step.streams(Span::ALL), ["other", "other"]);
    assert_eq!(fields(&step), r#"[{"id":"d"},{"id":"c"}]"#);
    assert!(batch.in_stream("", ROOM).is_err());
    assert!(batch.in_stream("a\n", ROOM).is_err());
}

#[test]
fn ids_tell_derived_batches_apart_and_stay_the_same() {
    let ids = || {
        let batch = sample();
        let select = |indexes: &[u32]| batch.select(indexes, ROOM).expect("they exist");
        [
            batch.id(),
            select(&[0, 3]).id(),
            select(&[0, 2, 3]).id(),
            batch
                .project(&strings(&["ab", "c"]), ROOM)
                .expect("it fits")
                .id(),
            batch
                .project(&strings(&["a", "bc"]), ROOM)
                .expect("it fits")
                .id(),
            batch.in_stream("other", ROOM).expect("a name").id(),
            select(&[0, 3])
                .in_stream("other", ROOM)
                .expect("a name")
                .id(),
        ]
    };
    assert_eq!(ids(), ids());
    assert_eq!(ids().into_iter().collect::<HashSet<_>>().len(), 7);
    let batch = sample();
    let all = batch.select(&[0, 1, 2, 3], ROOM).expect("they exist");
    assert_eq!(all.id(), batch.id());
    let derived = batch.in_stream("other", ROOM).expect("a name");
    assert_eq!(derived.identity(Span::ALL), batch.identity(Span::ALL));
}

#[test]
fn only_what_is_new_counts_and_must_have_room() {
    let batch = sample();
    let selected = batch.select(&[0], ROOM).expect("it exists");
    assert_eq!(selected.own_bytes(), size_of::<Slice>());
    let projected = batch.project(&strings(&["id"]), ROOM).expect("it fits");
    let entries = 2 * (size_of::<Slice>() + ENTRY_BYTES);
    assert!(projected.own_bytes() > entries);
    let long = [("id".to_owned(), "x".repeat(20 << 20))];
    let too_large = Some(DeriveError::TooLarge(DERIVED_BYTES_MAX));
    assert_eq!(batch.rename(&long, ROOM).err(), too_large);

    let room = projected.own_bytes();
    assert!(batch.project(&strings(&["id"]), room).is_ok());
    for room in [0, entries, room - 1] {
        let too_large = Some(DeriveError::TooLarge(room));
        assert_eq!(batch.project(&strings(&["id"]), room).err(), too_large);
    }
    assert!(batch.in_stream("other", entries).is_ok());
    let too_large = Some(DeriveError::TooLarge(entries - 1));
    assert_eq!(batch.in_stream("other", entries - 1).err(), too_large);
    let empty = batch_of(&[&[]]);
    let room = empty.project(&[], ROOM).expect("it fits").own_bytes();
    assert!(empty.project(&[], room).is_ok());
    let too_large = Some(DeriveError::TooLarge(room - 1));
    assert_eq!(empty.project(&[], room - 1).err(), too_large);
    let room = size_of::<Slice>();
    assert!(batch.select(&[0, 1, 2], room).is_ok(), "they lie together");
    let too_large = Some(DeriveError::TooLarge(room));
    assert_eq!(batch.select(&[0, 2], room).err(), too_large);
}

#[test]
fn names_are_taken_in_their_order_and_once_however_many_there_are() {
    let batch = sample();
    let names = strings(&["n", "id", "n"]);
    let projected = batch.project(&names, ROOM).expect("it fits");
    let once = batch.project(&names[..2], ROOM).expect("it fits");
    assert_eq!(fields(&projected), fields(&once));
    let mut names: Vec<String> = (2..NAMES_MAX).map(|name| name.to_string()).collect();
    names.extend(strings(&["n", "id"]));
    let projected = batch.project(&names, ROOM).expect("it fits");
    assert_eq!(fields(&projected), fields(&once));
    names.push("x".to_owned());
    let too_many = Some(DeriveError::TooManyNames(NAMES_MAX + 1));
    assert_eq!(batch.project(&names, ROOM).err(), too_many);
    assert_eq!(batch.without(&names, ROOM).err(), too_many);
    let pairs: Vec<_> = names
        .iter()
        .map(|name| (name.clone(), String::new()))
        .collect();
    assert_eq!(batch.rename(&pairs, ROOM).err(), too_many);
}

#[test]
fn a_selection_is_bounded_and_pays_for_what_it_repeats() {
    let batch = sample();
    let all_over = vec![0; SELECTED_MAX];
    let once = batch.select(&[3], ROOM).expect("it exists").own_bytes();
    let twice = batch.select(&[3, 3], ROOM).expect("it exists");
    let bytes = r#"d{"id":"d","n":4,"x.y":"z"}"#.len();
    assert_eq!(twice.own_bytes(), 2 * (once + bytes));
    assert_eq!(twice.keys(Span::ALL), ["d", "d"]);
    let turned = batch.select(&[3, 2, 1, 0], ROOM).expect("they exist");
    assert_eq!(turned.own_bytes(), 4 * once, "none is there twice");
    assert!(batch.select(&all_over, ROOM).is_ok());
    let room = all_over.len() * size_of::<Slice>() + 1_000;
    let too_large = Some(DeriveError::TooLarge(room));
    assert_eq!(batch.select(&all_over, room).err(), too_large);
    let too_many = DeriveError::TooMany {
        count: SELECTED_MAX + 1,
        len: 4,
        max: SELECTED_MAX,
    };
    let one_more = vec![9; SELECTED_MAX + 1];
    assert_eq!(batch.select(&one_more, ROOM).err(), Some(too_many));

    let items: Vec<String> = (0..=SELECTED_MAX)
        .map(|n| format!("{{\"id\":{n}}}"))
        .collect();
    let items: Vec<&str> = items.iter().map(String::as_str).collect();
    let large = batch_of(&[&items]);
    let all: Vec<u32> = (0..large.len()).collect();
    let selected = large.select(&all, size_of::<Slice>());
    assert_eq!(selected.map(|selected| selected.len()), Ok(large.len()));
}
