//! `kill -9` at random moments under load: what was answered 202 is there afterwards, once.
//!
//! Sixteen connections send single objects, arrays, removals and idempotency keys, some of them repeated, by several
//! connections at once and again after the restart. `HEADGATE_KILLS` sets the number of kills, too.

use std::time::Duration;

use super::bench::{self, load, number, pause, rounds};
use super::judge;
use super::verdict::Verdict;

const CONNECTIONS: u64 = 16;
const KILLS: u64 = 20;
/// The load before a kill, in milliseconds.
const LOAD_MS: std::ops::Range<u64> = 50..300;
/// A kill that met fewer acknowledged requests says little.
const ENOUGH: u64 = 10;

#[test]
fn what_was_acknowledged_survives_every_kill_exactly_once() {
    let kills = number("HEADGATE_KILLS").unwrap_or_else(|| rounds(KILLS, 1));
    let mut random = bench::random("kills");
    let folder = bench::folder();
    let mut workers = bench::workers(CONNECTIONS, &mut random);
    let mut verdict = Verdict::on("kill -9 under load");
    for kill in 1..=kills {
        let process = folder.spawn();
        let time = Duration::from_millis(random.within(LOAD_MS));
        let acknowledged = load(process.service, &mut workers, kill, None, |progress| {
            progress.reaches(ENOUGH);
            pause(time);
            process.kill();
        });
        verdict.round(acknowledged, acknowledged >= ENOUGH);

        let process = folder.spawn();
        process.drained();
        for worker in &mut workers {
            worker.repeat_unanswered(&process);
        }
        process.drained();
        judge::round(&process, &folder, &mut workers, &mut verdict);
        verdict.must_be_clean(&format!("kill {kill}"));
        if kill % 2 == 0 {
            // Now and then an orderly end in between.
            process.stop();
        } else {
            process.kill();
        }
    }
    let process = folder.spawn();
    process.drained();
    process.stop();
    let sums = judge::end(&folder, &workers, &mut verdict);
    eprintln!("{sums}");
    let refused: u64 = workers.iter().map(|worker| worker.refused).sum();
    assert_eq!(refused, 0, "nothing was wrong with the disk");
    verdict.close(kills * 3 / 4);
}
