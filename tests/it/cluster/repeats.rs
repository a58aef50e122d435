//! Few requests, each repeated again and again, by many at once and to any node, while nodes are killed and generations of the
//! journal begin.
//!
//! `HEADGATE_TEST_REPEATS` says how many requests are sent. Half of them are signed, and known by their delivery and by their
//! body.
//!
//! **Invariant**: all repeats of a request have one ID, and a sink is given it once.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::ScopedJoinHandle;

use ring::hmac;
use tokio::sync::RwLock;

use super::load::{Nodes, calling};
use super::*;
use crate::app::Random;
use crate::faults::{number, pause, random};
use crate::process::{Answer, Client};
use crate::setup::key_of;
use base::text::hex;

const REPEATS: u64 = 3_000;
/// Each is sent so often.
const EACH: u64 = 50;
/// The most requests that are repeated.
const REQUESTS_MAX: u64 = 1_000;
const SENDERS: u64 = 12;
const KILLS: u64 = 3;
/// Generations of the journal that begin meanwhile.
const TURNS: u64 = 4;
const SECRET: &str = "a-secret-of-repeats-0123456789";
const SIGNED: &str = "/api/webhook/orders/signed";

/// Which requests are sent, and where.
struct Repeats {
    nodes: RwLock<Vec<SocketAddr>>,
    sent: AtomicU64,
    sent_max: u64,
    answers: AtomicUsize,
    /// The ID of each request that was accepted.
    ids: Vec<OnceLock<String>>,
}

impl Repeats {
    fn new(nodes: Vec<SocketAddr>, sent_max: u64) -> Self {
        let requests = (sent_max / EACH).clamp(2, REQUESTS_MAX);
        Self {
            nodes: RwLock::new(nodes),
            sent: AtomicU64::new(0),
            sent_max,
            answers: AtomicUsize::new(0),
            ids: (0..requests).map(|_| OnceLock::new()).collect(),
        }
    }

    /// Sends any of the requests to any node, until enough are sent.
    fn send(&self, seed: u64) {
        let mut random = Random(seed);
        let mut clients: BTreeMap<SocketAddr, Client> = BTreeMap::new();
        while self.sent.fetch_add(1, Ordering::Relaxed) < self.sent_max {
            let node = *random.one_of(&self.nodes.blocking_read());
            let request = random.within(0..self.ids.len() as u64);
            let client = match clients.remove(&node) {
                Some(client) => Ok(client),
                None => Client::connect(node),
            };
            let Ok(mut client) = client else { continue };
            // A node that is killed does not answer.
            let Ok(answer) = ask(&mut client, request) else {
                continue;
            };
            clients.insert(node, client);
            match answer.status {
                202 => {
                    let request = usize::try_from(request).expect("few");
                    let id = answer.request_id();
                    assert_eq!(
                        *self.ids[request].get_or_init(|| id.clone()),
                        id,
                        "{request}"
                    );
                    self.answers.fetch_add(1, Ordering::Relaxed);
                }
                status => assert_eq!(status, 503, "{}", answer.body),
            }
        }
    }

