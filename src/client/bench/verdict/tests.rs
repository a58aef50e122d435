//! Unit tests of `bench/verdict.rs`.

use std::collections::BTreeMap;

use super::super::meter::Used;
use super::super::times::Times;
use super::*;

const FACTS: Facts = Facts {
    keep_rate: false,
    is_durable: true,
    round_trip_ms: 0.1,
    fsync_ms: Some(2.0),
    cores: 4,
};

fn step(connections: usize, rate: f64) -> Step {
    Step {
        body_bytes: 200,
        connections,
        requests_per_second: rate,
        accepted: Times {
            count: 1_000,
            p50_ms: 1.0,
            ..Times::default()
        },
        refused: BTreeMap::new(),
        broken: 0,
        used: Used {
            seconds: 1.0,
            cores_busy: Some(0.5),
            bench_core: 0.3,
            commits_per_second: Some(400.0),
            journal_busy: Some(0.4),
        },
    }
}

#[track_caller]
fn check(change: impl FnOnce(&mut Step, &mut Facts), limit: Limit, says: &str) {
    let mut steps = [step(1, 700.0), step(64, 5_000.0)];
    let mut facts = FACTS;
    change(&mut steps[1], &mut facts);
    let verdict = Verdict::of(&steps, facts);
    assert_eq!(verdict.limit, limit, "{verdict:?}");
    assert!(verdict.sentence.contains(says), "{verdict:?}");
    assert!(!verdict.sentence.contains('\n'), "{verdict:?}");
}

#[test]
fn what_is_used_up_is_named() {
    check(|_, _| {}, Limit::None, "5000 requests/s");
    check(
        |step, _| step.used.cores_busy = Some(0.97),
        Limit::Cpu,
        "97 % of 4 cores",
    );
    check(
        |step, _| step.used.journal_busy = Some(0.92),
        Limit::Disk,
        "a flush takes 2.00 ms",
    );
    check(
        |step, _| step.used.bench_core = 0.99,
        Limit::Bench,
        "several machines",
    );
    check(
        |_, facts| facts.round_trip_ms = 0.8,
        Limit::Network,
        "0.80 ms",
    );
    let refused = |status| {
        move |step: &mut Step, facts: &mut Facts| {
            step.refused.insert(status, 500);
            facts.keep_rate = true;
        }
    };
    check(refused(429), Limit::KeyRate, "limits.requests_per_second");
    check(refused(503), Limit::Full, "max_pending_bytes");
}

#[test]
fn cores_come_before_the_journal_which_computes_too() {
    check(
        |step, _| {
            step.used.cores_busy = Some(0.95);
            step.used.journal_busy = Some(0.95);
        },
        Limit::Cpu,
        "CPU",
    );
}

#[test]
fn what_is_not_known_is_not_the_limit() {
    check(
        |step, facts| {
            step.used.cores_busy = None;
            step.used.journal_busy = None;
            facts.fsync_ms = None;
        },
        Limit::None,
        "no bottleneck found",
    );
    check(
        |step, facts| {
            step.used.journal_busy = Some(0.9);
            facts.fsync_ms = None;
            facts.is_durable = false;
        },
        Limit::Disk,
        "the limit is the journal",
    );
    assert_eq!(Verdict::of(&[], FACTS).limit, Limit::None);
}

#[test]
fn a_few_refusals_are_not_the_limit() {
    check(
        |step, _| {
            step.refused.insert(429, 5);
        },
        Limit::None,
        "no bottleneck found",
    );
}
