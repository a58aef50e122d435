//! Unit tests of `batch/read.rs`.

use super::super::tests::batch;
use super::*;

const PARTS: [&[&str]; 2] = [
    &[
        r#"{"id":"a","n":1.10,"t":"x\ny"}"#,
        r#"{"id":"b","n":null}"#,
    ],
    &[r#"{"id":"c","n":"7","t":[1,2]}"#],
];

#[test]
fn columns_and_ranges() {
    let batch = batch(&PARTS);
    let span = |start, count| Span { start, count };
    assert_eq!(batch.keys(Span::ALL), ["a", "b", "c"]);
    assert_eq!(batch.keys(span(1, 1)), ["b"]);
    assert_eq!(batch.keys(span(1, u32::MAX)), ["b", "c"]);
    assert_eq!(batch.keys(span(9, 3)), [""; 0]);
    assert_eq!(batch.streams(Span::ALL), ["s0", "s0", "s1"]);
    assert_eq!(batch.times(span(2, 1)), [Unix::from_ms(1_001)]);
    assert_eq!(batch.field_names(), ["id", "n", "t"]);
    assert_eq!(batch.field(0, "n").as_deref(), Some("1.10"));
    assert_eq!(batch.field(1, "n").as_deref(), Some("null"));
    assert_eq!(batch.field(1, "t"), None);
    assert_eq!(batch.field(3, "n"), None);
    let texts = batch.texts("t", Span::ALL);
    let texts: Vec<_> = texts.iter().map(Option::as_deref).collect();
    assert_eq!(texts, [Some("x\ny"), None, Some("[1,2]")]);
    let numbers = batch.numbers("n", Span::ALL);
    assert_eq!(numbers[0], 1.1);
    assert!(numbers[1].is_nan() && numbers[2].is_nan());
}

#[test]
fn json_in_every_form() {
    let batch = batch(&PARTS);
    let last = Span { start: 2, count: 5 };
    let none = Span { start: 3, count: 5 };
    assert_eq!(
        batch.json(Span { start: 1, count: 2 }, Form::FieldLines),
        "{\"id\":\"b\",\"n\":null}\n{\"id\":\"c\",\"n\":\"7\",\"t\":[1,2]}\n"
    );
    assert_eq!(
        batch.json(last, Form::FieldArray),
        r#"[{"id":"c","n":"7","t":[1,2]}]"#
    );
    assert_eq!(batch.json(none, Form::FieldArray), "[]");
    assert_eq!(batch.json(none, Form::ItemLines), "");
    assert_eq!(
        batch.json(last, Form::ItemArray),
        concat!(
            r#"[{"stream":"s1","key":"c","request_id":"00000000-0000-0000-0000-000000000002","#,
            r#""received_at":"1970-01-01T00:00:01.001Z","place":[2,0],"fields":{"id":"c","n":"7","t":[1,2]}}]"#
        )
    );
}