    /// Waits until this share of the requests is sent, or nobody sends any more.
    fn reaches(&self, part: u64, of: u64, senders: &[ScopedJoinHandle<'_, ()>]) {
        while self.sent.load(Ordering::Relaxed) < self.sent_max / of * part
            && !senders.iter().all(ScopedJoinHandle::is_finished)
        {
            pause(Duration::from_millis(20));
        }
    }
}

/// Sends a request, and half of them as GitHub does.
fn ask(client: &mut Client, request: u64) -> std::io::Result<Answer> {
    let body = json!({ "id": format!("r{request}"), "n": request }).to_string();
    if request.is_multiple_of(2) {
        let once = format!("{BY_ID}Idempotency-Key: repeat-{request}\r\n");
        return client.post("orders", &once, &body);
    }
    let headers = signed_as(SECRET, &format!("repeat-{request}"), &body);
    client.request("POST", SIGNED, &headers, &body)
}

/// The headers of a delivery that is signed as GitHub does it.
pub(super) fn signed_as(secret: &str, delivery: &str, body: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let signature = hmac::sign(&key, body.as_bytes());
    let signature = hex(signature.as_ref());
    format!(
        "{JSON}X-Hub-Signature-256: sha256={signature}\r\nX-GitHub-Delivery: {delivery}\r\nX-GitHub-Event: push\r\n"
    )
}

/// How often each item came to a sink. A call that is repeated counts once.
#[derive(Default)]
struct Given {
    calls: HashSet<String>,
    items: BTreeMap<String, u64>,
}

fn receiver(given: &Arc<Mutex<Given>>) -> Receiver {
    let given = Arc::clone(given);
    Receiver::start(move |seen, _| {
        let call = seen.header("idempotency-key").unwrap_or_default();
        let mut given = given.lock().expect("no panic while held");
        if given.calls.insert(call.to_owned()) {
            for item in seen.json().as_array().expect("an array") {
                let id = item["id"].as_str().expect("a text").to_owned();
                *given.items.entry(id).or_default() += 1;
            }
        }
        answer(200, "", "")
    })
}

#[test]
fn each_of_many_repeats_on_any_node_is_the_same_request() {
    let test = "each_of_many_repeats_on_any_node_is_the_same_request";
    let Some(server) = Postgres::start(test) else {
        return;
    };
    let given = Arc::<Mutex<Given>>::default();
    let receiver = receiver(&given);
    let verify = format!("verify = {{ scheme = \"github\", secret = \"{SECRET}\" }}");
    let nodes = ["a", "b", "c"].map(|name| {
        let node = node(&server, name)
            .unlimited()
            .stream("marks")
            .given_key("tests", "marks", &key_of("marks"), "")
            .connector("signed", "kind = \"webhook\"\nitem_key = \"id\"")
            .signing_key("signed", "main", "orders", &verify)
            .sink(
                "given",
                "http-forward",
                "orders",
                &calling(&receiver, "127.0.0.0/8"),
            );
        Some(node.spawn())
    });
    let mut nodes = Nodes(nodes);
    let sent_max = number("HEADGATE_TEST_REPEATS").unwrap_or(REPEATS);
    let kills = KILLS.max(sent_max / 100_000);
    let repeats = Repeats::new(nodes.live().map(|node| node.service).collect(), sent_max);
    let mut random = random(test);
    std::thread::scope(|scope| {
        let senders: Vec<_> = (0..SENDERS)
            .map(|_| {
                let (seed, repeats) = (random.next(), &repeats);
                scope.spawn(move || repeats.send(seed))
            })
            .collect();
        for kill in 0..kills {
            repeats.reaches(kill + 1, kills + 1, &senders);
            let at = usize::try_from(random.within(0..3)).expect("small");
            nodes.kill(at, &repeats.nodes);
            if kill < TURNS {
                server.query("SELECT headgate.turn(g) FROM headgate.cluster");
            }
        }
    });
    let count = repeats.ids.len();
    let ids: HashSet<&String> = repeats.ids.iter().filter_map(OnceLock::get).collect();
    assert_eq!(
        ids.len(),
        count,
        "each was accepted, under an ID of its own"
    );
    let answers = repeats.answers.load(Ordering::Relaxed);
    assert!(answers > 10 * count, "{answers} answers");
    for node in nodes.live() {
        assert_eq!(shows(node, count).len(), count);
        node.sink_becomes("given", "done", |sink| {
            sink["lag"] == 0 && sink["retries"] == 0
        });
    }
    let given = given.lock().expect("no panic while held");
    let more: Vec<_> = given
        .items
        .iter()
        .filter(|(_, count)| **count != 1)
        .collect();
    assert_eq!((given.items.len(), more), (count, Vec::new()));
    eprintln!("{answers} answers of 202 for {count} requests, {kills} kills");
    drop(given);
    nodes.stop();
}
