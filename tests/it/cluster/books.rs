//! One fault after the other while requests come, and the books of everybody afterwards.
//!
//! Who sends knows what was accepted, the receiver of a sink what was sent on, a renderer what it was shown on its way from node
//! to node. `HEADGATE_FAULT_ROUNDS` says how many faults there are.
//!
//! **Invariant**: what got a 202 is on every node and at the receiver, under one request ID, in its order; a renderer goes on where
//! it was, on any node.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use tokio::sync::RwLock;

use super::*;
use crate::app::Random;
use crate::app::renderer::{Content, Renderer, Transport};
use crate::faults::{number, random};
use crate::process::{Answer, Client, SetOnDrop};
use crate::setup::key_of;

/// Items of each sender.
const KEYS: u64 = 12;

/// What happens.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// `kill -9` to any node.
    Killed,
    /// The same, and its copy of the data pool is gone.
    CopyGone,
    /// The node that runs the sinks, until another one does.
    Frozen,
    /// An operator gives the sinks to another node.
    Given,
    /// A transaction of somebody else has a number, and goes on.
    HeldUp,
    /// PostgreSQL ends at once and comes back.
    Crashed,
    /// It does not come back: its standby takes its place.
    FailedOver,
}

const FAULTS: [Fault; 7] = [
    Fault::Killed,
    Fault::Frozen,
    Fault::Crashed,
    Fault::HeldUp,
    Fault::Given,
    Fault::FailedOver,
    Fault::CopyGone,
];

/// What runs beside the faults.
#[derive(Debug)]
struct Load {
    /// Where the nodes are now.
    nodes: RwLock<Vec<SocketAddr>>,
    accepted: AtomicUsize,
    ended: AtomicBool,
    /// What everybody should hold in the end.
    content: OnceLock<Content>,
}

impl Load {
    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    fn any(&self, random: &mut Random) -> SocketAddr {
        *random.one_of(&self.nodes.blocking_read())
    }

    /// Posts to any node; none: there was no answer, or it could not say.
    fn post(&self, random: &mut Random, headers: &str, body: &str) -> Option<Answer> {
        let client = Client::connect(self.any(random));
        let answer = client.and_then(|mut client| client.post("orders", headers, body));
        let answer = answer.ok()?;
        match answer.status {
            202 => Some(answer),
            status => {
                assert_eq!(status, 503, "{}", answer.body);
                None
            }
        }
    }

    /// Sends one number after the other of each of its items until the end, each until it is accepted. The last ones of its items.
    fn send(&self, sender: u64, seed: u64) -> BTreeMap<String, u64> {
        let mut random = Random(seed ^ (sender + 1));
        let mut known: BTreeMap<String, u64> = BTreeMap::new();
        for number in 0_u64.. {
            if self.has_ended() {
                break;
            }
            let id = format!("{sender}-{}", random.within(0..KEYS));
            let last = known.entry(id.clone()).or_default();
            *last += 1;
            let headers = format!("{BY_ID}Idempotency-Key: {sender}-{number}\r\n");
            let body = json!({ "id": id, "n": *last }).to_string();
            let answer = eventually("a node accepts it", || {
                self.post(&mut random, &headers, &body)
            });
            self.accepted.fetch_add(1, Ordering::Relaxed);
            if random.once_in(5)
                && let Some(again) = self.post(&mut random, &headers, &body)
            {
                assert_eq!(again.request_id(), answer.request_id());
            }
        }
        known
    }

    /// Follows any node until the end, and holds then what everybody does.
    fn follow(&self, seed: u64) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let mut random = Random(seed);
            let mut renderer = Renderer::new("http://-", Transport::Sse, READ_KEY, &["orders"]);
            let mut resumes = false;
            loop {
                let is_last = self.content.get().is_some();
                if !renderer.is_connected() {
                    // Nobody takes the node away before it has answered.
                    let nodes = self.nodes.read().await;
                    renderer.moved(&format!("http://{}", random.one_of(&nodes)));
                    let id = renderer.id.clone();
                    resumes = id.is_some();
                    if renderer.try_connect(id.as_deref()).await.is_err() {
                        continue;
                    }
                }
                if is_last {
                    renderer
                        .holds(self.content.get().expect("it is there"))
                        .await;
                    return;
                }
                if let Some(message) = renderer.next().await {
                    assert!(!resumes || message.kind != "reset", "{}", message.text);
                }
                // Screens move between nodes, too.
                if random.once_in(200) {
                    renderer.disconnect();
                }
            }
        });
    }
}

