//! Unit tests of `acts/body.rs`.

use super::*;

#[test]
fn a_misspelt_or_empty_member_never_means_the_stream() {
    for (verb, body) in [
        ("hold", r#"{"key":"m1"}"#),
        ("hold", r#"{"keys":[]}"#),
        ("hold", r#"{"keys":null}"#),
        ("hold", r#"{"keys":[""]}"#),
        ("hold", r#"{"keys":["m1"],"keys":["m2"]}"#),
        ("hold", r#"{"until":0}"#),
        ("hold", r#"{"until":1.5}"#),
        ("hold", r#"{"until":"2020-01-01T00:00:00Z"}"#),
        ("hold", r#"{"until":"2999-01-01T00:00:00"}"#),
        ("hold", "[]"),
        ("hold", "null"),
        ("take", r#"{"until":2}"#),
        ("resume", r#"{"keys":"m1"}"#),
        ("release", ""),
        ("release", r#"{"key":null}"#),
        ("release", r#"{"keys":["m1"]}"#),
        ("release", r#"{"fields":["a"]}"#),
        ("release", r#"{"key":"m1","fields":[]}"#),
        ("release", r#"{"key":"m1","fields":null}"#),
        ("override", r#"{"key":"m1"}"#),
        ("override", r#"{"key":"m1","fields":{}}"#),
        ("override", r#"{"key":"m1","fields":[{"a":1}]}"#),
        ("override", r#"{"key":"m1","fields":{"a":1,"a":2}}"#),
        ("override", r#"{"key":"m1","fields":{"a.b":1,"a":{"b":2}}}"#),
        ("override", r#"{"key":"m1","fields":{"a":1},"create":null}"#),
        ("override", r#"{"key":null,"fields":{"a":1}}"#),
        ("add", r#"{"key":"m1","field":"a","by":"1"}"#),
        ("add", r#"{"key":"m1","field":"a","by":0.0}"#),
        ("add", r#"{"key":"m1","field":"a","by":null}"#),
        ("undo", r#"{"skip":null}"#),
        ("undo", r#"{"steps":2}"#),
    ] {
        assert!(read(verb, body.as_bytes()).is_err(), "{verb} {body}");
    }
}

#[test]
fn what_may_be_left_out_is_left_out() {
    for verb in ["hold", "take", "resume", "undo"] {
        for body in ["", "{}", " {} "] {
            assert!(read(verb, body.as_bytes()).is_ok(), "{verb} {body:?}");
        }
    }
    assert!(read("release", b"{}").is_ok());
    for until in [
        "null",
        "1",
        "60.0",
        "31536000",
        "\"2999-01-01T00:00:00+01:00\"",
    ] {
        let body = format!(r#"{{"until":{until}}}"#);
        assert!(read("hold", body.as_bytes()).is_ok(), "{until}");
    }
}
