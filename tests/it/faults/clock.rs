//! The wall clock jumps while the daemon runs, or is wrong when it starts.
//!
//! **Invariant**: age is not the wall clock: nothing is deleted early, nothing waits longer than its pause, a key
//! that was used is used, and nothing that is measured knows of a jump.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;

use super::bench::{self, load, pause, rounds, settle, workers};
use super::preload::Preload;
use super::verdict::Verdict;
use super::{STREAM, folder, submit};
use crate::process::{BY_ID, Process};
use crate::receiver::{Receiver, answer};
use crate::setup::Setup;
use crate::wait::eventually;
use base::clock::{Unix, rfc3339};

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
const JUMPS: u64 = 12;
/// Acknowledged before and after each.
const ENOUGH: u64 = 10;
/// Long enough that an idle daemon tidies, more than once.
const TIDIED: Duration = Duration::from_secs(4);

#[test]
fn jumps_of_the_clock_under_load_lose_and_repeat_nothing() {
    if crate::setup::file_only("a node does not start with another clock than the server's") {
        return;
    }
    let mut random = bench::random("jumps of the clock");
    let folder = bench::folder();
    let Some(preload) = Preload::new("jumps of the clock", &folder) else {
        return;
    };
    let mut workers = workers(4, &mut random);
    let mut verdict = Verdict::on("jumps of the clock");
    let jumps = rounds(JUMPS, 1);
    let mut process = preload.start(&folder);
    for jump in 0..jumps {
        let hours = random.within(0..20).cast_signed() - 10;
        let acknowledged = load(process.service, &mut workers, jump / 3, None, |progress| {
            progress.reaches(ENOUGH);
            preload.shift_clock(hours * HOUR_MS + random.within(0..5_000).cast_signed());
            progress.reaches(2 * ENOUGH);
        });
        verdict.round(acknowledged, acknowledged >= 2 * ENOUGH);
        if random.once_in(3) {
            process.kill();
            process = preload.start(&folder);
        }
    }
    preload.shift_clock(0);
    process.kill();
    settle(&folder, &mut workers, &mut verdict);
    verdict.close(jumps * 3 / 4);
}

const KEY: &str = "X-Item-Key: id\r\nIdempotency-Key: once\r\n";

/// Submits with the idempotency key that all tests use; the request.
fn once(process: &Process) -> String {
    process.accepted(STREAM, KEY, "{\"id\": \"once\"}")
}

/// Traffic while the clock is wrong.
fn lived_through(process: &Process, name: &str) {
    submit(process, &format!("{name}-begin"));
    pause(TIDIED);
    submit(process, &format!("{name}-end"));
}

#[test]
fn a_key_that_was_used_is_used_whatever_the_clock_did_since() {
    for ahead in [26 * HOUR_MS, 31 * DAY_MS, -DAY_MS, -400 * DAY_MS] {
        let folder = folder();
        let Some(preload) = Preload::new("keys and the clock", &folder) else {
            return;
        };
        let process = preload.start(&folder);
        let first = once(&process);
        preload.shift_clock(ahead);
        lived_through(&process, "while");
        assert_eq!(once(&process), first, "while the clock is wrong by {ahead}");
        preload.shift_clock(0);
        process.kill();
        let process = preload.start(&folder);
        lived_through(&process, "after");
        assert_eq!(once(&process), first, "after it was wrong by {ahead}");
        process.stop();
    }
}

