//! The runner of the conformance kit in `tests/clients`: does what it is sent in JSON lines, and writes what came of it.
//!
//! Cases are run with the public interface, verdicts and scripts with what the library has inside. What Rust leaves to its
//! users is done as they are told to do it: a batcher is closed, with 5 seconds.

use std::collections::HashMap;
use std::io::{BufRead as _, Write as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::{
    Batcher, BatcherOptions, Cancel, Client, ClientOptions, Error, Flushed, ItemKey, SendOptions,
    Stats, WhenFull, lock,
};

#[path = "item.rs"]
mod item;
#[path = "script.rs"]
mod script;

use item::{Item, items};
use script::Script;

/// A line of the kit.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Command {
    n: u64,
    op: String,
    #[serde(rename = "as")]
    name: Option<String>,
    of: String,
    url: String,
    key: String,
    user_agent: String,
    timeout_ms: Option<f64>,
    attempt_timeout_ms: Option<f64>,
    backoff_ms: Option<f64>,
    backoff_max_ms: Option<f64>,
    linger_ms: Option<f64>,
    wall_ms: f64,
    mono_ms: f64,
    ms: f64,
    failures: u32,
    full: bool,
    items: Vec<String>,
    one: bool,
    concurrently: bool,
    item_key: Option<String>,
    idempotency_key: Option<String>,
    stream: Option<String>,
    id: Option<String>,
    connector_has_item_key: bool,
    max_items: Option<usize>,
    max_bytes: Option<usize>,
    queue_bytes: Option<usize>,
    when_full: Option<String>,
    latest_only: bool,
    spool: Option<String>,
    spool_bytes: Option<u64>,
}

/// What an op comes to, as it is written.
type Done = Result<Value, Value>;

fn ms(count: f64) -> Duration {
    Duration::from_secs_f64(count / 1000.0)
}

/// What callbacks received.
#[derive(Default)]
struct Events {
    accepted: Vec<Value>,
    rejected: Vec<Value>,
    states: Vec<Value>,
}

/// One of each, as the protocol says.
#[derive(Default)]
struct Runner {
    client: Mutex<Option<Client>>,
    batcher: Mutex<Option<Arc<Batcher>>>,
    script: Mutex<Option<Script>>,
    /// Of the last receipt.
    last: Mutex<String>,
    cancels: Mutex<HashMap<String, Cancel>>,
    events: Mutex<Events>,
}

/// Reads lines until there are no more, then leaves as `exit` does.
pub fn run() {
    let runner = Arc::new(Runner::default());
    while let Some(line) = read_line() {
        let command: Command = match serde_json::from_str(&line) {
            Ok(command) => command,
            Err(error) => panic!("unreadable line: {error}"),
        };
        if command.op == "kill" {
            std::process::abort();
        }
        let Some(name) = command.name.clone() else {
            runner.answer(&command, &Cancel::default());
            if command.op == "exit" {
                break;
            }
            continue;
        };
        let cancel = Cancel::default();
        lock(&runner.cancels).insert(name, cancel.clone());
        let runner = runner.clone();
        std::thread::spawn(move || runner.answer(&command, &cancel));
    }
    runner.leave();
}

/// The next line on standard input.
fn read_line() -> Option<String> {
    let mut line = String::new();
    match std::io::stdin().lock().read_line(&mut line) {
        Ok(count) if count > 0 => Some(line),
        _ => None,
    }
}

fn write_line(value: &Value) {
    let mut out = std::io::stdout().lock();
    // The kit that is gone reads nothing.
    drop(writeln!(out, "{value}").and_then(|()| out.flush()));
}

fn shown(error: &Error) -> Value {
    let details = error
        .details
        .iter()
        .map(|detail| json!({"item": detail.item, "field": detail.field, "header": detail.header}));
    json!({
        "code": error.code,
        "status": error.status,
        "message": error.message,
        "request_id": error.request_id,
        "details": details.collect::<Vec<_>>(),
        "retryable": error.retryable,
        "text": format!("{error} {error:?}"),
    })
}

/// An error of `add`, and how many were added before.
fn with_added(error: &Error, added: usize) -> Value {
    let mut value = shown(error);
    value["added"] = added.into();
    value
}

impl Runner {
    fn answer(self: &Arc<Self>, command: &Command, cancel: &Cancel) {
        let line = match self.run_op(command, cancel) {
            Ok(value) => json!({"n": command.n, "ok": value}),
            Err(error) => json!({"n": command.n, "error": error}),
        };
        write_line(&line);
    }

    fn client(&self) -> Result<Client, Error> {
        let client = lock(&self.client).clone();
        client.ok_or_else(|| Error::usage("there is no client"))
    }

    fn batcher(&self) -> Result<Arc<Batcher>, Error> {
        let batcher = lock(&self.batcher).clone();
        batcher.ok_or_else(|| Error::usage("there is no batcher"))
    }

