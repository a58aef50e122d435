//! Rate limit for the log of a sink, shared by its instances.
//!
//! A lane keeps it while it exists; its instances log through it.
//!
//! **Invariant**: however often a sink is restarted, it logs no more than its rate. Dropped lines are counted, and the
//! count is logged.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Lines per second, and the burst after a pause. A guest that logs in a loop would otherwise fill the log of the
/// daemon.
const LINES_PER_SECOND: f64 = 100.0;
const LINES_MAX: f64 = 300.0;
/// Bytes per second, and the burst after a pause.
const BYTES_PER_SECOND: f64 = 16_384.0;
const BYTES_MAX: f64 = 65_536.0;
/// Bytes of a line in addition to its text: time, level, target, names. The daemon writes them too, so that the limit
/// counts what reaches the log.
const LINE_BYTES: usize = 100;
/// Minimum time between two lines with the number of dropped lines. Otherwise these lines would be as many as those
/// that were dropped.
const SUMMARY_EVERY: Duration = Duration::from_secs(1);

/// Remaining allowance of a sink. It belongs to the lane instead of the instance, because a restart would otherwise
/// give a full allowance.
#[derive(Debug)]
pub struct GuestLog {
    sink: Arc<str>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    lines: f64,
    bytes: f64,
    /// When it was last replenished.
    filled: Instant,
    left_out: u64,
    take_left_out: Option<Instant>,
}

impl GuestLog {
    /// The allowance of a sink that has logged nothing yet.
    pub fn new(sink: &str) -> Arc<Self> {
        Arc::new(Self {
            sink: sink.into(),
            state: Mutex::new(State::new(Instant::now())),
        })
    }

    pub(super) fn sink(&self) -> &str {
        &self.sink
    }

    /// The text of a line, if it can be logged; otherwise it is counted as dropped. The text is not built if it cannot
    /// be logged.
    pub(super) fn said(&self, text: impl FnOnce() -> String) -> Option<String> {
        self.lock().said(Instant::now(), text)
    }

    /// Logs the number of dropped lines, if there are any and the last such line is old enough.
    pub fn flush(&self) {
        let now = Instant::now();
        let mut state = self.lock();
        if state.due().is_some_and(|due| due <= now) {
            let left_out = state.take_left_out(now);
            drop(state);
            self.log_left_out(left_out);
        }
    }

    /// Waits until it is time to [`flush`](Self::flush); forever, if no line was dropped.
    pub async fn has_left_out(&self) {
        let due = self.lock().due();
        match due {
            Some(due) => tokio::time::sleep_until(due.into()).await,
            None => std::future::pending().await,
        }
    }

    /// Logs the number of dropped lines at once, before the lane ends.
    pub fn flush_rest(&self) {
        let left_out = self.lock().take_left_out(Instant::now());
        if left_out > 0 {
            self.log_left_out(left_out);
        }
    }

    fn log_left_out(&self, left_out: u64) {
        let lines = if left_out == 1 { "line" } else { "lines" };
        tracing::warn!(
            target: "headgate::guest",
            sink = &*self.sink,
            "{left_out} {lines} left out: a sink may write {LINES_PER_SECOND} lines a second, and {BYTES_PER_SECOND} bytes"
        );
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Dropped lines that were not reported yet.
impl Drop for GuestLog {
    fn drop(&mut self) {
        self.flush_rest();
    }
}

impl State {
    fn new(now: Instant) -> Self {
        Self {
            lines: LINES_MAX,
            bytes: BYTES_MAX,
            filled: now,
            left_out: 0,
            take_left_out: None,
        }
    }

    fn said(&mut self, now: Instant, text: impl FnOnce() -> String) -> Option<String> {
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.filled = now;
        self.lines = (self.lines + passed * LINES_PER_SECOND).min(LINES_MAX);
        self.bytes = (self.bytes + passed * BYTES_PER_SECOND).min(BYTES_MAX);
        if self.lines >= 1.0 && self.bytes >= LINE_BYTES as f64 {
            let text = text();
            let bytes = (text.len() + LINE_BYTES) as f64;
            if self.bytes >= bytes {
                self.lines -= 1.0;
                self.bytes -= bytes;
                return Some(text);
            }
        }
        self.left_out += 1;
        None
    }

    /// When the number of dropped lines is due to be logged, if there are any.
    fn due(&self) -> Option<Instant> {
        let due = self
            .take_left_out
            .map_or(self.filled, |take_left_out| take_left_out + SUMMARY_EVERY);
        (self.left_out > 0).then_some(due)
    }

    /// Returns the number of dropped lines and resets it.
    fn take_left_out(&mut self, now: Instant) -> u64 {
        self.take_left_out = Some(now);
        std::mem::take(&mut self.left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes lines with this number of bytes until one does not fit; returns how many fit.
    fn says(state: &mut State, now: Instant, bytes: usize) -> u32 {
        let mut lines = 0..;
        let last = lines.find(|_| state.said(now, || "x".repeat(bytes)).is_none());
        last.unwrap_or_default()
    }

    #[test]
    fn a_sink_says_so_many_lines_and_bytes_and_hears_of_the_rest() {
        let begun = Instant::now();
        let mut state = State::new(begun);
        assert_eq!(state.due(), None);
        assert_eq!(says(&mut state, begun, 0), 300);
        assert_eq!(says(&mut state, begun, 0), 0);
        let now = begun + Duration::from_millis(500);
        assert_eq!(says(&mut state, now, 0), 50);
        let now = now + Duration::from_secs(3_600);
        // 65,536 bytes, with what each line takes.
        assert_eq!(says(&mut state, now, 1_948), 32);
        assert_eq!(state.due(), Some(now), "at once");
        assert_eq!(state.take_left_out(now), 4);
        assert_eq!(state.due(), None);
        assert_eq!(says(&mut state, now, 1_948), 0);
        assert_eq!(
            state.due(),
            Some(now + SUMMARY_EVERY),
            "not twice in a second"
        );
        assert_eq!(state.take_left_out(now), 1);
    }
}
