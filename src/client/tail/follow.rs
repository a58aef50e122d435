//! The main loop of `tail`: connects, passes messages on, and reconnects, until it is stopped.
//!
//! Called by `tail`, and by its tests with a substitute for the service.
//!
//! **Invariant**: the position to resume from changes only after a message was printed, so that no outage leaves a
//! message out. A ticket is used for one connection.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use reqwest::Method;
use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};
use serde_json::json;

use super::message::{self, Kind};
use super::sse::{Event, Parser};
use super::view::View;
use crate::client::{CallError, Client, Refusal};
use crate::error::CliError;
use crate::output::shown;
use crate::patience::{ABSENT_MAX, Patience};
use base::backoff;
use base::text::percent_encoded;
use wire::TicketData;

const EVENT_STREAM: &str = "text/event-stream";
/// Maximum silence of a connection. The service can be configured to send a heartbeat only every 5 minutes.
const SILENCE_MAX: Duration = Duration::from_secs(750);
/// Maximum rejected tickets in a row after a successful connection.
const TICKETS_REFUSED_MAX: u32 = 3;

#[derive(Debug, Clone, Copy)]
pub(super) struct Timing {
    /// Maximum silence of a connection, until the interval of heartbeats is known.
    pub(super) silence_max: Duration,
    /// Maximum first pause before a reconnect; each further one may be twice as long.
    pub(super) first: Duration,
    pub(super) max: Duration,
    /// Maximum wait for a server that has never answered; `None`: no limit.
    pub(super) absent_max: Option<Duration>,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            // The service sends a heartbeat every 15 seconds.
            silence_max: Duration::from_secs(40),
            first: Duration::from_millis(500),
            max: Duration::from_secs(30),
            absent_max: Some(ABSENT_MAX),
        }
    }
}

impl Timing {
    /// The pause before an attempt, counted from 1. It starts with the server's pause or the default one, and grows.
    fn pause(&self, attempt: u32, asked: Option<Duration>) -> Duration {
        let first = asked.unwrap_or_default().max(self.first);
        backoff::pause(first, self.max, attempt)
    }
}

