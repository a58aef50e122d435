//! One side: a daemon alone, or the nodes of a cluster, with who sends to it and who receives from it.
//!
//! **Invariant**: what an operator does begins when the sinks are done with what was sent before, and is over when it
//! returns.

mod requests;

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::super::items_of;
use super::history::{Act, Op, STREAMS};
use super::outcome::{Outcome, class, without_ids};
use super::taken::{Taken, receive};
use crate::process::{BY_ID, JSON, Process};
use crate::receiver::Receiver;
use crate::wait::eventually;
pub(super) use requests::SECRET;

const KEYS_PATH: &str = "/api/admin/connectors/tests/keys";
/// The connector that verifies signatures.
pub(super) const SIGNED: &str = "signed";
const LETTERS: &str = "/api/admin/sinks/copy/dead-letters";
/// Numbers of requests that are sent beside those of the history.
const BESIDE: usize = 1_000;

/// The nodes, and what was sent to them in this history.
pub(super) struct Side {
    pub(super) nodes: Vec<Process>,
    /// Dropped last: sinks call it.
    _receiver: Receiver,
    taken: Arc<Mutex<Taken>>,
    /// The receiver takes everything.
    is_open: Arc<AtomicBool>,
    /// Name and secret of the key of each stream.
    keys: Vec<(String, String)>,
    made: usize,
    sent_good: usize,
    prefix: String,
    /// Requests that were accepted, by the numbers of their operations, each with the key that was used.
    accepted: BTreeMap<usize, (String, String)>,
    /// Of those, with which every sink has been called, as each node says.
    called: HashSet<(usize, String)>,
    answers: Outcome,
}

impl Side {
    /// Starts the nodes, which have a stream each of [`STREAMS`], and waits until they accept.
    pub(super) fn start(nodes: impl FnOnce(&Receiver) -> Vec<Process>) -> Self {
        let (taken, is_open) = (Arc::<Mutex<Taken>>::default(), Arc::<AtomicBool>::default());
        let (takes, opens) = (Arc::clone(&taken), Arc::clone(&is_open));
        let receiver = Receiver::start(move |seen, _| receive(seen, &takes, &opens));
        let nodes = nodes(&receiver);
        for node in &nodes {
            let body = json!({ "id": "first" }).to_string();
            eventually("a node accepts", || {
                let answer = node.post(STREAMS[0], BY_ID, &body);
                (answer.status == 202).then_some(())
            });
        }
        let mut side = Self {
            nodes,
            _receiver: receiver,
            taken,
            is_open,
            keys: Vec::new(),
            made: 0,
            sent_good: 0,
            prefix: String::new(),
            accepted: BTreeMap::new(),
            called: HashSet::new(),
            answers: Outcome::new(),
        };
        for stream in 0..STREAMS.len() {
            let key = side.make_key(stream, 0);
            side.keys.push(key);
        }
        side
    }

    /// Begins a history on keys with this prefix.
    pub(super) fn begin(&mut self, prefix: &str) {
        prefix.clone_into(&mut self.prefix);
        self.sent_good = 0;
        self.accepted.clear();
        self.called.clear();
        self.answers.clear();
    }

    /// Leaves nothing behind that waits.
    pub(super) fn end(&mut self) {
        self.recover(0);
        let path = format!("{LETTERS}?all=true");
        self.operate(0, "DELETE", &path, "");
    }

    /// Waits until every item of this history has expired, and every sink has been called with its removal.
    pub(super) fn lapse(&mut self) {
        for node in &self.nodes {
            eventually("every item expires", || {
                let mut of_each = STREAMS.iter().map(|stream| items_of(node, stream));
                let is_own = |(key, _): &(String, Value)| key.starts_with(&self.prefix);
                let is_left = of_each.any(|items| items.iter().any(is_own));
                (!is_left).then_some(())
            });
            // What waits for a retry, it has been called with.
            node.sink_becomes("copy", "called with everything", |sink| {
                sink["lag"].as_u64() <= sink["retries"].as_u64()
            });
        }
    }

    /// Sends an item that every sink takes.
    pub(super) fn send_good(&mut self) {
        self.sent_good += 1;
        self.send_beside(0, 2 * BESIDE + self.sent_good);
    }

    /// Does an operation of a history, and notes the answer.
    pub(super) fn act(&mut self, op: &Op, ops: &[Op]) {
        let node = op.node % self.nodes.len();
        let said = match &op.act {
            Act::Send { .. } | Act::Remove { .. } | Act::Deliver { .. } => {
                self.request(node, op.number, op, false)
            }
            Act::Repeat { of, is_other } => match ops.iter().find(|op| op.number == *of) {
                Some(first) => self.request(node, op.number, first, *is_other),
                None => return,
            },
            Act::NewKey { stream } => self.replace_key(*stream, node, op.number),
            Act::Recover => return self.recover(node),
            Act::GiveUp => return self.give_up(node, op.number),
            Act::SendAgain { of } => self.send_again(node, *of),
            Act::Discard { of } => self.discard(node, *of),
            // Both sides wait at once.
            Act::Lapse => return,
        };
        let numbers = self.numbers();
        let of = format!("the answer to {}", op.number);
        self.answers.insert(of, without_ids(said, &numbers));
    }

