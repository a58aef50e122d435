//! The waits of a connection for the heads of its requests.
//!
//! **Invariant**: the first head has a time of its own, and is all that a connection without a place can send.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Context;
use std::time::Duration;

use salvo_core::conn::ConnCtrl;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::shared::Shared;
use crate::admission::Silent;

/// Maximum time for the head of a request after the first one of its connection, and for an idle connection. It is
/// longer than the pools of most clients keep connections (90 s), so that the daemon does not close a connection that a
/// client is about to use.
pub(super) const HEAD_TIME_MAX: Duration = Duration::from_secs(120);
/// Requests that are allowed on a connection with a reserved place. Anything else would let clients use the places that
/// are kept for health checks.
const HEALTH: [&[u8]; 4] = [
    b"GET /healthz",
    b"GET /readyz",
    b"HEAD /healthz",
    b"HEAD /readyz",
];

/// The wait for the next head, after the first one.
pub(super) struct NextHead<S> {
    pub(super) shared: Arc<Shared<S>>,
    /// Whether the connection is in use for long, without requests.
    pub(super) control: ConnCtrl,
    pub(super) timer: Pin<Box<Sleep>>,
    pub(super) deadline: Instant,
    /// The number of requests at which the wait began; `None`: it has not begun.
    pub(super) since: Option<u32>,
    /// Whether the timer is set for such a wait.
    pub(super) is_armed: bool,
}

impl<S> NextHead<S> {
    /// Whether the time is over. The timer runs on while requests come: to move it for each would cost more than to look
    /// again when it fires.
    pub(super) fn is_over(&mut self, context: &mut Context<'_>) -> bool {
        if self.shared.under_way.load(Ordering::Relaxed) > 0 || self.control.is_relaxed() {
            return false;
        }
        let requests = self.shared.requests.load(Ordering::Relaxed);
        let now = Instant::now();
        if self.since.replace(requests) != Some(requests) {
            self.deadline = now + HEAD_TIME_MAX;
        } else if now >= self.deadline {
            return true;
        }
        if self.is_armed && !self.timer.is_elapsed() {
            return false;
        }
        self.is_armed = true;
        self.timer.as_mut().reset(self.deadline);
        self.timer.as_mut().poll(context).is_ready()
    }
}

/// A connection with a reserved place: it can make one health check, and is closed otherwise.
#[derive(Default)]
pub(super) struct HealthOnly {
    pub(super) asked: Vec<u8>,
    pub(super) is_answered: bool,
    /// Whether its end was looked for.
    is_ending: bool,
}

impl HealthOnly {
    /// Whether the response was written since the last call.
    pub(super) fn ends(&mut self) -> bool {
        self.is_answered && !std::mem::replace(&mut self.is_ending, true)
    }

    /// Whether the bytes so far, including these, can be a health check.
    pub(super) fn may_ask(&mut self, bytes: &[u8]) -> bool {
        let longest = HEALTH.iter().map(|asked| asked.len()).max().unwrap_or(0);
        let rest = longest.saturating_sub(self.asked.len());
        self.asked.extend(bytes.iter().take(rest));
        let mut allowed = HEALTH.iter();
        allowed.any(|one| self.asked.starts_with(one) || one.starts_with(&self.asked))
    }
}

/// The head of the first request, while it arrives.
pub(super) struct FirstHead {
    pub(super) displaced: Pin<Box<WaitForCancellationFutureOwned>>,
    pub(super) silent: Arc<Silent>,
    pub(super) begun: bool,
    /// Line ends since the last other byte. Two of them end the head. It is kept between reads, because a head may
    /// arrive one byte at a time.
    pub(super) line_ends: u8,
}

impl FirstHead {
    pub(super) fn of(silent: Arc<Silent>) -> Self {
        Self {
            displaced: Box::pin(silent.displaced()),
            silent,
            begun: false,
            line_ends: 0,
        }
    }

    /// The number of these bytes that belong to the head, if the head ends in them.
    pub(super) fn ends_in(&mut self, bytes: &[u8]) -> Option<usize> {
        for (at, byte) in bytes.iter().enumerate() {
            match byte {
                // Empty lines before a request are no part of it (RFC 9112, 2.2).
                b'\n' if self.begun => self.line_ends += 1,
                b'\n' | b'\r' => {}
                _ => (self.begun, self.line_ends) = (true, 0),
            }
            if self.line_ends == 2 {
                return Some(at + 1);
            }
        }
        None
    }
}