/// Three nodes, and the servers below them.
struct Cluster {
    nodes: [Option<Process>; 3],
    primary: Postgres,
    standby: Postgres,
}

impl Cluster {
    fn live(&self) -> impl Iterator<Item = &Process> {
        self.nodes.iter().flatten()
    }

    /// Any node; it lives.
    fn any(&self) -> &Process {
        self.live().next().expect("one lives")
    }

    /// Where the node is that runs the sinks.
    fn owner(&self) -> usize {
        let name = owner(self.any());
        usize::from(name.as_bytes()[0] - b'a')
    }

    /// Ends a node as a crash does. `harm` is done to its folder before it comes back.
    fn kill(&mut self, at: usize, load: &Load, harm: impl FnOnce(&Setup)) {
        let node = self.nodes[at].take().expect("it lives");
        let (setup, service) = (node.setup.clone(), node.service);
        {
            let mut nodes = load.nodes.blocking_write();
            nodes.retain(|node| *node != service);
            node.kill();
        }
        mark(self.any());
        harm(&setup);
        let node = setup.spawn();
        load.nodes.blocking_write().push(node.service);
        self.nodes[at] = Some(node);
    }

    fn suffer(&mut self, fault: Fault, load: &Load, random: &mut Random) {
        let at = usize::try_from(random.within(0..3)).expect("small");
        match fault {
            Fault::Killed => self.kill(at, load, |_| {}),
            Fault::CopyGone => self.kill(at, load, |setup| {
                fs::remove_file(setup.data_dir().join("pool.db")).expect("it is there");
            }),
            Fault::Frozen => {
                let frozen = self.owner();
                let (frozen, other) = (&self.nodes[frozen], &self.nodes[(frozen + 1) % 3]);
                let (frozen, other) = (frozen.iter().next(), other.iter().next());
                let (frozen, other) = (frozen.expect("it lives"), other.expect("it lives"));
                let name = owner(other);
                frozen.signal(Signal::STOP);
                eventually("another node runs the sinks", || {
                    (owner(other) != name).then_some(())
                });
                frozen.signal(Signal::CONT);
            }
            Fault::Given => {
                let name = ["a", "b", "c"][(self.owner() + 1) % 3];
                let path = format!("/api/admin/cluster/nodes/{name}/claim");
                let given = self.any().call("POST", &path, "");
                assert_eq!(given.status, 200, "{}", given.body);
            }
            Fault::HeldUp => {
                let open = self.primary.begin();
                load.goes_on(50);
                drop(open);
            }
            Fault::Crashed => {
                self.primary.crash();
                self.live()
                    .for_each(|node| ready_becomes(node, Some("database")));
                self.primary.resume();
            }
            Fault::FailedOver => {
                self.primary.crash();
                self.standby.promote();
                // The new primary waits for a standby, too, which listens where the old primary did.
                let another = self.standby.standby(Some(&self.primary));
                self.primary = std::mem::replace(&mut self.standby, another);
            }
        }
        for node in self.live() {
            mark(node);
            ready_becomes(node, None);
        }
    }
}

