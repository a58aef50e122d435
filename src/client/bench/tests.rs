//! What `bench` accepts, and whom it would disturb.
//!
//! Run by `cargo test`. **Invariant**: nothing is sent here.

use std::time::Duration;

use clap::Parser;
use serde_json::json;

use super::*;
use crate::error::WRONG_USE;

#[derive(Parser)]
struct Program {
    #[command(flatten)]
    args: BenchArgs,
}

#[test]
fn the_time_is_bounded_and_shared() {
    let parse = |words: &[&str]| {
        Program::try_parse_from(["bench"].iter().chain(words)).map(|program| program.args)
    };
    let args = parse(&[]).expect("nothing is needed");
    assert_eq!(args.seconds, 15);
    assert_eq!(args.part(LOAD_SHARE), Duration::from_secs(9));
    let parts = DISK_SHARE + LOAD_SHARE + PUSH_SHARE;
    assert!(parts < 1.0, "{parts}");
    for bad in ["2", "601", "soon"] {
        assert!(parse(&["--seconds", bad]).is_err(), "{bad}");
    }
}

#[test]
fn sinks_of_others_are_sent_nothing_unless_somebody_says_so() {
    let status = |sinks: serde_json::Value| json!({ "sinks": sinks });
    let pool = json!({ "name": "pool", "plugin": "pool", "streams": ["*"], "except": [] });
    let orders =
        json!({ "name": "crm", "plugin": "http-forward", "streams": ["orders"], "except": [] });
    let every =
        json!({ "name": "ware\u{1b}house", "plugin": "postgres", "streams": ["*"], "except": [] });
    let apart =
        json!({ "name": "team", "plugin": "webhook", "streams": ["*"], "except": ["bench-*"] });
    let check = |sinks, all| sinks_allow(&status(sinks), "bench-1", all);
    assert_eq!(check(json!([pool, orders, apart]), false), Ok(true));
    assert_eq!(check(json!([orders]), false), Ok(false));
    let refused = check(json!([pool, every]), false).expect_err("it would be sent on");
    assert_eq!(refused.code, WRONG_USE);
    assert!(refused.message.contains("ware\\u{1b}house"), "{refused}");
    assert!(refused.message.contains("--all-sinks"), "{refused}");
    assert_eq!(check(json!([pool, every]), true), Ok(true));
}
