//! One connection under load, and what it may rely on afterwards.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::SocketAddr;

use super::{ORDERS, POSITIONS, READINGS};
use crate::app::Random;
use crate::process::{Answer, Client, Process};

/// Items that each connection writes again and again.
const COUNTERS: u64 = 8;
/// Keys that all connections race for in one round.
const SHARED_KEYS: u64 = 40;

/// An item that was written once and acknowledged.
#[derive(Debug, Clone)]
pub(super) struct Written {
    pub(super) stream: &'static str,
    pub(super) key: String,
    pub(super) request_id: String,
}

/// An item with a number that rises by one with each request.
#[derive(Debug, Clone, Default)]
pub(super) struct Counter {
    pub(super) sent: u64,
    pub(super) acknowledged: u64,
    /// The request that acknowledged it.
    pub(super) request_id: String,
}

/// An idempotency key and the request ids of all answers to it.
#[derive(Debug, Clone, Default)]
pub(super) struct Claim {
    pub(super) item: String,
    pub(super) request_ids: Vec<String>,
}

/// What was acknowledged since the last look.
#[derive(Debug, Default)]
pub(super) struct News {
    /// Requests that are not repeats.
    pub(super) request_ids: Vec<String>,
    pub(super) written: Vec<Written>,
}

#[derive(Debug)]
pub(super) struct Worker {
    id: u64,
    random: Random,
    serial: u64,
    pub(super) counters: HashMap<String, Counter>,
    pub(super) claims: HashMap<String, Claim>,
    news: News,
    /// Everything that [`Worker::take_news`] gave out.
    pub(super) written: Vec<Written>,
    pub(super) acknowledged: Vec<String>,
}

impl Worker {
    pub(super) fn new(id: u64, random: Random) -> Self {
        Self {
            id,
            random,
            serial: 0,
            counters: HashMap::new(),
            claims: HashMap::new(),
            news: News::default(),
            written: Vec::new(),
            acknowledged: Vec::new(),
        }
    }

    /// Sends until the daemon is gone.
    pub(super) fn send_until_it_breaks(&mut self, service: SocketAddr, round: u64) {
        let Ok(mut client) = Client::connect(service) else {
            return;
        };
        while self.send(&mut client, round).is_some() {}
    }

    /// One request; `None` if there was no answer.
    fn send(&mut self, client: &mut Client, round: u64) -> Option<()> {
        self.serial += 1;
        let serial = self.serial;
        match self.random.within(0..10) {
            0..3 => self.count(client),
            3..5 => self.array(client, serial),
            5 => {
                let length = self.random.within(1..6);
                let item = format!("{{\"by\": {}, \"serial\": {serial}}}", self.id);
                let body = vec![item; usize::try_from(length).expect("small")].join(",");
                let answer = client.post(POSITIONS, "", &format!("[{body}]")).ok()?;
                self.acknowledge(&answer);
                Some(())
            }
            6..8 => self.claim(client, format!("w{}-{serial}", self.id)),
            8 => {
                let shared = self.random.within(0..SHARED_KEYS);
                self.claim(client, format!("shared-{round}-{shared}"))
            }
            _ => {
                let old = self.random.next() as usize % self.claims.len().max(1);
                let old = self.claims.keys().nth(old).cloned();
                self.claim(
                    client,
                    old.unwrap_or_else(|| format!("w{}-{serial}", self.id)),
                )
            }
        }
    }

    fn count(&mut self, client: &mut Client) -> Option<()> {
        let key = format!("counter-{}-{}", self.id, self.random.within(0..COUNTERS));
        let counter = self.counters.entry(key.clone()).or_default();
        counter.sent += 1;
        let sent = counter.sent;
        let body = format!("{{\"id\": \"{key}\", \"n\": {sent}}}");
        let answer = client.post(ORDERS, "X-Item-Key: id\r\n", &body).ok()?;
        let request_id = self.acknowledge(&answer);
        let counter = self.counters.entry(key).or_default();
        counter.acknowledged = sent;
        counter.request_id = request_id;
        Some(())
    }

    fn array(&mut self, client: &mut Client, serial: u64) -> Option<()> {
        let mut body = String::from("[");
        let keys: Vec<String> = (0..self.random.within(2..40))
            .map(|position| format!("{}-{serial}-{position}", self.id))
            .collect();
        for key in &keys {
            let comma = if body.len() > 1 { "," } else { "" };
            write!(body, "{comma}{{\"id\": {{\"of\": \"{key}\"}}}}").expect("text grows");
        }
        body.push(']');
        let answer = client.post(READINGS, "X-Item-Key: id.of\r\n", &body).ok()?;
        let request_id = self.acknowledge(&answer);
        self.news
            .written
            .extend(keys.into_iter().map(|key| Written {
                stream: READINGS,
                key,
                request_id: request_id.clone(),
            }));
        Some(())
    }

    /// A request with an idempotency key; its body depends on the key only.
    fn claim(&mut self, client: &mut Client, name: String) -> Option<()> {
        let item = format!("item-{name}");
        let body = format!("{{\"id\": \"{item}\"}}");
        // Before it is sent: without an answer it is repeated after the restart.
        let claim = self.claims.entry(name.clone()).or_default();
        claim.item.clone_from(&item);
        let headers = format!("X-Item-Key: id\r\nIdempotency-Key: {name}\r\n");
        let answer = client.post(ORDERS, &headers, &body).ok()?;
        let request_id = self.acknowledged_id(&answer);
        let claim = self.claims.entry(name).or_default();
        claim.request_ids.push(request_id.clone());
        self.news.written.push(Written {
            stream: ORDERS,
            key: item,
            request_id,
        });
        Some(())
    }

    /// Repeats what got no answer before the kill, and gets one now.
    pub(super) fn repeat_unanswered(&mut self, process: &Process) {
        let unanswered = self.claims.iter();
        let unanswered: Vec<String> = unanswered
            .filter(|(_, claim)| claim.request_ids.is_empty())
            .map(|(name, _)| name.clone())
            .collect();
        let mut client = Client::connect(process.service).expect("the daemon listens");
        for name in unanswered {
            self.claim(&mut client, name).expect("an answer");
        }
    }

    /// What was acknowledged since the last call.
    pub(super) fn take_news(&mut self) -> News {
        let news = std::mem::take(&mut self.news);
        self.written.extend(news.written.iter().cloned());
        self.acknowledged.extend(news.request_ids.iter().cloned());
        news
    }

    fn acknowledge(&mut self, answer: &Answer) -> String {
        assert_eq!(answer.header("idempotent-replayed"), None);
        self.acknowledged_id(answer)
    }

    fn acknowledged_id(&mut self, answer: &Answer) -> String {
        assert_eq!(answer.status, 202, "{}", answer.body);
        let request_id = answer.request_id();
        assert_eq!(answer.header("x-request-id"), Some(&*request_id));
        if answer.header("idempotent-replayed").is_none() {
            self.news.request_ids.push(request_id.clone());
        }
        request_id
    }
}
