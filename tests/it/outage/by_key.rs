//! Of one key nothing overtakes: what fails holds up what follows with its key, and nothing else.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::process::{BY_ID, Process};
use crate::receiver::{Receiver, answer};
use crate::setup::Setup;
use crate::wait::eventually;

/// A receiver that refuses some items as long as its door is closed, and what it took, in order.
struct Door {
    receiver: Receiver,
    open: Arc<AtomicBool>,
    taken: Arc<Mutex<Vec<String>>>,
}

impl Door {
    fn new(refuses: fn(&str) -> Option<u16>) -> Self {
        let (open, taken) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let receiver = Receiver::start({
            let (open, taken): (_, Arc<Mutex<Vec<String>>>) =
                (Arc::clone(&open), Arc::clone(&taken));
            move |request, _| {
                let refused = request.body.lines().find_map(refuses);
                if let (Some(status), false) = (refused, open.load(Ordering::Relaxed)) {
                    return answer(status, "", "closed");
                }
                let lines = request.body.lines().map(str::to_owned);
                taken.lock().expect("no panic while held").extend(lines);
                answer(200, "", "")
            }
        });
        Self {
            receiver,
            open,
            taken,
        }
    }

    fn folder(&self, more: &str) -> Setup {
        let forward = format!(
            "{more}config = {{ url = \"{}\", form = \"field-lines\" }}\n\
             http = {{ hosts = [\"http://{}\"], networks = [\"127.0.0.1\"] }}\n",
            self.receiver.url("/"),
            self.receiver.address
        );
        Setup::with_streams(&["orders"])
            .sink("forward", "http-forward", "orders", &forward)
            .sink("pool", "pool", "orders", "")
    }

    /// The numbers of a key in the order in which they were taken.
    fn of(&self, key: &str) -> Vec<u64> {
        let taken = self.taken.lock().expect("no panic while held");
        let items = taken
            .iter()
            .map(|line| -> serde_json::Value { serde_json::from_str(line).expect("JSON") });
        let own = items.filter(|item| item["id"] == key);
        own.map(|item| item["n"].as_u64().expect("a number"))
            .collect()
    }

    fn becomes(&self, key: &str, expected: &[u64]) {
        eventually(&format!("{key} is {expected:?}"), || {
            (self.of(key) == expected).then_some(())
        });
    }
}

fn send(process: &Process, key: &str, n: u64) -> String {
    process.accepted(
        "orders",
        BY_ID,
        &format!("{{\"id\": \"{key}\", \"n\": {n}}}"),
    )
}

fn waits(process: &Process, retries: u64) {
    process.sink_becomes("forward", "waiting", |sink| sink["retries"] == retries);
}

const SLOW: &str = "batch = { items_max = 1, linger_ms = 0 }\nretry = { first_ms = 86_400_000, max_ms = 86_400_000 }\n";
const RETRY: &str = "/api/admin/sinks/forward/retry";

#[test]
fn what_fails_holds_up_its_key_and_no_other_through_kills_too() {
    let door = Door::new(|line| line.contains("\"n\":1}").then_some(503));
    let folder = door.folder(SLOW);
    let process = folder.spawn();
    send(&process, "a", 1);
    waits(&process, 1);
    let second = send(&process, "a", 2);
    send(&process, "b", 3);
    door.becomes("b", &[3]);
    process.drained_when(|| process.sink("forward")["waiting_since"].is_null());
    assert_eq!(door.of("a"), [0; 0], "nothing overtakes");
    process.kill();
    // The keys that wait are known again.
    let process = folder.spawn();
    send(&process, "a", 4);
    send(&process, "b", 5);
    door.becomes("b", &[3, 5]);
    assert_eq!(door.of("a"), [0; 0], "nothing overtakes");
    door.open.store(true, Ordering::Relaxed);
    process.call("POST", RETRY, "").data(200);
    // What waits behind it is due at once: the next retry would be a day later.
    door.becomes("a", &[1, 2, 4]);
    process.request_becomes(&second, "processed");
    process.drained();
    assert_eq!(process.sink("forward")["dead_letters"], 0);
    process.stop();
}

#[test]
fn a_dead_letter_and_a_retry_that_is_given_up_free_their_keys() {
    let door = Door::new(|line| match line {
        line if line.contains("\"n\":1}") => Some(400),
        line if line.contains("\"n\":3}") => Some(503),
        _ => None,
    });
    let folder = door.folder(SLOW);
    let process = folder.spawn();
    let refused = send(&process, "a", 1);
    process.request_becomes(&refused, "failed");
    send(&process, "a", 2);
    door.becomes("a", &[2]);
    let failed = send(&process, "a", 3);
    waits(&process, 1);
    send(&process, "a", 4);
    waits(&process, 2);
    let retries = process.list("/api/admin/sinks/forward/retries");
    let behind = &retries[1];
    assert_eq!(behind["attempts"], 0, "{behind}");
    let reason = behind["reason"].as_str().expect("text");
    assert!(reason.contains("same key"), "{reason}");
    let id = retries[0]["id"].as_str().expect("text");
    let give_up = format!("/api/admin/sinks/forward/retries/{id}");
    process.call("DELETE", &give_up, "").data(200);
    door.becomes("a", &[2, 4]);
    process.request_becomes(&failed, "failed");
    process.drained();
    process.stop();
}

#[test]
fn a_receiver_that_is_down_costs_nothing_where_all_that_follows_waits() {
    let door = Door::new(|_| Some(503));
    let folder = door.folder("retry = { first_ms = 100, max_ms = 200 }\n");
    let process = folder.spawn();
    let mut n = 0;
    eventually("the sink is paused", || {
        for key in ["a", "b"] {
            n += 1;
            send(&process, key, n);
        }
        let sink = process.sink("forward");
        assert_eq!(sink["dead_letters"], 0);
        (sink["state"] == "paused").then_some(())
    });
    for _ in 0..500 {
        n += 1;
        send(&process, "a", n);
    }
    let before = door.receiver.seen().len();
    door.open.store(true, Ordering::Relaxed);
    process.call("POST", RETRY, "").data(200);
    process.drained();
    let taken = [door.of("a"), door.of("b")];
    assert!(taken.iter().all(|of| of.is_sorted()), "{taken:?}");
    assert_eq!(taken.concat().len() as u64, n);
    let calls = door.receiver.seen().len() - before;
    assert!(calls < 100, "{calls} calls for {n} operations");
    assert!(process.dead_letters("forward").is_empty());
    process.stop();
}
