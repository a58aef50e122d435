//! `cursors`: a line with an id to resume from, one with a query, one with names, and an event stream.
//!
//! An id, a name and an event are read as what was written, and nothing that is no id is taken for one. Events do not
//! depend on where the stream is cut, and are those that the standard's sentences give.

use std::fmt::Write as _;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use base::order::{ChangeSeq, Epoch};
use client::tail::sse::{Event, Parser};
use http::live::wanted;
use http::paging::by_name;
use live::{Frame, FrameKind};
use pool::Position;
use pool::changes::Change;

use crate::request::line;

/// Reads where somebody was, and what somebody asks for.
pub(super) fn cursors(input: &[u8]) {
    let (id, rest) = line(input);
    let (query, rest) = line(rest);
    let (names, stream) = line(rest);
    let (id, query) = (String::from_utf8_lossy(id), String::from_utf8_lossy(query));
    let names = String::from_utf8_lossy(names);
    position(&id);
    names_wanted(&query, &names);
    pages(&names, &query);
    events(stream);
    pushed(&id, &query, stream);
}

/// Two numbers, and what is displayed of them is what was read.
fn position(text: &str) {
    let digits = |text: &str| !text.is_empty() && text.chars().all(|one| one.is_ascii_digit());
    let number = |text: &str| digits(text).then(|| text.parse::<u64>().ok()).flatten();
    let expected = match text.split(':').collect::<Vec<_>>()[..] {
        [epoch, seq] => number(epoch).zip(number(seq)),
        _ => None,
    };
    let found = Position::parse(text);
    assert_eq!(
        found.map(|found| (found.epoch.get(), found.seq.get())),
        expected
    );
    if let Some(found) = found {
        assert_eq!(Position::parse(&found.to_string()), Some(found));
    }
}

/// Names are found as they were meant, however they are put into a query.
fn names_wanted(query: &str, names: &str) {
    let found = wanted::streams(query).unwrap_or_default();
    assert!(found.iter().all(|name| !name.is_empty()));
    let names: Vec<&str> = names.split(' ').filter(|name| !name.is_empty()).collect();
    let encode = |name: &&str| utf8_percent_encode(name, NON_ALPHANUMERIC).to_string();
    let encoded: Vec<String> = names.iter().map(encode).collect();
    let expected =
        (!names.is_empty()).then(|| names.iter().map(|name| (*name).to_owned()).collect());
    let together = format!("x=streams=&streams={}&since=1:2", encoded.join(","));
    assert_eq!(wanted::streams(&together), expected);
    let apart: String = encoded
        .iter()
        .map(|name| format!("streams={name}&"))
        .collect();
    assert_eq!(wanted::streams(&apart), expected);
}

/// Whoever follows `next` sees everything once, in order; a cursor that nobody gave leads to what follows it.
fn pages(names: &str, cursor: &str) {
    let mut all: Vec<String> = names.split(' ').map(str::to_owned).collect();
    all.retain(|name| !name.is_empty());
    all.sort_unstable();
    all.dedup();
    let later: Vec<&String> = all.iter().filter(|name| name.as_str() > cursor).collect();
    for limit in 1..=3 {
        let mut seen = Vec::new();
        let mut after = cursor;
        loop {
            let (page, next) = by_name(&all, String::as_str, after, limit);
            assert!(page.len() <= limit);
            seen.extend(page);
            match next {
                Some(next) => after = next,
                None => break,
            }
            assert!(seen.len() < all.len(), "there are more");
        }
        assert_eq!(seen, later);
    }
}

/// Whole, a byte at a time and in pieces, a stream has the events that the standard says it has.
fn events(stream: &[u8]) {
    let expected = reference(stream);
    let piece = usize::from(stream.first().copied().unwrap_or_default() % 16) + 2;
    for piece in [stream.len().max(1), 1, piece] {
        assert_eq!(read(stream.chunks(piece)), expected);
    }
}

fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<Event> {
    let mut parser = Parser::default();
    let mut events = Vec::new();
    for piece in pieces {
        let read = parser.push(piece, |event| events.push(event));
        read.expect("an input is shorter than an event may be");
    }
    events
}

