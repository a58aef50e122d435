//! Where a guest's standard output and standard error go: into the log, line by line, and the last
//! of it into the description of a trap.
//!
//! **Invariant**: a guest that writes without end neither fills the memory nor the log.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};

use super::redact::Redactor;

const TAIL_BYTES_MAX: usize = 2_048;
/// Bytes that one instance may write into the log.
const LOGGED_BYTES_MAX: usize = 64 << 10;

/// How much a line matters, in the guest's eyes.
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
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    tail: VecDeque<u8>,
    line: Vec<u8>,
    logged_bytes: usize,
}

impl Output {
    pub(super) fn new(plugin: Arc<str>, redactor: &Arc<Redactor>) -> Self {
        Self {
            plugin,
            redactor: Arc::clone(redactor),
            state: Arc::default(),
        }
    }

    /// The end of what was written.
    pub(super) fn tail(&self) -> String {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = state.tail.iter().copied().collect();
        String::from_utf8_lossy(&bytes).trim().to_owned()
    }

    /// Writes a line of the guest into the log, within the same bounds.
    pub(super) fn log(&self, level: Level, sink: &str, message: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.logged_bytes >= LOGGED_BYTES_MAX {
            return;
        }
        let message = &message[..message.floor_char_boundary(TAIL_BYTES_MAX)];
        state.logged_bytes += message.len() + 1;
        let message = self.redactor.redact(message.to_owned());
        let (plugin, message) = (&*self.plugin, message.escape_debug());
        match level {
            Level::Debug => tracing::debug!(target: "headgate::guest", plugin, sink, %message),
            Level::Info => tracing::info!(target: "headgate::guest", plugin, sink, %message),
            Level::Warn => tracing::warn!(target: "headgate::guest", plugin, sink, %message),
            Level::Error => tracing::error!(target: "headgate::guest", plugin, sink, %message),
        }
        self.tell_if_too_much(&state);
    }

    fn tell_if_too_much(&self, state: &State) {
        if state.logged_bytes >= LOGGED_BYTES_MAX {
            tracing::warn!(target: "headgate::guest", plugin = &*self.plugin, "the plugin writes too much; the rest is dropped until it is started again");
        }
    }

    fn take(&self, bytes: &[u8]) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let end = &bytes[bytes.len().saturating_sub(TAIL_BYTES_MAX)..];
        state.tail.extend(end);
        let excess = state.tail.len().saturating_sub(TAIL_BYTES_MAX);
        state.tail.drain(..excess);
        if state.logged_bytes >= LOGGED_BYTES_MAX {
            return;
        }
        for byte in end {
            if *byte != b'\n' && state.line.len() < TAIL_BYTES_MAX {
                state.line.push(*byte);
                continue;
            }
            let line = std::mem::take(&mut state.line);
            state.logged_bytes += line.len() + 1;
            let text = self
                .redactor
                .redact(String::from_utf8_lossy(&line).into_owned());
            tracing::info!(target: "headgate::guest", plugin = &*self.plugin, output = %text.escape_debug());
            self.tell_if_too_much(&state);
            if state.logged_bytes >= LOGGED_BYTES_MAX {
                return;
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
