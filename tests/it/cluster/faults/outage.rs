//! A database that is away while requests and screens are there.
//!
//! `HEADGATE_OUTAGE_SECONDS` says for how long; the times and sizes are printed.
//!
//! **Invariant**: nodes need no more memory, however long the database is away, and accept again when it is back.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;
use crate::faults::number;
use crate::process::SetOnDrop;

const OUTAGE_SECONDS: u64 = 5;
/// Together they send about 50 requests per second.
const SENDERS: usize = 10;
const PACE: Duration = Duration::from_millis(200);
const SCREENS: usize = 10;
/// Load before the outage, so that memory for it is there.
const WARM_UP: Duration = Duration::from_secs(3);
/// A node may take so much more than before. In an outage of ten minutes, it answers 15,000 requests: 2 KiB that are kept of
/// each would be found.
const GROWTH_MAX: u64 = 24 << 20;

/// What the nodes answered.
#[derive(Default)]
struct Answers {
    accepted: AtomicU64,
    unavailable: AtomicU64,
}

/// Sends until `ended`.
fn send(service: SocketAddr, sender: usize, ended: &AtomicBool, answers: &Answers) {
    let mut client = Client::connect(service).expect("it listens");
    for number in 0.. {
        if ended.load(Ordering::Relaxed) {
            return;
        }
        // A few items, so that the copies stay as they are.
        let body = json!({ "id": format!("{sender}"), "n": number }).to_string();
        let answer = client.post("orders", BY_ID, &body).expect("an answer");
        let count = match answer.status {
            202 => &answers.accepted,
            503 => &answers.unavailable,
            other => panic!("{other}: {}", answer.body),
        };
        count.fetch_add(1, Ordering::Relaxed);
        pause(PACE);
    }
}

/// Reads what a screen is sent, until it is this text, or until `ended`. A heartbeat comes each second.
fn follow(service: SocketAddr, last: &str, ended: &AtomicBool) {
    let mut screen = screen(service);
    let (mut sent, mut part) = (String::new(), [0; 4_096]);
    while !sent.contains(last) {
        assert!(!ended.load(Ordering::Relaxed), "it was not sent {last}");
        let length = screen.read(&mut part).expect("it goes on");
        assert_ne!(length, 0, "it ended: {sent}");
        // A text may come in two parts; those before are not needed.
        let kept = sent.len().saturating_sub(last.len());
        let kept = (kept..sent.len()).find(|at| sent.is_char_boundary(*at));
        sent.drain(..kept.unwrap_or(sent.len()));
        sent.push_str(&String::from_utf8_lossy(&part[..length]));
    }
}

/// The most memory that each node has while `time` passes.
fn memory_of(nodes: &[Process; 2], time: Duration) -> [u64; 2] {
    let begun = Instant::now();
    let mut most = [0; 2];
    while begun.elapsed() < time {
        for (most, node) in most.iter_mut().zip(nodes) {
            *most = node.memory_bytes().max(*most);
        }
        pause(Duration::from_millis(100));
    }
    most
}

/// Waits until both nodes accept and are ready; after which time each accepted.
fn accept_again(nodes: &[Process; 2], last: &str) -> [Duration; 2] {
    let begun = Instant::now();
    let mut after = [None; 2];
    eventually("both nodes accept", || {
        for (node, after) in nodes.iter().zip(&mut after) {
            if after.is_none() && submit(node, last) == 202 {
                *after = Some(begun.elapsed());
            }
        }
        after.iter().all(Option::is_some).then_some(())
    });
    nodes.iter().for_each(|node| ready_becomes(node, None));
    after.map(|after| after.expect("it accepted"))
}

#[test]
fn a_database_that_was_away_costs_no_memory_and_is_used_again() {
    const LAST: &str = "behind-the-outage";
    let Some(mut server) = Postgres::start("a_database_that_was_away") else {
        return;
    };
    let line = Line::to(&server);
    let outage = Duration::from_secs(number("HEADGATE_OUTAGE_SECONDS").unwrap_or(OUTAGE_SECONDS));
    let nodes = ["a", "b"].map(|name| node_at(&line.url(), name).unlimited().spawn());
    accepted(&nodes[0], "before");
    nodes.iter().for_each(|node| drop(shows(node, 1)));
    let (ended, answers) = (AtomicBool::new(false), Answers::default());
    let services = nodes.each_ref().map(|node| node.service);
    let (before, most, after) = std::thread::scope(|scope| {
        let ends = SetOnDrop(&ended);
        for sender in 0..SENDERS {
            let (ended, answers, service) = (&ended, &answers, services[sender % 2]);
            scope.spawn(move || send(service, sender, ended, answers));
        }
        let screens: Vec<_> = (0..SCREENS)
            .map(|at| {
                let (ended, service) = (&ended, services[at % 2]);
                scope.spawn(move || follow(service, LAST, ended))
            })
            .collect();
        let before = memory_of(&nodes, WARM_UP);
        // A host that does not answer, then one that refuses connections.
        line.stall();
        let silent = memory_of(&nodes, outage / 2);
        server.crash();
        line.go_on();
        let refusing = memory_of(&nodes, outage / 2);
        for node in &nodes {
            ready_becomes(node, Some("database"));
        }
        server.resume();
        let after = accept_again(&nodes, LAST);
        for screen in screens {
            screen
                .join()
                .expect("each screen has what was accepted last");
        }
        drop(ends);
        let most = [0, 1].map(|node: usize| silent[node].max(refusing[node]));
        (before, most, after)
    });
    let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
    let mib = |bytes: [u64; 2]| bytes.map(|bytes| bytes >> 20);
    eprintln!(
        "{} s without a database: {} requests answered 503, {} accepted before and after; memory {:?} MiB before, at most {:?} MiB; \
         accepted again after {after:?}",
        outage.as_secs(),
        count(&answers.unavailable),
        count(&answers.accepted),
        mib(before),
        mib(most),
    );
    assert!(count(&answers.unavailable) > 0);
    for (before, most) in before.into_iter().zip(most) {
        assert!(most < before + GROWTH_MAX, "{most} bytes, {before} before");
    }
    nodes.into_iter().for_each(Process::stop);
}