    fn leave(&self) {
        if let Some(batcher) = lock(&self.batcher).take() {
            batcher.close(Duration::from_secs(5));
        }
    }

    fn run_op(self: &Arc<Self>, command: &Command, cancel: &Cancel) -> Done {
        match &*command.op {
            "client" => self.connect(command).map_err(|error| shown(&error)),
            "send" | "remove" | "request" | "wait" => {
                self.request(command, cancel).map_err(|error| shown(&error))
            }
            "cancel" => {
                if let Some(cancel) = lock(&self.cancels).get(&command.of) {
                    cancel.cancel();
                }
                Ok(json!({}))
            }
            "batcher" => self.make_batcher(command).map_err(|error| shown(&error)),
            "add" => self.add(command),
            "flush" | "close" => self.flush(command).map_err(|error| shown(&error)),
            "stats" => self.stats().map_err(|error| shown(&error)),
            "events" => {
                let events = lock(&self.events);
                Ok(
                    json!({"accepted": events.accepted, "rejected": events.rejected, "states": events.states}),
                )
            }
            "set_key" => {
                let set = self
                    .client()
                    .and_then(|client| client.set_key(&command.key));
                set.map(|()| json!({})).map_err(|error| shown(&error))
            }
            "attempt" => self.attempt(command).map_err(|error| shown(&error)),
            "open" => self.open(command).map_err(|error| shown(&error)),
            "pass" | "wall" | "disk" => {
                if let Some(script) = &mut *lock(&self.script) {
                    script.run_op(command);
                }
                Ok(json!({}))
            }
            "show" => {
                let (client, batcher) = (self.client(), self.batcher());
                Ok(json!({"text": format!("{client:?} {batcher:?}")}))
            }
            "exit" => Ok(json!({})),
            other => Err(shown(&Error::new(
                "UNKNOWN_OP",
                format!("no such op: {other}"),
            ))),
        }
    }

    fn connect(&self, command: &Command) -> Result<Value, Error> {
        let mut options = ClientOptions {
            user_agent: command.user_agent.clone(),
            ..ClientOptions::default()
        };
        let given = [
            (command.timeout_ms, &mut options.timeout),
            (command.attempt_timeout_ms, &mut options.attempt_timeout),
            (command.backoff_ms, &mut options.backoff),
            (command.backoff_max_ms, &mut options.backoff_max),
        ];
        for (given, option) in given {
            if let Some(given) = given {
                *option = ms(given);
            }
        }
        let client = Client::with(&command.url, &command.key, options)?;
        *lock(&self.client) = Some(client);
        Ok(json!({}))
    }

    fn request(&self, command: &Command, cancel: &Cancel) -> Result<Value, Error> {
        let client = self.client()?;
        let options = SendOptions {
            item_key: command.item_key.clone(),
            idempotency_key: command.idempotency_key.clone(),
            stream: command.stream.clone(),
            timeout: command.timeout_ms.map(ms),
            cancel: cancel.clone(),
        };
        let receipt = match &*command.op {
            "send" => {
                let items = items(&command.items)?;
                match items.first().filter(|_| command.one) {
                    Some(item) => client.send(item, &options)?,
                    None => client.send(&items, &options)?,
                }
            }
            "remove" => {
                let stream = command.stream.as_deref().unwrap_or_default();
                let options = SendOptions {
                    stream: None,
                    ..options
                };
                client.remove(stream, &command.key, &options)?
            }
            _ => return self.status(&client, command),
        };
        lock(&self.last).clone_from(&receipt.request_id);
        Ok(json!({
            "stream": receipt.stream,
            "items_received": receipt.items_received,
            "request_id": receipt.request_id,
            "replayed": receipt.replayed,
        }))
    }

    fn status(&self, client: &Client, command: &Command) -> Result<Value, Error> {
        let last = lock(&self.last).clone();
        let id = command.id.as_ref().unwrap_or(&last);
        let state = match &*command.op {
            "request" => client.request(id)?,
            _ => client.wait(id, ms(command.timeout_ms.unwrap_or(30_000.0)))?,
        };
        let sinks = state.sinks.iter();
        let sinks = sinks.map(|sink| json!({"name": sink.name, "state": sink.state}));
        Ok(
            json!({"status": state.status, "errors": state.errors, "sinks": sinks.collect::<Vec<_>>()}),
        )
    }

    fn make_batcher(self: &Arc<Self>, command: &Command) -> Result<Value, Error> {
        lock(&self.script).take();
        let batcher = self.client()?.batcher(self.options(command, false))?;
        *lock(&self.batcher) = Some(Arc::new(batcher));
        Ok(json!({}))
    }

