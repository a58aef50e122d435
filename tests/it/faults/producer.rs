//! One connection under load, which remembers every answer.
//!
//! **Invariant**: an answer is in the [`Book`] before the next request is sent; a request that got none is, too.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::bench::{Progress, pause};
use super::book::{Book, Event, Fields, Mark, Op, Promise};
use super::preload::Preload;
use super::{ORDERS, POSITIONS, PROFILES, READINGS};
use crate::app::Random;
use crate::process::{Answer, BY_ID, Client, Process};
use crate::setup::key_of;

/// Items that each connection writes again and again.
const COUNTERS: u64 = 8;
/// Items of each connection that get a field at a time.
const PROFILES_EACH: u64 = 3;
const PROFILE_FIELDS: u64 = 4;
/// Keys that all connections race for in one round.
const SHARED_KEYS: u64 = 40;
/// After so many unanswered changes of one item nobody can say much about it: another one is taken.
const STATES_MAX: usize = 32;
/// Before the next request to somebody who refuses.
const REFUSED_PAUSE: Duration = Duration::from_millis(5);

/// What a request came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    Acknowledged,
    Refused,
    /// No answer.
    Broken,
}

/// One connection over all lives of a daemon.
pub(super) struct Worker {
    id: u64,
    random: Random,
    serial: u64,
    /// An idempotency key that was refused: who sends one repeats it next.
    refused_claim: Option<Op>,
    pub(super) book: Book,
    /// What of the book was judged.
    pub(super) judged: Mark,
    /// Everything in order, if it is wanted.
    pub(super) events: Option<Vec<Event>>,
    /// Between two requests.
    pub(super) pace: Duration,
    pub(super) acknowledged: u64,
    pub(super) refused: u64,
}

impl Worker {
    pub(super) fn new(id: u64, random: Random) -> Self {
        Self {
            id,
            random,
            serial: 0,
            refused_claim: None,
            book: Book::default(),
            judged: Mark::default(),
            events: None,
            pace: Duration::ZERO,
            acknowledged: 0,
            refused: 0,
        }
    }

    /// One that keeps its events, with their moments, and takes its time.
    pub(super) fn remembering(id: u64, random: Random, pace: Duration) -> Self {
        Self {
            events: Some(Vec::new()),
            pace,
            ..Self::new(id, random)
        }
    }

    /// Sends until the daemon is gone or it is told to stop. Refusals are taken as they come.
    pub(super) fn send_until_it_breaks(
        &mut self,
        service: SocketAddr,
        round: u64,
        progress: &Progress,
        moments: Option<&Preload>,
    ) {
        let Ok(mut client) = Client::connect(service) else {
            return;
        };
        while !progress.stop.load(Ordering::Relaxed) {
            match self.send(&mut client, round, moments) {
                Sent::Acknowledged => {
                    progress.acknowledged.fetch_add(1, Ordering::Relaxed);
                    if !self.pace.is_zero() {
                        pause(self.pace);
                    }
                }
                Sent::Refused => pause(REFUSED_PAUSE),
                Sent::Broken => return,
            }
        }
    }

    /// Sends so many requests, over a new connection where one breaks; how many were acknowledged.
    pub(super) fn send_some(&mut self, service: SocketAddr, count: u64, round: u64) -> u64 {
        let before = self.acknowledged;
        let mut client = None;
        for _ in 0..count {
            let mut connection = match client.take() {
                Some(connection) => connection,
                None => match Client::connect(service) {
                    Ok(connection) => connection,
                    Err(_) => break,
                },
            };
            if self.send(&mut connection, round, None) != Sent::Broken {
                client = Some(connection);
            }
        }
        self.acknowledged - before
    }

    /// One request of any kind, or again the idempotency key that was refused.
    pub(super) fn send(
        &mut self,
        client: &mut Client,
        round: u64,
        moments: Option<&Preload>,
    ) -> Sent {
        self.serial += 1;
        let again = self.refused_claim.take();
        let op = again.unwrap_or_else(|| self.choose(round));
        self.ask(client, op, moments)
    }

    fn choose(&mut self, round: u64) -> Op {
        let (id, serial) = (self.id, self.serial);
        match self.random.within(0..20) {
            0..5 => self.count(),
            5..7 => self.forget(),
            7..10 => self.fill_in(),
            10..12 => Op::Once {
                stream: READINGS,
                keys: (0..self.random.within(2..40))
                    .map(|position| format!("{id}-{serial}-{position}"))
                    .collect(),
            },
            12..14 => Op::Positions,
            14..17 => claim(format!("w{id}-{serial}")),
            17..19 => claim(format!(
                "shared-{round}-{}",
                self.random.within(0..SHARED_KEYS)
            )),
            _ => {
                let old = self.random.next() as usize % self.book.claims.len().max(1);
                let old = self.book.claims.keys().nth(old).cloned();
                claim(old.unwrap_or_else(|| format!("w{id}-{serial}")))
            }
        }
    }

    fn count(&mut self) -> Op {
        let at = self.random.within(0..COUNTERS);
        Op::Put {
            stream: ORDERS,
            key: self.item(ORDERS, "counter", at),
            fields: Fields::from([("n".to_owned(), self.serial)]),
            merges: false,
        }
    }

