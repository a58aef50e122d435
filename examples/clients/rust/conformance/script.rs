//! Verdicts and scripts: what the kit asks of the inside. A script runs in virtual time, without threads: the steps of a
//! batcher are done here, in the order of the times at which they are due.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Command, Runner, ms, read_line, write_line};
use crate::client::Shared;
use crate::error::code;
use crate::request::submission;
use crate::state::{Core, FOREVER};
use crate::transport::{Answer, Call, Reply, World};
use crate::verdict::{self, Verdict, VerdictKind};
use crate::{Cancel, Client, ClientOptions, Error, Flushed, lock, uuid};

/// The clocks of a script, which only the kit moves.
#[derive(Default)]
struct Clocks {
    wall: Duration,
    mono: Duration,
    disk_is_full: bool,
    /// What an answer calls, to give it another key.
    client: Option<std::sync::Weak<Shared>>,
}

#[derive(Default)]
struct VirtualWorld(Mutex<Clocks>);

/// A batcher without threads, and its world.
pub(super) struct Script {
    world: Arc<VirtualWorld>,
    pub(super) core: Arc<Core>,
    is_closed: bool,
}

/// The kit's answer to an attempt.
#[derive(Deserialize)]
struct KitAnswer {
    answer: KitReply,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct KitReply {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
    no: Option<String>,
    set_key: Option<String>,
}

impl World for VirtualWorld {
    fn now(&self) -> Duration {
        lock(&self.0).wall
    }

    fn lived(&self) -> Duration {
        lock(&self.0).mono
    }

    fn random(&self) -> f64 {
        1.0
    }

    /// Has the kit say what comes of an attempt.
    fn exchange(&self, call: &Call, key: &str, _limit: Duration, _cancel: &Cancel) -> Reply {
        let idempotency_key = call.headers["idempotency-key"].to_str().unwrap_or_default();
        write_line(&json!({"ask": {
            "at_ms": self.lived().as_secs_f64() * 1000.0,
            "key": idempotency_key,
            "auth": key,
            "path": call.path,
            "body": String::from_utf8_lossy(&call.body),
        }}));
        let line = read_line().expect("an answer of the kit");
        let KitAnswer { answer } = serde_json::from_str(&line).expect("an answer of the kit");
        if let Some(key) = &answer.set_key {
            let shared = lock(&self.0)
                .client
                .as_ref()
                .and_then(std::sync::Weak::upgrade);
            let client = Client {
                shared: shared.expect("a client"),
            };
            client.set_key(key).expect("a key");
        }
        answer.reply()
    }

    fn sleep(&self, _pause: Duration, _cancel: &Cancel) -> bool {
        true
    }

    fn disk_is_writable(&self) -> io::Result<()> {
        match lock(&self.0).disk_is_full {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }
}

impl KitReply {
    fn reply(self) -> Reply {
        let Some(no) = self.no else {
            let mut headers = HeaderMap::new();
            for (name, value) in &self.headers {
                let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
                headers.append(name, HeaderValue::from_str(value).expect("a value"));
            }
            return Reply::Complete(Answer {
                status: self.status,
                headers,
                body: self.body.into_bytes(),
            });
        };
        let error = match &*no {
            "timeout" => Error::timeout(),
            "too_long" => Error::retryable(code::UNEXPECTED_ANSWER, "the answer is too long"),
            other => Error::retryable(code::CONNECTION, other),
        };
        Reply::Nothing {
            error,
            left: no != "connection",
        }
    }
}

impl Script {
    pub(super) fn run_op(&mut self, command: &Command) {
        match &*command.op {
            "pass" => {
                let end = self.world.lived() + ms(command.ms);
                self.until(end, &|| false);
            }
            "wall" => {
                let mut clocks = lock(&self.world.0);
                clocks.wall = match command.ms < 0.0 {
                    true => clocks.wall.saturating_sub(ms(-command.ms)),
                    false => clocks.wall + ms(command.ms),
                };
            }
            _ => lock(&self.world.0).disk_is_full = command.full,
        }
    }

    /// Does everything that is due until then, to its end, or until something is done.
    fn until(&self, end: Duration, is_done: &dyn Fn() -> bool) {
        while !is_done() {
            let mut wait = FOREVER;
            if let Some(spool) = &self.core.spool {
                wait = self.core.write_step(spool);
                if wait.is_zero() {
                    continue;
                }
            }
            // What is due together is cut and written before one is sent.
            let next = self.core.send_step();
            if next.is_zero() {
                continue;
            }
            let due = self.world.lived() + wait.min(next);
            self.advance(due.min(end));
            if due > end {
                return;
            }
        }
    }

    fn advance(&self, to: Duration) {
        let mut clocks = lock(&self.world.0);
        let passed = to.saturating_sub(clocks.mono);
        clocks.wall += passed;
        clocks.mono = to;
    }

    /// A batcher that is closed ends at its timeout.
    pub(super) fn flush(&mut self, command: &Command) -> Flushed {
        let core = self.core.clone();
        let timeout = command.timeout_ms.map_or(FOREVER, ms);
        let end = self.world.lived() + timeout;
        let closes = command.op == "close";
        if closes {
            core.shut();
        }
        let target = core.hurry(&mut core.lock());
        self.until(end, &|| !core.lock().is_open(target));
        let mut flushed = core.lock().flushed(target);
        if closes {
            if !std::mem::replace(&mut self.is_closed, true) {
                core.end();
            }
            flushed.spooled = core.lock().files.len();
        }
        flushed
    }
}

impl Runner {
    pub(super) fn open(self: &Arc<Self>, command: &Command) -> Result<Value, Error> {
        let world = Arc::new(VirtualWorld::default());
        let options = ClientOptions::default();
        let client = Client::in_world(world.clone(), String::new(), &command.key, &options)?;
        *lock(&world.0) = Clocks {
            wall: ms(command.wall_ms),
            mono: ms(command.mono_ms),
            disk_is_full: false,
            client: Some(Arc::downgrade(&client.shared)),
        };
        let core = client.batcher_core(self.options(command, true), false)?;
        *lock(&self.client) = Some(client);
        *lock(&self.script) = Some(Script {
            world,
            core,
            is_closed: false,
        });
        Ok(json!({}))
    }

    /// Makes one request as a batcher does, and says how the answer is read.
    pub(super) fn attempt(&self, command: &Command) -> Result<Value, Error> {
        let shared = self.client()?.shared;
        let now = ms(command.wall_ms);
        let body = format!("[{}]", command.items.join(","));
        let key = uuid::create(shared.world.now());
        let call = submission(Bytes::from(body), &key, Some("id"), None)?;
        let reply = shared.attempt(&call, &shared.key(), &Cancel::default());
        let sent = command.items.len();
        let found = Verdict::of(reply, Some(sent), now);
        let pause = |random: f64| {
            let pause = found.pause(&shared.backoff, command.failures, random);
            pause.as_secs_f64() * 1000.0
        };
        let kind = match found.kind {
            VerdictKind::Accepted => "accepted",
            VerdictKind::Refused => "refused",
            VerdictKind::Mismatch => "mismatch",
            VerdictKind::Blocked => "blocked",
            VerdictKind::Retrying => "retrying",
        };
        let error = found.result.as_ref().err();
        Ok(json!({
            "kind": kind,
            "code": error.map(|error| &error.code),
            "items": error.map(|error| verdict::named(error, sent)),
            "replayed": found.result.as_ref().is_ok_and(|receipt| receipt.replayed),
            "unknown": found.unknown,
            "shrink": found.shrink,
            "pause_ms": [pause(0.0), pause(1.0)],
        }))
    }
}
