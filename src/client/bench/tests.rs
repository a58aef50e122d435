//! Tests of the options of `bench`, and of its check for other sinks.
//!
//! Run by `cargo test`. **Invariant**: nothing is sent here.

use std::time::Duration;

use clap::Parser;

use super::*;
use crate::error::WRONG_USE;
use wire::SinkData;

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
    assert_eq!(args.seconds, None);
    assert_eq!(args.part(LOAD_SHARE), Duration::from_secs(9));
    let parts = DISK_SHARE + LOAD_SHARE + PUSH_SHARE;
    assert!(parts < 1.0, "{parts}");
    for bad in ["0", "601", "soon"] {
        assert!(parse(&["--seconds", bad]).is_err(), "{bad}");
    }
}

#[test]
fn sinks_of_others_are_sent_nothing_unless_somebody_says_so() {
    let sink = |name: &str, plugin: &str, streams: &str, except: &[&str]| SinkData {
        name: name.to_owned(),
        plugin: plugin.to_owned(),
        streams: vec![streams.to_owned()],
        except: except.iter().map(|&name| name.to_owned()).collect(),
        ..SinkData::default()
    };
    let pool = || sink("pool", "pool", "*", &[]);
    let orders = || sink("crm", "http-forward", "orders", &[]);
    let every = || sink("ware\u{1b}house", "postgres", "*", &[]);
    let apart = || sink("team", "webhook", "*", &["bench-*"]);
    let check = |sinks, all| {
        let status = StatusData {
            sinks,
            ..StatusData::default()
        };
        sinks_allow(&status, "bench-1", all)
    };
    assert_eq!(check(vec![pool(), orders(), apart()], false), Ok(true));
    assert_eq!(check(vec![orders()], false), Ok(false));
    let refused = check(vec![pool(), every()], false).expect_err("it would be sent on");
    assert_eq!(refused.code, WRONG_USE);
    assert!(refused.message.contains("ware\\u{1b}house"), "{refused}");
    assert!(refused.message.contains("--all-sinks"), "{refused}");
    assert_eq!(check(vec![pool(), every()], true), Ok(true));
}
