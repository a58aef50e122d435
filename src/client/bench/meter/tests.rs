//! Unit tests of `bench/meter.rs`.

use super::*;

#[test]
fn counters_become_shares_of_the_time_between() {
    let at = Instant::now();
    let begun = Reading {
        at,
        machine: machine("cpu  100 0 50 800 50 0 0 0 7 7\ncpu0 1 2 3 4 5\n"),
        own: Duration::from_millis(500),
        journal: journal(
            "# EOF\nheadgate_journal_commit_seconds_sum 1.5\nheadgate_journal_commit_seconds_count 100\n",
        ),
    };
    let ended = Reading {
        at: at + Duration::from_secs(2),
        machine: machine("cpu  250 0 50 840 60 0 0 0 7 7\n"),
        own: Duration::from_millis(1_500),
        journal: journal(
            "headgate_journal_commit_seconds_count 500\nheadgate_journal_commit_seconds_sum 3.1\n",
        ),
    };
    let used = used(&begun, &ended, 2.0);
    assert_eq!(used.cores_busy, Some(0.75));
    assert_eq!(used.bench_core, 0.5);
    assert_eq!(used.commits_per_second, Some(200.0));
    assert!(
        used.journal_busy
            .is_some_and(|busy| (busy - 0.8).abs() < 1e-9)
    );
}

#[test]
fn what_cannot_be_read_is_absent() {
    assert_eq!(machine("intr 1 2 3"), None);
    assert_eq!(machine(""), None);
    assert_eq!(journal("<html>"), None);
    // The name of a bucket has the same prefix as the sum.
    let bucket = "headgate_journal_commit_seconds_bucket{le=\"0.1\"} 7";
    assert_eq!(journal(bucket), None);
    assert!(own_cpu() > Duration::ZERO);
}

#[test]
fn an_address_says_whether_it_is_of_this_machine() {
    for local in [
        "http://127.0.0.1:8080",
        "http://localhost:8080",
        "http://[::1]:8080",
        "unix:/run/headgate.sock",
    ] {
        assert!(is_local(local), "{local}");
    }
    for elsewhere in ["http://10.0.0.7:8080", "https://gate.example", "localhost"] {
        assert!(!is_local(elsewhere), "{elsewhere}");
    }
}
