//! Tests of the options of `send`, and of the sources of its key.
//!
//! Run by `cargo test`. **Invariant**: nothing is sent here.

use clap::Parser;

use super::*;
use crate::error::WRONG_USE;

#[test]
fn options_that_no_header_can_carry_are_wrong_use() {
    let client = Client::new("http://127.0.0.1:1", "key").expect("an address");
    let stop = CancellationToken::new();
    let check = |item_key: Option<&str>, prefix: Option<&str>, good: bool| {
        let (item_key, prefix) = (item_key.map(str::to_owned), prefix.map(str::to_owned));
        let options = UploadOptions {
            item_key,
            prefix,
            ..UploadOptions::default()
        };
        match Upload::new(&client, &options, PAUSES, &stop) {
            Ok(_) => assert!(good, "{options:?}"),
            Err(error) => assert!(!good && error.code == WRONG_USE, "{options:?}: {error}"),
        }
    };
    check(Some("größe"), Some("run-2"), true);
    check(Some(""), None, false);
    check(Some("a\nb"), None, false);
    check(None, Some(""), false);
    check(None, Some("two words"), false);
    check(None, Some(&"x".repeat(190)), true);
    check(None, Some(&"x".repeat(191)), false);
}

#[derive(Parser)]
struct Program {
    #[command(flatten)]
    args: SendArgs,
}

fn args(words: &[&str]) -> Result<SendArgs, clap::Error> {
    let words = std::iter::once(&"send").chain(words);
    Program::try_parse_from(words).map(|program| program.args)
}

#[test]
fn the_key_comes_from_its_file_or_option_and_must_be_one_that_can_submit() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("key");
    std::fs::write(&path, "ik_from-file\n").expect("written");
    let path = path.to_str().expect("a plain path");
    let check = |words: &[&str], expected: Result<&str, u8>| {
        let key = ingest_key(&args(words).unwrap_or_else(|error| panic!("{error}")));
        let key = key.as_deref().map_err(|error| error.code);
        assert_eq!(key, expected, "{words:?}");
    };
    check(&["--key", "ik_given"], Ok("ik_given"));
    check(&["--key-file", path], Ok("ik_from-file"));
    check(
        &["--key-file", path, "--key", "ik_given"],
        Ok("ik_from-file"),
    );
    check(&["--key", ""], Err(WRONG_USE));
    check(&["--key", "rk_live_whatever"], Err(WRONG_USE));
    check(&["--key-file", "/nowhere/at/all"], Err(WRONG_USE));
}

#[test]
fn limits_beyond_those_of_the_service_are_refused() {
    assert!(args(&["--batch-bytes", "1048576"]).is_ok());
    for words in [
        ["--batch-bytes", "1048577"],
        ["--batch-bytes", "0"],
        ["--batch-items", "0"],
    ] {
        assert!(args(&words).is_err(), "{words:?}");
    }
}

#[test]
fn the_key_is_not_printed_by_accident() {
    let args =
        args(&["--key", "ik_given", "orders.json"]).unwrap_or_else(|error| panic!("{error}"));
    let text = format!("{args:?}");
    assert!(
        text.contains("orders.json") && !text.contains("ik_given"),
        "{text}"
    );
}
