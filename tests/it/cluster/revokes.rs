//! Keys that are made on one node, used on others, and revoked on any, while one node is frozen or cut off.
//!
//! `HEADGATE_FAULT_ROUNDS` says how many keys of senders there are. With every fourth comes a key of a reader.
//!
//! **Invariant**: what begins after a revocation has returned is not accepted under that key, on any node, and who reads with a
//! revoked key is shown nothing newer. Before a revocation no node refuses a key that another one has made.

use std::io::Read as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::thread::JoinHandle;

use postgres_server::Line;
use rustix::process::{Pid, kill_process};

use super::*;
use crate::app::Random;
use crate::faults::{number, pause, random};
use crate::process::{Client, SetOnDrop};

const REVOKES: u64 = 60;
/// What happens comes again after so many keys; in a long run it is rarer, because a node that is away takes seconds each
/// time.
const EVERY: u64 = 60;
const EVERY_OF_LONG: u64 = 600;
/// Senders use one of so many newest keys: most of them are revoked.
const USED: u64 = 3;
/// An item that every node shows.
const FIRST: &str = "before-0";
const KEYS: &str = "/api/admin/connectors/tests/keys";
const READ_KEYS: &str = "/api/admin/read-keys";

/// The keys, in the order in which they are made.
#[derive(Debug, Default)]
struct Keys {
    secrets: RwLock<Vec<String>>,
    /// So many of the first ones are being revoked, or are.
    revoking: AtomicUsize,
    /// So many are: the call has returned.
    revoked: AtomicUsize,
    accepted: AtomicUsize,
    refused: AtomicUsize,
    ended: AtomicBool,
}

impl Keys {
    /// Sends to a node until the end, under new and old keys.
    fn send(&self, node: SocketAddr, seed: u64) {
        let mut random = Random(seed);
        while !self.ended.load(Ordering::SeqCst) {
            let Some((number, secret)) = self.any(&mut random) else {
                pause(Duration::from_millis(1));
                continue;
            };
            let is_revoked = self.revoked.load(Ordering::SeqCst) > number;
            let headers = format!("{}{JSON}{BY_ID}", bearer(&secret));
            let body = json!({ "id": format!("load-{}", node.port()), "n": number }).to_string();
            let client = Client::connect(node);
            let answer = client
                .and_then(|mut client| client.request("POST", "/api/ingest", &headers, &body));
            match answer.expect("an answer").status {
                202 => {
                    assert!(!is_revoked, "key {number} on {node} after its revocation");
                    self.accepted.fetch_add(1, Ordering::SeqCst);
                }
                // An address with many refused keys is told to wait.
                401 | 429 => {
                    let may = self.revoking.load(Ordering::SeqCst) > number;
                    assert!(may, "key {number} on {node} before its revocation");
                    self.refused.fetch_add(1, Ordering::SeqCst);
                }
                // It cannot say, or cannot store.
                status => assert_eq!(status, 503, "key {number} on {node}"),
            }
            pause(Duration::from_millis(2));
        }
    }

    /// One of the newest keys, with its number.
    fn any(&self, random: &mut Random) -> Option<(usize, String)> {
        let back = usize::try_from(random.within(0..USED)).expect("small");
        let secrets = self.secrets.read().expect("no panic while held");
        let number = secrets.len().checked_sub(back + 1)?;
        Some((number, secrets[number].clone()))
    }

    /// Waits until more requests are accepted, of which a count is.
    fn goes_on(&self) {
        let before = self.accepted.load(Ordering::SeqCst);
        eventually("requests are accepted", || {
            (self.accepted.load(Ordering::SeqCst) > before + 3).then_some(())
        });
    }
}

/// Who reads with a key, and goes on reading while the node lets it.
struct Reader {
    text: Arc<Mutex<String>>,
    reading: JoinHandle<()>,
    /// What was accepted after the key was revoked.
    newer: String,
}

impl Reader {
    /// It is shown what there is.
    fn of(node: &Process, secret: &str, newer: String) -> Self {
        let (mut screen, head) = eventually("a reader is answered", || {
            let mut screen = screen_with(node.service, "streams=orders", secret);
            let (mut head, mut part) = (String::new(), [0; 4_096]);
            while !head.contains("\r\n\r\n") {
                let length = screen.read(&mut part).expect("it goes on");
                assert_ne!(length, 0, "it ended: {head}");
                head.push_str(&String::from_utf8_lossy(&part[..length]));
            }
            // A node that cannot say whether it is a key.
            (!head.starts_with("HTTP/1.1 503")).then_some((screen, head))
        });
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let text = Arc::new(Mutex::new(head));
        let into = Arc::clone(&text);
        // It ends when the node does.
        let reading = std::thread::spawn(move || {
            let mut part = [0; 4_096];
            while let Ok(length @ 1..) = screen.read(&mut part) {
                let mut text = into.lock().expect("no panic while held");
                text.push_str(&String::from_utf8_lossy(&part[..length]));
            }
        });
        let reader = Self {
            text,
            reading,
            newer,
        };
        eventually("a reader is shown the stream", || {
            let text = reader.text.lock().expect("no panic while held");
            text.contains(FIRST).then_some(())
        });
        reader
    }

