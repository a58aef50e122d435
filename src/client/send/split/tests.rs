//! Tests of the splitter with inputs in pieces of any size.
//!
//! Run by `cargo test`. **Invariant**: every input is read in several chunk sizes, down to one byte.

use proptest::prelude::*;

use super::*;

/// Returns at most `chunk` bytes per read.
struct Drip<'a>(&'a [u8], usize);

impl Read for Drip<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let len = self.1.min(into.len()).min(self.0.len());
        into[..len].copy_from_slice(&self.0[..len]);
        self.0 = &self.0[len..];
        Ok(len)
    }
}

/// The texts of the items, and how the input ended.
fn split(input: &[u8], chunk: usize) -> (Vec<String>, Result<(), String>) {
    let mut splitter = Splitter::new(Drip(input, chunk));
    let mut items = Vec::new();
    loop {
        match splitter.next_piece() {
            Ok(Some(Piece::Item(text))) => {
                items.push(String::from_utf8(text.to_vec()).expect("checked UTF-8"));
            }
            Ok(Some(Piece::TooLarge { at, bytes })) => {
                items.push(format!("{bytes} bytes at {}:{}", at.line, at.column));
            }
            Ok(None) => {
                assert_eq!(splitter.consumed(), input.len() as u64);
                return (items, Ok(()));
            }
            Err(error) => return (items, Err(error.to_string())),
        }
    }
}

fn check(input: &[u8], items: &[&str]) {
    for chunk in [1, 2, 3, 7, usize::MAX] {
        let (found, end) = split(input, chunk);
        assert_eq!(
            end,
            Ok(()),
            "chunks of {chunk}: {:?}",
            String::from_utf8_lossy(input)
        );
        assert_eq!(found, items, "chunks of {chunk}");
    }
}

fn check_fault(input: &[u8], items_before: usize, expected: &str) {
    for chunk in [1, 2, usize::MAX] {
        let (items, end) = split(input, chunk);
        assert_eq!(
            end,
            Err(expected.to_owned()),
            "{:?}",
            String::from_utf8_lossy(input)
        );
        assert_eq!(
            items.len(),
            items_before,
            "{:?}",
            String::from_utf8_lossy(input)
        );
    }
}

