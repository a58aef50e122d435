//! A sink that is down for a while under load, and a start with much that waits.
//!
//! `HEADGATE_OUTAGE_SECONDS=600 cargo test outage -- --nocapture` and `HEADGATE_WAITING=1000000` are the long forms;
//! they print how fast the sink caught up and how long the start took.
//!
//! **Invariant**: what was answered 202 arrives; memory does not grow with what waits.
#![expect(
    clippy::disallowed_methods,
    reason = "settings from the environment, and load that has a pace"
)]

mod by_key;
mod expiry;
mod in_flight;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::faults::number;
use crate::process::{BY_ID, Client, SetOnDrop};
use crate::receiver::{Receiver, answer};
use crate::setup::Setup;
use crate::stored::one;
use crate::wait::PROCESS_DEADLINE;

const CONNECTIONS: u64 = 4;
/// Requests of one connection follow each other after this time.
const PACE: Duration = Duration::from_millis(5);
/// What a daemon may take more than it took before the load, in bytes.
const MEMORY_MAX: u64 = 96 << 20;

/// Sends objects `{"id": "<connection>-<number>"}` until told to stop, or so many.
fn send(
    service: SocketAddr,
    connection: u64,
    count: u64,
    pace: Duration,
    stop: &AtomicBool,
    sent: &AtomicU64,
) {
    let mut client = Client::connect(service).expect("it listens");
    for number in 0..count {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let body = format!("{{\"id\": \"{connection}-{number}\"}}");
        let answer = client.post("orders", BY_ID, &body);
        assert_eq!(answer.expect("an answer").status, 202);
        sent.fetch_add(1, Ordering::Relaxed);
        if !pace.is_zero() {
            std::thread::sleep(pace);
        }
    }
}

#[test]
fn a_sink_that_was_down_gets_everything_and_nobody_else_waits_for_it() {
    let outage = Duration::from_secs(number("HEADGATE_OUTAGE_SECONDS").unwrap_or(4));
    let up = Arc::new(AtomicBool::new(false));
    let arrived: Arc<Mutex<HashSet<String>>> = Arc::default();
    let receiver = Receiver::start({
        let (up, arrived) = (Arc::clone(&up), Arc::clone(&arrived));
        move |request, _| {
            if !up.load(Ordering::Relaxed) {
                return answer(503, "", "closed");
            }
            let mut arrived = arrived.lock().expect("no panic while held");
            for line in request.body.lines() {
                let id = line.split('"').nth(3).expect("an id");
                arrived.insert(id.to_owned());
            }
            answer(200, "", "")
        }
    });
    let forward = format!(
        "retry = {{ first_ms = 50, max_ms = 1000 }}\nconfig = {{ url = \"{}\", form = \"field-lines\" }}\n\
         http = {{ hosts = [\"http://{}\"], networks = [\"127.0.0.1\"] }}\n",
        receiver.url("/"),
        receiver.address
    );
    let folder = Setup::with_streams(&["orders"])
        .sink("forward", "http-forward", "orders", &forward)
        .sink("pool", "pool", "orders", "");
    let process = folder.spawn();
    let base = process.memory_bytes();
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut most, mut caught_up) = (0, None);
    std::thread::scope(|scope| {
        for connection in 0..CONNECTIONS {
            let (stop, sent, service) = (&stop, &sent, process.service);
            scope.spawn(move || send(service, connection, u64::MAX, PACE, stop, sent));
        }
        let _stop = SetOnDrop(&stop);
        let began = Instant::now();
        while began.elapsed() < outage {
            std::thread::sleep(Duration::from_millis(200));
            most = most.max(process.memory_bytes());
        }
        assert!(arrived.lock().expect("no panic while held").is_empty());
        let (waiting, intake) = (sent.load(Ordering::Relaxed), began.elapsed());
        up.store(true, Ordering::Relaxed);
        let began = Instant::now();
        // As soon as it takes anything the lane goes at its own speed; requests keep coming.
        while began.elapsed() < PROCESS_DEADLINE + outage {
            std::thread::sleep(Duration::from_millis(20));
            most = most.max(process.memory_bytes());
            let sink = process.sink("forward");
            if sink["state"] == "running"
                && sink["retries"] == 0
                && sink["lag"].as_u64() < Some(100)
            {
                caught_up = Some((
                    waiting,
                    intake,
                    began.elapsed(),
                    sent.load(Ordering::Relaxed),
                ));
                break;
            }
        }
    });
    let (waiting, intake, took, sent_by_then) = caught_up.expect("it catches up");
    process.drained();
    let rate = |count: u64, time: Duration| count as f64 / time.as_secs_f64();
    eprintln!(
        "{waiting} waited after {} s; caught up in {:.1} s at {:.1} times the intake; memory {} MiB, at most {} MiB",
        intake.as_secs(),
        took.as_secs_f64(),
        rate(sent_by_then, took) / rate(waiting, intake),
        base >> 20,
        most >> 20,
    );
    let sent = usize::try_from(sent.load(Ordering::Relaxed)).expect("it fits");
    assert_eq!(arrived.lock().expect("no panic while held").len(), sent);
    assert_eq!(folder.items("orders").len(), sent);
    assert!(process.dead_letters("forward").is_empty());
    assert!(process.sink("pool")["last_error"].is_null());
    assert!(most < base + MEMORY_MAX, "{most} bytes, {base} before");
    process.stop();
}

#[test]
fn much_that_waits_neither_fills_the_memory_nor_delays_the_start() {
    let waiting = number("HEADGATE_WAITING").unwrap_or(8_000);
    let folder = Setup::with_streams(&["orders"])
        .set("storage.durability", "os")
        .set("storage.payload_retention_minutes", 60);
    let plugin = folder.path("mended.wasm");
    std::fs::write(&plugin, "no component").expect("a file");
    let folder = folder.sink("orders", &plugin.display().to_string(), "orders", "");
    let process = folder.spawn();
    let base = process.memory_bytes();
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for connection in 0..CONNECTIONS {
            let (stop, sent, service) = (&stop, &sent, process.service);
            let count = waiting / CONNECTIONS;
            scope.spawn(move || send(service, connection, count, Duration::ZERO, stop, sent));
        }
    });
    let before = process.memory_bytes();
    assert!(before < base + MEMORY_MAX, "{before} bytes, {base} before");
    process.kill();
    let began = Instant::now();
    let process = folder.spawn();
    let took = began.elapsed();
    let sent = sent.load(Ordering::Relaxed);
    assert_eq!(process.sink("orders")["lag"], sent);
    std::fs::copy(crate::guests::guest("measures"), &plugin).expect("a file");
    let began = Instant::now();
    let left = || process.sink("orders")["lag"].as_u64().expect("a number");
    let mut most = 0;
    while left() > 0 {
        std::thread::sleep(Duration::from_millis(20));
        most = most.max(process.memory_bytes());
        assert!(
            began.elapsed() < PROCESS_DEADLINE + Duration::from_millis(waiting),
            "{} are left",
            left()
        );
    }
    eprintln!(
        "{sent} waited; the start took {} ms, the delivery {:.1} s; memory {} MiB before, at most {} MiB",
        took.as_millis(),
        began.elapsed().as_secs_f64(),
        base >> 20,
        most >> 20,
    );
    assert!(most < base + MEMORY_MAX, "{most} bytes, {base} before");
    let count: i64 = one(&folder.pool(), "SELECT count(*) FROM items");
    assert_eq!(count, sent.cast_signed());
    process.stop();
}
