//! Tests of the options of `tail`, and of the sources of its key.
//!
//! Run by `cargo test`. **Invariant**: nothing is sent here.

use clap::Parser;

use super::*;
use crate::error::WRONG_USE;

#[derive(Parser)]
struct Program {
    #[command(flatten)]
    args: TailArgs,
}

fn args(words: &[&str]) -> Result<TailArgs, clap::Error> {
    let words = ["tail", "orders"].iter().chain(words);
    Program::try_parse_from(words).map(|program| program.args)
}

#[test]
fn the_key_comes_from_its_file_or_option_and_must_be_one_that_can_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.to_str().expect("a plain path").to_owned()
    };
    let good = path("key", "rk_from-file\n");
    let empty = path("empty", "\n");
    let check = |words: &[&str], expected: Result<Option<&str>, u8>| {
        let key = read_key(&args(words).unwrap_or_else(|error| panic!("{error}")));
        let key = key.as_ref().map(Option::as_deref);
        assert_eq!(key.map_err(|error| error.code), expected, "{words:?}");
    };
    check(&["--key", "rk_given"], Ok(Some("rk_given")));
    check(&["--key-file", &good], Ok(Some("rk_from-file")));
    check(
        &["--key-file", &good, "--key", "rk_given"],
        Ok(Some("rk_from-file")),
    );
    // An empty variable counts as absent.
    check(&["--key", " "], Ok(None));
    check(&[], Ok(None));
    check(&["--key-file", &empty], Err(WRONG_USE));
    check(&["--key-file", "/nowhere/at/all"], Err(WRONG_USE));
    check(&["--key", "ik_live_whatever"], Err(WRONG_USE));
}

#[tokio::test]
async fn without_any_secret_both_ways_are_named() {
    let args = args(&["--data-dir", "/nowhere/at/all"]).unwrap_or_else(|error| panic!("{error}"));
    let error = run(args).await.expect_err("no secret");
    assert_eq!(error.code, WRONG_USE);
    assert!(
        error.message.contains("admin.token") && error.message.contains("--key-file"),
        "{error}"
    );
}

#[test]
fn options_are_checked() {
    for good in [
        ["--since", "1795230441:42"],
        ["--max-rate", "1000"],
        ["--count", "1"],
        ["--output", "json"],
        ["--no-snapshot", "customers"],
    ] {
        assert!(args(&good).is_ok(), "{good:?}");
    }
    for bad in [
        ["--since", "yesterday"],
        ["--max-rate", "0"],
        ["--max-rate", "1001"],
        ["--count", "0"],
        ["--output", "csv"],
    ] {
        assert!(args(&bad).is_err(), "{bad:?}");
    }
    assert!(Program::try_parse_from(["tail"]).is_err());
}

#[test]
fn the_key_is_not_printed_by_accident() {
    let args = args(&["--key", "rk_given"]).unwrap_or_else(|error| panic!("{error}"));
    let text = format!("{args:?}");
    assert!(
        text.contains("orders") && !text.contains("rk_given"),
        "{text}"
    );
}
