//! `kill -9` while sinks send to receivers that believe idempotency keys, and refuse now and then.
//!
//! **Invariant**: each item that was acknowledged is in each receiver's book, under one key: whoever remembers keys takes
//! it once.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::STREAM;
use super::bench::{self, pause, rounds};
use super::verdict::Verdict;
use crate::app::Random;
use crate::process::{BY_ID, Client};
use crate::receiver::{Receiver, Reply, Seen, answer};
use crate::setup::Setup;
use crate::wait::eventually;

const KILLS: u64 = 8;
const SENDERS: u64 = 3;
const LOAD_MS: std::ops::Range<u64> = 50..300;
/// From taking items to the answer: most kills come in between, and more waits than was sent.
const ANSWERS_AFTER: Duration = Duration::from_millis(15);

/// Name, items in a request, and how seldom it is refused. One cuts a batch into requests; of the other each request
/// holds a whole batch, and few are refused, since those are kept as they were: its kills meet batches that were not.
const SINKS: [(&str, u64, usize); 2] = [("parts", 10, 7), ("whole", 10_000, 61)];

/// Which items came under which key, and were taken.
#[derive(Clone, Default)]
struct Taken(Arc<Mutex<HashMap<String, HashSet<String>>>>);

impl Taken {
    /// Some requests are refused, others are taken and the answer says otherwise: then the same must come again.
    fn answer(&self, seen: &Seen, number: usize, refused_one_in: usize) -> Reply {
        if number % refused_one_in == 3 {
            return answer(503, "", "not now");
        }
        let key = seen.header("idempotency-key").expect("a key").to_owned();
        let items = seen.json();
        let items = items.as_array().expect("a list").iter();
        let items = items.map(|item| item["key"].as_str().expect("a key").to_owned());
        let mut taken = self.0.lock().expect("no panic while held");
        for item in items {
            taken.entry(item).or_default().insert(key.clone());
        }
        drop(taken);
        pause(ANSWERS_AFTER);
        if number % refused_one_in == 5 {
            return answer(500, "", "taken, and the answer is lost");
        }
        answer(200, "", "")
    }
}

/// One connection: what was acknowledged.
struct Sender {
    id: u64,
    random: Random,
    serial: u64,
    acknowledged: Vec<String>,
}

impl Sender {
    fn send_until_it_breaks(&mut self, service: SocketAddr) {
        let Ok(mut client) = Client::connect(service) else {
            return;
        };
        loop {
            let keys: Vec<String> = (0..self.random.within(1..8))
                .map(|_| {
                    self.serial += 1;
                    format!("{}-{}", self.id, self.serial)
                })
                .collect();
            let items: Vec<String> = keys
                .iter()
                .map(|key| format!("{{\"id\": {key:?}}}"))
                .collect();
            let body = format!("[{}]", items.join(","));
            match client.post(STREAM, BY_ID, &body) {
                Ok(answer) if answer.status == 202 => self.acknowledged.extend(keys),
                _ => return,
            }
        }
    }
}

#[test]
fn a_receiver_that_believes_keys_takes_each_item_once_whatever_is_killed() {
    let mut random = bench::random("receivers");
    let mut folder = Setup::with_streams(&[STREAM]).compiling();
    let receivers = SINKS.map(|(sink, max_items, refused_one_in)| {
        let taken = Taken::default();
        let receiver = Receiver::start({
            let taken = taken.clone();
            move |seen, number| taken.answer(seen, number, refused_one_in)
        });
        let (url, host) = (receiver.url("/in"), receiver.url(""));
        let more = format!(
            "retry = {{ first_ms = 5, max_ms = 50, attempts = 1000000 }}\n\
             config = {{ url = {url:?}, max_items = {max_items} }}\n\
             http = {{ hosts = [{host:?}], networks = [\"127.0.0.0/8\"] }}\n"
        );
        folder = folder.clone().sink(sink, "http-forward", STREAM, &more);
        (sink, receiver, taken)
    });
    let mut senders: Vec<Sender> = (0..SENDERS)
        .map(|id| Sender {
            id,
            random: Random(random.next()),
            serial: 0,
            acknowledged: Vec::new(),
        })
        .collect();
    let mut verdict = Verdict::on("kill -9 while a sink sends");
    let kills = rounds(KILLS, 1);
    for _ in 0..kills {
        let seen = receivers
            .each_ref()
            .map(|(_, receiver, _)| receiver.seen().len());
        let process = folder.spawn();
        let service = process.service;
        let before: usize = senders.iter().map(|sender| sender.acknowledged.len()).sum();
        std::thread::scope(|scope| {
            for sender in &mut senders {
                scope.spawn(move || sender.send_until_it_breaks(service));
            }
            // The sinks may have to be loaded first.
            for ((_, receiver, _), seen) in receivers.iter().zip(seen) {
                eventually("the sink sends", || {
                    (receiver.seen().len() > seen).then_some(())
                });
            }
            pause(Duration::from_millis(random.within(LOAD_MS)));
            process.kill();
        });
        let after: usize = senders.iter().map(|sender| sender.acknowledged.len()).sum();
        verdict.round((after - before) as u64, after > before);
    }
    let process = folder.spawn();
    process.drained_when(|| {
        process.is_drained() || {
            for (sink, ..) in SINKS {
                process.call("POST", &format!("/api/admin/sinks/{sink}/retry"), "");
            }
            false
        }
    });
    for (sink, ..) in SINKS {
        assert!(process.dead_letters(sink).is_empty(), "{sink}");
    }
    process.stop();
    for (sink, _, taken) in &receivers {
        let taken = taken.0.lock().expect("no panic while held");
        for item in senders.iter().flat_map(|sender| &sender.acknowledged) {
            if !taken.contains_key(item) {
                verdict.lost(format!("{sink}: the receiver has no {item}"));
            }
        }
        for (item, keys) in taken.iter().filter(|(_, keys)| keys.len() > 1) {
            verdict.doubled(format!("{sink}: {item} came as {keys:?}"));
        }
    }
    verdict.close(kills * 3 / 4);
}
