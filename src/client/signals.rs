//! The signals that a verb handles.
//!
//! **Invariant**: a signal after [`Signals::new`] is not lost.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::CliError;

/// SIGTERM, SIGINT and SIGHUP, handled before the daemon reports that it is ready.
pub struct Signals {
    /// The signals that end a program.
    pub end: End,
    /// The signal that reloads the configuration.
    pub hang_up: Signal,
}

pub struct End {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Starts to handle the signals.
    ///
    /// # Errors
    /// The system cannot register another handler.
    pub fn new() -> Result<Self, CliError> {
        let listen = |kind| {
            signal(kind)
                .map_err(|error| CliError::failed(format!("cannot listen to signals: {error}")))
        };
        Ok(Self {
            end: End {
                terminate: listen(SignalKind::terminate())?,
                interrupt: listen(SignalKind::interrupt())?,
            },
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    /// Waits for any of the signals.
    pub async fn any(&mut self) {
        tokio::select! {
            () = self.end.next() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}

impl End {
    /// Waits for one of the two signals.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
