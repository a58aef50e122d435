//! Unit tests of `telemetry/pushes.rs`.

use super::super::{SpanKind, Trace};
use super::*;

fn open() -> (Arc<str>, Open) {
    let trace = Trace {
        id: [1; 16],
        root: [2; 8],
        caller: None,
        state: None,
        began: Instant::now(),
        began_unix_ns: 0,
    };
    ("orders".into(), trace.open("push", SpanKind::Producer))
}

#[test]
fn a_push_is_over_when_a_renderer_has_the_last_change_of_its_commit() {
    let (pushes, now) = (Pushes::default(), Instant::now());
    let push = pushes.expect(vec![open()]);
    assert!(
        pushes
            .committed(&push, |_| Some(ChangeSeq::new(7)))
            .is_empty()
    );
    assert!(pushes.pushed("orders", ChangeSeq::new(6), now).is_empty());
    assert!(pushes.pushed("other", ChangeSeq::new(9), now).is_empty());
    assert_eq!(pushes.pushed("orders", ChangeSeq::new(7), now).len(), 1);
    assert!(pushes.pushed("orders", ChangeSeq::new(8), now).is_empty());
}

#[test]
fn a_renderer_may_be_faster_than_the_lane() {
    let (pushes, now) = (Pushes::default(), Instant::now());
    let push = pushes.expect(vec![open(), open()]);
    assert!(pushes.pushed("orders", ChangeSeq::new(7), now).is_empty());
    assert_eq!(
        pushes.committed(&push, |_| Some(ChangeSeq::new(7))).len(),
        2
    );
    let push = pushes.expect(vec![open()]);
    assert!(pushes.pushed("orders", ChangeSeq::new(8), now).is_empty());
    assert!(
        pushes
            .committed(&push, |_| Some(ChangeSeq::new(9)))
            .is_empty()
    );
    assert_eq!(pushes.pushed("orders", ChangeSeq::new(9), now).len(), 1);
}

#[test]
fn what_nobody_follows_is_forgotten_and_the_rest_is_bounded() {
    let pushes = Pushes::default();
    let push = pushes.expect(vec![open()]);
    assert!(pushes.committed(&push, |_| None).is_empty());
    assert!(pushes.lock().waiting.is_empty());
    for _ in 0..WAITING_MAX + 5 {
        pushes.expect(vec![open()]);
    }
    assert_eq!(pushes.lock().waiting.len(), WAITING_MAX);
}