    fn numbers(&self) -> BTreeMap<String, usize> {
        let accepted = self.accepted.iter();
        accepted
            .map(|(number, (id, _))| (id.clone(), *number))
            .collect()
    }

    /// Calls the admin API until it is neither 503 nor that the data pool is behind.
    fn operate(&self, node: usize, method: &str, path: &str, body: &str) -> Value {
        let answer = eventually("an operator is answered", || {
            let answer = self.nodes[node].call(method, path, body);
            let is_behind = answer.body.contains("POOL_BEHIND");
            (answer.status != 503 && !is_behind).then_some(answer)
        });
        let mut said: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        said["status"] = answer.status.into();
        said
    }

    fn make_key(&mut self, stream: usize, node: usize) -> (String, String) {
        self.made += 1;
        let name = format!("made-{}", self.made);
        let key = json!({ "name": name, "stream": STREAMS[stream] });
        let made = self.nodes[node].make(KEYS_PATH, &key);
        (name, made.secret())
    }

    /// The key of a stream is deleted on one node, used on the next one, and another one is made there.
    fn replace_key(&mut self, stream: usize, node: usize, number: usize) -> Value {
        let (name, secret) = self.keys[stream].clone();
        let deleted = self.operate(node, "DELETE", &format!("{KEYS_PATH}/{name}"), "");
        let next = (node + 1) % self.nodes.len();
        let headers = format!("{JSON}{BY_ID}");
        let body = json!({ "id": format!("{}late", self.prefix), "n": number }).to_string();
        let late = self.asked(next, "POST", "/api/ingest", &secret, &headers, &body);
        assert_eq!(late.status, 401, "{}", late.body);
        self.keys[stream] = self.make_key(stream, next);
        json!({ "deleted": deleted["status"] })
    }

    /// Waits until every node says that every sink has been called with every request of this history.
    pub(super) fn wait_for_sinks(&mut self) {
        for (at, node) in self.nodes.iter().enumerate() {
            for (id, _) in self.accepted.values() {
                if !self.called.insert((at, id.clone())) {
                    continue;
                }
                eventually("the sinks have been called with a request", || {
                    let request = node.request(id);
                    let sinks = request["sinks"].as_array()?;
                    let waits = sinks.iter().any(|sink| sink["state"] == "waiting");
                    (sinks.len() == 2 && !waits).then_some(())
                });
            }
        }
    }

    /// Waits until nothing waits for a retry, either.
    fn wait_for_retries(&mut self) {
        self.wait_for_sinks();
        for node in &self.nodes {
            node.sink_becomes("copy", "without retries", |sink| sink["retries"] == 0);
        }
    }

    /// Everything that waits for a retry is delivered, with an open receiver.
    fn recover(&mut self, node: usize) {
        self.opened(|side| {
            side.operate(node, "POST", "/api/admin/sinks/copy/retry", "");
            side.wait_for_retries();
        });
    }

