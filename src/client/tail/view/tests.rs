//! Tests of the output for messages.
//!
//! Run by `cargo test`. **Invariant**: items are from a day long past, so that their time is shown as a date.

use super::super::message;
use super::*;

const DAY: &str = "2001-02-03T04:05:06.789Z";

fn view(streams: &[&str], output: TailOutput, columns: Option<usize>) -> View {
    let options = ViewOptions {
        output,
        heartbeats: false,
        first_snapshot: true,
        count: None,
    };
    let streams: Vec<_> = streams.iter().map(|stream| (*stream).to_owned()).collect();
    View::new(options, &streams, move || columns)
}

fn show(view: &mut View, data: &str) -> Shown {
    let message = message::read(data).unwrap_or_else(|error| panic!("{data}: {error}"));
    view.show(data, &message)
}

fn item(kind: &str, key: &str, fields: &str) -> String {
    format!(
        r#"{{"type":"{kind}","stream":"orders","id":"1:2","items":[{{"key":"{key}","fields":{fields},"updated_at":"{DAY}","seq":2}}]}}"#
    )
}

#[test]
fn a_change_is_a_line() {
    let mut view = view(&["orders"], TailOutput::Table, None);
    let mut check = |data: &str, expected: &str| assert_eq!(show(&mut view, data).text, expected);
    check(
        &item("snapshot", "17", r#"{"total":1.10,"customer.name":"Ann"}"#),
        "2001-02-03    = 17  total=1.10 customer.name=Ann\n",
    );
    check(
        &item(
            "update",
            "1234",
            r#"{"note":"two words","tags":["a",{"b":null}],"e":{}}"#,
        ),
        "2001-02-03    ~ 1234  note=\"two words\" tags=[\"a\",{\"b\":null}] e={}\n",
    );
    // From here on, keys are aligned with the longest so far, but not with a very long one.
    check(&item("update", "17", "{}"), "2001-02-03    ~ 17\n");
    check(
        &item("update", "17", r#"{"a":1}"#),
        "2001-02-03    ~ 17    a=1\n",
    );
    let giant = "x".repeat(100);
    let line = format!("2001-02-03    ~ {giant}  a=1\n");
    check(&item("update", &giant, r#"{"a":1}"#), &line);
    check(
        &item("update", "17", r#"{"a":1}"#),
        "2001-02-03    ~ 17    a=1\n",
    );

    let removed = r#"{"type":"remove","stream":"orders","id":"1:3","keys":["17","1234"]}"#;
    let text = show(&mut view, removed).text;
    let lines: Vec<_> = text.lines().map(|line| &line[12..]).collect();
    assert_eq!(lines, ["  - 17", "  - 1234"]);
}

#[test]
fn the_stream_is_named_if_there_are_several() {
    let mut view = view(&["orders", "größen!"], TailOutput::Table, None);
    assert_eq!(
        show(&mut view, &item("update", "17", r#"{"a":1}"#)).text,
        "2001-02-03    orders   ~ 17  a=1\n"
    );
}

#[test]
fn values_show_what_they_are() {
    let check = |fields: &str, expected: &str| {
        let fields = RawValue::from_string(fields.to_owned()).expect("JSON");
        assert_eq!(described(&fields), expected);
    };
    check(
        r#"{"a":"7","b":7,"c":"true","d":true,"e":"","f":"2026-01-31T12:00:00.000Z","g":"null"}"#,
        r#"a="7" b=7 c="true" d=true e="" f=2026-01-31T12:00:00.000Z g="null""#,
    );
    check(
        r#"{"big":12345678901234567890,"n":1.10,"two words":1,"":2,"a=b":"c=d","é":"größe"}"#,
        r#"big=12345678901234567890 n=1.10 "two words"=1 ""=2 "a=b"="c=d" é=größe"#,
    );
    check(r#"{ "a" : [1,  2] }"#, "a=[1,  2]");
    check("{}", "");
    check("[1]", "[1]");
}

#[test]
fn nothing_that_steers_a_terminal_gets_there() {
    let evil = r"\u001b[2J\u009b\n\u202e\u0007";
    let raw = "\u{9b}2J\u{202e}\u{7f}";
    let messages = [
        item(
            "update",
            evil,
            &format!(r#"{{"{evil}":"{evil}","{raw}":"{raw}","l":["{raw}"]}}"#),
        ),
        item("snapshot", raw, "{}"),
        format!(r#"{{"type":"remove","stream":"{evil}{raw}","keys":["{evil}{raw}"]}}"#),
        format!(r#"{{"type":"stale","stream":"{evil}","updated_at":"{raw}{evil}"}}"#),
        format!(r#"{{"type":"fresh","stream":"{evil}{raw}"}}"#),
        format!(r#"{{"type":"reset","reason":"{evil}{raw}"}}"#),
        format!(r#"{{"type":"{raw}","more":"{raw}"}}"#),
    ];
    for output in [TailOutput::Table, TailOutput::Json] {
        let mut view = view(&["a", raw], output, Some(usize::MAX));
        for data in &messages {
            let shown = show(&mut view, data);
            let text = shown.text + shown.note.as_deref().unwrap_or_default();
            let lines = text.lines().collect::<Vec<_>>();
            assert!(lines.len() <= 1, "{text:?}");
            let steers = |c: char| c.is_control() || c == '\u{202e}';
            assert!(!lines.concat().contains(steers), "{text:?}");
        }
    }
}

#[test]
fn lines_are_cut_to_the_terminal() {
    let check = |line: &str, columns: usize, expected: &str| {
        let mut text = String::new();
        push_cut(line, columns, &mut text);
        assert_eq!(text, expected, "{columns}");
    };
    check("abcdef", 7, "abcdef");
    check("abcdef", 6, "abcdef");
    check("abcdef", 5, "abcd…");
    check("abcdef", 1, "…");
    check("日本語", 6, "日本語");
    check("日本語", 5, "日本…");
    check("日本語", 4, "日…");
    check("日本語", 3, "日…");
    let mut view = view(&["orders"], TailOutput::Table, Some(24));
    assert_eq!(
        show(
            &mut view,
            &item("update", "17", r#"{"total":1.10,"more":2}"#)
        )
        .text,
        "2001-02-03    ~ 17  tot…\n"
    );
}

#[test]
fn times_of_other_days_are_dates() {
    let check = |moment: &str, expected: &str| {
        assert_eq!(time(moment, "2001-02-03T23:59:59.999Z"), expected);
    };
    check(DAY, "04:05:06.789");
    check("2001-02-02T23:59:59.999Z", "2001-02-02");
}

#[test]
fn what_concerns_whole_streams_is_a_note() {
    let mut view = view(&["orders"], TailOutput::Table, None);
    let mut check = |data: &str, expected: Option<&str>| {
        let shown = show(&mut view, data);
        assert_eq!((shown.text.as_str(), shown.note.as_deref()), ("", expected));
    };
    check(
        r#"{"type":"stale","stream":"orders","updated_at":"2001-02-03T04:05:06Z","stale_after_seconds":60}"#,
        Some("orders is stale: newest data 2001-02-03T04:05:06Z (limit: 60 s)"),
    );
    check(
        r#"{"type":"fresh","stream":"orders"}"#,
        Some("orders is fresh again"),
    );
    check(
        r#"{"type":"reset","id":"2:0","reason":"the position is too old"}"#,
        Some("cannot resume; a snapshot of all items follows: the position is too old"),
    );
    check(
        r#"{"type":"heartbeat","id":"1:2","time":"2001-02-03T04:05:06Z"}"#,
        None,
    );
    check(r#"{"type":"bye","retry_ms":5}"#, None);
    check(r#"{"type":"of a later version","items":7}"#, None);
}

#[test]
fn json_is_printed_as_it_came() {
    let mut view = view(&["orders"], TailOutput::Json, None);
    let mut check = |data: &str, expected: &str| assert_eq!(show(&mut view, data).text, expected);
    for data in [
        item(
            "snapshot",
            "17",
            r#"{"total":1.10, "big":12345678901234567890,"raw":""}"#,
        ),
        r#"{ "type":"of a later version", "items":7}"#.to_owned(),
        r#"{"type":"bye"}"#.to_owned(),
    ] {
        check(&data, &format!("{data}\n"));
    }
    check("{\"type\":\n\"fresh\"}", "{\"type\": \"fresh\"}\n");
    check(r#"{"type":"heartbeat","id":"1:2"}"#, "");
    view.heartbeats = true;
    let heartbeat = r#"{"type":"heartbeat","id":"1:2"}"#;
    assert_eq!(show(&mut view, heartbeat).text, format!("{heartbeat}\n"));
}

#[test]
fn the_first_snapshot_can_be_left_out_until_it_is_complete() {
    let part = item("snapshot", "17", "{}");
    let last = r#"{"type":"snapshot","stream":"orders","id":"1:2","items":[],"complete":true}"#;
    for output in [TailOutput::Table, TailOutput::Json] {
        let mut view = view(&["orders"], output, None);
        view.first_snapshot = false;
        assert_eq!(show(&mut view, &part).text, "");
        assert_eq!(show(&mut view, last).text, "");
        // Then it is a new snapshot, because the position was lost.
        assert_ne!(show(&mut view, &part).text, "");
    }
}

#[test]
fn changes_are_counted_and_snapshots_are_not() {
    let three = format!(
        r#"{{"type":"update","stream":"orders","items":[{0},{0},{0}]}}"#,
        r#"{"key":"1","fields":{}}"#
    );
    let two = r#"{"type":"remove","stream":"orders","keys":["1","2"]}"#;
    let check = |output: TailOutput, lines: &[usize]| {
        let mut view = view(&["orders"], output, None);
        view.left = Some(4);
        assert_eq!(
            show(&mut view, &item("snapshot", "1", "{}"))
                .text
                .lines()
                .count(),
            1
        );
        for (data, lines) in [three.as_str(), two].iter().zip(lines) {
            assert!(!view.is_done());
            assert_eq!(show(&mut view, data).text.lines().count(), *lines);
        }
        assert!(view.is_done());
    };
    check(TailOutput::Table, &[3, 1]);
    check(TailOutput::Json, &[1, 1]);
}
