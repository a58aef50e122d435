//! Unit tests of `frame.rs`.

use super::*;
use base::order::Epoch;

fn check(frame: &Frame, event: &str) {
    assert_eq!(String::from_utf8_lossy(&frame.event()), event);
    let json = event
        .lines()
        .find_map(|line| line.strip_prefix("data: "))
        .expect("a data line");
    assert_eq!(frame.json(), json.as_bytes());
    serde_json::from_str::<serde_json::Value>(json).expect("JSON");
    let chunk = format!("{:x}\r\n{event}\r\n", event.len());
    assert_eq!(frame.chunk(), chunk.as_bytes());
    assert!(frame.message().ends_with(json.as_bytes()));
}

#[test]
fn the_length_of_a_message_is_in_its_frame() {
    let about = |length: usize| {
        let json = "x".repeat(length);
        let chunk = [ROOM, &json].concat();
        let message = Frame::of(chunk, ROOM.len()..ROOM.len() + length).message();
        assert!(message.ends_with(json.as_bytes()));
        message[..message.len() - length].to_vec()
    };
    assert_eq!(about(125), [0x81, 125]);
    assert_eq!(about(126), [0x81, 126, 0, 126]);
    assert_eq!(about(65_535), [0x81, 126, 0xff, 0xff]);
    assert_eq!(about(65_536), [0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]);
}

#[test]
fn frames_are_events_with_the_message_in_one_line() {
    let id = Position {
        epoch: Epoch::new(3),
        seq: ChangeSeq::new(42),
    };
    let changes = [
        Change::updated(
            ChangeSeq::new(41),
            "a\n\"",
            r#"{"x.y":1.10}"#,
            "2026-01-31T12:00:00.000Z",
        ),
        Change::updated(ChangeSeq::new(42), "b", "{}", "2026-01-31T12:00:00.000Z"),
    ];
    check(
        &Frame::items(FrameKind::Update, "or\"ders", id, changes.iter()),
        concat!(
            "event: update\nid: 3:42\ndata: ",
            r#"{"type":"update","stream":"or\"ders","id":"3:42","items":["#,
            r#"{"key":"a\n\"","fields":{"x.y":1.10},"updated_at":"2026-01-31T12:00:00.000Z","seq":41},"#,
            r#"{"key":"b","fields":{},"updated_at":"2026-01-31T12:00:00.000Z","seq":42}]}"#,
            "\n\n"
        ),
    );
    check(
        &Frame::items(FrameKind::Snapshot { complete: true }, "s", id, [].iter()),
        concat!(
            "event: snapshot\nid: 3:42\ndata: ",
            r#"{"type":"snapshot","stream":"s","id":"3:42","items":[],"complete":true}"#,
            "\n\n"
        ),
    );
    check(
        &Frame::remove(
            "s",
            id,
            [Change::removed(ChangeSeq::new(42), "\u{7}")].iter(),
        ),
        concat!(
            "event: remove\nid: 3:42\ndata: ",
            r#"{"type":"remove","stream":"s","id":"3:42","keys":["\u0007"]}"#,
            "\n\n"
        ),
    );
    let bye = Frame::bye();
    let message: serde_json::Value = serde_json::from_slice(&bye.json()).expect("JSON");
    let retry_ms = &message["retry_ms"];
    check(
        &bye,
        &format!(
            "retry: {retry_ms}\nevent: bye\ndata: {{\"type\":\"bye\",\"retry_ms\":{retry_ms}}}\n\n"
        ),
    );
}
