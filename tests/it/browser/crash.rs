//! `kill -9` while items are posted and removed, and pages that look on.
//!
//! **Invariant**: the truth is what was acknowledged; a request without an answer is repeated until it has one.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::{Value, json};

use super::daemon::{Daemon, READ_KEY, remove};
use super::driver::Window;
use super::watched::Watched;
use crate::process::{Answer, Client, SetOnDrop};
use crate::wait::eventually;

const KILLS: u64 = 3;
/// Acknowledged requests between two kills.
const REQUESTS: u64 = 150;
/// Items that are written again and again.
const COUNTERS: u64 = 20;
/// Every so often an item is written once, and every other of these is removed.
const ONCE: u64 = 8;

/// Items by key: the last number of each.
type Numbers = BTreeMap<String, u64>;

/// Posts until told to stop; what the stream must hold then.
struct Load {
    address: SocketAddr,
    client: Option<Client>,
    expected: Numbers,
}

impl Load {
    fn run(address: SocketAddr, acknowledged: &AtomicU64, stop: &AtomicBool) -> Numbers {
        let mut load = Self {
            address,
            client: None,
            expected: Numbers::new(),
        };
        for number in 1.. {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            if number % ONCE == 0 {
                let key = format!("once-{number}");
                load.post(&key, number);
                if number % (2 * ONCE) == 0 {
                    load.remove(&key);
                }
            } else {
                load.post(&format!("counter-{}", number % COUNTERS), number);
            }
            acknowledged.fetch_add(1, Ordering::Relaxed);
        }
        load.expected
    }

    fn post(&mut self, key: &str, number: u64) {
        let headers = format!("X-Item-Key: id\r\nIdempotency-Key: number-{number}\r\n");
        let body = json!({"id": key, "n": number}).to_string();
        let answer = self.insist(|client| client.post("orders", &headers, &body));
        assert_eq!(answer.status, 202, "{}", answer.body);
        self.expected.insert(key.to_owned(), number);
    }

    fn remove(&mut self, key: &str) {
        let answer = self.insist(|client| remove(client, "orders", key));
        assert_eq!(answer.status, 202, "{}", answer.body);
        self.expected.remove(key);
    }

    fn insist(&mut self, ask: impl Fn(&mut Client) -> std::io::Result<Answer>) -> Answer {
        eventually("an answer", || {
            if self.client.is_none() {
                self.client = Client::connect(self.address).ok();
            }
            let answer = ask(self.client.as_mut()?).ok();
            if answer.as_ref().is_none_or(|answer| answer.status == 503) {
                self.client = None;
                return None;
            }
            answer
        })
    }
}

/// The numbers that a view holds.
fn numbers(view: &Value) -> Numbers {
    let items = view["items"].as_array().expect("items");
    let number = |item: &Value| {
        let fields = item[1].as_array().expect("fields");
        let field = fields.iter().find(|field| field[0] == "n");
        Some((item[0].as_str()?.to_owned(), field?[1].as_u64()?))
    };
    items.iter().map(|item| number(item).expect("n")).collect()
}

#[test]
fn pages_miss_nothing_however_often_the_daemon_is_killed() {
    let test = "pages_miss_nothing_however_often_the_daemon_is_killed";
    let Some(page) = Window::open(test) else {
        return;
    };
    let mut daemon = Daemon::start(&["orders"]);
    daemon.post("orders", r#"{"id": "counter-1", "n": 0}"#);
    page.go(&format!(
        "{}/render/orders?fields=_key,n&limit=5000#{READ_KEY}",
        daemon.origin()
    ));
    page.run("window.loadedOnce = true", &json!([]));
    let other = page.another();
    other.go(&daemon.blank_page());
    Watched::load(&other, "/headgate.js");
    let clients = ["websocket", "sse"].map(|transport| {
        let options = json!({"transport": transport, "storage": false});
        Watched::open(&other, "orders", &options)
    });
    for client in &clients {
        client.view_becomes("the first item", "orders", |view| numbers(view).len() == 1);
    }

    let (acknowledged, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let address = daemon.address();
    let expected = std::thread::scope(|scope| {
        let load = scope.spawn(|| Load::run(address, &acknowledged, &stop));
        let stopping = SetOnDrop(&stop);
        for round in 0..KILLS {
            let before = acknowledged.load(Ordering::Relaxed);
            eventually("requests are acknowledged", || {
                assert!(!load.is_finished(), "the load ended");
                let now = acknowledged.load(Ordering::Relaxed);
                (now >= before + REQUESTS).then_some(())
            });
            daemon.kill();
            daemon.start_again();
            // None, one or two of the three pages are back before the next kill.
            eventually("pages are back", || {
                let back = daemon.process().admin("/api/admin/renderers");
                (back.as_array()?.len() as u64 >= round % 3).then_some(())
            });
        }
        drop(stopping);
        load.join().expect("the load ends")
    });
    assert!(expected.len() > COUNTERS as usize, "{expected:?}");

    for client in &clients {
        let last = client.view_becomes("current and complete", "orders", |view| {
            view["stale"] == false && view["complete"] == true && numbers(view) == expected
        });
        assert_eq!(numbers(&last), expected);
        assert_eq!(client.snapshots(), 1, "it resumed: {}", client.state());
        let state = client.state();
        let cuts = state["states"].as_array().expect("a list").iter();
        let cuts = cuts.filter(|state| state["state"] == "offline").count();
        assert!(cuts > 0, "it was cut off: {state}");
    }
    // Lines are made as far as somebody scrolls.
    let rows = "document.querySelector('.scroll').scrollTo(0, 1e9); \
         return Object.fromEntries([...document.querySelectorAll('tbody tr')].map((row) => \
         [row.children[0].textContent, Number(row.children[1].textContent)]))";
    page.shows(rows, &json!(expected));
    page.shows("return window.loadedOnce", &json!(true));
}
