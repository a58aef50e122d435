//! Standard output and standard error of a guest: each line is logged, and the end is added to the description of a
//! trap.
//!
//! **Invariant**: a guest that writes endlessly fills neither the memory nor the log.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};

use super::guest_log::GuestLog;
use super::redact::Redactor;
use super::trial::Trial;

/// Maximum bytes of the kept end, and of a line. The end suffices, because a panic is written last.
const TAIL_BYTES_MAX: usize = 2_048;
/// Text in a line that Rust writes after a panic.
const BACKTRACE: &str = "RUST_BACKTRACE=1";
/// The log target of lines of guests.
const TARGET: &str = "headgate::guest";

/// Level of a line, chosen by the guest.
#[derive(Debug, Clone, Copy)]
pub(super) enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

#[derive(Debug, Clone)]
pub(super) struct Output {
    plugin: Arc<str>,
    redactor: Arc<Redactor>,
    guest_log: Arc<GuestLog>,
    trial: Option<Arc<Trial>>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    tail: VecDeque<u8>,
    line: Vec<u8>,
}

impl Output {
    pub(super) fn new(
        plugin: Arc<str>,
        redactor: &Arc<Redactor>,
        guest_log: &Arc<GuestLog>,
        trial: Option<&Arc<Trial>>,
    ) -> Self {
        Self {
            plugin,
            redactor: Arc::clone(redactor),
            guest_log: Arc::clone(guest_log),
            trial: trial.cloned(),
            state: Arc::default(),
        }
    }

    /// The end of the output.
    pub(super) fn tail(&self) -> String {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = state.tail.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        // It advises to set a variable, which nobody can do for a sink.
        let lines = text.lines().filter(|line| !line.contains(BACKTRACE));
        let lines: Vec<&str> = lines.collect();
        lines.join("\n").trim().to_owned()
    }

    /// Logs a line of the guest, within the rate limit of the sink. The level is checked first, so that a line nobody
    /// sees takes nothing from the rate.
    pub(super) fn log(&self, level: Level, message: &str) {
        if let Some(trial) = &self.trial {
            let level = match level {
                Level::Debug => "debug",
                Level::Info => "info",
                Level::Warn => "warn",
                Level::Error => "error",
            };
            trial.note_line(
                level,
                &message[..message.floor_char_boundary(TAIL_BYTES_MAX)],
            );
            return;
        }
        let is_wanted = match level {
            Level::Debug => tracing::enabled!(target: TARGET, tracing::Level::DEBUG),
            Level::Info => tracing::enabled!(target: TARGET, tracing::Level::INFO),
            Level::Warn => tracing::enabled!(target: TARGET, tracing::Level::WARN),
            Level::Error => tracing::enabled!(target: TARGET, tracing::Level::ERROR),
        };
        if !is_wanted {
            return;
        }
        let message = &message[..message.floor_char_boundary(TAIL_BYTES_MAX)];
        let Some(message) = self.guest_log.said(|| self.line(message.to_owned())) else {
            return;
        };
        let (plugin, sink) = (&*self.plugin, self.guest_log.sink());
        match level {
            Level::Debug => tracing::debug!(target: TARGET, plugin, sink, %message),
            Level::Info => tracing::info!(target: TARGET, plugin, sink, %message),
            Level::Warn => tracing::warn!(target: TARGET, plugin, sink, %message),
            Level::Error => tracing::error!(target: TARGET, plugin, sink, %message),
        }
    }

    /// A line as it is logged. Control characters are escaped, because a guest could otherwise forge lines of the log.
    fn line(&self, text: String) -> String {
        self.redactor.redact(text).escape_debug().to_string()
    }

    /// Only the end of a large write is read, because lines and the tail hold no more.
    fn take(&self, bytes: &[u8]) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let end = &bytes[bytes.len().saturating_sub(TAIL_BYTES_MAX)..];
        state.tail.extend(end);
        let excess = state.tail.len().saturating_sub(TAIL_BYTES_MAX);
        state.tail.drain(..excess);
        for byte in end {
            if *byte != b'\n' && state.line.len() < TAIL_BYTES_MAX {
                state.line.push(*byte);
                continue;
            }
            let line = std::mem::take(&mut state.line);
            if let Some(trial) = &self.trial {
                trial.note_line("output", &String::from_utf8_lossy(&line));
                continue;
            }
            if !tracing::enabled!(target: TARGET, tracing::Level::INFO) {
                continue;
            }
            let text = || self.line(String::from_utf8_lossy(&line).into_owned());
            if let Some(output) = self.guest_log.said(text) {
                let (plugin, sink) = (&*self.plugin, self.guest_log.sink());
                tracing::info!(target: TARGET, plugin, sink, %output);
            }
        }
    }
}

impl IsTerminal for Output {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Output {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }
}

impl AsyncWrite for Output {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        self.take(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
