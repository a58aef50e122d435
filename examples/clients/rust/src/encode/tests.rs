//! Values as JSON.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use super::*;

#[derive(Serialize)]
enum Kind {
    Plain,
    One(f64),
    Two(u8, u8),
    Named { at: f64 },
}

#[derive(Serialize)]
struct Order {
    id: u64,
    raw: Box<RawValue>,
    lines: Vec<Kind>,
    counts: BTreeMap<u8, Option<&'static str>>,
    nothing: (),
}

fn order(lines: Vec<Kind>) -> Order {
    let raw = "{ \"a b\" : [1.10,\n 1e400, \"\\\"\\\\ \\ud83d\\ude00\"] }";
    Order {
        id: u64::MAX,
        raw: RawValue::from_string(raw.to_owned()).expect("JSON"),
        lines,
        counts: BTreeMap::from([(7, Some("ä\n")), (8, None)]),
        nothing: (),
    }
}

#[test]
fn values_are_written_as_serde_json_does_and_raw_ones_to_the_digit() {
    let lines = || {
        let named = Kind::Named { at: -0.5 };
        vec![Kind::Plain, Kind::One(1e300), Kind::Two(1, 2), named]
    };
    let text = encode(&order(lines())).expect("an item");
    let other = serde_json::to_string(&order(lines())).expect("JSON");
    let raw = "{\"a b\":[1.10,1e400,\"\\\"\\\\ \\ud83d\\ude00\"]}";
    assert!(text.get().contains(raw), "{text}");
    let compact = other.replace("{ \"a b\" : [1.10,\n 1e400, ", "{\"a b\":[1.10,1e400,");
    assert_eq!(text.get(), compact.replace("\"] }", "\"]}"));
}

#[test]
fn what_json_cannot_hold_is_an_error_with_its_path() {
    let message = |lines| encode(&order(lines)).expect_err("an error").message;
    let wrong = message(vec![Kind::Plain, Kind::One(f64::NAN)]);
    assert!(wrong.contains("\"lines[1].One\""), "{wrong}");
    let wrong = message(vec![Kind::Named { at: f64::INFINITY }]);
    assert!(
        wrong.contains("\"lines[0].at\"") && wrong.contains("inf"),
        "{wrong}"
    );
    let half = RawValue::from_string("[\"\\ud83d x\"]".to_owned()).expect("JSON");
    let wrong = encode(&BTreeMap::from([("note", half)])).expect_err("an error");
    assert!(
        wrong.message.contains("\"note\"") && wrong.message.contains("\\ud83d"),
        "{wrong}"
    );
    assert_eq!(wrong.code, code::INVALID_PAYLOAD);
}

#[test]
fn a_moment_is_iso_8601_in_utc() {
    for (seconds, nanoseconds, text) in [
        (0, 0, "1970-01-01T00:00:00Z"),
        (951_782_400, 120_000_000, "2000-02-29T00:00:00.12Z"),
        (1_772_361_000, 0, "2026-03-01T10:30:00Z"),
        (4_102_444_799, 1, "2099-12-31T23:59:59.000000001Z"),
    ] {
        let at = UNIX_EPOCH + Duration::new(seconds, nanoseconds);
        assert_eq!(encode(&at).expect("a text").get(), format!("{text:?}"));
    }
}
