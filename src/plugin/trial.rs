//! A trial of a sink: its requests and writes, and its plugin's log.
//!
//! Delivery creates one for each trial; the instance of the trial, which has no lane, records into it.
//!
//! **Invariant**: a trial that is not allowed to send sends nothing. Its records are limited, and have no secrets of
//! the sink.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::header::HeaderMap;
use hyper::{Request, Response};
use wasmtime_wasi_http::{Error, WasiBody};

use super::redact::Redactor;

/// Maximum number of requests, of statements and of lines, and their total bytes.
const EACH_MAX: usize = 100;
const BYTES_MAX: usize = 1 << 20;
/// Maximum bytes of a recorded request body. The rest of one body would otherwise take the place of all other records.
const BODY_BYTES_MAX: usize = 64 << 10;

/// A request that a sink would send, or has sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialRequest {
    pub method: String,
    pub url: String,
    /// Secrets are masked.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

/// The records of a trial.
#[derive(Debug, Default)]
pub struct TrialSeen {
    pub requests: Vec<TrialRequest>,
    /// Statements for a database, and changes of files.
    pub statements: Vec<String>,
    /// The log of the plugin, with the level before each line.
    pub log: Vec<String>,
    /// There was more than the limits allow.
    pub is_cut: bool,
    bytes: usize,
}

#[derive(Debug)]
pub struct Trial {
    sends: bool,
    redactor: Redactor,
    seen: Mutex<TrialSeen>,
}

impl Trial {
    /// A trial of a sink, which can send if `sends`.
    pub fn new(sink: &settings::Sink, sends: bool) -> Arc<Self> {
        Arc::new(Self {
            sends,
            redactor: Redactor::of(sink),
            seen: Mutex::default(),
        })
    }

    /// Takes the records; nothing is recorded after that.
    pub fn take(&self) -> TrialSeen {
        std::mem::take(&mut *self.seen())
    }

    /// Whether requests and statements are sent.
    pub(super) fn sends(&self) -> bool {
        self.sends
    }

    pub(super) fn note_line(&self, level: &str, line: &str) {
        let line = self.redactor.redact(format!("{level}: {line}"));
        let bytes = line.len();
        self.keep(bytes, |seen| &mut seen.log, line);
    }

    pub(super) fn note_statement(&self, sql: &str, items: u32) {
        self.note_act(&format!("{sql} -- with {items} items"));
    }

    /// Records a write outside the daemon.
    pub(super) fn note_act(&self, act: &str) {
        let end = act.floor_char_boundary(BODY_BYTES_MAX);
        let statement = self.redactor.redact(act[..end].to_owned());
        let bytes = statement.len();
        self.keep(bytes, |seen| &mut seen.statements, statement);
    }

    /// Records a request, whose body was read.
    pub(super) fn note_request(&self, request: &Request<Bytes>) {
        let shown = settings::shown_url(&request.uri().to_string()).into_owned();
        let body = String::from_utf8_lossy(request.body());
        let end = body.floor_char_boundary(BODY_BYTES_MAX);
        let mut text = self.redactor.redact(body[..end].to_owned());
        if end < body.len() {
            text.push('…');
        }
        let noted = TrialRequest {
            method: request.method().to_string(),
            url: self.redactor.redact(shown),
            headers: self.shown(request.headers()),
            body: text,
        };
        let bytes = noted.url.len() + noted.body.len();
        self.keep(bytes, |seen| &mut seen.requests, noted);
    }

    fn shown(&self, headers: &HeaderMap) -> Vec<(String, String)> {
        let shown = headers.iter().map(|(name, value)| {
            let value = match value.is_sensitive() || settings::names_secret(name.as_str()) {
                true => settings::MASK.to_owned(),
                false => self
                    .redactor
                    .redact(String::from_utf8_lossy(value.as_bytes()).into()),
            };
            (name.to_string(), value)
        });
        shown.collect()
    }

    /// A record that does not fit is noted, because a cut list would otherwise look complete.
    fn keep<T>(&self, bytes: usize, list: fn(&mut TrialSeen) -> &mut Vec<T>, one: T) {
        let mut seen = self.seen();
        if list(&mut seen).len() >= EACH_MAX || seen.bytes + bytes > BYTES_MAX {
            seen.is_cut = true;
            return;
        }
        seen.bytes += bytes;
        list(&mut seen).push(one);
    }

    fn seen(&self) -> MutexGuard<'_, TrialSeen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The response to a request that is not sent: 200, empty. The plugin then continues as after a success, so that the
/// trial shows its later requests too.
pub(super) fn taken() -> Response<WasiBody> {
    Response::new(whole(Bytes::new()))
}

/// A body that is complete.
pub(super) fn whole(bytes: Bytes) -> WasiBody {
    let body = Full::new(bytes).map_err(|never| -> Error { match never {} });
    body.boxed_unsync()
}
