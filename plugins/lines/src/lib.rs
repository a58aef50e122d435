//! Sends a line for each item over TCP, TLS, UDP or a WebSocket.
//!
//! **Invariant**: lines go out in the order of the items, one after the other; an item is settled when its line was
//! answered as expected, or was sent where no answer is expected. An answer belongs to the line before it.

use headgate_sdk::templates::{Subject, Template};
use headgate_sdk::wire::{Connection, Opened as Opening};
use headgate_sdk::{
    ALL, Action, Batch, Opened, Operations, Rejection, Sink, Span, WriteError, delivery,
};
use serde_json::{Map, Value};

/// Bytes of an answer, at most.
const ANSWER_BYTES_MAX: usize = 16 << 10;
/// Characters of an answer that operators are shown.
const QUOTED_MAX: usize = 200;
/// How long an answer may take, by default.
const TIMEOUT_MS: u32 = 3_000;

static SINK: Opened<Lines> = Opened::new();

/// The sink with its settings.
struct Lines {
    to: String,
    line: Template,
    removed: Option<Template>,
    end: String,
    hello: Option<String>,
    expect: Option<String>,
    timeout_ms: u32,
}

impl Lines {
    fn read(config: &str) -> Result<Self, String> {
        let all: Map<String, Value> =
            serde_json::from_str(config).map_err(|error| error.to_string())?;
        let text = |name: &str| all.get(name).and_then(Value::as_str);
        let end = text("end").unwrap_or("\r\n").to_owned();
        let template = |name: &str, text: &str, of| {
            Template::parse_line(&format!("config.{name}"), text, &end, of)
        };
        let removed = text("removed").map(|text| template("removed", text, Subject::Removal));
        Ok(Self {
            to: text("to").unwrap_or_default().to_owned(),
            line: template("line", text("line").unwrap_or_default(), Subject::Item)?,
            removed: removed.transpose()?,
            hello: text("hello").map(str::to_owned),
            expect: text("expect").map(str::to_owned),
            timeout_ms: (all.get("timeout_ms").and_then(Value::as_u64))
                .and_then(|ms| u32::try_from(ms).ok())
                .unwrap_or(TIMEOUT_MS),
            end,
        })
    }

    fn write(&self, batch: &Batch) -> Result<(), WriteError> {
        let mut pipe = None;
        let mut rejected = Vec::new();
        for (index, action) in (0..).zip(batch.actions(ALL)) {
            let template = match action {
                Action::Update => Some(&self.line),
                Action::Removal => self.removed.as_ref(),
            };
            if let Some(template) = template {
                let one = Span {
                    start: index,
                    count: 1,
                };
                let sent = match template.fill(batch, one) {
                    Ok(line) => self.send(&mut pipe, &line)?,
                    Err(reason) => Err(reason),
                };
                if let Err(reason) = sent {
                    delivery::refused(one, &reason);
                    rejected.push(Rejection { index, reason });
                }
            }
            delivery::taken(index + 1);
        }
        match rejected.is_empty() {
            true => Ok(()),
            false => Err(WriteError::RejectItems(rejected)),
        }
    }

    /// Sends a line and reads its answer. The inner error is why the other side does not take the line.
    fn send(&self, pipe: &mut Option<Pipe>, line: &str) -> Result<Result<(), String>, WriteError> {
        let pipe = match pipe {
            Some(pipe) => pipe,
            None => pipe.insert(self.open()?),
        };
        let Some(expect) = self.expect.as_ref().filter(|_| !pipe.is_dry) else {
            pipe.send(&format!("{line}{}", self.end))?;
            return Ok(Ok(()));
        };
        // What was said before the line does not answer it.
        pipe.forget()?;
        pipe.send(&format!("{line}{}", self.end))?;
        let answer = pipe.answer(self.timeout_ms)?;
        if answer.starts_with(&**expect) {
            return Ok(Ok(()));
        }
        let quoted: String = answer.chars().take(QUOTED_MAX).collect();
        Ok(Err(format!("it was answered `{}`", quoted.escape_debug())))
    }

    fn open(&self) -> Result<Pipe, WriteError> {
        let (connection, opened) = Connection::take(&self.to).map_err(WriteError::retry)?;
        let mut pipe = Pipe {
            connection,
            is_dry: opened == Opening::Dry,
            has_messages: self.to.starts_with("ws") || self.to.starts_with("udp"),
            arrived: Vec::new(),
        };
        if let (Some(hello), true) = (&self.hello, opened != Opening::Known) {
            pipe.send(hello)?;
        }
        Ok(pipe)
    }
}

/// A connection, and what arrived on it.
struct Pipe {
    connection: Connection,
    is_dry: bool,
    /// An answer is a message, or a line.
    has_messages: bool,
    arrived: Vec<u8>,
}

impl Pipe {
    fn send(&mut self, text: &str) -> Result<(), WriteError> {
        self.connection
            .send(text.as_bytes())
            .map_err(WriteError::retry)
    }

    fn forget(&mut self) -> Result<(), WriteError> {
        self.arrived.clear();
        while !self.receive(0)?.is_empty() {}
        Ok(())
    }

    fn receive(&mut self, timeout_ms: u32) -> Result<Vec<u8>, WriteError> {
        let bytes_max = ANSWER_BYTES_MAX as u32;
        let received = self.connection.receive(bytes_max, timeout_ms);
        received.map_err(WriteError::retry)
    }

    /// The next line, without its end.
    fn answer(&mut self, timeout_ms: u32) -> Result<String, WriteError> {
        loop {
            let end = self.arrived.iter().position(|byte| *byte == b'\n');
            let whole = match self.has_messages && !self.arrived.is_empty() {
                true => Some(self.arrived.len()),
                false => end,
            };
            if let Some(length) = whole {
                let line = String::from_utf8_lossy(&self.arrived[..length]).into_owned();
                self.arrived.clear();
                return Ok(line.trim_end_matches(['\r', '\n']).to_owned());
            }
            let received = self.receive(timeout_ms)?;
            if received.is_empty() {
                return Err(WriteError::retry(format!(
                    "no answer within {timeout_ms} ms"
                )));
            }
            self.arrived.extend(received);
            if self.arrived.len() > ANSWER_BYTES_MAX {
                return Err(WriteError::retry("its answer has no end".to_owned()));
            }
        }
    }
}

impl Sink for Lines {
    const CONFIG_SCHEMA: &'static str = include_str!("config.schema.json");

    fn open(config: &str) -> Result<(), String> {
        SINK.set(Lines::read(config)?);
        Ok(())
    }

    fn write(batch: Batch) -> Result<(), WriteError> {
        SINK.get()?.write(&batch)
    }
}

impl Operations for Lines {}

headgate_sdk::export!(Lines with operations);