#[test]
fn hours_without_a_daemon_count_where_the_clock_is_trusted() {
    if crate::setup::file_only("a node does not start with another clock than the server's") {
        return;
    }
    // The kernel says of the clock of these tests that it is not synchronized.
    for (trust, counts) in [("always", true), ("auto", false), ("never", false)] {
        let folder = folder().set("storage.trust_clock", trust);
        let Some(preload) = Preload::new("hours without a daemon", &folder) else {
            return;
        };
        let process = preload.start(&folder);
        let first = once(&process);
        process.stop();
        preload.shift_clock(25 * HOUR_MS);
        let process = preload.start(&folder);
        if counts {
            eventually("the key is free again", || {
                (once(&process) != first).then_some(())
            });
        } else {
            lived_through(&process, "after");
            assert_eq!(once(&process), first, "{trust}");
        }
        // What has counted does not count again, and nothing counts backward.
        let second = once(&process);
        process.kill();
        preload.shift_clock(0);
        let process = preload.start(&folder);
        lived_through(&process, "back");
        assert_eq!(once(&process), second, "{trust}");
        process.stop();
    }
}

#[test]
fn a_clock_that_was_ahead_for_a_while_deletes_nothing() {
    if crate::setup::file_only("a node does not start with another clock than the server's") {
        return;
    }
    let folder = folder();
    let Some(preload) = Preload::new("the log and the clock", &folder) else {
        return;
    };
    let process = preload.start(&folder);
    let ids = ["a", "b", "c"].map(|key| submit(&process, key));
    process.drained();
    preload.shift_clock(31 * DAY_MS);
    lived_through(&process, "ahead");
    process.kill();
    let process = preload.start(&folder);
    lived_through(&process, "ahead-and-started");
    preload.shift_clock(0);
    lived_through(&process, "right");
    for id in &ids {
        process.request_becomes(id, "processed");
    }
    process.stop();
}

/// A daemon that forwards to somebody who refuses the first requests.
fn refused_at_first(refused: usize) -> (Setup, Receiver) {
    let receiver = Receiver::start(move |_, before| match before < refused {
        true => answer(500, "", "not yet"),
        false => answer(200, "", ""),
    });
    let (url, host) = (receiver.url("/in"), receiver.url(""));
    let more = format!(
        "retry = {{ first_ms = 100, max_ms = 1000, attempts = 1000 }}\nconfig = {{ url = {url:?} }}\n\
         http = {{ hosts = [{host:?}], networks = [\"127.0.0.0/8\"] }}\n"
    );
    let folder = Setup::with_streams(&[STREAM])
        .compiling()
        .sink("forward", "http-forward", STREAM, &more)
        .sink("pool", "pool", STREAM, "");
    (folder, receiver)
}

#[test]
fn a_retry_waits_for_its_pause_and_no_longer_wherever_the_clock_goes() {
    for jump in [-DAY_MS, 31 * DAY_MS, -1_000 * DAY_MS] {
        let (folder, receiver) = refused_at_first(3);
        let Some(preload) = Preload::new("retries and the clock", &folder) else {
            return;
        };
        let process = preload.start(&folder);
        submit(&process, "a");
        process.sink_becomes("forward", "refused", |sink| !sink["last_error"].is_null());
        preload.shift_clock(jump);
        process.drained();
        assert!(receiver.seen().len() >= 4, "{:?}", receiver.seen());
        preload.shift_clock(0);
        submit(&process, "b");
        process.drained();
        process.stop();
    }
}

#[test]
fn a_clock_that_is_ahead_at_the_first_start_and_right_afterwards_does_no_harm() {
    if crate::setup::file_only("a node does not start with another clock than the server's") {
        return;
    }
    let (folder, _receiver) = refused_at_first(3);
    let Some(preload) = Preload::new("a clock that is ahead at the start", &folder) else {
        return;
    };
    preload.shift_clock(40 * DAY_MS);
    let process = preload.start(&folder);
    let first = once(&process);
    let before = submit(&process, "before");
    preload.shift_clock(0);
    process.drained();
    lived_through(&process, "right");
    assert_eq!(once(&process), first);
    process.request_becomes(&before, "processed");
    process.kill();
    let process = preload.start(&folder);
    assert_eq!(once(&process), first);
    process.drained();
    process.request_becomes(&before, "processed");
    process.stop();
}

