//! How much a sink may say in the log, all its instances together.
//!
//! A lane keeps it as long as it lives; instances, which come and go, write through it.
//!
//! **Invariant**: however often a sink is started anew it writes no more than its rate; what is left out is counted, and
//! the count is told.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Lines a second, and as many at once as come together in a while of silence.
const LINES_PER_SECOND: f64 = 100.0;
const LINES_MAX: f64 = 300.0;
/// The same in bytes.
const BYTES_PER_SECOND: f64 = 16_384.0;
const BYTES_MAX: f64 = 65_536.0;
/// What a line takes beside its text: time, level, target, names.
const LINE_BYTES: usize = 100;
/// Between two lines that tell how many were left out.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// What a sink may still say.
#[derive(Debug)]
pub struct GuestLog {
    sink: Arc<str>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    lines: f64,
    bytes: f64,
    /// When it was filled up last.
    filled: Instant,
    left_out: u64,
    take_left_out: Option<Instant>,
}

impl GuestLog {
    /// Of a sink that has said nothing yet.
    pub fn new(sink: &str) -> Arc<Self> {
        Arc::new(Self {
            sink: sink.into(),
            state: Mutex::new(State::new(Instant::now())),
        })
    }

    /// Name of the sink.
    pub(super) fn sink(&self) -> &str {
        &self.sink
    }

    /// The text of a line, if it may be written; otherwise it counts as left out. Who may say nothing is not asked for
    /// it.
    pub(super) fn said(&self, text: impl FnOnce() -> String) -> Option<String> {
        self.lock().said(Instant::now(), text)
    }

    /// Says how many lines were left out since it was said last, if some were and that is a while ago.
    pub fn flush(&self) {
        let now = Instant::now();
        let mut state = self.lock();
        if state.due().is_some_and(|due| due <= now) {
            let left_out = state.take_left_out(now);
            drop(state);
            self.log_left_out(left_out);
        }
    }

    /// Ends when it is time to [`flush`](Self::flush); never, if nothing was left out.
    pub async fn has_left_out(&self) {
        let due = self.lock().due();
        match due {
            Some(due) => tokio::time::sleep_until(due.into()).await,
            None => std::future::pending().await,
        }
    }

    /// Says it whenever it was said last, if nobody will be there to say it later.
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

/// What nobody has been told yet.
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

    /// When it is to be said how many lines were left out, if some were.
    fn due(&self) -> Option<Instant> {
        let due = self
            .take_left_out
            .map_or(self.filled, |take_left_out| take_left_out + TOLD_EVERY);
        (self.left_out > 0).then_some(due)
    }

    /// How many were; from now on it is known.
    fn take_left_out(&mut self, now: Instant) -> u64 {
        self.take_left_out = Some(now);
        std::mem::take(&mut self.left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says lines of so many bytes until one does not fit; how many fitted.
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
        assert_eq!(state.due(), Some(now + TOLD_EVERY), "not twice in a second");
        assert_eq!(state.take_left_out(now), 1);
    }
}
