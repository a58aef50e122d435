//! `kill -9` at random moments under load: what was answered 202 is there afterwards, once.
//!
//! Sixteen connections send single objects, arrays and idempotency keys, some of them repeated, by several connections
//! at once and again after the restart. `HEADGATE_KILLS` sets the number of kills, `HEADGATE_SEED` repeats a run's
//! choices (not its timing).
//!
//! **Invariant**: the test believes nobody but the answers that it got, and the two files as any SQLite client reads
//! them.
#![expect(
    clippy::disallowed_methods,
    reason = "a test of its own process: settings from the environment, and the moment of the kill"
)]

mod load;
mod verify;

use std::time::{Duration, Instant};

use crate::app::Random;
use crate::process::{Folder, Process};
use load::Worker;

const CONNECTIONS: u64 = 16;
const KILLS_DEFAULT: u64 = 20;
/// The load before a kill, in milliseconds.
const LOAD_MS: std::ops::Range<u64> = 50..300;
/// One object to a request; several counters for each connection, and items that are written once.
const ORDERS: &str = "orders";
/// Arrays with an item key.
const READINGS: &str = "readings";
/// Arrays whose items are identified by their position.
const POSITIONS: &str = "positions";

#[test]
fn what_was_acknowledged_survives_every_kill_exactly_once() {
    let kills = number("HEADGATE_KILLS").unwrap_or(KILLS_DEFAULT);
    let seed = number("HEADGATE_SEED").unwrap_or_else(|| getrandom::u64().expect("randomness"));
    eprintln!("{kills} kills with HEADGATE_SEED={seed}");
    let mut random = Random(seed);
    let folder = Folder::new(&[ORDERS, READINGS, POSITIONS])
        .with_sink("pool", "pool", "*", "")
        .with_storage("durability = \"fsync\"");
    let mut workers: Vec<Worker> = (0..CONNECTIONS)
        .map(|id| Worker::new(id, Random(random.next())))
        .collect();
    let started = Instant::now();
    for kill in 1..=kills {
        let process = folder.start();
        let time = Duration::from_millis(random.within(LOAD_MS));
        load_and_kill(process, &mut workers, kill, time);

        let process = folder.start();
        process.drained();
        for worker in &mut workers {
            worker.repeat_unanswered(&process);
        }
        process.drained();
        let news: Vec<_> = workers.iter_mut().map(Worker::take_news).collect();
        verify::round(&process, &folder, &workers, &news);
        if kill % 2 == 0 {
            // Now and then an orderly end in between.
            process.stop();
        } else {
            process.kill();
        }
        if kill % 100 == 0 {
            eprintln!("{kill} kills in {} s", started.elapsed().as_secs());
        }
    }
    let process = folder.start();
    process.drained();
    process.stop();
    let sums = verify::end(&folder, &workers);
    eprintln!("{sums}, {} s", started.elapsed().as_secs());
}

fn load_and_kill(process: Process, workers: &mut [Worker], round: u64, time: Duration) {
    let service = process.service;
    std::thread::scope(|scope| {
        for worker in workers {
            scope.spawn(move || worker.send_until_it_breaks(service, round));
        }
        std::thread::sleep(time);
        process.kill();
    });
}

/// A number from the environment.
pub(crate) fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect("a whole number"))
}
