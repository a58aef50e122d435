//! Tests of the parser with whole and split streams.
//!
//! Run by `cargo test`. **Invariant**: every case is parsed whole and byte by byte.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn events<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Event> {
    let (mut parser, mut events) = (Parser::default(), Vec::new());
    for piece in pieces {
        let pushed = parser.push(piece, |event| events.push(event));
        pushed.expect("nothing is too long");
    }
    events
}

#[track_caller]
fn check(text: &str, expected: &[(&str, &str, &str)]) {
    let expected: Vec<_> = expected
        .iter()
        .map(|(kind, data, id)| Event {
            kind: (*kind).to_owned(),
            data: (*data).to_owned(),
            id: (*id).to_owned(),
        })
        .collect();
    assert_eq!(events([text.as_bytes()]), expected, "{text:?}");
    assert_eq!(events(text.as_bytes().chunks(1)), expected, "{text:?}");
}

#[test]
fn an_event_has_a_type_data_and_an_id() {
    check(
        "event: update\nid: 7:42\ndata: {\"a\": 1}\n\n",
        &[("update", "{\"a\": 1}", "7:42")],
    );
    check(
        "data:x\n\ndata:  y\n\n",
        &[("message", "x", ""), ("message", " y", "")],
    );
    check(
        "data: a\ndata\ndata: b: c\n\n",
        &[("message", "a\n\nb: c", "")],
    );
    check("data\n\n", &[("message", "", "")]);
}

#[test]
fn lines_end_with_each_of_the_three_line_breaks() {
    for end in ["\n", "\r", "\r\n"] {
        let text = "event: e§data: 1§data: 2§§data: 3§§".replace('§', end);
        check(&text, &[("e", "1\n2", ""), ("message", "3", "")]);
    }
    check(
        "data: 1\r\ndata: 2\r\n\rdata: 3\n\r\n",
        &[("message", "1\n2", ""), ("message", "3", "")],
    );
}

#[test]
fn comments_unknown_fields_and_events_without_data_say_nothing() {
    check(
        ": hello\n\nfoo: bar\nDATA: x\n data: x\n\nevent: e\n\ndata: x\n\n",
        &[("message", "x", "")],
    );
    check("", &[]);
    check("data: the end is missing\n", &[]);
    check("data: the end is missing", &[]);
}

#[test]
fn the_last_id_stays() {
    check(
        "id: 1\n\ndata: a\n\nid: 2\ndata: b\n\nid: n\0l\ndata: c\n\nid\ndata: d\n\n",
        &[
            ("message", "a", "1"),
            ("message", "b", "2"),
            ("message", "c", "2"),
            ("message", "d", ""),
        ],
    );
}

#[test]
fn the_mark_at_the_beginning_is_skipped_once() {
    check("\u{feff}data: x\n\n", &[("message", "x", "")]);
    check("\u{feff}\u{feff}data: x\n\n", &[]);
    check("\n\u{feff}data: x\n\n", &[]);
}

#[test]
fn only_digits_change_the_pause() {
    let mut parser = Parser::default();
    let mut check = |text: &str, expected: Option<u64>| {
        parser.push(text.as_bytes(), |_| {}).expect("short");
        assert_eq!(
            parser.retry(),
            expected.map(Duration::from_millis),
            "{text:?}"
        );
    };
    check(
        "retry: +1\nretry: 1s\nretry:\nretry: 99999999999999999999999\n",
        None,
    );
    check("retry: 1500\n", Some(1500));
    check("retry: x\n", Some(1500));
    check("retry:0\n", Some(0));
}

#[test]
fn broken_text_is_repaired_and_nothing_more() {
    let broken = b"data: a\xff\xc3\n\n";
    let expected = "a\u{fffd}\u{fffd}";
    assert_eq!(events([&broken[..]])[0].data, expected);
    assert_eq!(events(broken.chunks(1))[0].data, expected);
}

#[test]
fn what_has_no_end_is_refused() {
    let check = |text: &str, expected: Result<(), TooLong>| {
        for size in [1, 3, text.len()] {
            let mut parser = Parser::new(20);
            let mut pieces = text.as_bytes().chunks(size);
            let done = pieces.try_for_each(|piece| parser.push(piece, |_| {}));
            assert_eq!(done, expected, "{text:?}");
        }
    };
    check("data: 345678901234567\n", Err(TooLong(20)));
    check("data: 34567890123456", Ok(()));
    check("data: 34567890123456\ndata: 5678\n", Ok(()));
    check("data: 34567890123456\ndata: 56789\n", Err(TooLong(20)));
    check("data: 34567890123456\n\ndata: 5678\n", Ok(()));
    check(&": a comment\n".repeat(10), Ok(()));
}

/// A reference parser for a whole text.
fn reference(text: &str) -> Vec<Event> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut id = String::new();
    let mut events = Vec::new();
    let mut lines: Vec<&str> = Vec::new();
    // The text after the last line break is not a line.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    for line in whole.split('\n') {
        if !line.is_empty() {
            lines.push(line);
            continue;
        }
        let fields: Vec<(&str, &str)> = lines
            .drain(..)
            .map(|line| {
                let (name, value) = line.split_once(':').unwrap_or((line, ""));
                (name, value.strip_prefix(' ').unwrap_or(value))
            })
            .collect();
        let all = |wanted: &str| {
            let fields = fields.iter().filter(|field| field.0 == wanted);
            fields.map(|field| field.1).collect::<Vec<_>>()
        };
        if let Some(last) = all("id").iter().rfind(|id| !id.contains('\0')) {
            id = (*last).to_owned();
        }
        let kind = all("event").last().copied().unwrap_or_default();
        if !all("data").is_empty() {
            events.push(Event {
                kind: if kind.is_empty() { "message" } else { kind }.to_owned(),
                data: all("data").join("\n"),
                id: id.clone(),
            });
        }
    }
    events
}

proptest! {
    #[test]
    fn any_cuts_give_the_same_events(
        parts in proptest::collection::vec(
            // Likely parts are listed several times.
            proptest::sample::select(vec![
                "\n", "\n", "\n", "\n", "\r\n", "\r\n", "\r", "\r", "data: ", "data: ", "data: ", "data",
                "event:", "id: ", "retry: 5", ": ", "x", "x", "é😀", "\u{feff}", "\0", " ",
            ]),
            0..60,
        ),
        cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..12),
    ) {
        let text = parts.concat();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|cut| &text.as_bytes()[cut[0]..cut[1]]);
        let expected = reference(&text);
        prop_assert_eq!(&events(pieces), &expected);
        prop_assert_eq!(&events(text.as_bytes().chunks(1)), &expected);
    }
}