    fn is_shown_nothing_newer(&self) {
        let text = self.text.lock().expect("no panic while held");
        assert!(!text.contains(&self.newer), "{}: {text}", self.newer);
    }

    /// The same, when its node has ended.
    fn was_shown_nothing_newer(self) {
        let Self {
            text,
            reading,
            newer,
        } = self;
        reading.join().expect("no panic");
        let text = text.lock().expect("no panic while held");
        assert!(!text.contains(&newer), "{newer}: {text}");
    }
}

/// A process that stands still, until this is dropped.
struct Frozen(Pid);

impl Frozen {
    fn new(node: &Process) -> Self {
        let id = i32::try_from(node.id()).expect("a process id");
        node.signal(Signal::STOP);
        Self(Pid::from_raw(id).expect("not 0"))
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

/// What is the matter while a key is revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Matter {
    Nothing,
    /// A node is frozen when the key is revoked, and wakes a moment later.
    Frozen,
    /// It wakes when the call has returned.
    FrozenUntilRevoked,
    /// The last node gets no answer of the database.
    CutOff,
}

impl Matter {
    fn of(round: u64, every: u64) -> Self {
        match round % every {
            10 | 30 => Self::Frozen,
            20 => Self::FrozenUntilRevoked,
            40..46 => Self::CutOff,
            _ => Self::Nothing,
        }
    }

    /// So many of the first nodes can do what operators ask.
    fn nodes(self) -> usize {
        if self == Self::CutOff { 2 } else { 3 }
    }
}

struct Cluster {
    nodes: [Process; 3],
    /// Between the last node and the database.
    line: Line,
    keys: Keys,
    /// From the first time that something is the matter to the next.
    every: u64,
}

impl Cluster {
    /// A node that can do what operators ask, whatever is the matter, and is not this one.
    fn any(&self, random: &mut Random, matter: Matter, but: Option<usize>) -> &Process {
        let all: Vec<usize> = (0..matter.nodes()).filter(|at| Some(*at) != but).collect();
        &self.nodes[*random.one_of(&all)]
    }

    /// A key is made, used everywhere, and revoked.
    fn round(&self, round: u64, random: &mut Random) {
        let matter = Matter::of(round, self.every);
        let number = usize::try_from(round).expect("few");
        let name = format!("k{round}");
        let body = json!({ "name": name, "stream": "orders" });
        let made = self.any(random, matter, None).make(KEYS, &body);
        let mut secrets = self.keys.secrets.write().expect("no panic while held");
        secrets.push(made.secret());
        drop(secrets);
        self.keys.goes_on();
        let frozen = match matter {
            Matter::Frozen | Matter::FrozenUntilRevoked => Some(*random.one_of(&[0, 1, 2])),
            Matter::Nothing | Matter::CutOff => None,
        };
        let asked = self.any(random, matter, frozen);
        self.keys.revoking.store(number + 1, Ordering::SeqCst);
        let stands = frozen.map(|at: usize| Frozen::new(&self.nodes[at]));
        std::thread::scope(|scope| {
            let stands = match matter {
                Matter::Frozen => {
                    scope.spawn(move || {
                        pause(Duration::from_millis(300));
                        drop(stands);
                    });
                    None
                }
                _ => stands,
            };
            revoke(asked, &format!("{KEYS}/{name}"));
            self.keys.revoked.store(number + 1, Ordering::SeqCst);
            drop(stands);
        });
        if let Some(at) = frozen {
            self.is_back(at);
        }
    }

    /// Waits until a node can do again what it is asked.
    fn is_back(&self, at: usize) {
        accepted(&self.nodes[at], "back");
        ready_becomes(&self.nodes[at], None);
    }

