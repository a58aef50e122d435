//! Publishes items as MQTT messages, one topic each.
//!
//! **Invariant**: messages go out in the order of the items; an item is settled when the broker has answered its message.
//! Nothing is in flight between two calls, so each begins with the same identifiers: the host closes the connection of a
//! call that failed.

mod packet;

use headgate_sdk::templates::{Place, Subject, Template};
use headgate_sdk::wire::{Connection, Opened as Opening};
use headgate_sdk::{
    ALL, Action, Batch, Opened, Operations, Rejection, Sink, Span, WriteError, delivery, secrets,
};
use packet::{Answer, Client};
use serde_json::{Map, Value};

/// Messages that wait for their answers, at most.
const IN_FLIGHT_MAX: usize = 20;
/// Bytes of messages that wait for their answers, about.
const IN_FLIGHT_BYTES: usize = 256 << 10;
/// Bytes that are read at once.
const READ_BYTES: u32 = 4 << 10;
/// How long an answer may take, by default.
const TIMEOUT_MS: u32 = 3_000;
const ONLINE: &str = "online";
const OFFLINE: &str = "offline";

static SINK: Opened<Mqtt> = Opened::new();

/// The sink with its settings.
struct Mqtt {
    to: String,
    client_id: String,
    topic: Template,
    payload: Template,
    is_retained: bool,
    user: Option<String>,
    password: Option<String>,
    status_topic: Option<String>,
    timeout_ms: u32,
}

impl Mqtt {
    fn read(config: &str) -> Result<Self, String> {
        let all: Map<String, Value> =
            serde_json::from_str(config).map_err(|error| error.to_string())?;
        let text = |name: &str| all.get(name).and_then(Value::as_str).map(str::to_owned);
        let template = |name: &str, default: &str, place, of| {
            let text = text(name).unwrap_or_else(|| default.to_owned());
            Template::parse(&format!("config.{name}"), &text, place, of)
        };
        let (user, password) = (text("user"), secrets::get("password"));
        if password.is_some() && user.is_none() {
            return Err(
                "there is a secret `password` and no `user`; set `user` in `config`".into(),
            );
        }
        Ok(Self {
            to: text("to").unwrap_or_default(),
            client_id: text("client_id").unwrap_or_default(),
            // Of a removal nothing else is known, and what was published of an item must be found again.
            topic: template("topic", "{_stream}/{_key}", Place::Topic, Subject::Removal)?,
            payload: template("payload", "{_fields}", Place::Plain, Subject::Item)?,
            is_retained: all.get("retain").and_then(Value::as_bool).unwrap_or(true),
            user,
            password,
            status_topic: text("status_topic"),
            timeout_ms: (all.get("timeout_ms").and_then(Value::as_u64))
                .and_then(|ms| u32::try_from(ms).ok())
                .unwrap_or(TIMEOUT_MS),
        })
    }

    fn write(&self, batch: &Batch) -> Result<(), WriteError> {
        let mut pipe = self.open()?;
        let mut rejected = Vec::new();
        for (index, action) in (0..).zip(batch.actions(ALL)) {
            let one = Span {
                start: index,
                count: 1,
            };
            match self.message(batch, one, action, pipe.next_id()) {
                Ok(message) => pipe.add(message),
                Err(reason) => {
                    delivery::refused(one, &reason);
                    rejected.push(Rejection { index, reason });
                }
            }
            if pipe.is_full() {
                pipe.settle(self.timeout_ms)?;
                delivery::taken(index + 1);
            }
        }
        pipe.settle(self.timeout_ms)?;
        match rejected.is_empty() {
            true => Ok(()),
            false => Err(WriteError::RejectItems(rejected)),
        }
    }

    /// The message of an item, or why there can be none.
    fn message(
        &self,
        batch: &Batch,
        one: Span,
        action: Action,
        id: u16,
    ) -> Result<Vec<u8>, String> {
        let topic = self.topic.fill(batch, one)?;
        let payload = match action {
            Action::Removal => String::new(),
            Action::Update => self.payload.fill(batch, one)?,
        };
        if payload.is_empty() && self.is_retained && action == Action::Update {
            return Err("its payload is empty, which would remove the topic".to_owned());
        }
        let message = packet::publish(&topic, id, payload.as_bytes(), self.is_retained);
        message.ok_or_else(|| "it is longer than a message of MQTT can be".to_owned())
    }

