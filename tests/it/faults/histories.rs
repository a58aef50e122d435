//! Random histories against a model: after each of them every item is in a state that the answers allow.
//!
//! A history is some submissions (in one stream they are merged), removals, repeats, and requests sent again, by one
//! connection, for items of its own; the sink panics or asks for a retry again and again, so that older changes arrive
//! after newer ones. Between histories the daemon is killed or stopped at times, and its wall clock jumps.
//!
//! `HEADGATE_FAULT_HISTORIES` sets their number, `HEADGATE_SEED` repeats a run's choices (not its timing).

use super::bench::{self, number, rounds};
use super::book::{Event, Fields, Happened, Mark, Op};
use super::judge::Files;
use super::preload::Preload;
use super::producer::{Sent, Worker};
use super::verdict::Verdict;
use super::{ORDERS, PROFILES};
use crate::app::Random;
use crate::guests::guest;
use crate::process::Process;
use crate::setup::Setup;

const HISTORIES: u64 = 1_000;
/// Daemons at once.
const DAEMONS: u64 = 2;
/// Histories between two looks at the pool.
const BATCH: u64 = 20;
const KEYS: u64 = 3;
/// Of an item that is merged.
const FIELDS: u64 = 4;
/// Jumps of the wall clock, either way: more than any pause, less than anything is kept.
const JUMP_MS: u64 = 60_000;

#[test]
fn after_any_history_the_pool_holds_what_the_answers_allow() {
    let histories = number("HEADGATE_FAULT_HISTORIES").unwrap_or_else(|| rounds(HISTORIES, 100));
    let mut random = bench::random("histories");
    let sink = guest("stumbles");
    let mut verdict = Verdict::on("random histories");
    let shares = std::thread::scope(|scope| {
        let daemons: Vec<_> = (0..DAEMONS)
            .map(|daemon| {
                let random = Random(random.next());
                let sink = &sink;
                let share = histories / DAEMONS + u64::from(daemon < histories % DAEMONS);
                scope.spawn(move || Life::new(random, sink).histories(share))
            })
            .collect();
        let shares = daemons.into_iter().map(|daemon| daemon.join());
        shares
            .map(|share| share.expect("every history ends well"))
            .collect::<Vec<_>>()
    });
    for acknowledged in shares.into_iter().flatten() {
        verdict.round(acknowledged, acknowledged > 0);
    }
    verdict.close(histories);
}

/// Sends the dead letters again that there are now. Of those that are left something newer is there: nobody needs them.
fn again(process: &Process) {
    let letters = "/api/admin/sinks/stumbles/dead-letters";
    let ids: Vec<i64> = (process.dead_letters("stumbles").iter())
        .filter_map(|letter| letter["id"].as_str()?.parse().ok())
        .collect();
    if ids.is_empty() {
        return;
    }
    let chosen = serde_json::json!({ "ids": ids }).to_string();
    let sent = process.call("POST", &format!("{letters}/retry"), &chosen);
    let sent = sent.json()["data"].take();
    if sent["sent_again"] == 0 && sent["items_left"] != 0 {
        // Not one that came meanwhile, which nobody has sent again.
        let ids: Vec<String> = ids.iter().map(|id| format!("id={id}")).collect();
        process.call("DELETE", &format!("{letters}?{}", ids.join("&")), "");
    }
}

/// All lives of one daemon.
struct Life {
    random: Random,
    folder: Setup,
    /// Absent where there is no compiler: then the clock does not jump.
    preload: Option<Preload>,
    process: Option<Process>,
    worker: Worker,
}

impl Life {
    fn new(mut random: Random, sink: &str) -> Self {
        let retry = "retry = { first_ms = 1, max_ms = 5, attempts = 1000000 }\nbatch = { items_max = 20 }\n";
        let folder = Setup::with_streams(&[ORDERS, PROFILES])
            .compiling()
            .merging(PROFILES)
            .sink("stumbles", sink, "*", retry);
        let preload = Preload::new("jumps of the clock in histories", &folder);
        let worker = Worker::new(0, Random(random.next()));
        let mut life = Self {
            random,
            folder,
            preload,
            process: None,
            worker,
        };
        life.start();
        life
    }

    fn start(&mut self) {
        self.process = Some(match &self.preload {
            Some(preload) => preload.start(&self.folder),
            None => self.folder.spawn(),
        });
    }