    /// Options of a command, with callbacks that note what they receive.
    fn options(self: &Arc<Self>, command: &Command, writes: bool) -> BatcherOptions {
        *lock(&self.events) = Events::default();
        let field = command.item_key.clone().map(ItemKey::Field);
        let default = BatcherOptions::default();
        let (accepting, rejecting, changing) = (self.clone(), self.clone(), self.clone());
        let event = move |event: Value| {
            if writes {
                write_line(&json!({"event": event}));
            }
        };
        BatcherOptions {
            item_key: match command.connector_has_item_key {
                true => Some(ItemKey::OfConnector),
                false => field,
            },
            stream: command.stream.clone(),
            max_items: command.max_items.unwrap_or(default.max_items),
            max_bytes: command.max_bytes.unwrap_or(default.max_bytes),
            linger: command.linger_ms.map_or(default.linger, ms),
            queue_bytes: command.queue_bytes.unwrap_or(default.queue_bytes),
            when_full: match command.when_full.as_deref() {
                Some("fail") => WhenFull::Fail,
                Some("drop_oldest") => WhenFull::DropOldest,
                _ => WhenFull::Wait,
            },
            latest_only: command.latest_only,
            spool: command.spool.as_ref().map(Into::into),
            spool_bytes: command.spool_bytes.unwrap_or(default.spool_bytes),
            on_accepted: Some(Arc::new(move |receipt, items| {
                let noted = json!({"items": items.len(), "replayed": receipt.replayed});
                lock(&accepting.events).accepted.push(noted);
                event(json!(["accepted", items.len(), receipt.replayed]));
            })),
            on_rejected: Some(Arc::new(move |items, error| {
                let ids: Vec<Value> = items.iter().map(|item| id_of(item)).collect();
                let noted = json!({"items": ids, "code": error.code, "status": error.status});
                lock(&rejecting.events).rejected.push(noted);
                event(json!(["rejected", error.code, ids]));
            })),
            on_state: Some(Arc::new(move |state, code| {
                lock(&changing.events)
                    .states
                    .push(json!([state.as_str(), code]));
                event(json!(["state", state.as_str(), code]));
            })),
        }
    }

    fn add(&self, command: &Command) -> Done {
        // Nothing is locked while an item waits for room.
        let core = lock(&self.script)
            .as_ref()
            .map(|script| script.core.clone());
        let add_one = |item: &Item| match &core {
            Some(core) => core.add(item),
            None => self.batcher()?.add(item),
        };
        let items = items(&command.items).map_err(|error| shown(&error))?;
        if !command.concurrently {
            for (added, item) in items.iter().enumerate() {
                add_one(item).map_err(|error| with_added(&error, added))?;
            }
            return Ok(json!({"added": items.len()}));
        }
        let batcher = self.batcher().map_err(|error| shown(&error))?;
        let threads = 64;
        let results: Vec<Result<(), Error>> = std::thread::scope(|scope| {
            let chunks = items.chunks(items.len().div_ceil(threads).max(1));
            let add = |chunk: &'_ [Item]| {
                chunk
                    .iter()
                    .map(|item| batcher.add(item))
                    .collect::<Vec<_>>()
            };
            let running: Vec<_> = chunks
                .map(|chunk| scope.spawn(move || add(chunk)))
                .collect();
            let done = running
                .into_iter()
                .map(|thread| thread.join().unwrap_or_default());
            done.flatten().collect()
        });
        let added = results.iter().filter(|result| result.is_ok()).count();
        match results.into_iter().find_map(Result::err) {
            Some(error) => Err(with_added(&error, added)),
            None => Ok(json!({"added": added})),
        }
    }

    fn flush(&self, command: &Command) -> Result<Value, Error> {
        if let Some(script) = &mut *lock(&self.script) {
            return Ok(flushed(&script.flush(command)));
        }
        let timeout = command.timeout_ms.map_or(Duration::MAX, ms);
        let batcher = self.batcher()?;
        Ok(flushed(&match &*command.op {
            "flush" => batcher.flush(timeout),
            _ => batcher.close(timeout),
        }))
    }

    fn stats(&self) -> Result<Value, Error> {
        let stats: Stats = match &*lock(&self.script) {
            Some(script) => script.core.stats(),
            None => self.batcher()?.stats(),
        };
        Ok(json!({
            "queued": stats.queued, "in_flight": stats.in_flight, "accepted": stats.accepted,
            "rejected": stats.rejected, "dropped": stats.dropped, "replaced": stats.replaced,
            "retries": stats.retries, "spooled": stats.spooled, "spooled_bytes": stats.spooled_bytes,
            "damaged": stats.damaged, "state": stats.state.as_str(), "code": stats.code,
            "oldest_ms": stats.oldest.unwrap_or_default().as_millis() as u64,
        }))
    }
}

fn flushed(flushed: &Flushed) -> Value {
    json!({
        "done": flushed.done, "queued": flushed.queued, "in_flight": flushed.in_flight,
        "spooled": flushed.spooled, "state": flushed.state.as_str(), "code": flushed.code,
    })
}

fn id_of(item: &RawValue) -> Value {
    let item: Value = serde_json::from_str(item.get()).unwrap_or_default();
    item["id"].clone()
}