    /// The connection, greeted.
    fn open(&self) -> Result<Pipe, WriteError> {
        let (connection, opened) = Connection::take(&self.to).map_err(WriteError::retry)?;
        let mut pipe = Pipe {
            connection,
            is_dry: opened == Opening::Dry,
            arrived: Vec::new(),
            bytes: Vec::new(),
            waiting: 0,
        };
        if opened != Opening::Fresh {
            return Ok(pipe);
        }
        let status = self.status_topic.as_deref();
        pipe.send(packet::connect(&Client {
            id: &self.client_id,
            user: self.user.as_deref(),
            password: self.password.as_deref(),
            will: status.map(|topic| (topic, OFFLINE)),
        }))?;
        match pipe.answer(self.timeout_ms)? {
            Answer::Connected(0) => {}
            Answer::Connected(code) => return Err(WriteError::retry(refusal(code))),
            _ => {
                return Err(WriteError::retry(
                    "this is no answer of an MQTT broker".to_owned(),
                ));
            }
        }
        if let Some(topic) = status {
            let id = pipe.next_id();
            if let Some(message) = packet::publish(topic, id, ONLINE.as_bytes(), true) {
                pipe.add(message);
                pipe.settle(self.timeout_ms)?;
            }
        }
        Ok(pipe)
    }
}

/// What a broker means by its answer to `connect`, and what to do.
fn refusal(code: u8) -> String {
    let why = match code {
        1 => "it does not speak MQTT 3.1.1; use a broker that does",
        2 => "it does not accept the `client_id`; set another one in `config`",
        3 => "it is not available now; see its log",
        4 | 5 => {
            "it does not accept user and password; correct `user` in `config` and the secret `password`"
        }
        _ => "it does not say why; see its log",
    };
    format!("the broker refused the connection (code {code}): {why}")
}

/// A connection, what arrived on it, and what is to be sent together.
struct Pipe {
    connection: Connection,
    is_dry: bool,
    arrived: Vec<u8>,
    /// Messages that were not sent yet.
    bytes: Vec<u8>,
    /// Their number.
    waiting: u16,
}

impl Pipe {
    fn next_id(&self) -> u16 {
        self.waiting + 1
    }

    fn add(&mut self, mut message: Vec<u8>) {
        self.bytes.append(&mut message);
        self.waiting += 1;
    }

    fn is_full(&self) -> bool {
        usize::from(self.waiting) >= IN_FLIGHT_MAX || self.bytes.len() >= IN_FLIGHT_BYTES
    }

    /// Sends what waits, and waits for the answers. They come in the order of the messages.
    fn settle(&mut self, timeout_ms: u32) -> Result<(), WriteError> {
        let waiting = std::mem::take(&mut self.waiting);
        let bytes = std::mem::take(&mut self.bytes);
        if waiting == 0 {
            return Ok(());
        }
        self.send(bytes)?;
        if self.is_dry {
            return Ok(());
        }
        for id in 1..=waiting {
            if self.answer(timeout_ms)? != Answer::Published(id) {
                let reason = "the broker answered out of order; see its log";
                return Err(WriteError::retry(reason.to_owned()));
            }
        }
        Ok(())
    }

    fn send(&self, bytes: Vec<u8>) -> Result<(), WriteError> {
        self.connection.send(&bytes).map_err(WriteError::retry)
    }

    fn answer(&mut self, timeout_ms: u32) -> Result<Answer, WriteError> {
        loop {
            if let Some(answer) = packet::answer(&mut self.arrived).map_err(WriteError::retry)? {
                return Ok(answer);
            }
            let received = self.connection.receive(READ_BYTES, timeout_ms);
            let received = received.map_err(WriteError::retry)?;
            if received.is_empty() {
                let reason = format!("the broker did not answer within {timeout_ms} ms");
                return Err(WriteError::retry(reason));
            }
            self.arrived.extend(received);
        }
    }
}

impl Sink for Mqtt {
    const CONFIG_SCHEMA: &'static str = include_str!("config.schema.json");

    fn open(config: &str) -> Result<(), String> {
        SINK.set(Mqtt::read(config)?);
        Ok(())
    }

    fn write(batch: Batch) -> Result<(), WriteError> {
        SINK.get()?.write(&batch)
    }
}

impl Operations for Mqtt {}

headgate_sdk::export!(Mqtt with operations);