#[test]
fn one_object_an_array_and_ndjson_give_the_same_items() {
    check(br#"{"a":1}"#, &[r#"{"a":1}"#]);
    check(b"{\"a\":1}\n{\"b\":2}\n", &[r#"{"a":1}"#, r#"{"b":2}"#]);
    check(b"\n\r\n {\"a\":1} {\"b\":2}", &[r#"{"a":1}"#, r#"{"b":2}"#]);
    check(
        b" [ {\"a\":1} ,\n{\"b\":2}\n] \n",
        &[r#"{"a":1}"#, r#"{"b":2}"#],
    );
    check(b"\xef\xbb\xbf[{}]", &["{}"]);
    check(b"\xef\xbb\xbf{}\n{}", &["{}", "{}"]);
    check(b"[]", &[]);
    check(b" [ \n ]\n", &[]);
    check(b"", &[]);
    check(b" \n\t\r\n", &[]);
}

#[test]
fn an_item_is_cut_out_byte_for_byte() {
    let odd = r#"{ "}{][\"\\": "\\\"}", "n": 1.10, "m":12345678901234567890,
        "deep": [[{"x": {}}], []], "ü": "\ud83d\ude00 😀" }"#;
    check(odd.as_bytes(), &[odd]);
    check(format!("[{odd},{odd}]").as_bytes(), &[odd, odd]);
}

#[test]
fn a_fault_is_named_by_its_place_in_the_input() {
    check_fault(
        b"{\"a\":1}\n{\"a\":}\n",
        1,
        "line 2, column 6: expected value",
    );
    check_fault(
        b"{\"a\":1\n{\"a\":2}\n{\"a\":3}\n",
        0,
        "line 2, column 1: expected `,` or `}`",
    );
    check_fault(
        b"[{\"a\":1},\n  {a:2}]",
        1,
        "line 2, column 4: key must be a string",
    );
    check_fault(b"{\"a\":1]", 0, "line 1, column 7: expected `,` or `}`");
    // For a control character, serde_json reports the position before it.
    check_fault(
        b"{}\n{\"a\":\n\"\x01\"}",
        1,
        "line 3, column 1: control character (\\u0000-\\u001F) found while parsing a string",
    );
    check_fault(
        b"{}\n  {\"a\":\n\"ok\xff\"}",
        1,
        "line 3, column 4: invalid UTF-8",
    );
    check_fault(b"  {\"\xff\":1}", 0, "line 1, column 5: invalid UTF-8");
}

#[test]
fn an_input_that_ends_early_says_where_it_began() {
    check_fault(
        b"{}\n {\"a\":{\"b\":1}\n",
        1,
        "line 2, column 2: the object that begins here has no end",
    );
    check_fault(
        b"{\"a\":\"x",
        0,
        "line 1, column 1: the object that begins here has no end",
    );
    check_fault(
        b"[{}",
        1,
        "line 1, column 4: the input ends before the array is closed with `]`",
    );
    check_fault(
        b"[{},\n",
        1,
        "line 2, column 1: the input ends before the array is closed with `]`",
    );
    check_fault(
        b"[",
        0,
        "line 1, column 2: the input ends before the array is closed with `]`",
    );
}

#[test]
fn what_is_no_object_is_refused() {
    check_fault(b"1", 0, "line 1, column 1: expected a JSON object, `{…}`");
    check_fault(
        b"{}\n\"x\"",
        1,
        "line 2, column 1: expected a JSON object, `{…}`",
    );
    check_fault(
        b"{},{}",
        1,
        "line 1, column 3: expected a JSON object, `{…}`",
    );
    check_fault(
        b"[[{}]]",
        0,
        "line 1, column 2: expected a JSON object, `{…}`",
    );
    check_fault(
        b"[{},null]",
        1,
        "line 1, column 5: expected a JSON object, `{…}`",
    );
    check_fault(
        b"[{} {}]",
        1,
        "line 1, column 5: expected `,` or `]` after an item of the array",
    );
    check_fault(
        b"[{},]",
        1,
        "line 1, column 5: expected an object after `,`, found the array's end",
    );
    check_fault(
        b"[{}] {}",
        1,
        "line 1, column 6: nothing may follow the array",
    );
}

/// An object of exactly `len` bytes.
fn object_of(len: usize) -> String {
    format!(
        "{{\"t\":\"{}\"}}",
        "é".repeat((len - 8) / 2) + &"x".repeat(len % 2)
    )
}

#[test]
fn an_item_that_no_request_can_carry_is_skipped_and_the_rest_is_found() {
    let (fits, larger, huge) = (
        object_of(ITEM_BYTES_MAX),
        object_of(ITEM_BYTES_MAX + 1),
        object_of(9_000_000),
    );
    let input = format!("{{}}\n{larger}\n{fits}\n  {huge}\n{{\"last\":true}}");
    for chunk in [1_000, usize::MAX] {
        let (items, end) = split(input.as_bytes(), chunk);
        assert_eq!(end, Ok(()));
        let expected = [
            "{}",
            "1048577 bytes at 2:1",
            &fits,
            "9000000 bytes at 4:3",
            "{\"last\":true}",
        ];
        assert!(items == expected, "items are not what was expected");
    }
}

#[test]
fn a_lost_brace_in_a_large_input_is_named_at_once() {
    let input = "{\"a\":1}\n{\"a\":2\n".to_owned() + &"{\"a\":3}\n".repeat(400_000);
    let expected = "line 3, column 1: expected `,` or `}`";
    assert_eq!(
        split(input.as_bytes(), usize::MAX).1,
        Err(expected.to_owned())
    );
}

#[test]
fn memory_stays_small_whatever_comes() {
    let mut splitter = Splitter::new(Drip(&[], 1));
    let huge = object_of(30_000_000);
    let input = "{\"a\":1}\n".repeat(100_000) + &huge + &" ".repeat(3_000_000);
    splitter.input = Drip(input.as_bytes(), usize::MAX);
    while splitter.next_piece().expect("good input").is_some() {
        assert!(splitter.buffer.capacity() <= 3 * ITEM_BYTES_MAX);
    }
    assert!(splitter.buffer.capacity() <= 3 * ITEM_BYTES_MAX);
}

#[test]
fn depth_does_not_exhaust_the_stack() {
    let deep = format!("{{\"a\":{}1{}}}", "[".repeat(200_000), "]".repeat(200_000));
    check_once(&deep);
    let deep = format!("{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
    check_once(&deep);
}

fn check_once(object: &str) {
    assert!(split(object.as_bytes(), usize::MAX) == (vec![object.to_owned()], Ok(())));
}

#[test]
fn a_failing_input_is_reported() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("cable pulled"))
        }
    }
    let error = Splitter::new(Failing)
        .next_piece()
        .expect_err("an error")
        .to_string();
    assert_eq!(error, "cannot read the input: cable pulled");
}

/// JSON objects whose strings contain everything that could confuse a parser of braces.
fn objects() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<i64>().prop_map(|number| number.to_string()),
        any::<String>().prop_map(|text| serde_json::to_string(&text).expect("a string")),
        "[\\]\\[{}\"\\\\:,]{0,8}".prop_map(|text| serde_json::to_string(&text).expect("a string")),
    ];
    let value = leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4)
                .prop_map(|all| format!("[{}]", all.join(" ,"))),
            inner.prop_map(|one| format!("{{\"k\" :\n{one} }}")),
        ]
    });
    value.prop_map(|value| format!("{{\"v\":{value}}}"))
}

proptest! {
    #[test]
    fn what_was_joined_is_split_again(
        items in prop::collection::vec(objects(), 0..6),
        chunk in 1..40usize,
    ) {
        let lines: String = items.iter().map(|item| format!("{item}\n")).collect();
        prop_assert_eq!(split(lines.as_bytes(), chunk), (items.clone(), Ok(())));
        let array = format!("[{}]", items.join(",\n"));
        prop_assert_eq!(split(array.as_bytes(), chunk), (items, Ok(())));
    }

    #[test]
    fn no_input_panics(input in "[\\[\\]{}\",:\\\\a1 \n]{0,60}", chunk in 1..10usize) {
        let _ = split(input.as_bytes(), chunk);
    }

    #[test]
    fn no_bytes_panic(input in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = split(&input, 3);
        let _ = split(&[b"{\"".as_slice(), &input].concat(), 3);
    }
}