    fn process(&self) -> &Process {
        self.process.as_ref().expect("it runs")
    }

    /// So many histories; how many requests were acknowledged in each.
    fn histories(mut self, count: u64) -> Vec<u64> {
        let mut acknowledged = Vec::new();
        let mut history = 0;
        while history < count {
            let end = (history + BATCH).min(count);
            for history in history..end {
                acknowledged.push(self.history(history));
                self.disturb();
            }
            history = end;
            self.drain();
            self.judge();
        }
        acknowledged
    }

    /// Some requests about a few items of this history's own.
    fn history(&mut self, history: u64) -> u64 {
        let mut client = self.process().client();
        let mut sent: Vec<(Op, String)> = Vec::new();
        let mut acknowledged = 0;
        for number in 0..self.random.within(4..14) {
            let merges = self.random.once_in(2);
            let stream = if merges { PROFILES } else { ORDERS };
            let key = format!("h{history}-{}", self.random.within(0..KEYS));
            let op = match self.random.within(0..8) {
                0 | 1 => Op::Remove { stream, key },
                2 if !sent.is_empty() => {
                    let (op, id) = self.random.one_of(&sent).clone();
                    self.again(op, &id);
                    continue;
                }
                3 => Op::Claim {
                    stream: ORDERS,
                    // Some of them are repeats.
                    name: format!("h{history}-{}", number / 3),
                    key: format!("claimed-{history}-{}", number / 3),
                },
                _ => {
                    let field = match merges {
                        true => format!("f{}", number % FIELDS),
                        false => "n".to_owned(),
                    };
                    let value = history * 100 + number;
                    Op::Put {
                        stream,
                        key,
                        fields: Fields::from([(field, value)]),
                        merges,
                    }
                }
            };
            let before = self.worker.book.accepted.len();
            let done = self.worker.ask(&mut client, op.clone(), None);
            assert_eq!(done, Sent::Acknowledged, "{}", self.process().log());
            acknowledged += 1;
            if let (Op::Put { .. }, [id]) = (&op, &self.worker.book.accepted[before..]) {
                sent.push((op, id.clone()));
            }
        }
        acknowledged
    }

    /// Sends a request again: its values come back, or newer ones stay.
    fn again(&mut self, op: Op, request_id: &str) {
        let path = format!("/api/admin/requests/{request_id}/resend");
        let status = self.process().try_call("POST", &path, "");
        let status = status.expect("an answer");
        assert!(status < 500, "{status}: {}", self.process().log());
        let event = Event {
            op,
            sent_at: 0,
            promise: None,
        };
        self.worker.book.note(&event, Happened::Perhaps);
    }

    /// Now and then the clock jumps, or the daemon is started again.
    fn disturb(&mut self) {
        if let Some(preload) = &self.preload
            && self.random.once_in(10)
        {
            let jump = self.random.within(0..2 * JUMP_MS).cast_signed();
            preload.shift_clock(jump - JUMP_MS.cast_signed());
        }
        if self.random.once_in(25) {
            let process = self.process.take().expect("it runs");
            if self.random.once_in(2) {
                process.kill();
            } else {
                process.stop();
            }
            self.start();
        }
    }

    /// Until the sink has everything. Who stumbles often pauses, and who stumbles over the same item again and again
    /// has given it up.
    fn drain(&mut self) {
        // A clock that was put back has retries wait: they are asked for.
        let process = self.process();
        // An item that was given up between two looks is in neither: nothing must be left twice.
        let mut empty = 0;
        process.drained_when(|| {
            let sink = process.sink("stumbles");
            let is_empty = ["lag", "retries", "dead_letters"].map(|one| sink[one] == 0);
            if is_empty == [true; 3] {
                empty += 1;
                return empty == 2;
            }
            empty = 0;
            if sink["dead_letters"] != 0 {
                again(process);
            }
            process.call("POST", "/api/admin/sinks/stumbles/retry", "");
            false
        });
    }

    fn judge(&mut self) {
        let mut verdict = Verdict::on("random histories");
        let files = Files::of(&self.folder);
        files.book(&self.worker.book, Mark::default(), &mut verdict);
        verdict.must_be_clean(&"after a history");
        // The next histories have items of their own.
        self.worker.book.states.clear();
        self.worker.book.written.clear();
        self.worker.book.accepted.clear();
    }
}