    fn forget(&mut self) -> Op {
        if self.random.once_in(2) {
            let at = self.random.within(0..PROFILES_EACH);
            return Op::Remove {
                stream: PROFILES,
                key: self.item(PROFILES, "profile", at),
            };
        }
        let at = self.random.within(0..COUNTERS);
        Op::Remove {
            stream: ORDERS,
            key: self.item(ORDERS, "counter", at),
        }
    }

    fn fill_in(&mut self) -> Op {
        let at = self.random.within(0..PROFILES_EACH);
        let field = format!("f{}", self.random.within(0..PROFILE_FIELDS));
        Op::Put {
            stream: PROFILES,
            key: self.item(PROFILES, "profile", at),
            fields: Fields::from([(field, self.serial)]),
            merges: true,
        }
    }

    /// The key of an item that is not too uncertain.
    fn item(&self, stream: &'static str, kind: &str, at: u64) -> String {
        let mut key = format!("{kind}-{}-{at}", self.id);
        let states = |key: &str| self.book.states.get(&(stream, key.to_owned()));
        while states(&key).is_some_and(|states| states.len() > STATES_MAX) {
            key.push('x');
        }
        key
    }

    /// Sends a request and remembers what became of it.
    pub(super) fn ask(&mut self, client: &mut Client, op: Op, moments: Option<&Preload>) -> Sent {
        let moment = || moments.map_or(0, Preload::records);
        let sent_at = moment();
        let answer = call(client, &op, self.random.within(1..6));
        let (sent, promise) = match answer {
            Err(_) => (Sent::Broken, None),
            Ok(answer) => match promised(&op, &answer) {
                Some((request_id, replayed)) => (
                    Sent::Acknowledged,
                    Some(Promise {
                        at: moment(),
                        request_id,
                        replayed,
                    }),
                ),
                None => (Sent::Refused, None),
            },
        };
        match sent {
            Sent::Acknowledged => self.acknowledged += 1,
            Sent::Refused => {
                self.refused += 1;
                if matches!(op, Op::Claim { .. }) {
                    self.refused_claim = Some(op.clone());
                }
            }
            Sent::Broken => {}
        }
        let event = Event {
            op,
            sent_at,
            promise,
        };
        self.book.note(&event, event.happened());
        if let Some(events) = &mut self.events {
            events.push(event);
        }
        sent
    }

    /// Repeats what got no answer, and gets one now.
    pub(super) fn repeat_unanswered(&mut self, process: &Process) {
        let mut client = process.client();
        for name in self.book.unanswered() {
            let sent = self.ask(&mut client, claim(name), None);
            assert_eq!(sent, Sent::Acknowledged, "{}", process.log());
        }
    }
}

/// A request with an idempotency key; its body depends on the key only.
fn claim(name: String) -> Op {
    Op::Claim {
        stream: ORDERS,
        key: format!("item-{name}"),
        name,
    }
}

fn call(client: &mut Client, op: &Op, positions: u64) -> std::io::Result<Answer> {
    match op {
        Op::Put {
            stream,
            key,
            fields,
            ..
        } => {
            let mut body = serde_json::json!({ "id": key });
            for (name, value) in fields {
                body[name] = (*value).into();
            }
            client.post(stream, BY_ID, &body.to_string())
        }
        Op::Remove { stream, key } => {
            let path = format!("/api/streams/{stream}/items/{key}");
            client.call("DELETE", &path, &key_of(stream), "")
        }
        Op::Once { stream, keys } => {
            let items: Vec<String> = keys
                .iter()
                .map(|key| format!("{{\"id\": {{\"of\": \"{key}\"}}}}"))
                .collect();
            let body = format!("[{}]", items.join(","));
            client.post(stream, "X-Item-Key: id.of\r\n", &body)
        }
        Op::Claim { stream, name, key } => {
            let headers = format!("{BY_ID}Idempotency-Key: {name}\r\n");
            client.post(stream, &headers, &format!("{{\"id\": \"{key}\"}}"))
        }
        Op::Positions => {
            let items = vec!["{\"by\": 1}"; usize::try_from(positions).expect("small")];
            client.post(POSITIONS, "", &format!("[{}]", items.join(",")))
        }
    }
}

/// The request that the answer promises, and whether it is an earlier one; `None` for a refusal.
fn promised(op: &Op, answer: &Answer) -> Option<(Option<String>, bool)> {
    let replayed = answer.header("idempotent-replayed").is_some();
    match (op, answer.status) {
        // A removal may be done, or accepted.
        (Op::Remove { .. }, 200 | 404) => Some((None, false)),
        (Op::Remove { .. }, 202) => {
            let id = answer.json()["data"]["request_id"]
                .as_str()
                .map(str::to_owned);
            Some((id, false))
        }
        (_, 202) => {
            let request_id = answer.request_id();
            if !replayed {
                assert_eq!(answer.header("x-request-id"), Some(&*request_id));
            }
            assert!(!replayed || matches!(op, Op::Claim { .. }), "{op:?}");
            Some((Some(request_id), replayed))
        }
        (_, 429 | 503 | 507) => None,
        (_, status) => panic!("{status} for {op:?}: {}", answer.body),
    }
}