    /// A key of a reader is made, used on another node, and revoked on any.
    fn reading(&self, round: u64, random: &mut Random) -> Reader {
        let matter = Matter::of(round, self.every);
        let (name, newer) = (format!("r{round}"), format!("after-{round}"));
        let body = json!({ "name": name, "streams": ["orders"] });
        let made = self.any(random, matter, None).make(READ_KEYS, &body);
        let secret = made.secret();
        let reader = Reader::of(self.any(random, matter, None), &secret, newer);
        let asked = self.any(random, matter, None);
        revoke(asked, &format!("{READ_KEYS}/{name}"));
        accepted(self.any(random, matter, None), &reader.newer);
        for node in &self.nodes[..matter.nodes()] {
            shows_item(node, &reader.newer);
            let path = item_path(&reader.newer);
            // An address with many refused keys is told to wait.
            let status = node.ask("GET", &path, &secret, "", "").status;
            assert!(matches!(status, 401 | 429), "{status}");
        }
        reader.is_shown_nothing_newer();
        reader
    }

    /// The last node is cut off from the database while somebody reads there, whose key is revoked then.
    fn cut_off(&self, round: u64) -> Reader {
        let (name, newer) = (format!("c{round}"), format!("cut-{round}"));
        let [one, _, last] = &self.nodes;
        let body = json!({ "name": name, "streams": ["orders"] });
        let made = one.make(READ_KEYS, &body);
        let reader = Reader::of(last, &made.secret(), newer);
        self.line.stall();
        revoke(one, &format!("{READ_KEYS}/{name}"));
        accepted(one, &reader.newer);
        shows_item(one, &reader.newer);
        ready_becomes(last, Some("database"));
        reader.is_shown_nothing_newer();
        reader
    }

    /// It is back, and has what it missed.
    fn mend(&self) {
        self.line.go_on();
        self.is_back(2);
    }
}

fn item_path(id: &str) -> String {
    format!("/api/streams/orders/items/{id}")
}

fn shows_item(node: &Process, id: &str) {
    eventually("an item is shown", || {
        let answer = node.ask("GET", &item_path(id), READ_KEY, "", "");
        (answer.status == 200).then_some(())
    });
}

fn revoke(node: &Process, path: &str) {
    let revoked = node.call("DELETE", path, "");
    assert_eq!(revoked.status, 200, "{}", revoked.body);
}

#[test]
fn a_revoked_key_counts_nowhere_when_the_call_returns_whatever_is_the_matter_with_a_node() {
    let Some(server) = Postgres::start("a_revoked_key_counts_nowhere") else {
        return;
    };
    let line = Line::to(&server);
    let setups = [
        node(&server, "a"),
        node(&server, "b"),
        node_at(&line.url(), "c"),
    ];
    let rounds = number("HEADGATE_FAULT_ROUNDS").unwrap_or(REVOKES);
    let every = if rounds > EVERY_OF_LONG {
        EVERY_OF_LONG
    } else {
        EVERY
    };
    let cluster = Cluster {
        nodes: setups.map(|setup| setup.unlimited().spawn()),
        line,
        keys: Keys::default(),
        every,
    };
    for (at, node) in cluster.nodes.iter().enumerate() {
        accepted(node, &format!("before-{at}"));
    }
    for node in &cluster.nodes {
        shows_item(node, FIRST);
    }
    let mut random = random("a_revoked_key_counts_nowhere");
    let readers: Vec<Reader> = std::thread::scope(|scope| {
        let ends = SetOnDrop(&cluster.keys.ended);
        let senders = cluster.nodes.each_ref().map(|node| {
            let (keys, service, seed) = (&cluster.keys, node.service, random.next());
            scope.spawn(move || keys.send(service, seed))
        });
        let mut readers = Vec::new();
        for round in 0..rounds {
            let before = Matter::of(round + every - 1, every);
            match (before, Matter::of(round, every)) {
                (Matter::Nothing, Matter::CutOff) => readers.push(cluster.cut_off(round)),
                (Matter::CutOff, Matter::Nothing) => cluster.mend(),
                _ => {}
            }
            cluster.round(round, &mut random);
            if round % 4 == 0 {
                readers.push(cluster.reading(round, &mut random));
            }
        }
        drop(ends);
        for sender in senders {
            sender.join().expect("no panic");
        }
        readers
    });
    cluster.mend();
    let keys = &cluster.keys;
    let counts = [&keys.accepted, &keys.refused].map(|count| count.load(Ordering::SeqCst));
    let rounds = usize::try_from(rounds).expect("few");
    assert!(counts.iter().all(|count| *count > rounds), "{counts:?}");
    eventually("every node shows the same", || {
        let shown = cluster.nodes.each_ref().map(items);
        (shown[0] == shown[1] && shown[0] == shown[2]).then_some(())
    });
    readers.iter().for_each(Reader::is_shown_nothing_newer);
    cluster.nodes.into_iter().for_each(Process::stop);
    readers
        .into_iter()
        .for_each(Reader::was_shown_nothing_newer);
}
