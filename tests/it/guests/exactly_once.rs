//! Each item takes effect once, whatever fails between staging and commit: the guest, the commit, or the process.
//!
//! The guest counts in its state what it took; state, items and cursor commit together. Commits cannot
//! be made at times because the test holds the file. `HEADGATE_KILLS` and `HEADGATE_SEED` are as in the crash test.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{guest, keys, nobody_else_suffers};
use crate::app::Random;
use crate::faults;
use crate::process::{BY_ID, Client, Process, SetOnDrop};
use crate::setup::{ADMIN_TOKEN, Setup};

const KILLS_DEFAULT: u64 = 8;
const RETRY: &str = "/api/admin/sinks/hostile/retry";
const LOAD_MS: std::ops::Range<u64> = 200..700;

/// What one connection sent: what was answered 202, and what was never answered.
#[derive(Default)]
struct Sent {
    number: u64,
    accepted: BTreeSet<String>,
    unanswered: BTreeSet<String>,
}

#[test]
fn each_item_takes_effect_once_whatever_fails_before_the_commit() {
    let kills = faults::number("HEADGATE_KILLS").unwrap_or(KILLS_DEFAULT);
    let seed =
        faults::number("HEADGATE_SEED").unwrap_or_else(|| getrandom::u64().expect("randomness"));
    eprintln!("{kills} kills with HEADGATE_SEED={seed}");
    let mut random = Random(seed);
    let retry =
        "retry = { first_ms = 1, max_ms = 5, attempts = 1000000 }\nbatch = { items_max = 20 }\n";
    let folder = Setup::with_streams(&["hostile", "innocent"])
        .sink("hostile", &guest("stumbles"), "hostile", retry)
        .sink("pool", "pool", "innocent", "");
    folder.spawn().stop();
    let pool = folder.data_dir().join("pool.db");
    let mut sent = Sent::default();
    for _ in 0..kills {
        let process = folder.spawn();
        let time = Duration::from_millis(random.within(LOAD_MS));
        load_and_kill(process, &pool, &mut sent, &mut random, time);
    }
    let process = folder.spawn();
    // Who stumbles often pauses, and who stumbles over the same item again and again has given it up. Sent again, it
    // arrives in the end.
    process.drained_when(|| {
        // In this order: what is given up between the two is seen among the dead letters.
        let drained = process.is_drained();
        let letters = process.sink("hostile")["dead_letters"] != 0;
        if letters {
            process.call("POST", "/api/admin/sinks/hostile/dead-letters/retry", "");
        }
        process.call("POST", RETRY, "");
        !letters && drained
    });
    let there: BTreeSet<String> = keys(&folder, "hostile").into_iter().collect();
    let lost: Vec<_> = sent.accepted.difference(&there).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
    let odd: Vec<_> = there
        .iter()
        .filter(|key| !sent.accepted.contains(*key) && !sent.unanswered.contains(*key))
        .collect();
    assert!(odd.is_empty(), "from nowhere: {odd:?}");
    assert_eq!(super::letters::taken(&folder), there.len() as u64);
    assert!(process.dead_letters("hostile").is_empty());
    eprintln!("{} items", there.len());
    nobody_else_suffers(process);
}

#[expect(clippy::disallowed_methods, reason = "the moment of the kill")]
fn load_and_kill(
    process: Process,
    pool: &Path,
    sent: &mut Sent,
    random: &mut Random,
    time: Duration,
) {
    let (service, admin) = (process.service, process.admin);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = Client::connect(service).expect("it listens");
            loop {
                let first = sent.number;
                sent.number += 1 + random.within(0..5);
                let ids: Vec<String> = (first..sent.number).map(|id| id.to_string()).collect();
                let items: Vec<String> = ids
                    .iter()
                    .map(|id| format!("{{\"id\": \"{id}\"}}"))
                    .collect();
                let body = format!("[{}]", items.join(","));
                match client.post("hostile", BY_ID, &body) {
                    Ok(answer) if answer.status == 202 => sent.accepted.extend(ids),
                    _ => return sent.unanswered.extend(ids),
                }
            }
        });
        // Commits that cannot be made for a while: another process holds the file now and then.
        scope.spawn(|| {
            let other = rusqlite::Connection::open(pool).expect("a file");
            while !ended.load(Ordering::Relaxed) {
                if other.execute_batch("BEGIN IMMEDIATE").is_ok() {
                    std::thread::sleep(Duration::from_millis(5));
                    let _ = other.execute_batch("ROLLBACK");
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        // A lane that fails pauses; nobody waits for that here.
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                if let Ok(mut client) = Client::connect(admin) {
                    drop(client.call("POST", RETRY, ADMIN_TOKEN, ""));
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let _ended = SetOnDrop(&ended);
        std::thread::sleep(time);
        process.kill();
    });
}
