//! Who sends, who receives and who follows while something happens to a cluster, with the books of each.
//!
//! Senders know what was accepted, the receiver of a sink what was sent on, a renderer what it was shown on its way from node to
//! node.
//!
//! **Invariant**: everybody holds the same at the end, or the test fails.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use tokio::sync::RwLock;

use super::*;
use crate::app::Random;
use crate::app::renderer::{Content, Renderer, Transport};
use crate::process::{Answer, Client, SetOnDrop};
use crate::receiver::Seen;

/// Items of each sender.
const KEYS: u64 = 12;

/// What runs beside what happens.
#[derive(Debug)]
pub(super) struct Load {
    /// Where the nodes are now.
    pub(super) nodes: RwLock<Vec<SocketAddr>>,
    accepted: AtomicUsize,
    ended: AtomicBool,
    /// What everybody should hold in the end.
    content: OnceLock<Content>,
}

impl Load {
    pub(super) fn to(nodes: Vec<SocketAddr>) -> Self {
        Self {
            nodes: RwLock::new(nodes),
            accepted: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
            content: OnceLock::new(),
        }
    }

    /// Sends and follows, so many each, while `happens` lasts. What was accepted last of each item goes to `agree`, which
    /// returns what everybody shows then, and so must who follows.
    pub(super) fn beside<C>(
        &self,
        (senders, followers): (u64, u64),
        seed: u64,
        cluster: &mut C,
        happens: impl FnOnce(&mut C),
        agree: impl FnOnce(&C, &BTreeMap<String, u64>) -> Vec<(String, Value)>,
    ) {
        std::thread::scope(|scope| {
            let _content = EmptyOnDrop(&self.content);
            let ends = SetOnDrop(&self.ended);
            let followers: Vec<_> = (0..followers)
                .map(|at| scope.spawn(move || self.follow(seed + at)))
                .collect();
            let senders: Vec<_> = (0..senders)
                .map(|sender| scope.spawn(move || self.send(sender, seed)))
                .collect();
            happens(cluster);
            drop(ends);
            let known: BTreeMap<String, u64> = (senders.into_iter())
                .flat_map(|sender| sender.join().expect("no panic"))
                .collect();
            let shown = agree(cluster, &known);
            let of_stream = shown.into_iter().collect();
            let content = Content::from([("orders".to_owned(), of_stream)]);
            assert!(self.content.set(content).is_ok());
            for follower in followers {
                follower.join().expect("no panic");
            }
        });
    }

    /// Waits until so many more are accepted.
    pub(super) fn goes_on(&self, more: usize) {
        let before = self.accepted.load(Ordering::Relaxed);
        eventually("requests are accepted", || {
            (self.accepted.load(Ordering::Relaxed) >= before + more).then_some(())
        });
    }

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

/// Three nodes. One that was ended is not there until it is back.
pub(super) struct Nodes(pub(super) [Option<Process>; 3]);

impl Nodes {
    pub(super) fn live(&self) -> impl Iterator<Item = &Process> {
        self.0.iter().flatten()
    }

    /// Any node; it lives.
    pub(super) fn any(&self) -> &Process {
        self.live().next().expect("one lives")
    }

    /// This one; it lives.
    pub(super) fn at(&self, at: usize) -> &Process {
        self.0[at].as_ref().expect("it lives")
    }

    /// Ends a node as a crash does, and takes it from the `listed` ones; its setup, and when it was killed.
    pub(super) fn end(&mut self, at: usize, listed: &RwLock<Vec<SocketAddr>>) -> (Setup, Instant) {
        let node = self.0[at].take().expect("it lives");
        let (setup, service) = (node.setup.clone(), node.service);
        let mut listed = listed.blocking_write();
        listed.retain(|node| *node != service);
        let begun = Instant::now();
        node.kill();
        (setup, begun)
    }

    /// A node that was ended is back.
    pub(super) fn begin(&mut self, at: usize, node: Process, listed: &RwLock<Vec<SocketAddr>>) {
        listed.blocking_write().push(node.service);
        self.0[at] = Some(node);
    }

    /// Ends a node as a crash does, and starts it again.
    pub(super) fn kill(&mut self, at: usize, listed: &RwLock<Vec<SocketAddr>>) {
        let (setup, _) = self.end(at, listed);
        mark(self.any());
        self.begin(at, setup.spawn(), listed);
    }

    pub(super) fn stop(self) {
        self.0.into_iter().flatten().for_each(Process::stop);
    }
}

/// Has a node accept something that nobody follows.
pub(super) fn mark(node: &Process) {
    eventually("it is accepted", || {
        let answer = node.post("marks", BY_ID, r#"{"id": "mark"}"#);
        (answer.status == 202).then_some(())
    });
}

/// What the receiver of a sink was sent, in its order, by item.
pub(super) type Sent = Arc<Mutex<BTreeMap<String, Vec<u64>>>>;

/// It refuses a call now and then.
pub(super) fn receiver(sent: &Sent) -> Receiver {
    receiver_at("127.0.0.1:0".parse().expect("an address"), sent, |_| {})
}

/// The same at an address. `calls` gets the address of who calls.
pub(super) fn receiver_at(
    address: SocketAddr,
    sent: &Sent,
    calls: impl Fn(Option<IpAddr>) + Send + Sync + 'static,
) -> Receiver {
    let sent = Arc::clone(sent);
    Receiver::start_at(address, move |seen: &Seen, before| {
        calls(seen.from);
        if before % 17 == 16 {
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

/// How the sink is configured that sends to it, in one of these networks.
pub(super) fn calling(receiver: &Receiver, network: &str) -> String {
    let host = receiver.url("");
    format!(
        "retry = {{ first_ms = 5, max_ms = 20, attempts = 1000000 }}\nconfig = {{ url = \"{host}/\", form = \"field-array\" }}\n\
         http = {{ hosts = [\"{host}\"], networks = [\"{network}\"] }}\n"
    )
}

/// Who follows ends also when the test fails.
struct EmptyOnDrop<'a>(&'a OnceLock<Content>);

impl Drop for EmptyOnDrop<'_> {
    fn drop(&mut self) {
        let _ = self.0.set(Content::new());
    }
}

/// Waits until every node shows the same, and what is known; and until the receiver has each number, the last one last.
pub(super) fn agreed(
    nodes: &[&Process],
    known: &BTreeMap<String, u64>,
    sent: &Sent,
) -> Vec<(String, Value)> {
    let last = |items: &[(String, Value)], id: &String| {
        let item = items.iter().find(|(key, _)| key == id);
        item.map_or(0, |(_, item)| item["fields"]["n"].as_u64().unwrap_or(0))
    };
    let is_known = |items: &[(String, Value)]| {
        let mut known = known.iter();
        known.all(|(id, number)| last(items, id) == *number)
    };
    let shown = eventually("every node shows the same, and all of it", || {
        let shown: Vec<_> = nodes.iter().map(|node| items(node)).collect();
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
