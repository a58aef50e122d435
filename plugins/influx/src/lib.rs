//! Writes items as points to InfluxDB, or whoever else takes its line protocol over HTTP.
//!
//! **Invariant**: an item is acknowledged only after an answer of 2xx to a request that held its line.

mod line;
mod time;

use std::ops::Range;
use std::time::Duration;

use headgate_sdk::halves::{self, Answer};
use headgate_sdk::http::{Request, Response};
use headgate_sdk::{
    ALL, Batch, Form, Opened, Rejection, Retry, Sink, Span, WriteError, delivery, metrics,
};
use line::{Item, Layout};
use serde::Deserialize;

/// Requests of one call, fewer than the host's own limit.
const REQUESTS_MAX: usize = 500;
/// Characters of an answer that operators are shown.
const QUOTED_MAX: usize = 300;

static SINK: Opened<Influx> = Opened::new();

#[derive(Debug, Deserialize)]
struct Settings {
    url: String,
    db: Option<String>,
    rp: Option<String>,
    org: Option<String>,
    bucket: Option<String>,
    timeout_ms: Option<u64>,
}

/// The sink with its settings.
struct Influx {
    url: String,
    timeout: Option<Duration>,
    layout: Layout,
}

impl Influx {
    fn new(settings: Settings, layout: Layout) -> Result<Self, String> {
        let precision = layout.precision;
        let (path, precision, parameters) = match (&settings.db, &settings.bucket) {
            (Some(_), None) => (
                "/write",
                precision.in_version_1(),
                [("db", settings.db), ("rp", settings.rp)],
            ),
            (None, Some(_)) => (
                "/api/v2/write",
                precision.in_version_2(),
                [("org", settings.org), ("bucket", settings.bucket)],
            ),
            _ => return Err("wants either `db`, or `bucket` and `org`".to_owned()),
        };
        let mut url = format!(
            "{}{path}?precision={precision}",
            settings.url.trim_end_matches('/')
        );
        for (name, value) in parameters {
            if let Some(value) = value {
                url.push_str(&format!("&{name}={}", encoded(&value)));
            }
        }
        Ok(Self {
            url,
            timeout: settings.timeout_ms.map(Duration::from_millis),
            layout,
        })
    }

    fn write(&self, batch: &Batch) -> Result<(), WriteError> {
        let json = batch.json(ALL, Form::FieldLines);
        let (streams, keys, times) = (batch.streams(ALL), batch.keys(ALL), batch.times(ALL));
        let items = streams.iter().zip(&keys).zip(&times).zip(json.lines());
        let mut rejected = Vec::new();
        let mut lines = Vec::with_capacity(times.len());
        for (index, (((stream, key), received_ms), fields)) in (0..).zip(items) {
            let line = self.layout.line(&Item {
                stream,
                key,
                received_ms: *received_ms,
                fields,
            });
            // The refused one's place stays, empty.
            lines.push(line.unwrap_or_else(|reason| {
                delivery::refused(span(&(index..index + 1)), &reason);
                rejected.push(Rejection { index, reason });
                String::new()
            }));
        }
        let written = halves::write(batch.len(), REQUESTS_MAX, |range| {
            let answer = self.send(batch, &lines, &range)?;
            // In order, so everything before is settled too, whatever becomes of what follows.
            match &answer {
                Answer::Taken => delivery::taken(range.end),
                Answer::Refused(reason) if range.len() == 1 => {
                    delivery::refused(span(&range), reason);
                    delivery::taken(range.end);
                }
                Answer::Refused(_) => {}
            }
            Ok(answer)
        });
        match written {
            Ok(()) => {}
            Err(WriteError::RejectItems(refused)) => rejected.extend(refused),
            Err(error) => return Err(error),
        }
        metrics::count("points", lines.len() as u64 - rejected.len() as u64);
        if rejected.is_empty() {
            Ok(())
        } else {
            metrics::count("rejected", rejected.len() as u64);
            Err(WriteError::RejectItems(rejected))
        }
    }

    fn send(
        &self,
        batch: &Batch,
        lines: &[String],
        range: &Range<u32>,
    ) -> Result<Answer, WriteError> {
        let body = lines[range.start as usize..range.end as usize].concat();
        if body.is_empty() {
            return Ok(Answer::Taken);
        }
        let mut request = Request::new("POST", &self.url)
            .header("content-type", "text/plain; charset=utf-8")
            .body(body);
        if let Some(timeout) = self.timeout {
            request = request.timeout(timeout);
        }
        verdict(&request.send_items(batch, span(range))?)
    }
}

fn span(range: &Range<u32>) -> Span {
    Span {
        start: range.start,
        count: range.end - range.start,
    }
}

fn verdict(answer: &Response) -> Result<Answer, WriteError> {
    if answer.is_success() {
        return Ok(Answer::Taken);
    }
    let text: String = answer.text().chars().take(QUOTED_MAX).collect();
    let reason = format!("answered {}: {}", answer.status, text.trim());
    match answer.status {
        // What can be wrong with lines. Some of them may have been written: the others are found by asking again.
        400 | 413 | 422 => Ok(Answer::Refused(reason)),
        _ => Err(WriteError::Retry(Retry {
            after_ms: answer
                .retry_after()
                .map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            reason,
        })),
    }
}

fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

impl Sink for Influx {
    const CONFIG_SCHEMA: &'static str = include_str!("config.schema.json");

    fn open(config: &str) -> Result<(), String> {
        // Two parts of one object.
        let settings = serde_json::from_str(config).map_err(|error| error.to_string())?;
        let layout = serde_json::from_str(config).map_err(|error| error.to_string())?;
        SINK.set(Influx::new(settings, layout)?);
        Ok(())
    }

    fn write(batch: Batch) -> Result<(), WriteError> {
        SINK.get()?.write(&batch)
    }
}

headgate_sdk::export!(Influx);
