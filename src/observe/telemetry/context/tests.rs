//! Unit tests of `telemetry/context.rs`.

use super::*;

fn caller(values: &[&str]) -> Option<Caller> {
    Caller::of(values.iter().map(|value| value.as_bytes()))
}

#[test]
fn callers_are_understood_as_the_recommendation_says() {
    let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let found = caller(&[good]).expect("a caller");
    assert_eq!(Hex(&found.trace).to_string(), good[3..35]);
    assert_eq!(Hex(&found.span).to_string(), good[36..52]);
    assert!(found.sampled);
    let parent = Parent::new(&found.trace, &found.span, None);
    assert_eq!(parent.traceparent, good);
    let unsampled = good.replace("-01", "-00");
    assert!(!caller(&[&unsampled]).expect("a caller").sampled);
    for later in ["-more", ""] {
        let text = format!("cc{}{later}", &good[2..]);
        assert!(caller(&[&text]).is_some(), "{text}");
    }
    for bad in [
        String::new(),
        good.to_uppercase(),
        format!("ff{}", &good[2..]),
        format!("{good}-more"),
        format!("cc{}more", &good[2..]),
        good.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
        good.replace("b7ad6b7169203331", &"0".repeat(16)),
        good.replace('-', "_"),
        good[..54].to_owned(),
    ] {
        assert_eq!(caller(&[&bad]), None, "{bad}");
    }
    assert_eq!(caller(&[]), None);
    assert_eq!(caller(&[good, good]), None);
}

#[test]
fn states_are_passed_on_if_they_fit() {
    let state = |values: &[&str]| state(values.iter().map(|value| value.as_bytes()));
    assert_eq!(state(&["a=1", "", "b=2"]).as_deref(), Some("a=1,b=2"));
    assert_eq!(state(&[]), None);
    assert_eq!(state(&["a=\u{e9}"]), None);
    assert_eq!(state(&["a=1\r\nx: y"]), None);
    assert_eq!(state(&[&"a".repeat(STATE_BYTES_MAX + 1)]), None);
}
