//! Histories of items that expire.
//!
//! **Invariant**: a history counts only if nothing can have expired on one side while it had not on the other.

use std::time::{Duration, Instant};

use super::history::{Act, Op, expiring, of_each_kind};
use super::{Both, EQUAL_WITHIN, NAMES, alone, cluster};
use crate::faults::{number, random};
use postgres_server::Postgres;

/// Random ones, behind the one in which items of each kind expire.
const HISTORIES: u64 = 0;
/// Items expire after this time at first.
const EXPIRES: Duration = Duration::from_secs(4);
/// A machine that is too slow for this time finds no difference: what differs then differs.
const EXPIRES_MAX: Duration = Duration::from_secs(120);
/// Clocks of nodes may differ by so much: a node moves on to the time that others have lived when it hears of it.
const MARGIN: Duration = Duration::from_millis(1_500);

/// What was found.
enum Played {
    Same,
    Differs(Vec<String>),
    /// Something may have expired on one side alone, which these may come of.
    Late(Vec<String>),
}

impl Both {
    fn play_expiring(&mut self, ops: &[Op], expires: Duration) -> Played {
        let prefix = format!("e{}-", self.played);
        self.played += 1;
        self.alone.begin(&prefix);
        self.cluster.begin(&prefix);
        // Before the first of what can expire was sent.
        let mut since = Instant::now();
        for op in ops {
            if op.act == Act::Lapse || since.elapsed() > expires / 3 {
                self.lapse();
                since = Instant::now();
                // What failed when it was removed is not the last that failed.
                self.alone.send_good();
                self.cluster.send_good();
            }
            self.alone.act(op, ops);
            self.cluster.act(op, ops);
            if since.elapsed() > expires - MARGIN {
                return Played::Late(Vec::new());
            }
        }
        let found = self.compared((expires - MARGIN).saturating_sub(since.elapsed()));
        if !found.is_empty() || since.elapsed() > expires - MARGIN {
            return Played::Late(found);
        }
        self.lapse();
        let found = self.compared(EQUAL_WITHIN);
        self.alone.end();
        self.cluster.end();
        match found.is_empty() {
            true => Played::Same,
            false => Played::Differs(found),
        }
    }

    /// Both sides wait at the same time: their clocks run.
    fn lapse(&mut self) {
        // Between what failed before and the removals that fail now: before anybody waits.
        self.alone.send_good();
        self.cluster.send_good();
        self.alone.lapse();
        self.cluster.lapse();
    }
}

#[test]
fn items_expire_on_a_cluster_as_they_do_on_one_daemon() {
    let Some(server) = Postgres::start("items_expire_on_a_cluster") else {
        return;
    };
    let histories = number("HEADGATE_TEST_HISTORIES").unwrap_or(HISTORIES);
    let mut random = random("items that expire on one daemon and on a cluster");
    let seed = random.0;
    let mut expires = EXPIRES;
    let start = |expires| Both {
        alone: alone(Some(expires)),
        cluster: cluster(&server, Some(expires)),
        played: 0,
    };
    let mut both = start(expires);
    for at in 0..=histories {
        let ops = match at {
            0 => of_each_kind(),
            _ => expiring(&mut random, NAMES.len()),
        };
        loop {
            let found = match both.play_expiring(&ops, expires) {
                Played::Same => break,
                Played::Late(_) if expires < EXPIRES_MAX => {
                    expires *= 2;
                    both.stop();
                    both = start(expires);
                    continue;
                }
                Played::Late(found) | Played::Differs(found) => found,
            };
            let ops: Vec<String> = ops.iter().map(|op| format!("{op:?}")).collect();
            panic!(
                "history {at} with HEADGATE_SEED={seed} differs:\n{}\nwith these operations:\n{}",
                found.join("\n"),
                ops.join("\n")
            );
        }
    }
    both.stop();
}