/// Has a node accept something that nobody follows.
fn mark(node: &Process) {
    eventually("it is accepted", || {
        let answer = node.post("marks", BY_ID, r#"{"id": "mark"}"#);
        (answer.status == 202).then_some(())
    });
}

impl Load {
    /// Waits until so many more are accepted.
    fn goes_on(&self, more: usize) {
        let before = self.accepted.load(Ordering::Relaxed);
        eventually("requests are accepted", || {
            (self.accepted.load(Ordering::Relaxed) >= before + more).then_some(())
        });
    }
}

/// What the receiver of a sink was sent, in its order, by item.
type Sent = Arc<Mutex<BTreeMap<String, Vec<u64>>>>;

/// It refuses a call now and then.
fn receiver(sent: &Sent) -> Receiver {
    let sent = Arc::clone(sent);
    Receiver::start(move |seen, calls| {
        if calls % 17 == 16 {
            return answer(503, "", "");
        }
        let mut sent = sent.lock().expect("no panic while held");
        for item in seen.json().as_array().expect("an array") {
            let id = item["id"].as_str().expect("a text").to_owned();
            let number = item["n"].as_u64().expect("a number");
            sent.entry(id).or_default().push(number);
        }
        answer(200, "", "")
    })
}

#[test]
fn one_fault_after_the_other_loses_and_doubles_nothing() {
    let Some(primary) = Postgres::start("one_fault_after_the_other") else {
        return;
    };
    let standby = primary.standby(None);
    let urls = [primary.url(), standby.url()];
    let sent = Sent::default();
    let receiver = receiver(&sent);
    let host = receiver.url("");
    let more = format!(
        "retry = {{ first_ms = 5, max_ms = 20, attempts = 1000000 }}\nconfig = {{ url = \"{host}/\", form = \"field-array\" }}\n\
         http = {{ hosts = [\"{host}\"], networks = [\"127.0.0.0/8\"] }}\n"
    );
    let nodes = ["a", "b", "c"].map(|name| {
        let node = node(&primary, name)
            .stream("marks")
            .given_key("tests", "marks", &key_of("marks"), "")
            .sink("books", "http-forward", "orders", &more)
            .set("cluster.urls", urls.to_vec())
            .set("cluster.durability", "standby");
        Some(node.spawn())
    });
    let mut cluster = Cluster {
        nodes,
        primary,
        standby,
    };
    let rounds = number("HEADGATE_FAULT_ROUNDS").unwrap_or(FAULTS.len() as u64);
    let mut random = random("one_fault_after_the_other");
    let seed = random.next();
    let load = Load {
        nodes: RwLock::new(cluster.live().map(|node| node.service).collect()),
        accepted: AtomicUsize::new(0),
        ended: AtomicBool::new(false),
        content: OnceLock::new(),
    };
    mark(cluster.any());
    std::thread::scope(|scope| {
        let _content = EmptyOnDrop(&load.content);
        let ends = SetOnDrop(&load.ended);
        let followers = [0, 1].map(|at| {
            scope.spawn({
                let load = &load;
                move || load.follow(seed + at)
            })
        });
        let senders = [0, 1, 2, 3].map(|sender| {
            scope.spawn({
                let load = &load;
                move || load.send(sender, seed)
            })
        });
        for round in 0..rounds {
            load.goes_on(20);
            let at = usize::try_from(round).expect("few") % FAULTS.len();
            eprintln!("round {round}: {:?}", FAULTS[at]);
            cluster.suffer(FAULTS[at], &load, &mut random);
        }
        drop(ends);
        let known = senders.map(|sender| sender.join().expect("no panic"));
        let known: BTreeMap<String, u64> = known.into_iter().flatten().collect();
        let shown = agreed(&cluster, &known, &sent);
        let of_stream = shown.into_iter().collect();
        let content = Content::from([("orders".to_owned(), of_stream)]);
        assert!(load.content.set(content).is_ok());
        for follower in followers {
            follower.join().expect("no panic");
        }
    });
    let chains: BTreeSet<String> = (cluster.live())
        .map(|node| node.admin("/api/admin/audit/verify").to_string())
        .collect();
    assert_eq!(chains.len(), 1, "{chains:?}");
    cluster.nodes.into_iter().flatten().for_each(Process::stop);
}

/// Who follows ends also when the test fails.
struct EmptyOnDrop<'a>(&'a OnceLock<Content>);

impl Drop for EmptyOnDrop<'_> {
    fn drop(&mut self) {
        let _ = self.0.set(Content::new());
    }
}

/// Waits until every node shows the same, and what is known; and until the receiver has each number, the last one last.
fn agreed(cluster: &Cluster, known: &BTreeMap<String, u64>, sent: &Sent) -> Vec<(String, Value)> {
    let last = |items: &[(String, Value)], id: &String| {
        let item = items.iter().find(|(key, _)| key == id);
        item.map_or(0, |(_, item)| item["fields"]["n"].as_u64().unwrap_or(0))
    };
    let is_known = |items: &[(String, Value)]| {
        let mut known = known.iter();
        known.all(|(id, number)| last(items, id) == *number)
    };
    let shown = eventually("every node shows the same, and all of it", || {
        let shown: Vec<_> = cluster.live().map(items).collect();
        let is_same = shown.iter().all(|items| *items == shown[0]);
        (is_same && is_known(&shown[0])).then(|| shown[0].clone())
    });
    eventually("the receiver has each number, the last one last", || {
        let sent = sent.lock().expect("no panic while held");
        let has_all = known.iter().all(|(id, number)| {
            let none = Vec::new();
            let of_item = sent.get(id).unwrap_or(&none);
            let numbers: BTreeSet<u64> = of_item.iter().copied().collect();
            (1..=*number).all(|one| numbers.contains(&one)) && of_item.last() == Some(number)
        });
        has_all.then_some(())
    });
    shown
}