    /// Does something while the receiver takes everything.
    fn opened<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        self.wait_for_sinks();
        self.is_open.store(true, Ordering::SeqCst);
        let done = work(self);
        self.is_open.store(false, Ordering::SeqCst);
        done
    }

    /// Everything that waits for a retry becomes a dead letter.
    fn give_up(&mut self, node: usize, number: usize) {
        self.wait_for_sinks();
        self.operate(node, "POST", "/api/admin/sinks/copy/retries/end", "");
        self.wait_for_retries();
        self.send_beside(node, BESIDE + number);
    }

    /// Items that fail one after the other, and nothing between them, would pause the sink: one that every sink takes.
    fn send_beside(&mut self, node: usize, number: usize) {
        let secret = self.keys[0].1.clone();
        let headers = format!("{JSON}{BY_ID}");
        let body = json!({ "id": format!("{}good", self.prefix), "n": number }).to_string();
        let answer = self.asked(node, "POST", "/api/ingest", &secret, &headers, &body);
        assert_eq!(answer.status, 202, "{}", answer.body);
        let good = (answer.request_id(), secret);
        self.accepted.insert(number, good);
        self.wait_for_sinks();
    }

    fn send_again(&mut self, node: usize, of: Option<usize>) -> Value {
        let body = match of.map(|of| self.accepted.get(&of)) {
            None => String::new(),
            Some(Some((id, _))) => json!({ "request_id": id }).to_string(),
            Some(None) => return Value::Null,
        };
        self.recover(node);
        self.opened(|side| {
            let said = side.operate(node, "POST", &format!("{LETTERS}/retry"), &body);
            side.wait_for_retries();
            said
        })
    }

    fn discard(&mut self, node: usize, of: usize) -> Value {
        let Some((id, _)) = self.accepted.get(&of) else {
            return Value::Null;
        };
        let path = format!("{LETTERS}?request_id={id}");
        self.wait_for_sinks();
        self.operate(node, "DELETE", &path, "")
    }

    /// Everything that is compared, as a node has it.
    pub(super) fn outcome(&self, node: usize) -> Outcome {
        let node = &self.nodes[node];
        let mut outcome = self.answers.clone();
        self.add_items(node, &mut outcome);
        self.add_requests(node, &mut outcome);
        outcome.insert("the log".to_owned(), self.log(node));
        self.add_dead_letters(node, &mut outcome);
        self.add_taken(&mut outcome);
        outcome
    }

    fn add_items(&self, node: &Process, outcome: &mut Outcome) {
        let pool = node.setup.pool();
        let sql = "SELECT version_text FROM items WHERE stream = ?1 AND key = ?2";
        let mut statement = pool.prepare(sql).expect("the table items");
        for stream in STREAMS {
            for (key, item) in items_of(node, stream) {
                if !key.starts_with(&self.prefix) {
                    continue;
                }
                let version = statement.query_row([stream, key.as_str()], |row| row.get(0));
                // It may have changed in between: then this is no outcome yet.
                let version: Option<String> = version.unwrap_or_default();
                let of = format!("the item {key} of {stream}");
                let shown = json!({ "fields": item["fields"], "version": version });
                outcome.insert(of, shown);
            }
        }
    }

    fn add_requests(&self, node: &Process, outcome: &mut Outcome) {
        for (number, (id, _)) in &self.accepted {
            let request = node.request(id);
            let sinks = request["sinks"].as_array().into_iter().flatten();
            let sinks: BTreeMap<&str, &Value> = sinks
                .filter_map(|sink| Some((sink["name"].as_str()?, &sink["state"])))
                .collect();
            let said = json!({
                "status": request["status"], "items": request["items_received"], "stale": request["stale"],
                "stale_count": request["stale_count"], "http": request["http_status"], "sinks": sinks,
            });
            outcome.insert(format!("the request of {number}"), said);
        }
    }

    /// How many entries of this history the log has of each outcome.
    fn log(&self, node: &Process) -> Value {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for connector in ["tests", SIGNED] {
            self.add_log(node, connector, &mut counts);
        }
        json!(counts)
    }

    fn add_log(&self, node: &Process, connector: &str, counts: &mut BTreeMap<String, u64>) {
        let first = format!(
            "/api/admin/connectors/{connector}/requests?limit=500&text={}",
            self.prefix
        );
        let mut path = first.clone();
        loop {
            let answer = node.call("GET", &path, "");
            assert_eq!(answer.status, 200, "{}", answer.body);
            let page = answer.json();
            for entry in page["data"].as_array().expect("a list") {
                let of = format!(
                    "{connector}: {} {}, differs: {}",
                    entry["status"],
                    entry["http_status"],
                    !entry["error"].is_null()
                );
                *counts.entry(of).or_default() += 1;
            }
            match page["next"].as_str() {
                Some(next) => path = format!("{first}&cursor={next}"),
                None => return,
            }
        }
    }

    fn add_dead_letters(&self, node: &Process, outcome: &mut Outcome) {
        let numbers = self.numbers();
        let mut expired: BTreeMap<String, usize> = BTreeMap::new();
        for letter in node.dead_letters("copy") {
            let key = letter["key"].as_str().expect("a key");
            if !key.starts_with(&self.prefix) {
                continue;
            }
            let id = letter["request_id"].as_str().expect("an id");
            let reason = letter["reason"].as_str().expect("a reason");
            let of = match numbers.get(id) {
                Some(number) => format!("a dead letter of {number}, item {}", letter["position"]),
                // What expires at once is one request.
                None => {
                    let before = expired.entry(key.to_owned()).or_insert(0);
                    *before += 1;
                    format!("dead letter {before} of {key}, which has expired")
                }
            };
            let said = json!({
                "key": key, "stream": letter["stream"], "action": letter["action"], "fields": letter["fields"],
                "class": class(reason),
            });
            assert!(outcome.insert(of, said).is_none(), "twice: {letter}");
        }
    }

    /// What the receiver took of each item, in order.
    fn add_taken(&self, outcome: &mut Outcome) {
        let taken = self.taken.lock().expect("no panic while held");
        for item in &taken.items {
            let text = |name: &str| item[name].as_str().expect("a text");
            let key = text("key");
            if !key.starts_with(&self.prefix) {
                continue;
            }
            let of = format!("what came of {key} of {}", text("stream"));
            let came = outcome.entry(of).or_insert_with(|| json!([]));
            let came = came.as_array_mut().expect("a list");
            came.push(json!({
                "fields": item["fields"], "version": item["version"], "removed": item["removed"],
            }));
        }
    }

    /// How many items the receiver has taken.
    pub(super) fn taken_so_far(&self) -> u64 {
        let taken = self.taken.lock().expect("no panic while held");
        let of_histories = |item: &&Value| item["key"] != "first";
        taken.items.iter().filter(of_histories).count() as u64
    }
}