/// The sums of all histograms of times, in seconds.
fn times_measured(process: &Process) -> Vec<(String, f64)> {
    let metrics = process.metrics();
    let sums = metrics.lines().filter_map(|line| {
        let (series, value) = line.split_once(' ')?;
        let name = series.split('{').next()?;
        (name.ends_with("_seconds_sum"))
            .then(|| (series.to_owned(), value.parse().expect("a number")))
    });
    sums.collect()
}

#[test]
fn a_step_of_the_clock_changes_no_histogram() {
    for step in [DAY_MS, -DAY_MS] {
        let stepped = Arc::new(AtomicBool::new(false));
        let has_stepped = Arc::clone(&stepped);
        let receiver = Receiver::start(move |_, _| {
            while !has_stepped.load(Ordering::Acquire) {
                pause(Duration::from_millis(5));
            }
            answer(200, "", "")
        });
        let (url, host) = (receiver.url("/in"), receiver.url(""));
        // However long the step takes on a busy machine, the request is answered after it.
        let more = format!(
            "config = {{ url = {url:?} }}\nlimits = {{ write_timeout_ms = 600000 }}\n\
             http = {{ hosts = [{host:?}], networks = [\"127.0.0.0/8\"], timeout_ms = 600000 }}\n"
        );
        let folder = Setup::with_streams(&[STREAM]).compiling().sink(
            "forward",
            "http-forward",
            STREAM,
            &more,
        );
        let Some(preload) = Preload::new("histograms and the clock", &folder) else {
            return;
        };
        let process = preload.start(&folder);
        submit(&process, "before");
        eventually("the sink is at work", || {
            (!receiver.seen().is_empty()).then_some(())
        });
        preload.shift_clock(step);
        let oldest = process.metric("headgate_sink_oldest_seconds{sink=\"forward\"}");
        let oldest = oldest.expect("a request waits");
        assert!(oldest < 6.0 * 3_600.0, "{oldest} after {step}");
        let uptime = process.admin("/api/admin/status")["uptime_seconds"].take();
        let uptime = uptime.as_u64().expect("seconds");
        assert!(uptime < 6 * 3_600, "{uptime} after {step}");
        stepped.store(true, Ordering::Release);
        process.drained();
        submit(&process, "after");
        process.drained();
        let count = process.metric("headgate_delivery_seconds_count");
        assert!(count.is_some_and(|count| count >= 2.0), "{count:?}");
        let sums = times_measured(&process);
        assert!(sums.len() >= 2, "{sums:?}");
        for (series, seconds) in sums {
            assert!(seconds < 6.0 * 3_600.0, "{series} {seconds} after {step}");
        }
        preload.shift_clock(0);
        process.stop();
    }
}

#[test]
fn an_override_of_some_seconds_lives_through_a_jump_of_the_clock_and_one_until_a_time_does_not() {
    let folder = Setup::with_streams(&[STREAM])
        .compiling()
        .sink("pool", "pool", "*", "");
    let Some(preload) = Preload::new("overrides and the clock", &folder) else {
        return;
    };
    let process = preload.start(&folder);
    process.accepted(STREAM, BY_ID, r#"{"id": "a", "home": 1, "away": 1}"#);
    process.drained();
    let in_two_hours = rfc3339(Unix::now() + Duration::from_hours(2));
    for (field, until) in [("home", json!(3_600)), ("away", json!(in_two_hours))] {
        let body = json!({"key": "a", "fields": {field: 2}, "until": until}).to_string();
        let path = format!("/api/admin/streams/{STREAM}/override");
        let acted = process.call("POST", &path, &body);
        assert_eq!(acted.status, 202, "{}", acted.body);
    }
    preload.shift_clock(DAY_MS);
    let overridden = || -> Vec<String> {
        let item = process.admin(&format!("/api/admin/streams/{STREAM}/items/a"));
        let overrides = item["overrides"].as_object().expect("overrides");
        overrides.keys().cloned().collect()
    };
    eventually("the time has come", || {
        (overridden().len() < 2).then_some(())
    });
    assert_eq!(overridden(), ["home"]);
    process.stop();
}
