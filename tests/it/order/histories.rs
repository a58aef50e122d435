//! Random histories against the model: what the pool shows, what each request is told, and what a receiver hears.
//!
//! One client sends arrays with and without versions, removals, repeats and whole items to streams of both kinds, and
//! sends old requests again. The pool's writer asks for retries at random, the receiver refuses and forgets to answer.
//! The daemon is killed now and then, and the streams change what they do with updates while things wait.
//!
//! `HEADGATE_FAULT_HISTORIES` sets their number, `HEADGATE_SEED` repeats a run's choices (not its timing).

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};

use super::RULES;
use super::model::{Fields, Op, Stream};
use crate::app::Random;
use crate::faults::{number, random};
use crate::guests::guest;
use crate::process::{BY_ID, Process};
use crate::receiver::{Receiver, Reply, Seen, answer};
use crate::setup::Setup;

const HISTORIES: u64 = 100;
/// Histories between two looks.
const BATCH: u64 = 20;
const STREAMS: [&str; 2] = ["first", "second"];
const KEYS: u64 = 3;
const FIELDS: u64 = 3;
const VERSIONS: u64 = 9;

#[test]
fn after_any_history_pool_statuses_and_receiver_are_as_the_model_says() {
    let histories = number("HEADGATE_FAULT_HISTORIES").unwrap_or(HISTORIES);
    let mut life = Life::new(random("histories of operations"));
    for history in 0..histories {
        life.history(history);
        if (history + 1) % BATCH == 0 || history + 1 == histories {
            life.judge();
        } else {
            life.disturb();
        }
    }
}

/// The version of an operation, and whether it is a removal.
type Heard = (Option<String>, bool);

/// A request that was accepted.
struct Accepted {
    id: String,
    stream: usize,
    ops: Vec<Op>,
    /// What its status has to say of lower versions.
    stale: Vec<Value>,
}

struct Life {
    random: Random,
    setup: Setup,
    process: Option<Process>,
    receiver: Receiver,
    /// Whether updates are merged in each stream now.
    merges: [bool; 2],
    streams: [Stream; 2],
    accepted: Vec<Accepted>,
    serial: u64,
    /// What the receiver was sent before the last look.
    heard: usize,
}

impl Life {
    fn new(mut random: Random) -> Self {
        let receiver = Receiver::start(receives);
        let (url, host) = (receiver.url("/in"), receiver.url(""));
        let retry =
            "retry = { first_ms = 1, max_ms = 5, attempts = 1000000 }\nbatch = { items_max = 7 }\n";
        let in_flight = random.within(1..4);
        let mirror = format!(
            "{retry}in_flight = {in_flight}\nconfig = {{ url = {url:?} }}\nhttp = {{ hosts = [{host:?}], networks = [\"127.0.0.0/8\"] }}\n"
        );
        let mut setup = Setup::with_streams(&STREAMS)
            .connector("tests", RULES)
            .sink("pool", &guest("hesitates"), "*", retry)
            .sink("mirror", "http-forward", "*", &mirror)
            .set("storage.payload_retention_minutes", 60);
        let merges = [false, true];
        for (stream, merges) in STREAMS.iter().zip(merges) {
            setup = setup.of_stream(stream, &on_update(stream, merges));
        }
        let process = Some(setup.spawn());
        Self {
            random,
            setup,
            process,
            receiver,
            merges,
            streams: Default::default(),
            accepted: Vec::new(),
            serial: 0,
            heard: 0,
        }
    }

    fn process(&self) -> &Process {
        self.process.as_ref().expect("it runs")
    }

    /// Some requests about a few items of this history's own.
    fn history(&mut self, history: u64) {
        for _ in 0..self.random.within(4..12) {
            let stream = self.random.within(0..2) as usize;
            match self.random.within(0..12) {
                0 => self.remove(stream, history),
                1 => self.put(stream, history),
                _ => self.send(stream, history),
            }
        }
    }

    fn key(&mut self, history: u64) -> String {
        format!("h{history}-{}", self.random.within(0..KEYS))
    }

    /// An array; at times it is sent twice.
    fn send(&mut self, stream: usize, history: u64) {
        self.serial += 1;
        let mut ops = Vec::new();
        let mut items = Vec::new();
        for _ in 0..self.random.within(1..5) {
            let key = self.key(history);
            let version = (!self.random.once_in(3)).then(|| self.random.within(0..VERSIONS));
            let mut sent = Fields::from_iter([("id".to_owned(), json!(key))]);
            if let Some(version) = version {
                sent.insert("rev".to_owned(), json!(version));
            }
            let removes = self.random.once_in(4);
            if removes {
                sent.insert("op".to_owned(), json!("del"));
            } else {
                let field = format!("f{}", self.random.within(0..FIELDS));
                sent.insert(field, json!(self.serial * 10 + items.len() as u64));
            }
            items.push(Value::Object(sent.clone()));
            ops.push(Op {
                key,
                version,
                fields: (!removes).then_some(sent),
                merges: self.merges[stream],
                is_whole: false,
            });
        }
        let headers = format!("{BY_ID}Idempotency-Key: {}\r\n", self.serial);
        let body = Value::Array(items).to_string();
        let id = self.process().accepted(STREAMS[stream], &headers, &body);
        if self.random.once_in(6) {
            let again = self.process().accepted(STREAMS[stream], &headers, &body);
            assert_eq!(again, id, "a repeat is no request");
        }
        self.note(id, stream, ops);
    }

