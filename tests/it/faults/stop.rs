//! SIGTERM, once and twice.

use std::collections::BTreeSet;

use super::{STREAM, all_there, folder, submit};
use crate::guests::guest;
use crate::process::{Client, Process};
use crate::setup::Setup;
use crate::wait::eventually;

#[test]
fn sigterm_lets_open_requests_finish_and_takes_no_new_ones() {
    let folder = folder();
    let process = folder.spawn();
    submit(&process, "before");
    let body = r#"{"id": "open"}"#;
    let mut client = process.client();
    let headers = "X-Item-Key: id\r\nExpect: 100-continue\r\n";
    client
        .begin_post(STREAM, headers, body.len())
        .expect("an open connection");
    // The daemon has begun to read the body.
    assert!(client.interim().expect("an answer").contains(" 100 "));

    let service = process.service;
    process.terminate();
    eventually("the listener closes", || Client::connect(service).err());
    client.send(body).expect("an open connection");
    let answer = client.answer().expect("an answer");
    assert_eq!(answer.status, 202, "{}", answer.body);
    let ended = process.ended();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.log);

    let process = folder.spawn();
    let wanted = ["before", "open"].map(str::to_owned);
    all_there(&process, &BTreeSet::from(wanted));
    process.stop();
}

/// A daemon whose sink waits in a call of the host, longer than any test.
fn asleep(shutdown_seconds: u32) -> (Setup, Process) {
    let folder = Setup::with_streams(&[STREAM])
        .compiling()
        .toml("[plugins]\nwrite_timeout_ms = 600_000")
        .set("server.shutdown_seconds", shutdown_seconds)
        .sink("sleeps", &guest("sleeps"), "*", "");
    let process = folder.spawn();
    submit(&process, "a");
    eventually("the guest sleeps", || {
        process.log().contains("output=asleep").then_some(())
    });
    (folder, process)
}

#[test]
fn a_sink_that_does_not_return_holds_the_end_up_for_the_configured_time_only() {
    let (folder, process) = asleep(1);
    process.terminate();
    let ended = process.ended();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.log);
    // Nothing is lost with it.
    let process = folder.spawn();
    assert_eq!(process.sink("sleeps")["lag"], 1);
}

#[test]
fn a_second_sigterm_ends_at_once() {
    let (folder, process) = asleep(3_600);
    process.terminate();
    eventually("the first signal arrives", || {
        process.log().contains("stopping").then_some(())
    });
    process.terminate();
    let ended = process.ended();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.log);
    assert!(ended.log.contains("second signal"), "{}", ended.log);
    let process = folder.spawn();
    assert_eq!(process.sink("sleeps")["lag"], 1);
}
