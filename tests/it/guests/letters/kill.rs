//! `kill -9` while dead letters are sent again.
//!
//! **Invariant**: whenever it is killed, each item is a dead letter, or waits, or is in the pool.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::{keys, nobody_else_suffers};
use super::{BY_ID, SEND_AGAIN, done, door, rows, taken, with_a_door};
use crate::app::Random;
use crate::process::Client;
use crate::setup::{ADMIN_TOKEN, Setup};

#[test]
#[expect(clippy::disallowed_methods, reason = "the moment of the kill")]
fn sending_again_survives_every_kill_and_takes_each_item_once() {
    const ITEMS: usize = 400;
    let seed = getrandom::u64().expect("randomness");
    eprintln!("seed {seed}");
    let mut random = Random(seed);
    let folder = with_a_door("batch = { items_max = 7 }\n");
    let process = folder.spawn();
    door(&process, "close");
    let item = |n| format!("{{\"id\": \"reject-{n:03}\"}}");
    let body = format!("[{}]", (0..ITEMS).map(item).collect::<Vec<_>>().join(","));
    let id = process.failed("hostile", BY_ID, &body);
    let mut process = Some(process);
    for round in 0..12 {
        let running = process.take().expect("a process");
        // In some rounds all fail again, in others some arrive before the kill.
        door(&running, if round % 3 == 2 { "open" } else { "close" });
        let mut client = Client::connect(running.admin).expect("it listens");
        let calling = std::thread::spawn(move || {
            // The answer may never come.
            drop(client.call("POST", SEND_AGAIN, ADMIN_TOKEN, ""));
        });
        let moment = Duration::from_micros(random.within(0..30_000));
        std::thread::sleep(moment);
        running.kill();
        calling.join().expect("the caller ends");
        let places = places(&folder);
        let all: BTreeSet<_> = places.iter().collect();
        assert_eq!(
            (places.len(), all.len()),
            (ITEMS, ITEMS),
            "in round {round}"
        );
        process = Some(folder.spawn());
    }
    let process = process.expect("a process");
    door(&process, "open");
    process.drained();
    done(&process, "POST", SEND_AGAIN, "");
    process.request_becomes(&id, "processed");
    assert_eq!(keys(&folder, "hostile").len(), ITEMS + 2);
    assert_eq!((rows(&folder, "resends"), rows(&folder, "retries")), (0, 0));
    // Twelve rounds, the first door and the last one.
    assert_eq!(taken(&folder), ITEMS as u64 + 14);
    nobody_else_suffers(process);
}

/// Where each item is: dead, waiting or done.
fn places(folder: &Setup) -> Vec<String> {
    let pool = folder.pool();
    let sql = "SELECT key FROM dead_letters
               UNION ALL SELECT key FROM resends JOIN retries ON retries.id = retry_id
               UNION ALL SELECT key FROM items WHERE stream = 'hostile' AND key LIKE 'reject%'";
    let mut statement = pool.prepare(sql).expect("the tables");
    let rows = statement.query_map([], |row| row.get(0)).expect("rows");
    rows.map(|row| row.expect("a row")).collect()
}