    /// DELETE of an item.
    fn remove(&mut self, stream: usize, history: u64) {
        let key = self.key(history);
        let id = self.process().removed(STREAMS[stream], &key);
        let op = Op {
            key,
            version: None,
            fields: None,
            merges: self.merges[stream],
            is_whole: false,
        };
        self.note(id, stream, vec![op]);
    }

    /// An operator puts a whole item.
    fn put(&mut self, stream: usize, history: u64) {
        self.serial += 1;
        let key = self.key(history);
        let fields = json!({"f0": self.serial * 10});
        let path = format!("/api/admin/streams/{}/items/{key}", STREAMS[stream]);
        let put = self.process().call("PUT", &path, &fields.to_string());
        let id = put.data(202)["request_id"]
            .as_str()
            .expect("an id")
            .to_owned();
        let op = Op {
            key,
            version: None,
            fields: fields.as_object().cloned(),
            merges: self.merges[stream],
            is_whole: true,
        };
        self.note(id, stream, vec![op]);
    }

    fn note(&mut self, id: String, stream: usize, ops: Vec<Op>) {
        let stale = self.streams[stream].apply(&ops);
        self.accepted.push(Accepted {
            id,
            stream,
            ops,
            stale,
        });
    }

    /// Now and then the daemon is killed, and then its streams may do something else.
    fn disturb(&mut self) {
        if !self.random.once_in(8) {
            return;
        }
        self.process.take().expect("it runs").kill();
        if self.random.once_in(2) {
            for (stream, merges) in STREAMS.iter().zip(&mut self.merges) {
                let before = on_update(stream, *merges);
                *merges = !*merges;
                self.setup.change(&before, &on_update(stream, *merges));
            }
        }
        self.process = Some(self.setup.spawn());
    }

    fn judge(&mut self) {
        self.process().drained();
        if self.random.once_in(2) {
            self.send_again();
        }
        for (name, stream) in STREAMS.iter().zip(&self.streams) {
            let items = self.setup.items(name).into_iter();
            let mut held: BTreeMap<String, Value> =
                items.map(|(key, fields, _)| (key, fields)).collect();
            let mut shown = stream.shown();
            held.retain(|key, fields| {
                let is_same = shown.get(key) == Some(&*fields);
                _ = is_same && shown.remove(key).is_some();
                !is_same
            });
            assert_eq!(
                held, shown,
                "{name}: what differs, in the pool and by the model"
            );
        }
        for request in &self.accepted {
            let status = self.process().request(&request.id);
            assert_eq!(status["items_received"], request.ops.len(), "{status}");
            assert_eq!(status["stale"], json!(request.stale), "{status}");
        }
        self.check_receiver();
        self.accepted.clear();
    }

    /// Requests of before as new ones, which overwrite whatever is there.
    fn send_again(&mut self) {
        for _ in 0..5 {
            let request = self.random.one_of(&self.accepted);
            if request.ops.iter().all(|op| op.fields.is_none()) {
                continue;
            }
            let (stream, of) = (request.stream, request.id.clone());
            let mut ops = request.ops.clone();
            let path = format!("/api/admin/requests/{of}/resend");
            let again = self.process().call("POST", &path, r#"{"overwrite": true}"#);
            let again = again.data(202);
            for op in &mut ops {
                op.version = None;
                op.merges = self.merges[stream];
            }
            let id = again["request_id"].as_str().expect("an id").to_owned();
            self.note(id, stream, ops);
        }
        self.process().drained();
    }

    /// Each operation was sent once under one key, and those of an item in their order.
    fn check_receiver(&mut self) {
        let mut expected: HashMap<(&str, &str), Vec<Heard>> = HashMap::new();
        for request in &self.accepted {
            for op in &request.ops {
                let of_key = expected
                    .entry((STREAMS[request.stream], &op.key))
                    .or_default();
                let version = op.version.map(|version| version.to_string());
                of_key.push((version, op.fields.is_none()));
            }
        }
        let seen = self.receiver.seen();
        let mut bodies: HashMap<&str, &str> = HashMap::new();
        let mut heard: HashMap<(String, String), Vec<Heard>> = HashMap::new();
        for one in &seen[self.heard..] {
            let key = one.header("idempotency-key").expect("a key");
            if let Some(first) = bodies.insert(key, &one.body) {
                assert_eq!(first, one.body, "a key stands for one body");
                continue;
            }
            for item in one.json().as_array().expect("a list") {
                let text = |name: &str| item[name].as_str().map(str::to_owned);
                let of = (
                    text("stream").expect("a stream"),
                    text("key").expect("a key"),
                );
                let is_removal = item.get("removed").is_some();
                heard
                    .entry(of)
                    .or_default()
                    .push((text("version"), is_removal));
            }
        }
        assert_eq!(heard.len(), expected.len());
        for ((stream, key), expected) in expected {
            let heard = &heard[&(stream.to_owned(), key.to_owned())];
            assert_eq!(*heard, expected, "{key} of {stream}");
        }
        self.heard = seen.len();
    }
}

fn on_update(stream: &str, merges: bool) -> String {
    let how = if merges { "merge" } else { "replace" };
    format!("on_update = \"{how}\" # {stream}")
}

/// One in a few calls is refused; of another the answer is lost.
fn receives(_: &Seen, number: usize) -> Reply {
    match number % 7 {
        2 => answer(503, "", "not now"),
        5 => answer(500, "", "taken, and the answer is lost"),
        _ => answer(200, "", ""),
    }
}
