//! `kill -9` while a sink sends to a receiver that believes idempotency keys, and refuses now and then.
//!
//! **Invariant**: each item that was acknowledged is in the receiver's book, under one key: whoever remembers keys takes
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

/// Which items came under which key, and were taken.
#[derive(Clone, Default)]
struct Taken(Arc<Mutex<HashMap<String, HashSet<String>>>>);

impl Taken {
    /// Some requests are refused, others are taken and the answer says otherwise: then the same must come again.
    fn answer(&self, seen: &Seen, number: usize) -> Reply {
        if number % 7 == 3 {
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
        if number % 7 == 5 {
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
    let taken = Taken::default();
    let receiver = Receiver::start({
        let taken = taken.clone();
        move |seen, number| taken.answer(seen, number)
    });
    let (url, host) = (receiver.url("/in"), receiver.url(""));
    let more = format!(
        "retry = {{ first_ms = 5, max_ms = 50, attempts = 1000000 }}\n\
         config = {{ url = {url:?}, max_items = 10 }}\nhttp = {{ hosts = [{host:?}], networks = [\"127.0.0.0/8\"] }}\n"
    );
    let folder = Setup::with_streams(&[STREAM]).sink("forward", "http-forward", STREAM, &more);
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
        let seen = receiver.seen().len();
        let process = folder.spawn();
        let service = process.service;
        let before: usize = senders.iter().map(|sender| sender.acknowledged.len()).sum();
        std::thread::scope(|scope| {
            for sender in &mut senders {
                scope.spawn(move || sender.send_until_it_breaks(service));
            }
            // The sink may have to be loaded first.
            eventually("the sink sends", || {
                (receiver.seen().len() > seen).then_some(())
            });
            pause(Duration::from_millis(random.within(LOAD_MS)));
            process.kill();
        });
        let after: usize = senders.iter().map(|sender| sender.acknowledged.len()).sum();
        verdict.round((after - before) as u64, after > before);
    }
    let process = folder.spawn();
    process.drained_when(|| {
        process.is_drained() || {
            process.call("POST", "/api/admin/sinks/forward/retry", "");
            false
        }
    });
    assert!(process.dead_letters("forward").is_empty());
    process.stop();
    let taken = taken.0.lock().expect("no panic while held");
    for item in senders.iter().flat_map(|sender| &sender.acknowledged) {
        if !taken.contains_key(item) {
            verdict.lost(format!("the receiver has no {item}"));
        }
    }
    for (item, keys) in taken.iter().filter(|(_, keys)| keys.len() > 1) {
        verdict.doubled(format!("{item} came as {keys:?}"));
    }
    verdict.close(kills * 3 / 4);
}
