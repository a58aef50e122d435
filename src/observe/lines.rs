//! Lines for standard output and standard error, written while requests are served: the log, and the few sentences for
//! whoever started the daemon.
//!
//! The command line calls [`start`] before the daemon; metrics and the status ask what was dropped. A thread writes, and
//! whoever has a line waits until it is written, but not long: a pipe that nobody reads must not hold up requests.
//!
//! **Invariant**: writing a line neither fails nor panics, nor waits for more than `WAIT_MAX`. A line that is not
//! written is counted.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Write as _};
use std::os::fd::AsFd as _;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;

use base::clock;

/// How long somebody waits for a line to be written. Once that was too short, nobody waits until all lines are written.
const WAIT_MAX: Duration = Duration::from_millis(100);
/// How long the end of the process waits for lines.
const FLUSH_MAX: Duration = Duration::from_secs(1);
/// Bytes of lines that wait; more are dropped. A log that nobody reads would otherwise fill the memory.
const BYTES_MAX: usize = 256 << 10;
/// How long dropped lines are a problem after they can be written again.
const PROBLEM_TIME: Duration = Duration::from_mins(10);
/// Pause before another attempt where the other side does not let anybody wait for it.
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// Where a line goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Standard output: what a program may read.
    Standard,
    /// Standard error: the log.
    Error,
}

static LINES: OnceLock<Arc<Lines>> = OnceLock::new();
static DROPPED: LazyLock<Counter> = LazyLock::new(Counter::default);

/// From now on [`write()`] writes. A second call changes nothing.
///
/// # Errors
/// The system's: no more open files, no more threads.
pub fn start() -> io::Result<()> {
    let file = |fd: io::Result<std::os::fd::OwnedFd>| fd.map(File::from);
    let standard = file(io::stdout().as_fd().try_clone_to_owned())?;
    let error = file(io::stderr().as_fd().try_clone_to_owned())?;
    let lines = Lines::over(standard, error, DROPPED.clone())?;
    let _ = LINES.set(lines);
    Ok(())
}

/// Writes lines, with their line breaks. False, and nothing is written, before [`start`].
pub fn write(output: Output, lines: &[u8]) -> bool {
    let Some(started) = LINES.get() else {
        return false;
    };
    started.write(output, lines);
    true
}

/// Waits for lines that are not written yet, for a second at most. The last that the process does.
pub fn flush() {
    if let Some(lines) = LINES.get() {
        lines.flush();
    }
}

/// How many lines were dropped.
pub(crate) fn dropped() -> Counter {
    DROPPED.clone()
}

/// That lines are dropped, or were lately, in a sentence.
pub fn problem() -> Option<String> {
    LINES.get()?.problem()
}

/// Lines on their way to two files.
#[derive(Debug)]
struct Lines {
    state: Mutex<State>,
    changed: Condvar,
    dropped: Counter,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<(Output, Vec<u8>)>,
    /// Of all lines that wait, and of the one that is being written.
    bytes: usize,
    /// How many lines were given to the thread, and with how many of them it is done.
    given: u64,
    done: u64,
    /// A line took too long: nobody waits.
    blocked: bool,
    /// Why a line was dropped last, and when.
    dropped: Option<(String, Instant)>,
    /// No line was written since.
    failing: bool,
}

impl Lines {
    fn over(standard: File, error: File, dropped: Counter) -> io::Result<Arc<Self>> {
        let lines = Arc::new(Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            dropped,
        });
        let thread = std::thread::Builder::new().name("log".to_owned());
        let writing = Arc::clone(&lines);
        thread.spawn(move || writing.run(Target::of(standard), Target::of(error)))?;
        Ok(lines)
    }

    /// Without a line in it, no state is halfway: a panic elsewhere is no reason to stop.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, output: Output, line: &[u8]) {
        let mut state = self.state();
        if state.bytes > 0 && state.bytes + line.len() > BYTES_MAX {
            return self.drop_line(&mut state, output, "nothing reads it");
        }
        state.waiting.push_back((output, line.to_vec()));
        state.bytes += line.len();
        state.given += 1;
        let own = state.given;
        self.changed.notify_all();
        if state.blocked {
            return;
        }
        let waited = (self.changed)
            .wait_timeout_while(state, WAIT_MAX, |state| state.done < own && !state.blocked);
        let (mut state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        state.blocked |= waited.timed_out();
    }

    fn flush(&self) {
        let state = self.state();
        let all = |state: &mut State| state.done < state.given;
        drop(self.changed.wait_timeout_while(state, FLUSH_MAX, all));
    }

    fn run(&self, mut standard: Target, mut error: Target) {
        loop {
            let (output, line) = self.next();
            let target = match output {
                Output::Standard => &mut standard,
                Output::Error => &mut error,
            };
            let written = target.write(&line);
            let mut state = self.state();
            state.bytes -= line.len();
            state.done += 1;
            state.blocked &= state.done < state.given;
            match written {
                Ok(()) => state.failing = false,
                Err(reason) => self.drop_line(&mut state, output, &reason.to_string()),
            }
            drop(state);
            self.changed.notify_all();
        }
    }

    fn next(&self) -> (Output, Vec<u8>) {
        let mut state = self.state();
        loop {
            if let Some(next) = state.waiting.pop_front() {
                return next;
            }
            let waited = self.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn drop_line(&self, state: &mut State, output: Output, reason: &str) {
        self.dropped.inc();
        let name = match output {
            Output::Standard => "standard output",
            Output::Error => "standard error",
        };
        let reason = format!("{name} cannot be written: {reason}");
        state.dropped = Some((reason, Instant::now()));
        state.failing = true;
    }

    fn problem(&self) -> Option<String> {
        let state = self.state();
        let (reason, at) = state.dropped.as_ref()?;
        (state.failing || at.elapsed() < PROBLEM_TIME).then(|| {
            format!(
                "log lines are dropped ({} since the start), because {reason}; free space for the log, or start its reader again",
                self.dropped.get()
            )
        })
    }
}

/// A file that lines are written to.
#[derive(Debug)]
struct Target {
    file: File,
    /// The last line was written in part: the next one begins a line.
    torn: bool,
}

impl Target {
    fn of(file: File) -> Self {
        Self { file, torn: false }
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if self.torn {
            self.write_all(b"\n")?;
            self.torn = false;
        }
        self.write_all(line)
    }

    fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.file.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => {
                    bytes = &bytes[count..];
                    self.torn = !bytes.is_empty();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Another program has made the pipe non-blocking, for everybody who has it.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    clock::sleep_on_own_thread(RETRY_PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