/// What to follow, how, and where to print it.
pub(super) struct Follow<'a> {
    pub(super) service: &'a Client,
    /// The admin API, which issues a ticket before each connection; `None`: a read key is used.
    pub(super) tickets: Option<&'a Client>,
    pub(super) streams: &'a [String],
    /// The parameters that select items and fields.
    pub(super) filter: [(&'static str, Option<String>); 2],
    pub(super) max_rate: Option<u16>,
    /// The position to start after.
    pub(super) since: Option<String>,
    pub(super) timing: Timing,
    pub(super) view: View,
    pub(super) out: &'a mut dyn Write,
    /// Receives notes for the user.
    pub(super) note: &'a dyn Fn(&str),
}

/// The state of the loop across connections.
#[derive(Default)]
struct Course {
    /// A connection has succeeded before.
    was_connected: bool,
    /// The user was notified of the outage.
    is_reported: bool,
    /// Attempts since the last successful connection.
    attempts: u32,
    /// Rejected tickets since the last successful connection.
    tickets_refused: u32,
    /// The pause that the server requested.
    asked: Option<Duration>,
    /// Maximum silence, if heartbeats have determined it.
    silence_max: Option<Duration>,
    /// Time of the last heartbeat of this connection.
    heartbeat_at: Option<Instant>,
}

impl Course {
    /// Determines the maximum silence from the interval of heartbeats. (If heartbeats are rarer than the maximum
    /// silence, no connection receives two of them, and the next connection waits longer.)
    fn heartbeat(&mut self, now: Instant, timing: &Timing) {
        if let Some(before) = self.heartbeat_at.replace(now) {
            let enough = now.duration_since(before).mul_f64(2.5);
            self.silence_max = Some(enough.clamp(timing.silence_max, SILENCE_MAX));
        }
    }
}

/// Why a connection ended early.
enum Lost {
    /// No response. A retry may succeed.
    Unanswered(String),
    /// A retry may succeed.
    ForNow(String),
    /// A retry cannot succeed.
    ForGood(CliError),
}

impl Follow<'_> {
    /// Follows until all requested changes are printed, the output is closed, or the server rejects the request.
    pub(super) async fn run(mut self) -> Result<(), CliError> {
        let mut course = Course::default();
        let patience = Patience::new(self.timing.absent_max);
        loop {
            let reason = match self.connection(&mut course).await {
                Ok(()) => return Ok(()),
                Err(Lost::ForGood(error)) => return Err(error),
                Err(Lost::Unanswered(reason)) => reason,
                Err(Lost::ForNow(reason)) => {
                    patience.answered();
                    reason
                }
            };
            if !course.is_reported {
                (self.note)(&format!("{reason}; retrying"));
                course.is_reported = true;
            }
            course.attempts += 1;
            let pause = self.timing.pause(course.attempts, course.asked);
            let pause = patience.pause(pause, &reason)?;
            tokio::time::sleep(pause).await;
        }
    }

    /// One connection, from its ticket to its end.
    async fn connection(&mut self, course: &mut Course) -> Result<(), Lost> {
        let mut path = self.path();
        if let Some(admin) = self.tickets {
            let ticket = ticket(admin, self.streams).await;
            let ticket = ticket.map_err(|error| lost(error, course))?;
            path += &format!("&token={}", percent_encoded(&ticket));
        }
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(EVENT_STREAM));
        let opened = self.service.open(&path, headers, EVENT_STREAM).await;
        let mut stream = opened.map_err(|error| match &error {
            CallError::Refused(refusal) if refusal.status == 401 && self.may_ask_again(course) => {
                course.tickets_refused += 1;
                Lost::ForNow(error.to_string())
            }
            _ => lost(error, course),
        })?;
        course.heartbeat_at = None;
        let mut parser = Parser::default();
        let mut events = Vec::new();
        loop {
            let silence_max = course.silence_max.unwrap_or(self.timing.silence_max);
            let chunk = tokio::time::timeout(silence_max, stream.chunk()).await;
            let Ok(chunk) = chunk else {
                course.silence_max = Some(silence_max.saturating_mul(2).min(SILENCE_MAX));
                let seconds = silence_max.as_secs_f64();
                return Err(Lost::ForNow(format!("no data for {seconds:.0} s")));
            };
            let chunk = match chunk {
                Ok(Some(chunk)) => chunk,
                Ok(None) => {
                    return Err(Lost::ForNow("the server closed the connection".to_owned()));
                }
                Err(CallError::NoAnswer { reason, .. }) => {
                    return Err(Lost::ForNow(format!("the connection broke: {reason}")));
                }
                Err(error) => return Err(lost(error, course)),
            };
            let pushed = parser.push(&chunk, |event| events.push(event));
            course.asked = parser.retry().or(course.asked);
            for event in events.drain(..) {
                if self.take(&event, course)? {
                    return Ok(());
                }
            }
            pushed.map_err(|error| self.foreign(error.to_string()))?;
        }
    }

    /// A ticket can be rejected because the server restarted after it had issued the ticket.
    fn may_ask_again(&self, course: &Course) -> bool {
        self.tickets.is_some()
            && course.was_connected
            && course.tickets_refused < TICKETS_REFUSED_MAX
    }

    fn path(&self) -> String {
        let streams: Vec<_> = self
            .streams
            .iter()
            .map(|stream| percent_encoded(stream))
            .collect();
        let mut path = format!("/api/live?streams={}", streams.join(","));
        for (name, text) in &self.filter {
            if let Some(text) = text {
                path += &format!("&{name}={}", percent_encoded(text));
            }
        }
        if let Some(since) = &self.since {
            path += &format!("&since={since}");
        }
        if let Some(rate) = self.max_rate {
            path += &format!("&max_rate={rate}");
        }
        path
    }

    /// Prints a message; `true` if it was the last requested one.
    fn take(&mut self, event: &Event, course: &mut Course) -> Result<bool, Lost> {
        let message = message::read(&event.data).map_err(|error| {
            let error = error.to_string();
            self.foreign(format!("an unreadable message: {}", shown(&error)))
        })?;
        if message.kind != Kind::Bye {
            if std::mem::take(&mut course.is_reported) {
                let again = if course.was_connected { " again" } else { "" };
                (self.note)(&format!("connected{again}"));
            }
            course.was_connected = true;
            course.attempts = 0;
            course.tickets_refused = 0;
        }
        if message.kind == Kind::Heartbeat {
            course.heartbeat(Instant::now(), &self.timing);
        }
        let shown = self.view.show(&event.data, &message);
        let read = self.out.write_all(shown.text.as_bytes());
        match read.and_then(|()| self.out.flush()) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(true),
            Err(error) => {
                return Err(Lost::ForGood(CliError::failed(format!(
                    "cannot write to standard output: {error}"
                ))));
            }
        }
        if let Some(note) = &shown.note {
            (self.note)(note);
        }
        let id = message.id.as_deref().unwrap_or(&event.id);
        if position(id).is_ok() {
            // At position 0, no snapshot was complete, so start from the beginning.
            self.since = Some(id.to_owned()).filter(|id| !id.ends_with(":0"));
        }
        if self.view.is_done() {
            return Ok(true);
        }
        if message.kind == Kind::Bye {
            course.asked = message.body.retry_ms.map(|time| *time).or(course.asked);
            return Err(Lost::ForNow("the server closes the connection".to_owned()));
        }
        Ok(false)
    }

    fn foreign(&self, reason: String) -> Lost {
        Lost::ForGood(self.service.foreign(reason).into())
    }
}

/// Checks that a text is a position, `EPOCH:SEQ`.
pub(super) fn position(text: &str) -> Result<String, String> {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.split_once(':') {
        Some((epoch, seq)) if number(epoch) && number(seq) => Ok(text.to_owned()),
        _ => Err("expected the `id` of a message, two numbers: EPOCH:SEQ".to_owned()),
    }
}

async fn ticket(admin: &Client, streams: &[String]) -> Result<String, CallError> {
    let body = json!({"streams": streams});
    let given = admin.change(Method::POST, "/api/admin/tickets", Some(&body));
    let given: TicketData = given.await?;
    Ok(given.ticket)
}

/// Whether a failed call can be retried: not if the server rejected it.
fn lost(error: CallError, course: &Course) -> Lost {
    let passes = match &error {
        CallError::NoAnswer { .. } => true,
        CallError::Refused(Refusal { status, .. }) => matches!(status, 408 | 429 | 500..=599),
        // A proxy may answer while the service restarts.
        CallError::Foreign { .. } => course.was_connected,
    };
    match &error {
        CallError::NoAnswer { .. } => Lost::Unanswered(error.to_string()),
        _ if passes => Lost::ForNow(error.to_string()),
        _ => Lost::ForGood(error.into()),
    }
}

#[cfg(test)]
mod tests;
