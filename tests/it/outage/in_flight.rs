//! Several calls of a sink at once: of keys that differ, each once, through kills too.

use std::collections::HashSet;
use std::sync::{Arc, Condvar, Mutex};

use crate::process::BY_ID;
use crate::receiver::{Book, Receiver, answer};
use crate::setup::Setup;
use crate::wait::{PROCESS_DEADLINE, eventually};

/// Calls that are being answered: the keys of each, and how many there were at once.
#[derive(Default)]
struct Floor {
    keys: HashSet<String>,
    calls: usize,
    most: usize,
    closed: bool,
}

/// A receiver that answers a call when so many stand before it at once, or once did.
struct Crowd {
    receiver: Receiver,
    floor: Arc<(Mutex<Floor>, Condvar)>,
    book: Book,
}

impl Crowd {
    fn of(wanted: usize) -> Self {
        let floor: Arc<(Mutex<Floor>, Condvar)> = Arc::default();
        let book = Book::default();
        let receiver = Receiver::start({
            let (floor, book) = (Arc::clone(&floor), book.clone());
            move |request, _| {
                let lines: Vec<String> = request.body.lines().map(str::to_owned).collect();
                let key = |line: &String| -> String {
                    let item: serde_json::Value = serde_json::from_str(line).expect("JSON");
                    item["id"].as_str().expect("a key").to_owned()
                };
                let own: HashSet<String> = lines.iter().map(key).collect();
                let (lock, changed) = &*floor;
                let mut now = lock.lock().expect("no panic while held");
                now.calls += 1;
                now.most = now.most.max(now.calls);
                assert!(now.keys.is_disjoint(&own), "two calls with a key of both");
                now.keys.extend(own.iter().cloned());
                changed.notify_all();
                let (mut now, waited) = changed
                    .wait_timeout_while(now, PROCESS_DEADLINE, |now| {
                        now.most < wanted || now.closed
                    })
                    .expect("no panic while held");
                let status = if waited.timed_out() { 500 } else { 200 };
                if status == 200 {
                    book.take(request.header("idempotency-key").expect("a key"), lines);
                }
                now.calls -= 1;
                now.keys.retain(|key| !own.contains(key));
                answer(status, "", "")
            }
        });
        Self {
            receiver,
            floor,
            book,
        }
    }

    fn most(&self) -> usize {
        self.floor.0.lock().expect("no panic while held").most
    }

    fn close(&self, closed: bool) {
        self.floor.0.lock().expect("no panic while held").closed = closed;
        self.floor.1.notify_all();
    }

    fn folder(&self, in_flight: usize) -> Setup {
        let forward = format!(
            "in_flight = {in_flight}\nbatch = {{ items_max = 10, linger_ms = 0 }}\n\
             config = {{ url = \"{}\", form = \"field-lines\" }}\n\
             http = {{ hosts = [\"http://{}\"], networks = [\"127.0.0.1\"] }}\n",
            self.receiver.url("/"),
            self.receiver.address
        );
        Setup::with_streams(&["orders"]).sink("forward", "http-forward", "orders", &forward)
    }
}

/// Keys in turn, each twice in a row.
fn items() -> Vec<String> {
    (0..40)
        .map(|n| format!("{{\"id\":\"{}\",\"n\":{n}}}", n / 2))
        .collect()
}

#[test]
fn calls_at_once_have_no_key_in_common() {
    let crowd = Crowd::of(4);
    let folder = crowd.folder(4);
    let process = folder.spawn();
    let items = items();
    process.accepted("orders", BY_ID, &format!("[{}]", items.join(",")));
    process.drained_when(|| process.sink("forward")["lag"] == 0);
    assert_eq!(crowd.most(), 4);
    let expected: Vec<&str> = items.iter().map(String::as_str).collect();
    crowd.book.holds_each_once(&expected);
    // Little that waits is one call.
    let before = crowd.receiver.seen().len();
    process.accepted("orders", BY_ID, r#"[{"id":"a"},{"id":"b"}]"#);
    process.drained_when(|| process.sink("forward")["lag"] == 0);
    assert_eq!(crowd.receiver.seen().len(), before + 1);
}

#[test]
fn calls_that_a_kill_cut_off_come_again_as_they_were() {
    let crowd = Crowd::of(3);
    crowd.close(true);
    let mut folder = crowd.folder(3);
    let process = folder.spawn();
    let items = items();
    process.accepted("orders", BY_ID, &format!("[{}]", items.join(",")));
    eventually("three calls at once", || (crowd.most() == 3).then_some(()));
    process.kill();
    let sent = crowd.receiver.seen().len();
    crowd.close(false);
    eventually("those calls are answered", || {
        let now = crowd.floor.0.lock().expect("no panic while held");
        (now.calls == 0).then_some(())
    });
    // What was in a call stays together, whatever the settings are by now.
    folder.change("in_flight = 3", "in_flight = 1");
    let process = folder.spawn();
    process.drained_when(|| process.sink("forward")["lag"] == 0);
    let expected: Vec<&str> = items.iter().map(String::as_str).collect();
    crowd.book.holds_each_once(&expected);
    assert_eq!(crowd.receiver.seen().len(), 2 * sent);
}

#[test]
fn several_calls_need_a_sink_that_waits_for_others() {
    for (more, expected) in [
        ("in_flight = 2\n", "requires `http` or `postgres`"),
        (
            "in_flight = 2\nordering = \"strict\"\n",
            "requires ordering = \"key\"",
        ),
        ("in_flight = 17\n", "1 to 16"),
    ] {
        let folder = Setup::with_streams(&["orders"]).sink("one", "pool", "orders", more);
        let Err(ended) = folder.try_spawn() else {
            panic!("it starts with {more}");
        };
        assert!(ended.log.contains("sinks[0].in_flight"), "{}", ended.log);
        assert!(ended.log.contains(expected), "{}", ended.log);
    }
}