/// The standard, sentence by sentence, on the whole text.
fn reference(stream: &[u8]) -> Vec<Event> {
    let text = String::from_utf8_lossy(stream);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    // What no line feed ends is no line yet.
    let (lines, _) = text.rsplit_once('\n').unwrap_or(("", ""));
    let mut events = Vec::new();
    let (mut kind, mut data, mut id) = (String::new(), Vec::new(), String::new());
    if !text.contains('\n') {
        return events;
    }
    for line in lines.split('\n') {
        if line.is_empty() {
            let kind = std::mem::take(&mut kind);
            let lines = std::mem::take(&mut data);
            if !lines.is_empty() {
                events.push(Event {
                    kind: if kind.is_empty() {
                        "message".to_owned()
                    } else {
                        kind
                    },
                    data: lines.join("\n"),
                    id: id.clone(),
                });
            }
            continue;
        }
        let (field, value) = match line.find(':') {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, ""),
        };
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => kind = value.to_owned(),
            "data" => data.push(value.to_owned()),
            "id" if !value.contains('\0') => id = value.to_owned(),
            _ => {}
        }
    }
    events
}

/// What is pushed to renderers is one event each, whose id leads back and whose data is JSON with the texts in it.
fn pushed(id: &str, stream: &str, texts: &[u8]) {
    let numbers = Position::parse(id).unwrap_or(Position {
        epoch: Epoch::new(1),
        seq: ChangeSeq::new(7),
    });
    let texts = String::from_utf8_lossy(texts);
    let keys: Vec<&str> = texts.split(',').take(8).collect();
    let mut fields = String::from("{");
    for (number, key) in keys.iter().enumerate() {
        let comma = if number == 0 { "" } else { "," };
        let value = serde_json::to_string(key).expect("a text");
        write!(fields, "{comma}\"{number}\":{value}").expect("room");
    }
    fields.push('}');
    let changes: Vec<Change> = keys
        .iter()
        .map(|key| Change::updated(numbers.seq, key, &fields, "2026-01-31T12:00:00.000Z"))
        .collect();
    let gone: Vec<Change> = keys
        .iter()
        .map(|key| Change::removed(numbers.seq, key))
        .collect();
    for frame in frames(stream, numbers, &texts, &changes) {
        let message = sent(&frame, numbers);
        if let Some(items) = message["items"].as_array() {
            assert!(items.iter().map(|item| &item["key"]).eq(&keys));
            let whole: Value = serde_json::from_str(&fields).expect("JSON");
            assert!(items.iter().all(|item| item["fields"] == whole));
        }
        if let Some(name) = message.get("stream") {
            assert_eq!(name, stream);
        }
        if let Some(reason) = message.get("reason") {
            assert_eq!(reason, &*texts);
        }
    }
    let message = sent(&Frame::remove(stream, numbers, gone.iter()), numbers);
    assert!(message["keys"].as_array().expect("keys").iter().eq(&keys));
}

/// One frame of each kind that has texts or items in it.
fn frames(stream: &str, id: Position, text: &str, changes: &[Change]) -> [Frame; 6] {
    let time = "2026-01-31T12:00:00.000Z";
    let whole = FrameKind::Snapshot { complete: true };
    [
        Frame::items(FrameKind::Update, stream, id, changes.iter()),
        Frame::items(whole, stream, id, changes.iter()),
        Frame::reset(id, text),
        Frame::stale(stream, id, time, id.seq.get()),
        Frame::fresh(stream, id),
        Frame::heartbeat(id, time, text.is_empty()),
    ]
}

/// The message that a renderer reads.
fn sent(frame: &Frame, id: Position) -> Value {
    let event = frame.event();
    let [read] = &read(event.chunks(7))[..] else {
        panic!("one event: {event:?}");
    };
    assert_eq!(read.data.as_bytes(), frame.json());
    assert_eq!(Position::parse(&read.id), Some(id));
    let message: Value = serde_json::from_str(&read.data).expect("JSON");
    assert_eq!(message["type"], *read.kind);
    assert_eq!(message["id"], *read.id);
    message
}
